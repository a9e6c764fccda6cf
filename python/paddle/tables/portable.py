"""Reads the portable files that formats.py writes."""

from __future__ import annotations

import json
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from paddle.tables.formats import KEYS, MARK
from paddle.tables.rows import NO_HEIGHT, VALUES, Block, Piece, Table, TableError

_SAFE = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I64": "<i8"}
# What a table has of the element types that files from elsewhere have: the same numbers, in the order of bytes of this machine.
_TAKEN = {"f2": "<f4", "f4": "<f4", "f8": "<f8", "i8": "<i8"}
_HEAD_MOST = 100_000_000  # bytes, as readers of the format have it


def _taken(dtype: np.dtype) -> np.dtype:
    return np.dtype(_TAKEN.get(dtype.str[1:], dtype))


class _Array:
    """An array somewhere in a file."""

    def __init__(self, path: str, at: int, dtype: np.dtype, shape: tuple[int, ...]):
        self.path, self.at, self.shape = path, at, shape
        self._stored, self.dtype = dtype, _taken(dtype)
        self.width = int(np.prod(shape[1:], dtype=object))
        if at + shape[0] * self.width * dtype.itemsize > os.path.getsize(path):
            raise TableError(f"{path!r} is cut short: an array of shape {shape} does not fit into it.")

    def read(self, first: int, n: int) -> np.ndarray:
        with open(self.path, "rb") as file:
            file.seek(self.at + first * self.width * self._stored.itemsize)
            found = np.fromfile(file, self._stored, n * self.width)
        if len(found) < n * self.width:
            raise TableError(f"{self.path!r} got shorter while it was read.")
        return found.reshape(n, *self.shape[1:]).astype(self.dtype, copy=False)


class _Arrays(Piece):
    def __init__(self, path: str, keys: _Array, columns: Sequence[_Array]):
        self.path, self._keys, self._columns = path, keys, tuple(columns)

    def blocks(self, columns: Sequence[int], rows: int) -> Iterator[Block]:
        total = self._keys.shape[0]
        for at in range(0, total, rows):
            n = min(rows, total - at)
            yield self._keys.read(at, n), [self._columns[column].read(at, n) for column in columns]


def _table(path: str, arrays: dict[str, _Array], name: str, height: int) -> Table:
    missing = [each for each in (KEYS, VALUES) if each not in arrays]
    if missing:
        raise TableError(f"{path!r} has no array {missing[0]!r}: it is no table that 'paddle table export' wrote. It has: "
                         f"{', '.join(sorted(arrays)) or 'nothing'}.")
    keys, values = arrays[KEYS], arrays[VALUES]
    if keys.dtype != np.int64 or len(keys.shape) != 1:
        raise TableError(f"the keys in {path!r} are {keys.dtype} of shape {keys.shape}; ids are int64 of one dimension.")
    columns = (VALUES, *(each for each in arrays if each not in (KEYS, VALUES)))
    for column in columns:
        found = arrays[column]
        if found.dtype.str not in ("<f4", "<f8"):
            raise TableError(f"the array {column!r} in {path!r} is {found.dtype}; the numbers of a table are float16 (which become "
                             "float32), float32 or float64.")
        if found.shape != (keys.shape[0], values.width) or len(values.shape) != 2 or found.dtype != values.dtype:
            raise TableError(f"the array {column!r} in {path!r} is {found.dtype} of shape {found.shape}, which does not go with "
                             f"{keys.shape[0]} keys and values of shape {values.shape} ({values.dtype}).")
    piece = _Arrays(path, keys, [arrays[column] for column in columns])
    return Table(name, columns, values.width, values.dtype, height, (piece,), path)


def _safe_array(path: str, name: str, head: dict, begin: int) -> _Array:
    if head["dtype"] not in _SAFE:
        raise TableError(f"the array {name!r} in {path!r} has the type {head['dtype']}; a table's are {', '.join(sorted(_SAFE))}.")
    shape, dtype = tuple(map(int, head["shape"])), np.dtype(_SAFE[head["dtype"]])
    first, end = map(int, head["data_offsets"])
    if min(shape, default=0) < 0 or first < 0 or end - first != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"the array {name!r} of shape {list(shape)} lies from {first} to {end}")
    return _Array(path, begin + first, dtype, shape)


def _check_apart(head: dict) -> None:
    """No array lies in another."""
    last = 0
    for first, end, name in sorted((*map(int, each["data_offsets"]), name) for name, each in head.items()):
        if first < last:
            raise ValueError(f"the array {name!r} lies in another one")
        last = end


def _safetensors(path: str) -> Table:
    with open(path, "rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        text = file.read(length) if 2 <= length <= _HEAD_MOST else b""
    try:
        head = json.loads(text)
        about = head.pop("__metadata__", {})
        arrays = {name: _safe_array(path, name, each, 8 + length) for name, each in head.items()}
        _check_apart(head)
        height = int(about.get("height", NO_HEIGHT))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as why:
        raise TableError(f"{path!r} is not a safetensors file, or is damaged: {why}.") from None
    return _table(path, arrays, about.get("table", _stem(path)), height)


def _npy(path: str, file, at: int) -> _Array | np.ndarray:
    """An array that can be read in blocks; one of no dimensions as it is."""
    begin = file.tell()
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
    if read is None:
        raise TableError(f"{path!r} has an array of the npy version {version}.")
    shape, is_fortran, dtype = read(file)
    if not shape:
        return np.frombuffer(file.read(dtype.itemsize), dtype)[0]
    if is_fortran or dtype.hasobject:
        raise TableError(f"{path!r} has an array that does not lie row by row.")
    return _Array(path, at + file.tell() - begin, dtype, shape)


def _known(path: str, found: dict) -> Table:
    arrays = {name: each for name, each in found.items() if isinstance(each, _Array)}
    height = found.get("height", NO_HEIGHT)
    if not isinstance(height, (int, np.integer)):
        raise TableError(f"the height in {path!r} is no whole number; ids are below it.")
    return _table(path, arrays, str(found.get("table", _stem(path))), int(height))


def _npz(path: str) -> Table:
    found = {}
    try:
        with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
            if damaged := archive.testzip():
                raise ValueError(f"the checksum of {damaged!r} is wrong")
            for info in archive.infolist():
                if info.compress_type != zipfile.ZIP_STORED:
                    raise TableError(f"{path!r} is compressed: its arrays cannot be read in blocks. Write it with numpy.savez.")
                file.seek(info.header_offset + 26)
                name, extra = struct.unpack("<HH", file.read(4))
                file.seek(name + extra, os.SEEK_CUR)
                found[info.filename.removesuffix(".npy")] = _npy(path, file, file.tell())
    except (zipfile.BadZipFile, zlib.error, struct.error, RuntimeError, EOFError, ValueError) as why:
        raise TableError(f"{path!r} is not an npz file, or is damaged: {why}.") from None
    return _known(path, found)


def _numpy(path: str) -> Table:
    found = {}
    for name in sorted(os.listdir(path)):
        if name.endswith(".npy"):
            with open(os.path.join(path, name), "rb") as file:
                try:
                    found[name.removesuffix(".npy")] = _npy(file.name, file, 0)
                except ValueError as why:
                    raise TableError(f"{file.name!r} is not a npy file, or is damaged: {why}.") from None
    return _known(path, found)


class _Lines(Piece):
    def __init__(self, path: str, columns: int, width: int, dtype: np.dtype):
        self.path, self._all, self._width, self._dtype = path, columns, width, dtype

    def blocks(self, columns: Sequence[int], rows: int) -> Iterator[Block]:
        with open(self.path, encoding="utf-8") as file:
            number = 0
            while lines := file.readlines(min(rows * 64, 1 << 20)):
                cells = []
                for line in lines:
                    number += 1
                    if line.startswith("#"):
                        continue
                    cells.append(line.rstrip("\n").split("\t"))
                    if len(cells[-1]) != self._all + 1:
                        raise TableError(f"line {number} of {self.path!r} has {len(cells[-1])} columns, expected {self._all + 1}: "
                                         "id, then values and states, with tabs between them.")
                if cells:
                    yield self._block(cells, columns, number)

    def _block(self, cells: list[list[str]], columns: Sequence[int], number: int) -> Block:
        try:
            ids = np.array([int(row[0]) for row in cells], np.int64)
            found = [np.array(" ".join([row[1 + column] for row in cells]).split(), self._dtype) for column in columns]
            return ids, [each.reshape(len(cells), self._width) for each in found]
        except (ValueError, OverflowError) as why:
            raise TableError(f"{self.path!r} has something else than ids and numbers, {self._width} in each column, before line "
                             f"{number + 1}: {why}.") from None


def _text(path: str) -> Table:
    with open(path, encoding="utf-8") as file:
        first = file.readline(_HEAD_MOST)
    try:
        about = json.loads(first.removeprefix(f"# {MARK} "))
        columns, dtype = tuple(about["columns"]), _taken(np.dtype(about["dtype"]).newbyteorder("<"))
        if dtype.str not in ("<f4", "<f8"):
            raise ValueError(f"its numbers would be {about['dtype']}; those of a table are float32 or float64")
        piece = _Lines(path, len(columns), int(about["width"]), dtype)
        return Table(about["table"], columns, int(about["width"]), dtype, int(about["height"]), (piece,), path)
    except (ValueError, KeyError, TypeError) as why:
        raise TableError(f"the first line of {path!r} does not say which table it is: {why}.") from None


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path.rstrip("/")))[0]


def table_in(path: str) -> Table | None:
    """The table in a portable file, or in a folder of numpy files; None: it is something else."""
    if os.path.isdir(path):
        return _numpy(path) if os.path.exists(os.path.join(path, f"{KEYS}.npy")) else None
    with open(path, "rb") as file:
        start = file.read(64)
    if start.startswith(b"PK\x03\x04"):
        return _npz(path)
    if start.startswith(f"# {MARK} ".encode()):
        return _text(path)
    return _safetensors(path) if start[8:9] == b"{" else None
