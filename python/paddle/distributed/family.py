"""Processes as the system has them: how one is started, what all have left behind, and how nothing of it stays."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from paddle.distributed.plan import Process

_DIE_WITH_PARENT, _ADOPT_ORPHANS = 1, 36  # PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER
_library = ctypes.CDLL(None)


def adopt_orphans() -> None:
    """What descendants of this process leave behind becomes its child, not that of process 1, and so can be found. Where the system
    does not have that (some sandboxes) jobs run all the same."""
    _library.prctl(_ADOPT_ORPHANS, 1, 0, 0, 0)


def die_with_parent() -> None:
    """This process is killed when the one that started it has ended, however it ends."""
    _library.prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


def fork(become: Callable[[], None]) -> int:
    """A child in a process group of its own, which dies with this process. It calls become() with all signals blocked, and ends
    with status 127 when that returns."""
    parent = os.getpid()
    held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            try:
                os.setpgid(0, 0)
                die_with_parent()
                if os.getppid() == parent:
                    become()
            finally:
                os._exit(127)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
    with contextlib.suppress(OSError):  # the child does it too: whoever comes first
        os.setpgid(pid, pid)
    return pid


def start(process: Process, environment: Mapping[str, str], again: str = "") -> int:
    """Starts it. `again`: a line for its log, which then goes on. What goes wrong on the way stands in the log, and the status is
    127, as with a shell."""
    return fork(lambda: _become(process, environment, again))


def _become(process: Process, environment: Mapping[str, str], again: str) -> None:
    """In the child."""
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if process.log:
            log = os.open(process.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            os.dup2(log, 1)
            os.dup2(log, 2)
            if again:
                os.write(2, f"--- {again}\n".encode())
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU):  # Python and guard.py have them ignored
            signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # what nohup has ignored stays so
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.chdir(process.folder)
        os.execvpe(process.command[0], process.command, environment)
    except BaseException as why:
        os.write(2, f"launch: {process.name} could not be started: {process.command[0]}: {why}\n".encode())


def children() -> Iterator[tuple[int, int, str]]:
    """The children of this process: number, process group, name. Those that have ended and wait to be read are not there."""
    here = str(os.getpid())
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            text = Path(entry.path, "stat").read_text(errors="replace")
            name, _, rest = text.partition("(")[2].rpartition(")")
            state, parent, group = rest.split()[:3]
            if parent == here and state not in "ZX":
                yield int(entry.name), int(group), name


def is_below(pid: int, pids: Collection[int]) -> bool:
    """Is it one of these processes, or was it started by one?"""
    while pid > 1 and pid not in pids:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            return False
    return pid > 1


def kill_all(spared: int = 0, deadline: float = 5.0) -> list[str]:
    """Kills all children but one, and what becomes a child by that, until there are none. Their names."""
    found: dict[int, str] = {}
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        living = [(pid, name) for pid, _, name in children() if pid != spared]
        if not living:
            break
        for pid, name in living:
            found[pid] = f"{name} (process {pid})"
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.002)
    return list(found.values())
