"""What is in a table: how many rows, of which ids, how large their numbers are."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle.tables.rows import NO_HEIGHT, Table, TableError

WIDEST = 8  # numbers of a row that are shown


class _Sums:
    """The statistics of one column."""

    def __init__(self) -> None:
        self.n, self.rows, self.norms, self.broken = 0, 0, 0.0, 0
        self.mean, self.spread = 0.0, 0.0  # spread: the sum of (x - mean)^2
        self.least, self.most = np.inf, -np.inf
        self.norm_least, self.norm_most = np.inf, -np.inf

    def add(self, values: np.ndarray) -> None:
        """Some rows more."""
        if not values.size:
            return
        x = values.astype(np.float64)
        finite = np.isfinite(x)
        if not finite.all():
            self.broken += int((~finite).sum())
            x = x[finite.all(axis=1)]
            if not x.size:
                return
        mean, before = float(x.mean()), self.n
        self.n += x.size
        # Those of two sets of numbers joined: nothing large is taken from something as large.
        apart = mean - self.mean
        self.spread += float(np.square(x - mean).sum()) + apart * apart * (before * (x.size / self.n))
        self.mean += apart * (x.size / self.n)
        self.least, self.most = min(self.least, float(x.min())), max(self.most, float(x.max()))
        norms = np.sqrt(np.square(x).sum(axis=1))
        self.rows += len(norms)
        self.norms += float(norms.sum())
        self.norm_least, self.norm_most = min(self.norm_least, float(norms.min())), max(self.norm_most, float(norms.max()))

    def told(self) -> dict[str, Any]:
        """As a dict for JSON; without rows there are no numbers."""
        if not self.n:
            return {"not_finite": self.broken}
        return {"mean": self.mean, "std": (self.spread / self.n) ** 0.5, "min": self.least, "max": self.most,
                "norm_mean": self.norms / self.rows, "norm_min": self.norm_least, "norm_max": self.norm_most,
                "not_finite": self.broken}


def described(table: Table) -> dict[str, Any]:
    """All that one pass over the table tells."""
    sums = [_Sums() for _ in table.columns]
    rows, least, most = 0, None, None
    for ids, values in table.blocks():
        rows += len(ids)
        if len(ids):
            least = int(ids.min()) if least is None else min(least, int(ids.min()))
            most = int(ids.max()) if most is None else max(most, int(ids.max()))
        for each, column in zip(sums, values):
            each.add(column)
    return {"table": table.name, "rows": rows, "width": table.width, "dtype": table.dtype.name, "states": list(table.columns[1:]),
            "id_min": least, "id_max": most, "height": None if table.height == NO_HEIGHT else table.height,
            "parts": len(table.pieces), "bytes": rows * table.row_bytes(),
            "columns": {name: each.told() for name, each in zip(table.columns, sums)}, "notes": list(table.notes)}


def first(table: Table, n: int) -> list[tuple[int, list[np.ndarray]]]:
    """The first rows as they lie."""
    found: list[tuple[int, list[np.ndarray]]] = []
    if n:
        for ids, values in table.blocks(size=1 << 16):
            for i in range(min(len(ids), n - len(found))):
                found.append((int(ids[i]), [each[i] for each in values]))
            if len(found) == n:
                break
    return found


def of_id(table: Table, id: int) -> list[tuple[int, list[np.ndarray]]]:
    """The rows of this id: one, unless files of several saves were put together."""
    found = []
    for ids, values in table.blocks():
        for i in np.flatnonzero(ids == id):
            found.append((id, [each[i] for each in values]))
    if not found:
        raise TableError(f"the table {table.name!r} in {table.where!r} has no row of the id {id}. Its ids begin with whatever its "
                         "initializer gives when they are first trained.")
    return found


def shown(about: dict[str, Any]) -> str:
    """For people."""
    height = "any" if about["height"] is None else f"below {about['height']:,}"
    ids = "" if about["id_min"] is None else f" (from {about['id_min']} to {about['id_max']})"
    lines = [f"table {about['table']}: {about['rows']:,} rows of {about['width']} numbers ({about['dtype']})"
             f"{''.join(', ' + each for each in about['states'])}",
             f"  ids {height}{ids}; {about['parts']} part{'' if about['parts'] == 1 else 's'}; {about['bytes']:,} bytes"]
    heads = ("mean", "std", "min", "max", "norm_mean", "norm_min", "norm_max")
    cells = [["", *(head.replace("_", " ") for head in heads)]]
    for name, found in about["columns"].items():
        if "mean" in found:
            cells.append([name, *(f"{found[head]:.5g}" for head in heads)])
        if found["not_finite"]:
            lines.append(f"  {name} has {found['not_finite']:,} numbers that are not finite (NaN or infinite)")
    if len(cells) > 1:
        widths = [max(map(len, column)) for column in zip(*cells)]
        lines += ["  " + row[0].ljust(widths[0]) + "".join("  " + cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))
                  for row in cells]
    return "\n".join([*lines, *(f"  note: {note}" for note in about["notes"])])


def row_text(table: Table, id: int, values: list[np.ndarray], is_whole: bool) -> str:
    """A row as a line; of wide ones the first numbers, unless all are wanted."""
    told = []
    for name, each in zip(table.columns, values):
        numbers = [str(x) for x in (each if is_whole else each[:WIDEST])]
        more = ["..."] if len(numbers) < len(each) else []
        told.append(("" if name == table.columns[0] else f"{name} ") + " ".join(numbers + more))
    return f"  {id}: " + " | ".join(told)
