"""Writes a table as the parts that servers load: `__lookup_table__/<table>_<i>`, and the same of each state."""

from __future__ import annotations

import os
import secrets
import struct
from contextlib import ExitStack

import numpy as np

from paddle.fluid import io_table_parts
from paddle.fluid.io_table_parts import TABLES
from paddle.tables.order import Ordered
from paddle.tables.rows import Table, TableError

_DTYPES = {"<f4": 5, "<f8": 6}
_LAST = 2**63 - 2  # the greatest id


def write(rows: Ordered, table: Table, folder: str, parts: int, overwrite: bool) -> None:
    """Id i goes into part i % parts. What servers load is any number of parts; a table with all rows of a vocabulary loads faster
    when it is the number of servers."""
    names = [table.state_name(column) for column in table.columns]
    check_free(folder, names, overwrite)
    above = os.path.join(folder, TABLES)
    os.makedirs(above, exist_ok=True)
    counts = np.zeros(parts, np.int64)
    for ids, _ in rows.blocks(()):
        if len(ids) and (ids.min() < 0 or ids.max() > _LAST):
            bad = ids.min() if ids.min() < 0 else ids.max()
            raise TableError(f"{table.where!r} has the id {bad}; servers have ids from 0 to {_LAST}.")
        counts += np.bincount(ids % parts, minlength=parts)
    save = secrets.randbits(64)
    for column, name in enumerate(names):
        _write_column(rows, table, column, os.path.join(above, name), counts, save)
    for name in names:
        for part in io_table_parts.table_parts(folder, name):
            if part.save != save:
                os.remove(part.path)
        if os.path.exists(os.path.join(folder, name)):
            os.remove(os.path.join(folder, name))


def check_free(folder: str, names: list[str], overwrite: bool) -> None:
    """A table that is there already must be asked for."""
    for name in names:
        if os.path.basename(name) != name or name in ("", ".", ".."):
            raise TableError(f"a table is called {name!r}, which is no name of a file: --name gives it another.")
        there = [part.path for part in io_table_parts.table_parts(folder, name)]
        there += [os.path.join(folder, name)] if os.path.exists(os.path.join(folder, name)) else []
        if there and not overwrite:
            raise TableError(f"{there[0]!r} exists, of a table {name!r}. Choose another folder for --output, or give --overwrite.")


def _write_column(rows: Ordered, table: Table, column: int, stem: str, counts: np.ndarray, save: int) -> None:
    parts = len(counts)
    asides = [f"{stem}_{i}.tmp-{os.getpid()}" for i in range(parts)]
    try:
        with ExitStack() as open_files:
            files = [open_files.enter_context(open(aside, "wb")) for aside in asides]
            for file, count in zip(files, counts.tolist()):
                file.write(struct.pack("<IQ", 0, count))
            for ids, _ in rows.blocks(()):
                for i, file in enumerate(files):
                    ids[ids % parts == i].tofile(file)
            for file, count in zip(files, counts.tolist()):
                described = b"\x08" + bytes([_DTYPES[table.dtype.str]]) + b"".join(
                    b"\x10" + _varint(side) for side in (count, table.width))
                file.write(struct.pack("<qIi", table.height, 0, len(described)) + described)
            for ids, (values,) in rows.blocks((column,)):
                for i, file in enumerate(files):
                    values[ids % parts == i].tofile(file)
            for i, file in enumerate(files):
                file.write(struct.pack("<8sIIQ", b"CPDLPART", i, parts, save))
                file.flush()
                os.fsync(file.fileno())
        for i, aside in enumerate(asides):
            os.replace(aside, f"{stem}_{i}")
    finally:
        for aside in asides:
            if os.path.exists(aside):
                os.remove(aside)


def _varint(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])
