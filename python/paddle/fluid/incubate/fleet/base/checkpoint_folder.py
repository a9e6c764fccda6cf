"""Checkpoints of a job in a folder: their names, what makes one whole, which is the newest.

    <folder>/
      job                              text: the number that random seeds of the job are made from
      lock                             the first worker of a job that runs has it
      checkpoint-00000012/
        checkpoint.json                what is in it: written last
        model/                         all that save_persistables writes: parameters, states, schedules, tables
        worker-0/, worker-1/, ...      each worker's place in its data, random state, and what it alone holds
      .saving-00000013/                one that is being written, or was when its job was killed

A checkpoint gets its name when all of it is written. Its list has the size and the checksum of every file.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import fcntl
import json
import os
import random
import shutil
import socket
import time
import zlib
from collections.abc import Iterator
from typing import Any

NAME, PART, LIST = "checkpoint-", ".saving-", "checkpoint.json"
MODEL = "model"
VERSION = 2
_BLOCK = 1 << 20
_LOCK_WAIT = 10.0  # seconds: the job before this one may be ending


def worker_folder(number: int) -> str:
    return f"worker-{number}"


def _numbers(folder: str, start: str) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        tails = (name[len(start):] for name in os.listdir(folder) if name.startswith(start))
        return sorted(int(tail) for tail in tails if tail.isascii() and tail.isdigit())
    return []


def numbers(folder: str) -> list[int]:
    """Those that have their names, the oldest first."""
    return _numbers(folder, NAME)


def next_number(folder: str) -> int:
    """Of a new one: also above those that were left half-written."""
    return max([0, *numbers(folder), *_numbers(folder, PART)]) + 1


def path_of(folder: str, number: int, start: str = NAME) -> str:
    return os.path.join(folder, f"{start}{number:08d}")


# ---- what is in one ----


def _checksum(path: str) -> int:
    found = 0
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            found = zlib.crc32(block, found)
    return found


def _files(path: str) -> Iterator[str]:
    for around, _, names in os.walk(path):
        for name in names:
            yield os.path.relpath(os.path.join(around, name), path)


def write_json(path: str, value: Any) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
        file.write("\n")


def write_list(path: str, facts: dict) -> None:
    """Writes the list of the folder's files, and what else is to be known of it."""
    files = {}
    for name in sorted(_files(path)):
        file = os.path.join(path, name)
        files[name] = [os.path.getsize(file), _checksum(file)]
    write_json(os.path.join(path, LIST), {"version": VERSION, **facts, "files": files})


def read_list(path: str) -> dict:
    """What write_list wrote. Raises ValueError: it is not there, or no such list."""
    try:
        with open(os.path.join(path, LIST), encoding="utf-8") as file:
            found = json.load(file)
        if found["version"] != VERSION:
            raise ValueError(f"its version is {found['version']}, and this package reads {VERSION}")
        if not isinstance(found["files"], dict) or not all(isinstance(found[name], int) for name in ("workers", "job")):
            raise ValueError("it lacks its files, its workers or its job")
        if not found["files"]:
            raise ValueError("it lists no files")
        if not isinstance(found["trains"], dict):
            raise ValueError("it lacks what the job trains")
        if not all(isinstance(each, list) and [type(n) for n in each] == [int, int] for each in found["files"].values()):
            raise ValueError("it lacks the size or the checksum of a file")
        return found
    except (OSError, ValueError, KeyError, TypeError) as why:
        raise ValueError(f"the checkpoint {path!r} has no {LIST} that can be read: {why}") from None


STATE = {"pass": int, "kind": str, "batches": int, "ended": bool, "data": dict, "runs": int, "random": dict, "random_begin": dict,
         "values": list, "own": dict}


def read_state(path: str) -> dict:
    """What a worker wrote of its place."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        for name, kind in STATE.items():
            if not isinstance(found[name], kind):
                raise ValueError(f"its {name!r} is {found[name]!r:.40}")
        return found
    except KeyError as name:
        raise ValueError(f"the checkpoint's file {path!r} cannot be read: it lacks {name}") from None
    except (OSError, ValueError, TypeError) as why:
        raise ValueError(f"the checkpoint's file {path!r} cannot be read: {why}") from None


def bytes_of(path: str) -> int:
    """Bytes of all its files, as its list has them."""
    return sum(size for size, _ in read_list(path)["files"].values())


def damage(path: str, reads_all: bool, inner: str = "") -> str | None:
    """What is wrong with the checkpoint, or with one of its folders; None: it is whole. With `reads_all` every byte is looked at,
    else sizes alone.
    """
    try:
        files = {name: each for name, each in read_list(path)["files"].items() if not inner or name.startswith(inner + os.sep)}
    except ValueError as why:
        return str(why)
    if not files:
        return f"the {LIST} of the checkpoint {path!r} lists no file of {inner!r}"
    for name, (size, checksum) in files.items():
        file = os.path.join(path, name)
        try:
            found = os.path.getsize(file)
        except OSError as why:
            return f"{file!r}: {why.strerror}"
        if found != size:
            return f"{file!r} has {found} bytes, and had {size} when it was written"
        if reads_all and _checksum(file) != checksum:
            return f"{file!r} is damaged: its checksum is not the one that it was written with"
    return None


# ---- which one ----


def newest(folder: str, reads_all: bool = False) -> tuple[str | None, list[str]]:
    """The newest whole checkpoint, and what is wrong with newer ones."""
    wrong = []
    for number in reversed(numbers(folder)):
        path = path_of(folder, number)
        problem = damage(path, reads_all)
        if problem is None:
            return path, wrong
        wrong.append(problem)
    return None, wrong


def choose(folder: str, resume: str, reads_all: bool = False) -> tuple[str | None, list[str]]:
    """What a job with FLAGS_resume begins with: a checkpoint or None; and what is wrong with newer ones. Raises ValueError where it
    cannot be had, with what to do."""
    kinds = ("never", "auto", "must")
    if resume not in kinds and os.sep not in resume and not os.path.isdir(resume):
        near = difflib.get_close_matches(resume, kinds, 1)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"FLAGS_resume={resume!r}: it is never, auto, must, or the folder of a checkpoint.{guess}")
    if resume not in kinds:
        problem = damage(resume, reads_all)
        if problem is not None:
            raise ValueError(f"FLAGS_resume={resume}: {problem}")
        return resume.rstrip(os.sep), []
    if resume != "never" and not folder:
        raise ValueError(f"FLAGS_resume={resume} goes on from a checkpoint: FLAGS_checkpoint_dir says in which folder they are.")
    if resume == "never":
        if folder and numbers(folder):
            raise ValueError(f"{folder!r} has checkpoints of a job, and a job that begins anew would take their place, one by one: "
                             "go on with FLAGS_resume=auto, or give another FLAGS_checkpoint_dir, or remove them.")
        return None, []
    found, wrong = newest(folder, reads_all)
    if found is None and wrong:
        raise ValueError(f"no checkpoint in {folder!r} is whole: {wrong[0]}. Bring the files back, or remove the checkpoints to "
                         "begin anew.")
    if found is None and resume == "must":
        raise ValueError(f"FLAGS_resume=must, and there is no checkpoint in {folder!r}.")
    return found, wrong


def remove_old(folder: str, keep: int) -> None:
    """All but the newest ones, and what was left half-written. One that is removed loses its name first."""
    for number in numbers(folder)[:-keep]:
        part = path_of(folder, number, PART)
        shutil.rmtree(part, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rename(path_of(folder, number), part)
    for number in _numbers(folder, PART):
        shutil.rmtree(path_of(folder, number, PART), ignore_errors=True)


# ---- the job ----


def lock(folder: str) -> Any:
    """The folder is this process's, which is the first worker of a job, until it ends. Raises when it is another's."""
    os.makedirs(folder, exist_ok=True)
    file = open(os.path.join(folder, "lock"), "a+", encoding="utf-8")  # as long as the process
    end = time.monotonic() + _LOCK_WAIT
    while True:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not of children, which may outlive it
            break
        except OSError as why:
            if why.errno not in (errno.EACCES, errno.EAGAIN):
                return file  # a file system without locks
            if time.monotonic() > end:
                file.seek(0)
                raise RuntimeError(f"{folder!r} is where another job that runs now has its checkpoints (its first worker is "
                                   f"{file.read(200).strip() or 'somebody'}): give this one another FLAGS_checkpoint_dir, or end "
                                   "the other.") from None
            time.sleep(0.05)
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    file.flush()
    return file


def job_number(folder: str) -> int:
    """The number of the jobs of this folder, drawn by the process that comes first."""
    path = os.path.join(folder, "job")
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(path):
        part = f"{path}.{os.getpid()}-{random.SystemRandom().getrandbits(64):016x}"
        with open(part, "w", encoding="ascii") as file:
            file.write(f"{random.SystemRandom().getrandbits(64):016x}\n")
        with contextlib.suppress(FileExistsError):
            os.link(part, path)  # whole or not at all, and one of all processes wins
        os.unlink(part)
    with open(path, encoding="ascii") as file:
        text = file.read().strip()
    try:
        return int(text, 16)
    except ValueError:
        raise ValueError(f"{path!r} does not have the number of a job, but {text[:40]!r}: remove it.") from None
