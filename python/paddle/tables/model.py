"""Tables in the folder of a model: parts that servers wrote (`__lookup_table__/<table>_<i>`), and whole files of one process."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Sequence

import numpy as np

from paddle.fluid import io_table_parts
from paddle.fluid.io_table_parts import TABLES
from paddle.tables.rows import VALUES, Block, Piece, Table, TableError

# What optimizers call their states, behind the table's name and before a number: none of these ends a table's own name. Those of
# one optimizer stand in the order of its op's inputs, in which rows on servers have them.
STATES = ("velocity", "moment", "moment1", "moment2", "inf_norm", "_avg_squared_grad", "_avg_squared_update", "mean_square",
          "mean_grad", "momentum", "squared", "linear")
_STATE = re.compile(rf"(.+)_((?:{'|'.join(STATES)})_\d+)")
_DTYPES = {5: np.dtype("<f4"), 6: np.dtype("<f8")}  # of a tensor's description


class ValueFile:
    """The head of a file with selected rows, or with a whole tensor of rows; the rest is read where it is wanted."""

    def __init__(self, path: str, is_rows: bool):
        self.path = path
        with open(path, "rb") as file:
            self.size = file.seek(0, os.SEEK_END)
            file.seek(0)
            self._take(file, "<I", 0)
            (count,) = self._take(file, "<Q")
            self.height = 0
            self.ids_at = file.tell() if is_rows else -1
            if is_rows:
                if count > self.size // 8:
                    raise self._bad(f"it would have {count} rows")
                file.seek(count * 8, os.SEEK_CUR)
                (self.height,) = self._take(file, "<q")
            elif count:
                raise self._bad("it has sequences, a table has none")
            self._take(file, "<I", 0)
            (length,) = self._take(file, "<i")
            if not 0 <= length <= 4096:
                raise self._bad(f"the description of its tensor would have {length} bytes")
            self.dtype, shape = self._described(file.read(length))
            self.values_at = file.tell()
        if len(shape) != 2 or (is_rows and shape[0] != count):
            raise self._bad(f"its values have shape {shape}" + (f" for {count} rows" if is_rows else "; a table has 2 dimensions"))
        self.rows, self.width = shape
        if self.values_at + self.rows * self.width * self.dtype.itemsize > self.size:
            raise self._bad(f"it is cut short: {self.rows} rows of {self.width} numbers do not fit into {self.size} bytes")
        self.height = self.height if is_rows else self.rows

    def _bad(self, why: str) -> TableError:
        return TableError(f"{self.path!r} cannot be read as a table: {why}.")

    def _take(self, file, layout: str, expected: int | None = None) -> tuple:
        data = file.read(struct.calcsize(layout))
        if len(data) < struct.calcsize(layout):
            raise self._bad("it is cut short")
        found = struct.unpack(layout, data)
        if expected is not None and found[0] != expected:
            raise self._bad(f"it has version {found[0]}, only {expected} is known; is it a file of another kind?")
        return found

    def _described(self, data: bytes) -> tuple[np.dtype, list[int]]:
        """Element type and dimensions of a TensorDesc."""
        numbers, at, kind, shape = [], 0, None, []
        while at < len(data):
            value = shift = 0
            while at < len(data):
                byte = data[at]
                at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
                if not byte & 0x80:
                    break
            numbers.append(value)
        at = 0
        while at + 1 < len(numbers):
            if numbers[at] == 0x08:
                kind = numbers[at + 1]
            elif numbers[at] == 0x10:
                shape.append(numbers[at + 1])
            else:  # dimensions that are packed: their bytes in all stand before them
                shape += numbers[at + 2 :]
                break
            at += 2
        if kind not in _DTYPES:
            raise self._bad("its numbers are no float32 or float64" if kind is not None else "its tensor has no description")
        return _DTYPES[kind], shape

    def read_ids(self, file, first: int, n: int) -> np.ndarray:
        """Ids of rows [first, first + n)."""
        if self.ids_at < 0:
            return np.arange(first, first + n, dtype=np.int64)
        return self._read(file, self.ids_at + first * 8, n, np.dtype("<i8"))

    def read_values(self, file, first: int, n: int) -> np.ndarray:
        """Their numbers."""
        at = self.values_at + first * self.width * self.dtype.itemsize
        return self._read(file, at, n * self.width, self.dtype).reshape(n, self.width)

    def _read(self, file, at: int, n: int, dtype: np.dtype) -> np.ndarray:
        file.seek(at)
        found = np.fromfile(file, dtype, n)
        if len(found) < n:
            raise self._bad("it got shorter while it was read")
        return found


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
    except TableError:
        part, stem = ValueFile(path, False), tail
    return _table(name or stem, path, [part], {})
