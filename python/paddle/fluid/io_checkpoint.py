"""Checkpoints of v0.12 to v0.14: numbered folders, of which the newest are kept.

`checkpoint_<n>` holds the variables (v0.13), or `__model__` with the variables and `trainer_<id>` with small
text files such as epoch_id (v0.14). A file `_SUCCESS` is written last: a folder without it is not used.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import Iterable

from paddle.fluid import core, io, io_check, io_distributed
from paddle.fluid.framework import Parameter, Program, Variable
from paddle.fluid.vartype import VarType

__all__ = ["save_checkpoint", "load_checkpoint", "clean_checkpoint"]

_MARK = "_SUCCESS"
_PREFIX = "checkpoint_"
_MODEL = "__model__"
_NEVER_SAVED = (VarType.FEED_MINIBATCH, VarType.FETCH_LIST, VarType.RAW)


def _is_checkpoint_var(var: Variable) -> bool:
    """Is it persistable, and no gradient? (Upstream leaves out all that has `@GRAD`, `.block` or `.trainer_` in its name: a user's
    own parameters among them.)"""
    is_gradient = var.name.endswith("@GRAD") and not isinstance(var, Parameter)
    return var.persistable and var.type not in _NEVER_SAVED and not is_gradient


def _check_files(folder: str, program: Program | None) -> None:
    """Before anything is written: each variable has a file of its own in the folder, and none is a mark, here or of the other
    layout."""
    taken = dict.fromkeys((_MARK, os.path.join(_MODEL, _MARK)), "the mark of a whole checkpoint")
    is_cluster = program is not None and program._is_distributed
    chosen = io._chosen(program, None, io.is_persistable if is_cluster else _is_checkpoint_var)
    if is_cluster and io_distributed.is_trainer(program):
        io_distributed.check_files(folder, program, chosen, io_distributed.lasting_on_servers(program), taken, None)
    else:
        io_check.need_own_files(folder, [var.name for var in chosen], taken, None)


def _save(executor, folder: str, program: Program | None) -> None:
    _check_files(folder, program)
    io._make_folder(folder)
    if program is not None and program._is_distributed:  # what lies on servers belongs to it as well
        io.save_persistables(executor, folder, program)
    else:
        io.save_vars(executor, folder, program, predicate=_is_checkpoint_var)
    _write_mark(folder)


def _folder(checkpoint_dir: str, serial: int) -> str:
    return os.path.join(checkpoint_dir, f"{_PREFIX}{serial}")


def _serials(checkpoint_dir: str) -> list:
    """Numbers of all checkpoints of the folder, finished or not, the newest first."""
    if not os.path.isdir(checkpoint_dir):
        return []
    tails = [name[len(_PREFIX) :] for name in os.listdir(checkpoint_dir) if name.startswith(_PREFIX)]
    found = sorted((int(tail) for tail in tails if tail.isdecimal()), reverse=True)
    return [serial for serial in found if os.path.isdir(_folder(checkpoint_dir, serial))]


def _mark_of(checkpoint_dir: str, serial: int) -> str | None:
    folder = _folder(checkpoint_dir, serial)
    marks = (os.path.join(folder, _MODEL, _MARK), os.path.join(folder, _MARK))
    return next((mark for mark in marks if os.path.isfile(mark)), None)


def get_latest_checkpoint_serial(checkpoint_dir: str | None) -> int:
    """The number of the newest finished checkpoint; -1 if there is none."""
    for serial in _serials(checkpoint_dir) if checkpoint_dir else ():
        if _mark_of(checkpoint_dir, serial):
            return serial
    return -1


def _write_mark(folder: str) -> None:
    io._write(os.path.join(folder, _MARK), time.ctime().encode())


def _keep(checkpoint_dir: str, count: int) -> None:
    """Keeps the newest finished checkpoints and removes what is older; with 0, all of them.

    The oldest goes first, and of each the mark that it is finished: whenever this is broken off, the newest that is left is whole.
    """
    serials = _serials(checkpoint_dir)
    finished = [serial for serial in serials if _mark_of(checkpoint_dir, serial)][:count]
    for serial in reversed(serials):
        if not count or (len(finished) == count and serial < finished[-1]):
            while mark := _mark_of(checkpoint_dir, serial):
                os.remove(mark)
            shutil.rmtree(_folder(checkpoint_dir, serial))


def save_checkpoint(
    executor,
    checkpoint_dir: str | None = None,
    max_num_checkpoints: int = 3,
    save_interval_secs: float = 600,
    main_program: Program | None = None,
    trainer_id: int | None = None,
    trainer_args: dict | None = None,
) -> None:
    """Writes the persistable variables into a new numbered folder and drops the oldest ones.

    As in v0.13, nothing is written within save_interval_secs of the checkpoint before. With a trainer_id, as
    in v0.14, it is written at once, and trainer_args (such as {"epoch_id": 3}) beside it.
    """
    if isinstance(save_interval_secs, dict) or isinstance(max_num_checkpoints, Program):
        raise TypeError(
            "save_checkpoint takes (executor, checkpoint_dir, max_num_checkpoints, save_interval_secs, "
            "main_program) in this order. Give trainer_id and trainer_args by name."
        )
    checkpoint_dir = os.getcwd() if checkpoint_dir is None else checkpoint_dir
    serial = get_latest_checkpoint_serial(checkpoint_dir)
    if trainer_id is None and serial >= 0:
        age = time.time() - os.path.getmtime(_mark_of(checkpoint_dir, serial))
        if age < save_interval_secs:
            return
    folder = _folder(checkpoint_dir, serial + 1)
    if trainer_id is not None:
        if trainer_id == 0:
            _check_files(os.path.join(folder, _MODEL), main_program)
        save_trainer_args(folder, trainer_id, trainer_args or {})
        if trainer_id == 0:
            save_persist_vars_without_grad(executor, folder, main_program)
    else:
        _save(executor, folder, main_program)
    _keep(checkpoint_dir, max_num_checkpoints)


def load_checkpoint(
    executor,
    checkpoint_dir: str | None = None,
    main_program: Program | None = None,
    serial: int | None = None,
) -> None:
    """Reads the checkpoint `serial`, or the newest finished one. Without any, nothing is read."""
    if isinstance(main_program, int):  # v0.14 has these two the other way round
        main_program, serial = serial, main_program
    checkpoint_dir = os.getcwd() if checkpoint_dir is None else checkpoint_dir
    if serial is None:
        serial = get_latest_checkpoint_serial(checkpoint_dir)
        if serial < 0:
            return
    folder = _folder(checkpoint_dir, serial)
    if not os.path.isdir(folder):
        raise core.NotFoundError(
            f"There is no checkpoint {serial} in {checkpoint_dir!r}. There are: {_serials(checkpoint_dir)}."
        )
    load_persist_vars_without_grad(executor, values_of(checkpoint_dir, serial), main_program)


def values_of(checkpoint_dir: str, serial: int) -> str:
    """The folder that has the variables of that checkpoint."""
    folder = _folder(checkpoint_dir, serial)
    inside = os.path.join(folder, _MODEL)
    # With a mark in the folder itself it is of v0.13: what is in `__model__` belongs to variables of such names.
    is_inside = os.path.isdir(inside) and not os.path.isfile(os.path.join(folder, _MARK))
    return inside if is_inside else folder


def clean_checkpoint(checkpoint_dir: str | None, delete_dir: bool = False) -> None:
    """Removes all checkpoints of the folder; with delete_dir the folder too, if nothing else is in it."""
    checkpoint_dir = os.getcwd() if checkpoint_dir is None else checkpoint_dir
    _keep(checkpoint_dir, 0)
    if delete_dir and os.path.isdir(checkpoint_dir) and not os.listdir(checkpoint_dir):
        os.rmdir(checkpoint_dir)


def save_persist_vars_without_grad(executor, dirname: str, program: Program | None) -> None:
    """Writes the persistable variables into `__model__` of that folder."""
    _save(executor, os.path.join(dirname, _MODEL), program)


def load_persist_vars_without_grad(
    executor, dirname: str, program: Program | None, has_model_dir: bool = False
) -> None:
    """Reads the persistable variables from that folder, or from its `__model__`."""
    folder = os.path.join(dirname, _MODEL) if has_model_dir else dirname
    if program is not None and program._is_distributed:
        io.load_persistables(executor, folder, program)
    else:
        io.load_vars(executor, folder, program, predicate=_is_checkpoint_var)


def _trainer_folder(dirname: str, trainer_id: int) -> str:
    return os.path.join(dirname, f"trainer_{trainer_id}")


def save_trainer_args(dirname: str, trainer_id: int, trainer_args: dict) -> None:
    """Writes each value as text into a file of its name."""
    if not isinstance(trainer_args, dict):
        raise TypeError(f"trainer_args is a dict of names and values, found {trainer_args!r}.")
    for name in trainer_args:
        if name in ("", ".", "..", _MARK) or "/" in name:
            raise ValueError(f"trainer_args has {name!r}, which cannot be the name of a file beside {_MARK!r}. Give it "
                             "another name.")
    folder = _trainer_folder(dirname, trainer_id)
    io._make_folder(folder)
    for name, value in trainer_args.items():
        io._write(os.path.join(folder, name), str(value).encode())
    _write_mark(folder)


def load_trainer_args(checkpoint_dir: str, serial: int, trainer_id: int, trainer_args: Iterable) -> list:
    """The texts that save_trainer_args wrote under these names."""
    folder = _trainer_folder(_folder(checkpoint_dir, serial), trainer_id)
    texts = []
    for name in trainer_args:
        path = os.path.join(folder, name)
        try:
            with open(path, encoding="utf-8") as file:
                texts.append(file.read().strip())
        except OSError as error:
            raise core.FileError(f"{path!r} cannot be read: {error.strerror or error}.") from None
    return texts


def has_trainer_arg(checkpoint_dir: str, serial: int, trainer_id: int, name: str) -> bool:
    """Did save_trainer_args write something under this name?"""
    return os.path.isfile(os.path.join(_trainer_folder(_folder(checkpoint_dir, serial), trainer_id), name))
