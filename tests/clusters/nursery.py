"""Gives birth to the processes of jobs: each is forked from this one, which has numpy and nothing of paddle, and then runs a
script as if it had been started with it. That saves half of the time that a small job takes.

Asked over its standard input, a line of JSON each, and answers in the same way:

    {"argv": [...], "env": {...}, "log": PATH, "fork": true}  ->  its process id
    {"poll": PID}                                             ->  its exit status, as subprocess has it, or null

With "fork": false the process begins anew (exec). All that it has made ends when its input ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np  # noqa: F401  what children need and need not load again

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def become(job: dict) -> None:
    """In the child: what a process of its own has."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    os.setpgid(0, 0)  # so that what it leaves behind can be found
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for here, there in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(here, there)
    os.closerange(3, 256)
    os.environ.clear()
    os.environ.update(job["env"])
    if not job["fork"]:
        os.execve(sys.executable, [sys.executable, *job["argv"]], os.environ)
    sys.argv[:] = job["argv"]
    sys.path[0] = str(Path(job["argv"][0]).parent)


def serve() -> dict:
    """Returns in children only."""
    children: set[int] = set()
    for line in sys.stdin:
        asked = json.loads(line)
        if "poll" in asked:
            pid, status = os.waitpid(asked["poll"], os.WNOHANG)
            children.discard(pid)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if not answer:
                return asked
            children.add(answer)
        print(json.dumps(answer), flush=True)
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    sys.exit(0)


class Child:
    """A process as subprocess.Popen shows it."""

    def __init__(self, nursery: Nursery, pid: int):
        self.nursery, self.pid, self.returncode = nursery, pid, None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.nursery.ask(poll=self.pid)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:  # not waited for, so the number is still its own
            os.kill(self.pid, number)


class Nursery:
    """The other end."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})

    def ask(self, **words):
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(self, argv: list[str], env: dict[str, str], log: str, fork: bool = True) -> Child:
        return Child(self, self.ask(argv=argv, env=env, log=log, fork=fork))

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *unused) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


if __name__ == "__main__":
    born = serve()
    become(born)
    runpy.run_path(born["argv"][0], run_name="__main__")
