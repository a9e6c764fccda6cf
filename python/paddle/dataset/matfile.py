"""MATLAB 5 files of plain number arrays, as far as the flowers data set needs them.

A file is 128 bytes of header, then elements: type, size, data, filled up to 8 bytes. A matrix is an
element of elements: flags, sizes, name, values. A compressed element holds another one.
"""

from __future__ import annotations

import struct
import zlib
from typing import Iterator

import numpy as np

_DTYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_MATRIX, _COMPRESSED = 14, 15
_CLASSES = {"f8": 6, "f4": 7, "i1": 8, "u1": 9, "i2": 10, "u2": 11, "i4": 12, "u4": 13}


def _elements(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place + 8 <= len(data):
        kind, size = struct.unpack_from(order + "II", data, place)
        if kind >> 16:
            # Up to four bytes of data stand in the size's place.
            kind, size, start = kind & 0xFFFF, kind >> 16, place + 4
            place += 8
        else:
            start = place + 8
            place = start + (size if kind == _COMPRESSED else (size + 7) // 8 * 8)
        if start + size > len(data):
            raise ValueError("an element is cut off")
        yield kind, data[start : start + size]


def load(path: str) -> dict[str, np.ndarray]:
    """Return name -> array of all number arrays of a file."""
    with open(path, "rb") as file:
        data = file.read()
    order = {b"IM": "<", b"MI": ">"}.get(data[126:128])
    if order is None:
        raise ValueError(f"{path}: not a MATLAB 5 file.")
    arrays: dict[str, np.ndarray] = {}
    try:
        for kind, body in _elements(data[128:], order):
            if kind == _COMPRESSED:
                kind, body = next(_elements(zlib.decompress(body), order))
            if kind == _MATRIX:
                (_, _), (_, shape), (_, name), (dtype, values), *_ = _elements(body, order)
                array = np.frombuffer(values, order + _DTYPES[dtype])
                arrays[name.decode()] = array.reshape(np.frombuffer(shape, order + "i4"), order="F")
    except (ValueError, KeyError, StopIteration, zlib.error) as error:
        raise ValueError(f"{path}: cannot be read as a MATLAB 5 file of number arrays ({error}).") from None
    return arrays


def dump(arrays: dict[str, np.ndarray]) -> bytes:
    """Return the bytes of a file with these two-dimensional arrays."""

    def element(kind: int, body: bytes) -> bytes:
        return struct.pack("<II", kind, len(body)) + body + bytes(-len(body) % 8)

    out = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    for name, array in arrays.items():
        code = array.dtype.str[1:]
        kind = next(number for number, dtype in _DTYPES.items() if dtype == code)
        out += element(
            _MATRIX,
            element(6, struct.pack("<II", _CLASSES[code], 0))
            + element(5, np.array(array.shape, "<i4").tobytes())
            + element(1, name.encode())
            + element(kind, array.astype("<" + code).tobytes("F")),
        )
    return out
