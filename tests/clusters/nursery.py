"""Gives birth to the processes of jobs: each is forked from this one, which has loaded what scripts load and has run nothing, and
then runs a script as if it had been started with it. That saves most of the time that a small job takes.

Asked over its standard input, a line of JSON each, and answers in the same way:

    {"argv": [...], "env": {...}, "log": PATH, "cwd": PATH or null, "fork": true}  ->  its process id
    {"wait": PID}  ->  its exit status, as subprocess has it; it has ended

With "fork": false the process begins anew (exec). All that it has made ends when its input ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path

# What the scripts need and need not load again. Not numpy.random: all children would have its numbers in common.
LOADED = ["argparse", "hashlib", "numpy", "random", "shutil", "zipfile",
          "paddle.fluid.layers", "paddle.fluid.optimizer", "paddle.fluid.transpiler", "paddle.fluid.executor"]

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
    if job["cwd"]:
        os.chdir(job["cwd"])
    if not job["fork"] or not has_flags():
        os.execve(sys.executable, [sys.executable, *job["argv"]], os.environ)
    sys.argv[:] = job["argv"]
    sys.path[0] = str(Path(job["argv"][0]).parent)


def has_flags() -> bool:
    """Gives the engine the flags of the environment, which it has read already. Not those that it refuses, of which it says more
    when it is loaded, and not numbers of threads: what is forked has no helpers."""
    from paddle import _core

    flags = {name: value for name, value in os.environ.items() if name.startswith("FLAGS_")}
    if "GLOG_v" in os.environ or "FLAGS_paddle_num_threads" in flags:
        return False
    try:
        for name, value in flags.items():
            _core.flag_set(name, value)
    except Exception:
        return False
    return True


def serve() -> dict:
    """Returns in children only."""
    children: set[int] = set()
    for line in sys.stdin:
        asked = json.loads(line)
        if "wait" in asked:
            pid, status = os.waitpid(asked["wait"], 0)
            children.discard(pid)
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork()
            if not answer:
                return asked
            children.add(answer)
        print(json.dumps(answer), flush=True)
    for pid in children:  # not waited for, so that the numbers are still theirs
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    sys.exit(0)


class Child:
    """A process as subprocess.Popen shows it, to several threads too."""

    def __init__(self, nursery: Nursery, pid: int):
        self.nursery, self.pid, self.returncode = nursery, pid, None
        self.asking = threading.Lock()
        self.handle = os.pidfd_open(pid)  # readable when it has ended
        weakref.finalize(self, os.close, self.handle)

    def poll(self) -> int | None:
        return self.returncode if self.ended(0) else None

    def wait(self, timeout: float | None = None) -> int:
        if not self.ended(timeout):
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return self.returncode

    def ended(self, timeout: float | None) -> bool:
        if self.returncode is None:
            waits = select.poll()
            waits.register(self.handle, select.POLLIN)
            if not waits.poll(None if timeout is None else timeout * 1000):
                return False
            with self.asking:
                if self.returncode is None:
                    self.returncode = self.nursery.ask(wait=self.pid)
        return True

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            signal.pidfd_send_signal(self.handle, number)


def without_flags() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("FLAGS_", "GLOG_"))}


class Nursery:
    """The other end."""

    def __init__(self):
        self.asking = threading.Lock()
        self.process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**without_flags(), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})

    def ask(self, **words):
        with self.asking:
            self.process.stdin.write(json.dumps(words) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline())

    def start(self, argv: list[str], env: dict[str, str], log: str, fork: bool = True, cwd: str | None = None) -> Child:
        return Child(self, self.ask(argv=argv, env=env, log=log, fork=fork, cwd=cwd))

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *unused) -> None:
        self.close()


if __name__ == "__main__":
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()
    born = serve()
    become(born)
    runpy.run_path(born["argv"][0], run_name="__main__")
