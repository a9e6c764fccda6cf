"""Gives birth to the processes of jobs: each is forked from this one, which has loaded what scripts load and has run nothing, and
then runs a script as if it had been started with it. Scripts are compiled here, once. What was loaded here is not taken apart
again at the end of each child. That saves most of the time that a small job takes.

Asked over its standard input, a line of JSON each, and answers in the same way:

    {"argv": [...], "env": {...}, "log": PATH, "cwd": PATH or null, "fork": true}  ->  its process id
    {"wait": PID}  ->  its exit status, as subprocess has it, and its seconds of processor time, with all that it waited for

With "fork": false the process begins anew (exec). All that it has made ends when its input ends. Words behind `nursery.py` are
modules to load in the place of those that scripts load: tools/test_task.py has pytest run in children of such a one.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import types
import weakref
from pathlib import Path

# What the scripts need and need not load again.
LOADED = ["argparse", "hashlib", "numpy", "numpy.random", "random", "shutil", "zipfile",
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
    if not job["fork"] or ("paddle" in sys.modules and not has_flags()):
        os.execve(sys.executable, [sys.executable, *job["argv"]], os.environ)
    sys.argv[:] = job["argv"]
    sys.path[0] = str(Path(job["argv"][0]).parent)
    if drawn := sys.modules.get("numpy.random"):
        drawn.seed()  # else all children would have its numbers in common; `random` sees to that itself


@functools.cache
def code_of(path: str, changed: int) -> types.CodeType | None:
    """A script that was changed then; None: it is no script."""
    try:
        return compile(Path(path).read_bytes(), path, "exec")
    except (SyntaxError, ValueError):
        return None


def run(path: str, code: types.CodeType | None) -> None:
    """As `python path` does."""
    main = types.ModuleType("__main__")
    main.__file__ = path
    sys.modules["__main__"] = main
    exec(code or compile(Path(path).read_bytes(), path, "exec"), vars(main))


def stays() -> None:
    """What is loaded by now outlives the end of each child. To take it apart there would copy nearly all of the memory that the
    child shares with this process, which takes 15 ms. What the script makes or loads goes as ever, and so does what modules of the
    package hold: only their functions and types stay."""
    keep = ctypes.pythonapi.Py_IncRef
    for module in list(sys.modules.values()):
        keep(ctypes.py_object(module))
        for value in list(vars(module).values()):
            if isinstance(value, types.FunctionType | types.BuiltinFunctionType | types.ModuleType | type):
                keep(ctypes.py_object(value))
    others = [name for name in sys.modules if name not in ("sys", "builtins", "__main__") and name.partition(".")[0] != "paddle"]
    atexit.register(lambda: [sys.modules.pop(name, None) for name in others])  # Python takes apart what it finds there
    gc.collect()
    gc.freeze()


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


def serve() -> tuple[dict, types.CodeType | None]:
    """Returns in children only, what to run."""
    children: set[int] = set()
    for line in sys.stdin:
        asked = json.loads(line)
        if "wait" in asked:
            pid, status, used = os.wait4(asked["wait"], 0)
            children.discard(pid)
            answer = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        else:
            path, code = asked["argv"][0], None
            if asked["fork"]:
                with contextlib.suppress(OSError):
                    code = code_of(path, os.stat(path).st_mtime_ns)
            answer = os.fork()
            if not answer:
                return asked, code
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
        self.cpu = 0.0  # known when it has ended
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
                    self.returncode, self.cpu = self.nursery.ask(wait=self.pid)
        return True

    def send_signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            signal.pidfd_send_signal(self.handle, number)


def without_flags() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("FLAGS_", "GLOG_"))}


class Nursery:
    """The other end. `options` are those of subprocess.Popen."""

    def __init__(self, *names: str, prefix: tuple[str, ...] = (), env: dict[str, str] | None = None, **options):
        self.asking = threading.Lock()
        env = {**without_flags(), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **(env or {})}
        self.process = subprocess.Popen([*prefix, sys.executable, __file__, *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=env, **options)

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
    for name in sys.argv[1:] or LOADED:
        importlib.import_module(name)
    stays()
    born, code = serve()
    become(born)
    run(born["argv"][0], code)
