"""The files of a distributed table: each server writes its rows to `__lookup_table__/<table>_<i>`.

A part says in its last bytes of how many it is one and of which save (src/pserver/save_part.h). Parts of several
saves, or a whole table beside parts of another one, are never put together: loading refuses them by name. Saving
removes what it replaces, once all that is new is in its place. Parts that upstream wrote do not say what they are;
their rows must fit.
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
from collections.abc import Callable
from typing import Any, Iterator, NamedTuple

import numpy as np

from paddle.fluid import core
from paddle.fluid.executor import global_scope
from paddle.fluid.framework import Program
from paddle.fluid.io_value_file import ValueFile
from paddle.fluid.vartype import VarType

TABLES = "__lookup_table__"
_END = struct.Struct("<8sIIQ")
_MAGIC = b"CPDLPART"
_TRIES = 20  # to read a table whose files are replaced meanwhile


class Part(NamedTuple):
    """A file of a table; without a count where it does not say what it is."""

    path: str
    index: int
    count: int = 0
    save: int = 0


def _part(path: str, index: int) -> Part:
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _END.size, 0))
        end = file.read()
    if len(end) == _END.size and end.startswith(_MAGIC):
        return Part(path, *_END.unpack(end)[1:])
    return Part(path, index)


def _parts_in(folder: str, table: str) -> list[Part]:
    above, stem = os.path.split(os.path.join(folder, table))
    found = []
    for name in os.listdir(above) if os.path.isdir(above) else ():
        match = re.fullmatch(re.escape(stem) + r"_(\d+)", name)
        if match and os.path.isfile(os.path.join(above, name)):
            with contextlib.suppress(FileNotFoundError):  # another trainer's save takes its place just now
                found.append(_part(os.path.join(above, name), int(match[1])))
    return sorted(found, key=lambda part: part.index)


def table_parts(folder: str, table: str) -> list[Part]:
    """The files of a distributed table. In the folder itself a file of such a name may be another variable's."""
    found = _parts_in(os.path.join(folder, TABLES), table)
    return found + [part for part in _parts_in(folder, table) if part.count or not found]


# ---- saving ----


@contextlib.contextmanager
def replaced(folder: str, names: list, tables: tuple = ()) -> Iterator[None]:
    """Around the saving of these variables: afterwards what it replaces goes. `tables`: those that servers write in parts;
    the others are whole files.

    A whole table takes the place of older parts; parts, where all of them are to be seen here, that of an older whole
    table. What was not there before is another trainer's, which saves at the same time.
    """

    def others(name: str) -> list[str]:
        """What the save of this variable takes the place of."""
        parts = _parts_in(os.path.join(folder, TABLES), name)
        return [os.path.join(folder, name)] if name in tables else [part.path for part in parts]

    names = list(dict.fromkeys([*names, *tables]))
    before = {path: _identity(path) for name in names for path in others(name)}
    yield
    for name in names:
        if name in tables and not _is_whole_set(_parts_in(os.path.join(folder, TABLES), name)):
            continue
        for path in others(name):
            if before.get(path) is not None and _identity(path) == before[path]:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path)


def _identity(path: str) -> tuple | None:
    """What another file by that name has not; None: there is none. No clock is asked: one may have been set back."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


# ---- loading ----


def _is_whole_set(parts: list[Part]) -> bool:
    if not parts or len({(part.count, part.save) for part in parts}) > 1:
        return False
    return bool(parts[0].count) and [part.index for part in parts] == list(range(parts[0].count))


def _check_one_save(table: str, parts: list[Part]) -> None:
    """All files are of one save."""
    saves: dict = {}
    for part in parts:
        saves.setdefault((part.count, part.save), []).append(part)
    if len(saves) < 2:
        return
    told = [
        f"{', '.join(repr(part.path) for part in group)} (a save on {count} servers)"
        if count
        else f"{', '.join(repr(part.path) for part in group)} (do not say of which)"
        for (count, _), group in saves.items()
    ]
    raise core.FileError(
        f"The files of the table {table!r} are of different saves: {'; '.join(told)}. Put the files of one save "
        "there, and remove the others."
    )


def _while_they_stay(folder: str, table: str, read: Callable[[list[Part]], Any]) -> Any:
    """What `read` makes of the parts. A save that takes their places meanwhile is begun anew with."""
    for _ in range(_TRIES):
        parts = table_parts(folder, table)
        try:
            result = read(parts)
        except Exception:
            if table_parts(folder, table) == parts:
                raise
            continue
        if table_parts(folder, table) == parts:
            return result
    raise core.FileError(
        f"The files of the table {table!r} in {folder!r} are replaced while they are read, {_TRIES} times by now: a job "
        "saves there. Load a copy of the folder."
    )


def load_server(executor, folder: str, program: Program, table: str) -> None:
    """A server's rows: of its own part if that has them all, else of all parts, or of the whole table."""
    index, count = list(program._endpoints).index(program._ps_endpoint), len(program._endpoints)
    rows = global_scope().var(table).get_selected_rows()
    held = rows.height()
    if not held:
        raise core.NotFoundError(
            f"The table {table!r} has no rows yet. Run the server's startup Program first."
        )
    shape = (held, *program.global_block().var(table).shape[1:])
    wanted = np.arange(index, held, count)

    def read(parts: list[Part]) -> np.ndarray:
        if not parts:
            path = os.path.join(folder, table)
            whole = _read_tensor(executor, path)
            check_shape(table, shape, whole.shape, repr(path))
            return whole[wanted]
        values = _own_rows(executor, table, shape, parts, index, wanted)
        if values is None:
            return _read_parts(executor, folder, table, shape, parts)[wanted]
        _check_same(executor, os.path.join(folder, table), table, values, wanted)
        return values

    values = _while_they_stay(folder, table, read)
    rows.get_tensor().set(np.ascontiguousarray(values), core.CPUPlace())


def load_rows(executor, folder: str, program: Program, name: str, table: str) -> None:
    """Rows by id, of the table or of a state of its rows: those of all parts that lie on this server, or of a whole file. The
    server takes them up when it begins to serve.
    """
    index, count = list(program._endpoints).index(program._ps_endpoint), len(program._endpoints)
    origin = program._parameters_on_pservers.job.graph.vars[name]
    shape = (program._parameters_on_pservers.table_height or np.iinfo(np.int64).max, int(origin.shape[1]))

    scope = global_scope()

    def read(parts: list[Part]) -> str | np.ndarray:
        if not parts:
            whole = _read_tensor(executor, os.path.join(folder, name))
            height = program._parameters_on_pservers.table_height or whole.shape[0]  # without one: of any number of ids from 0 on
            check_shape(name, (height, shape[1]), whole.shape, repr(os.path.join(folder, name)))
            return whole
        _check_one_save(name, parts)
        if parts[0].count and not _is_whole_set(parts):
            raise core.FileError(
                f"The files of the table {name!r} in {folder!r} are not all there{_lacking(parts)}. Each server wrote a part on "
                "its own disk: put all of them into one folder."
            )
        for part in parts:
            head = ValueFile(part.path, True)
            check_shape(name, shape, (head.height if part.count else shape[0], head.width), repr(part.path))
        return "".join(f"{_end(part)} {os.path.abspath(part.path)}\n" for part in parts)

    found = _while_they_stay(folder, name, read)
    if isinstance(found, str):  # the server reads them piece by piece when it begins to serve
        scope.var(f"{name}@FILES").get_tensor().set(np.frombuffer(os.fsencode(found), np.uint8), core.CPUPlace())
        return
    wanted = np.arange(index, found.shape[0], count)
    rows = scope.var(f"{name}@ROWS").get_selected_rows()
    rows.set_rows(wanted.tolist())
    rows.set_height(shape[0])
    rows.get_tensor().set(np.ascontiguousarray(found[wanted]), core.CPUPlace())
    if scope.find_var(f"{name}@FILES") is not None:
        scope.erase([f"{name}@FILES"])


def _end(part: Part) -> str:
    """The file's last bytes, by which the server sees whether it is still the same save; of one that does not say which "-"."""
    return _END.pack(_MAGIC, part.index, part.count, part.save).hex() if part.count else "-"


def check_shape(name: str, shape: tuple, found: tuple, where: str) -> None:
    """What was saved is of this model."""
    if tuple(found) != tuple(shape):
        raise core.ShapeError(
            f"{name!r} has shape {tuple(shape)} in this job, but {tuple(found)} in {where}: it belongs to another model."
        )


def _own_rows(executor, table: str, shape: tuple, parts: list[Part], index: int, wanted) -> np.ndarray | None:
    """Out of this server's own part; None: it is not there, or is one of another number of servers."""
    _check_one_save(table, parts)
    for part in parts:
        if part.index == index:
            numbers, values = _read_rows(executor, table, shape, part)
            return values if np.array_equal(numbers, wanted) else None
    return None


def read_table(executor, folder: str, table: str, shape: tuple) -> np.ndarray:
    """A distributed table of this shape out of the files of its parts. Every row must be in one of them."""
    return _while_they_stay(folder, table, lambda parts: _read_parts(executor, folder, table, shape, parts))


def _read_parts(executor, folder: str, table: str, shape: tuple, parts: list[Part]) -> np.ndarray:
    _check_one_save(table, parts)
    height = shape[0]
    whole, missing = None, np.ones(height, bool)
    for part in parts:
        numbers, values = _read_rows(executor, table, shape, part)
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= height):
            raise core.ShapeError(
                f"{part.path!r} has row {numbers.max()} of the table {table!r}, which has {height} rows in the "
                "Program."
            )
        if not missing[numbers].all():
            raise core.FileError(
                f"{part.path!r} has row {int(numbers[~missing[numbers]][0])} of the table {table!r}, and so has another "
                "of its files: they are of different saves. Put the files of one save there, and remove the others."
            )
        if whole is None:
            whole = np.zeros((height, *values.shape[1:]), values.dtype)
        whole[numbers] = values
        missing[numbers] = False
    if missing.any():
        raise core.FileError(
            f"The files of the table {table!r} in {folder!r} have no row {int(np.argmax(missing))}, "
            f"and {int(missing.sum())} rows in all are missing{_lacking(parts)}. Each server wrote a part on its own "
            "disk: put all of them into one folder."
        )
    _check_same(executor, os.path.join(folder, table), table, whole, np.arange(height))
    return whole


def _lacking(parts: list[Part]) -> str:
    found = {part.index for part in parts}
    lacking = [index for index in range(parts[0].count if parts else 0) if index not in found]
    return f" (of {parts[0].count} parts number {', '.join(map(str, lacking))})" if lacking else ""


def check_whole(executor, folder: str, var) -> None:
    """The file of a whole variable that is about to be read: parts beside it have the same values."""
    parts = _parts_in(os.path.join(folder, TABLES), var.name)
    if parts and os.path.isfile(os.path.join(folder, var.name)):
        read_table(executor, folder, var.name, var.shape)


def _check_same(executor, path: str, table: str, values: np.ndarray, numbers: np.ndarray) -> None:
    """A whole table beside the parts has the same values."""
    if not os.path.isfile(path):
        return
    whole = _read_tensor(executor, path)
    if len(whole) > numbers.max(initial=-1) and np.array_equal(whole[numbers], values, equal_nan=True):
        return
    raise core.FileError(
        f"The table {table!r} is there twice, whole in {path!r} and in parts below {TABLES!r}, with other values: they are "
        "of different saves. Remove that file, or the parts."
    )


def _read_rows(executor, table: str, shape: tuple, part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Numbers and values. The height that upstream writes is not that of the table."""
    rows = _read(executor, part.path, VarType.SELECTED_ROWS).get_selected_rows()
    numbers, values = np.array(rows.rows(), np.int64), np.array(rows.get_tensor())
    check_shape(table, shape, (rows.height() if part.count else shape[0], *values.shape[1:]), repr(part.path))
    return numbers, values


def _read_tensor(executor, path: str) -> np.ndarray:
    return np.array(_read(executor, path, VarType.LOD_TENSOR).get_tensor())


def _read(executor, path: str, kind):
    reading, scope = Program(), core.Scope()
    out = reading.global_block().create_var(name="value", type=kind, persistable=True)
    reading.global_block().append_op(type="load", outputs={"Out": [out]}, attrs={"file_path": path})
    executor.run(reading, scope=scope)
    return scope.find_var("value")
