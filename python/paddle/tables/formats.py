"""How a table is written into one portable file: safetensors, npz, numpy or text. Each format is one function in WRITERS.

All are written from beginning to end, column by column (text: row by row), aside, and get their name when they are whole.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np

from paddle.tables.order import Ordered
from paddle.tables.rows import Table, TableError

KEYS = "keys"
MARK = "paddle-table"  # the metadata say by it what the file is
_SAFE = {"<f4": "F32", "<f8": "F64", "<i8": "I64"}


def write(rows: Ordered, table: Table, path: str, format: str, overwrite: bool) -> None:
    """Writes the rows as a file, or of the format numpy as a folder, of this name."""
    check_free(path, overwrite)
    aside = f"{path.rstrip('/')}.tmp-{os.getpid()}"
    try:
        WRITERS[format](rows, table, aside)
        if overwrite and os.path.isdir(path):
            shutil.rmtree(path)
        os.replace(aside, path)
    finally:
        if os.path.isdir(aside):
            shutil.rmtree(aside)
        elif os.path.exists(aside):
            os.remove(aside)


def check_free(path: str, overwrite: bool) -> None:
    """What would be written over must be asked for."""
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, f"{KEYS}.npy")):
        raise TableError(f"{path!r} is a folder; --output names the file that is to be written.")
    if os.path.exists(path) and not overwrite:
        raise TableError(f"{path!r} exists. Choose another name for --output, or give --overwrite.")
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise TableError(f"the folder of {path!r} does not exist.")


def _columns(rows: Ordered, table: Table) -> Iterator[tuple[str, np.dtype, tuple[int, ...], Callable[[], Iterator[np.ndarray]]]]:
    """Each array of a file: its name, element type, shape, and what gives its bytes."""
    yield KEYS, np.dtype("<i8"), (rows.rows,), lambda: (ids for ids, _ in rows.blocks(()))
    for i, name in enumerate(table.columns):
        yield (name, table.dtype, (rows.rows, table.width),
               lambda i=i: (np.ascontiguousarray(values[0]) for _, values in rows.blocks((i,))))


def _close(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _safetensors(rows: Ordered, table: Table, path: str) -> None:
    """8 bytes (little-endian) with the length of a JSON text, that text, then the arrays one behind the other."""
    head: dict = {"__metadata__": {"format": MARK, "table": table.name, "height": str(table.height)}}
    at = 0
    for name, dtype, shape, _ in _columns(rows, table):
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        head[name] = {"dtype": _SAFE[dtype.str], "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the arrays are aligned
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for *_, blocks in _columns(rows, table):
            for block in blocks():
                block.tofile(file)
        _close(file)


def _npy_head(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    return out.getvalue()


def _about(table: Table) -> dict[str, np.ndarray]:
    return {"table": np.array(table.name), "height": np.array(table.height, np.int64)}


def _npz(rows: Ordered, table: Table, path: str) -> None:
    """What numpy.load reads; the arrays are not compressed."""
    with open(path, "wb") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, value in _about(table).items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:
                    np.lib.format.write_array(member, value)
            for name, dtype, shape, blocks in _columns(rows, table):
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    member.write(_npy_head(dtype, shape))
                    for block in blocks():
                        member.write(memoryview(block).cast("B") if block.size else b"")
        _close(file)


def _numpy(rows: Ordered, table: Table, path: str) -> None:
    """A folder with a .npy file for each array, which numpy.load can map into memory."""
    os.mkdir(path)
    for name, value in _about(table).items():
        np.save(os.path.join(path, f"{name}.npy"), value)
    for name, dtype, shape, blocks in _columns(rows, table):
        with open(os.path.join(path, f"{name}.npy"), "wb") as file:
            file.write(_npy_head(dtype, shape))
            for block in blocks():
                block.tofile(file)
            _close(file)


def _text(rows: Ordered, table: Table, path: str) -> None:
    """A line for each row: its id, a tab, its numbers, for each state a tab and its numbers."""
    with open(path, "w", encoding="utf-8") as file:
        about = {"table": table.name, "height": table.height, "width": table.width, "dtype": table.dtype.name,
                 "columns": list(table.columns)}
        file.write(f"# {MARK} {json.dumps(about)}\n")
        for ids, values in rows.blocks(range(len(table.columns))):
            step = 1 << 12
            for at in range(0, len(ids), step):
                words = [each[at : at + step].astype(str).tolist() for each in values]  # the shortest text that is the same number
                file.writelines(f"{id}\t" + "\t".join(map(" ".join, row)) + "\n" for id, *row in
                                zip(ids[at : at + step].tolist(), *words))
        _close(file.buffer)


WRITERS: dict[str, Callable[[Ordered, Table, str], None]] = {
    "safetensors": _safetensors, "npz": _npz, "numpy": _numpy, "text": _text,
}
