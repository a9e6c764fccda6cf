"""Files of tables, read in pieces: upstream's format of selected rows, and of a tensor whose rows they are (src/tensor/file.h)."""

from __future__ import annotations

import os
import struct

import numpy as np

from paddle.fluid import core, shown

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

    def _bad(self, why: str) -> core.FileError:
        return core.FileError(f"{self.path!r} cannot be read as a table: {shown.sentence(why)}")

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
