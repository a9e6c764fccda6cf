"""A task of a test run: commands with their output in one file, their processor time counted, and an end to all they started."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from clusters.nursery import Child, Nursery  # noqa: E402

UNKNOWN = (10.0, 10.0)
stop = threading.Event()  # when set, all commands are ended


class Stopped(Exception):
    """The run was ended."""


@dataclass(eq=False)
class Task:
    """Something to do: `run`, which is given the task. It begins when those of `after` have ended."""

    stage: str
    name: str
    run: Callable[[Task], Any]
    after: list[Task] = field(default_factory=list)
    parts: int = 1  # this is one of so many that have the name together
    output: TextIO | None = None  # where its commands write
    result: Any = None
    begin: float = 0.0
    wall: float = 0.0  # seconds that it took
    cpu: float = 0.0  # seconds of processor time of its commands, and of all that they waited for
    expected: tuple[float, float] = UNKNOWN  # the same two, of a quiet machine
    way: float = 0.0  # seconds from its begin to the end of the last one that waits for it

    @property
    def load(self) -> float:
        """Of one processor."""
        return min(max(self.expected[1] / max(self.expected[0], 0.1), 0.05), 1.0)

    def say(self, *words) -> None:
        if self.output and self.output.seekable():
            self.output.seek(0, os.SEEK_END)  # children of a nursery have written there
        print(*words, file=self.output, flush=True)

    def call(self, command: list, seconds: float = float("inf"), **options) -> int | None:
        """Runs a command; returns its status. Past that many seconds it ends the command with all that it started, and returns
        None."""
        self.say("$", *command)
        process = subprocess.Popen([str(word) for word in command], cwd=options.pop("cwd", ROOT), start_new_session=True,
                                   stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT, **options)
        handle = os.pidfd_open(process.pid)
        try:
            return self.watch(process, handle, seconds)
        finally:
            os.close(handle)

    def fork(self, nursery: Nursery, script: Path, words: list, env: dict[str, str], seconds: float = float("inf")) -> int | None:
        """The same for a script that a child of the nursery runs."""
        self.say("$", sys.executable, script, *words)
        argv = [str(word) for word in (script, *words)]
        child = nursery.start(argv, env, f"/proc/{os.getpid()}/fd/{self.output.fileno()}", cwd=str(ROOT))
        return self.watch(child, child.handle, seconds)

    def watch(self, process: subprocess.Popen | Child, handle: int, seconds: float) -> int | None:
        try:
            if not ends(handle, seconds):
                process.send_signal(signal.SIGABRT)  # pytest shows where it is
                ends(handle, 10)
                return None
            return self.reap(process)
        finally:
            if process.returncode is None:  # not waited for, so the number is still its own
                os.killpg(process.pid, signal.SIGKILL)
                self.reap(process)

    def reap(self, process: subprocess.Popen | Child) -> int:
        if isinstance(process, Child):
            process.wait()
            self.cpu += process.cpu
        else:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu += used.ru_utime + used.ru_stime
        return process.returncode


def ends(handle: int, seconds: float) -> bool:
    """Whether a process ends in that time. It is still to be waited for."""
    end = time.monotonic() + seconds
    waits = select.poll()
    waits.register(handle, select.POLLIN)
    while not waits.poll(200):
        if stop.is_set():
            raise Stopped
        if time.monotonic() > end:
            return False
    return True
