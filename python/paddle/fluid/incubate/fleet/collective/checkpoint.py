"""Checkpoints of a job without servers: numbered folders, each with all that lasts and where the job is."""

from __future__ import annotations

import json
import os

from paddle.distributed.fs_wrapper import FS, LocalFS
from paddle.fluid import io
from paddle.fluid.executor import Executor
from paddle.fluid.framework import Program

_FOLDER, _PARAMETERS, _STATUS = "__paddle_fleet_checkpoint__", "_paddle_fleet_param__", "fleet_train_status"


class TrainStatus:
    """Where a job is: what its checkpoints keep beside parameters.

    Args:
        epoch_no: the last epoch that was trained; -1: none.
    """

    def __init__(self, epoch_no: int = -1):
        self._epoch_no = epoch_no

    def next(self) -> int:
        """The next epoch."""
        return self._epoch_no + 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TrainStatus) and self._epoch_no == other._epoch_no

    __hash__ = None


def numbers(root: str, fs: FS) -> list[int]:
    """The numbers of the checkpoints in a folder, in order."""
    parts = [name.split(".") for name in fs.list_dirs(root)]
    return sorted(int(each[1]) for each in parts if len(each) == 2 and each[0] == _FOLDER and each[1].isdecimal())


def _path(root: str, number: int) -> str:
    return f"{root}/{_FOLDER}.{number}"


def _cache(folder: str, name: str) -> str:
    """A path in a folder of this machine, where nothing is."""
    local, path = LocalFS(), os.path.join(folder, name)
    local.mkdir(folder)
    local.delete(path)
    return path


def save(executor: Executor, root: str, status: TrainStatus, program: Program, fs: FS, cache_folder: str) -> None:
    """Writes the next checkpoint; it has its name when all of it is there."""
    fs.mkdir(root)
    number = max(numbers(root, fs), default=-1) + 1
    whole, part = _path(root, number), f"{_path(root, number)}.tmp"
    folder = _cache(cache_folder, f"{_FOLDER}.{number}.saved_cache") if fs.need_upload_download() else part
    fs.delete(part)  # of a process that was killed
    io.save_persistables(executor, folder, program, _PARAMETERS)
    with open(os.path.join(folder, _STATUS), "w", encoding="utf-8") as file:
        json.dump({"epoch_no": status._epoch_no}, file)
    if fs.need_upload_download():
        fs.upload(folder, part)
    fs.mv(part, whole)


def load(executor: Executor, root: str, trainer_id: int, program: Program, fs: FS, cache_folder: str) -> TrainStatus | None:
    """Reads the newest checkpoint; None: there is none."""
    found = numbers(root, fs)
    if not found:
        return None
    folder = _path(root, found[-1])
    if fs.need_upload_download():
        cache = _cache(cache_folder, f"{_FOLDER}.{found[-1]}.load_cache.{trainer_id}")
        fs.download(folder, cache)
        folder = cache
    io.load_persistables(executor, folder, program, _PARAMETERS)
    try:
        with open(os.path.join(folder, _STATUS), encoding="utf-8") as file:
            epoch = json.load(file)["epoch_no"]
    except FileNotFoundError:
        return TrainStatus()
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder}/{_STATUS} is no status of a checkpoint: {error!r}.") from None
    if not isinstance(epoch, int) or epoch < -1:
        raise ValueError(f"{folder}/{_STATUS} says epoch_no {epoch!r}; it must be a whole number from -1 on.")
    return TrainStatus(epoch)


def clean(root: str, fs: FS, kept: int) -> None:
    """Removes all but the newest checkpoints."""
    for number in numbers(root, fs)[: -max(kept, 1)]:
        fs.rmr(_path(root, number))
