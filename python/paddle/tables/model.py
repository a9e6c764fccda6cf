"""Tables in the folder of a model: parts that servers wrote (`__lookup_table__/<table>_<i>`), and whole files of one process."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

import numpy as np

from paddle.fluid import core, io_table_parts
from paddle.fluid.io_table_parts import TABLES
from paddle.fluid.io_value_file import ValueFile
from paddle.tables.rows import VALUES, Block, Piece, Table, TableError

# What optimizers call their states, behind the table's name and before a number: none of these ends a table's own name. Those of
# one optimizer stand in the order of its op's inputs, in which rows on servers have them.
STATES = ("velocity", "moment", "moment1", "moment2", "inf_norm", "_avg_squared_grad", "_avg_squared_update", "mean_square",
          "mean_grad", "momentum", "squared", "linear")
_STATE = re.compile(rf"(.+)_((?:{'|'.join(STATES)})_\d+)")


class Files(Piece):
    """The rows of one part: a file for each column, which mostly have their rows in the same order."""

    def __init__(self, files: Sequence[ValueFile]):
        self.files, self.path = tuple(files), files[0].path

    def ids(self, rows: int) -> Iterator[np.ndarray]:
        first = self.files[0]
        with open(first.path, "rb") as file:
            for at in range(0, first.rows, rows):
                yield first.read_ids(file, at, min(rows, first.rows - at))

    def blocks(self, columns: Sequence[int], rows: int) -> Iterator[Block]:
        orders: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        at = 0
        for ids in self.ids(rows):
            yield ids, [self._values(column, at, ids, orders) for column in columns]
            at += len(ids)

    def _values(self, column: int, at: int, ids: np.ndarray, orders: dict) -> np.ndarray:
        whole = self.files[column]
        with open(whole.path, "rb") as file:
            n = min(len(ids), max(whole.rows - at, 0))
            if column == 0 or (n == len(ids) and column not in orders and np.array_equal(whole.read_ids(file, at, n), ids)):
                return whole.read_values(file, at, n)
            # Saved at another moment than the parameter: rows came in between, and stand elsewhere.
            if column not in orders:
                theirs = whole.read_ids(file, 0, whole.rows)
                order = np.argsort(theirs, kind="stable")
                orders[column] = theirs[order], order
            known, order = orders[column]
            places = np.searchsorted(known, ids)
            is_there = known[np.minimum(places, len(known) - 1)] == ids if len(known) else np.zeros(len(ids), bool)
            if not is_there.all():
                raise TableError(
                    f"{whole.path!r} has no row {int(ids[~is_there][0])}, which {self.path!r} has: rows went between the saves of "
                    "the two. Save again while nobody trains, or leave the states out with --nostates."
                )
            mapped = np.memmap(whole.path, whole.dtype, "r", whole.values_at, (whole.rows, whole.width))
            return np.array(mapped[order[places]])


def tables_in(folder: str) -> list[Table]:
    """All tables whose parts are in the folder of a model, each with the states that were saved with it."""
    names = sorted({match[1] for above in (os.path.join(folder, TABLES), folder) if os.path.isdir(above)
                    for match in (re.fullmatch(r"(.+)_\d+", name) for name in os.listdir(above)) if match})
    found = {name: parts for name in names if (parts := _parts(folder, name))}
    heads = {name: [ValueFile(part.path, True) for part in parts] for name, parts in found.items()}
    tables = []
    for name, own in heads.items():
        match = _STATE.fullmatch(name)
        if match and match[1] in heads:
            continue
        tables.append(_table(name, folder, own, {each: heads[f"{name}_{each}"] for each in in_order(name, list(heads))}))
    return tables


def in_order(name: str, states: Sequence[str]) -> list[str]:
    """Of these variables the states of the table, without its name, as rows on servers have them."""
    known = {each[len(name) + 1 :] for each in states if (match := _STATE.fullmatch(each)) and match[1] == name}
    return sorted(known, key=lambda each: STATES.index(each.rpartition("_")[0]))


def _parts(folder: str, name: str) -> list:
    """Files of one save, all of them. In the folder itself those that do not say what they are may be other variables."""
    above = os.path.join(folder, TABLES)
    parts = [part for part in io_table_parts.table_parts(folder, name) if part.count or os.path.dirname(part.path) == above]
    io_table_parts._check_one_save(name, parts)
    if parts and parts[0].count and not io_table_parts._is_whole_set(parts):
        raise TableError(
            f"the files of the table {name!r} in {folder!r} are not all there{io_table_parts._lacking(parts)}. Each server wrote a "
            "part on its own disk: put all of them into one folder."
        )
    return parts


def _table(name: str, where: str, own: list[ValueFile], states: dict[str, list[ValueFile]]) -> Table:
    for column, files in {VALUES: own, **states}.items():
        if len(files) != len(own):
            raise TableError(f"the state {name}_{column} in {where!r} has {len(files)} parts, the table {len(own)}: they are of "
                             "different saves.")
        for file in files:
            if (file.width, file.dtype) != (own[0].width, own[0].dtype):
                raise TableError(f"{file.path!r} has rows of {file.width} numbers ({file.dtype}), {own[0].path!r} of "
                                 f"{own[0].width} ({own[0].dtype}): they are of different tables.")
    pieces = tuple(Files([each[i] for each in (own, *states.values())]) for i in range(len(own)))
    return Table(name, (VALUES, *states), own[0].width, own[0].dtype, max(file.height for file in own), pieces, where)


def table_of_file(path: str, name: str) -> Table:
    """One file: a part, or a whole table as one process saves it."""
    head, tail = os.path.split(os.path.abspath(path))
    try:
        part = ValueFile(path, True)
        stem = re.sub(r"_\d+$", "", tail)
    except core.FileError:
        part, stem = ValueFile(path, False), tail
    return _table(name or stem, path, [part], {})
