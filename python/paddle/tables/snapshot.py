"""Tables in the snapshots that servers keep below FLAGS_ps_dir (docs/SERVER_FILES.md): the memory of their rows as it was.

Checksums are compared before anything is believed: of each manifest when it is read, of the data of each snapshot that is chosen.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np

from paddle import _core
from paddle.tables.model import in_order
from paddle.tables.rows import NO_HEIGHT, VALUES, Block, Piece, Table, TableError

_SNAPSHOT = re.compile(r"snapshot-(\d{20})")
_HEAD = struct.Struct("<QQII")  # clock, seed, columns, width
_ROW = 16  # bytes before the numbers of a row: id, how often and when it was touched
_FREE = 0xFFFFFFFF  # as the count of a row: there is none
_END = re.compile(rb"end bytes=(\d+) crc32c=([0-9a-f]{8})\n")
_PIECE = 1 << 20  # bytes that are checked at once


class _Var(NamedTuple):
    dtype: str
    dims: tuple[int, ...]
    offset: int
    bytes: int
    crc: int


class _Snapshot(NamedTuple):
    path: str
    step: int
    endpoint: str
    servers: tuple[str, ...]
    is_async: bool
    vars: dict[str, _Var]
    size: int  # of its data


class _Chunks(Piece):
    """The rows of one server."""

    def __init__(self, path: str, width: int, columns: int, chunks: Sequence[_Var]):
        self.path, self._width, self._chunks = path, width, chunks
        self._row = np.dtype([("id", "<i8"), ("count", "<u4"), ("step", "<u4"), ("x", "<f4", (columns, width))])

    def blocks(self, columns: Sequence[int], rows: int) -> Iterator[Block]:
        with open(self.path, "rb") as file:
            for chunk in self._chunks:
                file.seek(chunk.offset)
                for at in range(0, chunk.dims[0], rows):
                    n = min(rows, chunk.dims[0] - at)
                    found = np.fromfile(file, self._row, n)
                    if len(found) < n:
                        raise TableError(f"{self.path!r} is cut short.")
                    found = found[(found["count"] != 0) & (found["count"] != _FREE)]
                    yield found["id"].copy(), [found["x"][:, column].copy() for column in columns]


def is_snapshots(folder: str) -> bool:
    """Is it a snapshot, a server's folder, or FLAGS_ps_dir?"""
    return bool(_places(folder))


def _places(folder: str) -> list[str]:
    """The snapshots below it."""
    if os.path.exists(os.path.join(folder, "manifest")):
        return [folder]
    found = _in(folder)
    for name in sorted(os.listdir(folder)) if not found else ():
        if os.path.isdir(os.path.join(folder, name)):
            found += _in(os.path.join(folder, name))
    return found


def _in(server: str) -> list[str]:
    return [os.path.join(server, name) for name in sorted(os.listdir(server)) if _SNAPSHOT.fullmatch(name)]


def tables_in(folder: str) -> list[Table]:
    """All tables of the newest snapshots there that are of one step; in async mode of the newest of each server."""
    read = [_read(path) for path in _places(folder)]
    if not read:
        raise TableError(f"there is no snapshot in {folder!r}.")
    chosen, notes = _choose(folder, read)
    for each in chosen:
        _check_data(each)
    names = sorted({name.partition("\t")[0] for each in chosen for name in each.vars if "\t" in name})
    return [_table(name, chosen, folder, notes) for name in names]


def _choose(folder: str, read: list[_Snapshot]) -> tuple[list[_Snapshot], tuple[str, ...]]:
    newest = max(read, key=lambda each: (each.step, os.path.getmtime(each.path)))
    of_job = {(each.endpoint, each.step): each for each in read if each.servers == newest.servers}
    there = sorted({endpoint for endpoint, _ in of_job})
    missing = [server for server in newest.servers if server not in there]
    notes = [f"only the rows of {', '.join(there)}: the snapshots of {', '.join(missing)} are not in {folder!r}"] if missing else []
    steps = {server: {step for endpoint, step in of_job if endpoint == server} for server in there}
    if newest.is_async:
        notes.append("an async job: each server's newest snapshot, which may be of different steps")
        return [of_job[server, max(steps[server])] for server in there], tuple(notes)
    common = set.intersection(*steps.values())
    if not common:
        raise TableError(f"the snapshots in {folder!r} have no step in common: " + "; ".join(
            f"{server} has {', '.join(map(str, sorted(steps[server])))}" for server in there) + ". Start the servers once more and "
            "end them with SIGTERM, or name the folder of one snapshot.")
    step = max(common)
    notes.append(f"as of step {step}; what logs have since is not in it")
    return [of_job[server, step] for server in there], tuple(notes)


def _read(path: str) -> _Snapshot:
    place = os.path.join(path, "manifest")
    found: dict[str, list[str]] = {}
    try:
        with open(place, "rb") as file:
            text = file.read()
        end = _END.fullmatch(text, text.rfind(b"\n", 0, -1) + 1)
        if not end or not text.startswith(b"paddle-snapshot "):
            raise ValueError("its first or its last line is not that of a snapshot")
        at = end.start(2)
        if (crc := _core.checksum(0, text[:at])) != int(end[2], 16):
            raise ValueError(f"the checksum of its bytes 0 to {at} is {crc:08x}, and {end[2].decode()} stands behind them")
        lines = text.decode().splitlines()
        if lines[0] != "paddle-snapshot 1":
            raise ValueError(f"it is of another version: {lines[0]!r}")
        for line in lines[1:]:
            kind, _, rest = line.partition(" ")
            found.setdefault(kind, []).append(rest)
        vars = {}
        for line in found.get("var", ()):
            words = dict(word.split("=", 1) for word in line.split(" "))
            dims = () if words["dims"] == "scalar" else tuple(map(int, words["dims"].split("x")))
            vars[unquote(words["name"])] = _Var(words["dtype"], dims, int(words["offset"]), int(words["bytes"]),
                                                int(words["crc32c"], 16))
        return _Snapshot(path, int(found["step"][0]), found["endpoint"][0], tuple(found["server"]), "mode async" in
                         [f"{note.partition('=')[0]} {note.partition('=')[2]}" for note in found.get("note", ())],
                         vars, int(end[1]))
    except (OSError, ValueError, KeyError, IndexError) as why:
        raise TableError(f"{place!r} cannot be read: {why}. {_remedy(path)}") from None


def _remedy(path: str) -> str:
    return f"Bring the file back from a copy, or move {path!r} elsewhere: what is left is read then, as of an earlier step."


def _check_data(snapshot: _Snapshot) -> None:
    """Every byte of it: those of variables by their checksums, those between them are zero."""
    place = os.path.join(snapshot.path, "data")

    def damaged(first: int, end: int, why: str) -> TableError:
        return TableError(f"{place!r} is damaged at its bytes {first} to {end}: {why}. {_remedy(snapshot.path)}")

    with open(place, "rb") as file:
        size, at = file.seek(0, os.SEEK_END), 0
        if size != snapshot.size:
            why = f"it has {size} bytes, the manifest says {snapshot.size}"
            raise damaged(min(size, snapshot.size), max(size, snapshot.size), why)
        file.seek(0)
        for name, var in sorted(snapshot.vars.items(), key=lambda each: each[1].offset):
            gap = file.read(min(max(var.offset - at, 0), size))
            if any(gap):
                raise damaged(at, var.offset, "they lie between variables, and are not zero")
            at, crc = var.offset + var.bytes, 0
            for left in range(var.bytes, 0, -_PIECE):
                crc = _core.checksum(crc, file.read(min(left, _PIECE)))
            if crc != var.crc:
                raise damaged(var.offset, at, f"the checksum of {name!r} is {crc:08x}, the manifest says {var.crc:08x}")


def _table(name: str, snapshots: list[_Snapshot], where: str, notes: tuple[str, ...]) -> Table:
    pieces: list[Piece] = []
    shape, columns = None, (VALUES,)
    for snapshot in snapshots:
        data = os.path.join(snapshot.path, "data")
        head = snapshot.vars.get(f"{name}\thead.0")
        if head is None:
            continue
        with open(data, "rb") as file:
            file.seek(head.offset)
            clock, _, count, width = _HEAD.unpack(file.read(_HEAD.size))
        if shape not in (None, (count, width)):
            raise TableError(f"the snapshots in {where!r} have the table {name!r} with rows of different sizes.")
        shape = count, width
        rows_begin = [other for other, var in snapshot.vars.items() if var.dtype == "float32" and var.dims == (1, width)]
        states = in_order(name, rows_begin)
        columns = (VALUES, *(states if len(states) == count - 1 else [f"state{i}" for i in range(1, count)]))
        chunks = [var for other, var in snapshot.vars.items() if other.startswith(f"{name}\trows.")]
        if any(var.dims[1] != _ROW + 4 * count * width for var in chunks):
            raise TableError(f"the snapshot {snapshot.path!r} has rows of the table {name!r} of another size than its head says.")
        pieces.append(_Chunks(data, width, count, chunks))
    if shape is None:
        raise TableError(f"the snapshots in {where!r} have no rows of the table {name!r}.")
    return Table(name, columns, shape[1], np.dtype("<f4"), NO_HEIGHT, tuple(pieces), where, notes)
