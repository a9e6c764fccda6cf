"""Who is measured: this project's package and, where they are installed, paddlepaddle 1.8.5 and PyTorch.

A rival's interpreter is named by PADDLE185_PYTHON or TORCH_PYTHON, or lies in .venv-185 or .venv-torch of the
checkout. BEFORE_PYTHON names the interpreter of another build of this package, to compare the two. A Child is
one process that runs one work; see child.py for what is said.
"""

from __future__ import annotations

import atexit
import functools
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

BENCH = Path(__file__).resolve().parent
ROOT = BENCH.parent
OURS, PADDLE, TORCH, BEFORE = "cpaddle", "1.8.5", "PyTorch", "before"


class ChildFailed(Exception):
    """A measured process could not do its work; the text says why."""


@dataclass(frozen=True)
class Runner:
    """A library and a way to use it."""

    name: str  # as shown
    family: str  # OURS, PADDLE, TORCH or BEFORE
    python: str
    library: str
    how: str
    env: dict = field(default_factory=dict)

    @property
    def is_cpaddle(self) -> bool:
        return self.family in (OURS, BEFORE)


def is_amd() -> bool:
    try:
        return "AuthenticAMD" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def find_python(variable: str, folder: str) -> str | None:
    for path in (os.environ.get(variable), ROOT / folder / "bin" / "python"):
        if path and os.access(path, os.X_OK):
            return str(path)
    return None


def version_of(python: str, module: str) -> str | None:
    """The version of a module in another interpreter; None when it is not there, or when it is our own."""
    code = (f"import {module} as m; v = getattr(m, 'version', None); "
            "print('@' if hasattr(v, 'cpaddle') else m.__version__)")
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, env=environment(1, {}, False))
    words = done.stdout.split()
    return words[-1] if done.returncode == 0 and words and words[-1] != "@" else None


def environment(threads: int, extra: dict, ours: bool) -> dict:
    env = {name: value for name, value in os.environ.items()
           if ours or name not in ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")}
    count = str(threads)
    return env | {"OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count,
                  "TORCHINDUCTOR_CACHE_DIR": inductor_folder()} | extra


def inductor_folder() -> str:
    """Where PyTorch keeps what it compiled: in the build folder, so that a second run starts quickly."""
    return str(ROOT / "build" / "bench-inductor")


def rivals(say) -> list[Runner]:
    """The rivals that are installed, each in its ways; says one line about each that is not."""
    found = []
    python = find_python("PADDLE185_PYTHON", ".venv-185")
    version = python and version_of(python, "paddle")
    if version:
        # Its MKL takes slow paths on AMD unless told otherwise.
        env = {"CPU_NUM": "1"} | ({"MKL_DEBUG_CPU_TYPE": "5"} if is_amd() else {})
        found += [Runner(f"paddle {version}, program cache", PADDLE, python, "fluid", "cached", env),
                  Runner(f"paddle {version}, cache, mkldnn", PADDLE, python, "fluid", "cached",
                         env | {"FLAGS_use_mkldnn": "1"}),
                  Runner(f"paddle {version}, plain exe.run", PADDLE, python, "fluid", "plain", env)]
    else:
        say("paddlepaddle 1.8.5 is not here: no ratio to it. Name its Python in PADDLE185_PYTHON.")
    python = find_python("TORCH_PYTHON", ".venv-torch")
    version = python and version_of(python, "torch")
    if version:
        version = version.split("+")[0]
        found += [Runner(f"torch {version}, eager", TORCH, python, "torch", "eager"),
                  Runner(f"torch {version}, compile", TORCH, python, "torch", "compile")]
    else:
        say("PyTorch is not here: no ratio to it. Name its Python in TORCH_PYTHON.")
    return found


def ours() -> Runner:
    return Runner(OURS, OURS, sys.executable, "fluid", "plain")


def builds() -> list[Runner]:
    """This build, and the other one that BEFORE_PYTHON names."""
    python = os.environ.get("BEFORE_PYTHON")
    if python and not os.access(python, os.X_OK):
        raise SystemExit(f"BEFORE_PYTHON is {python}, which cannot be run. Name the Python of another build's .venv.")
    return [ours()] + ([Runner("cpaddle before", BEFORE, python, "fluid", "plain")] if python else [])


@functools.cache
def scratch() -> str:
    """Where children work: what they leave there (1.8.5 writes the description of its trainer) goes when this ends."""
    folder = tempfile.mkdtemp(prefix="bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


class Child:
    """A process that has built its work and waits for requests. Costs nothing while it waits."""

    def __init__(self, runner: Runner, work: str, threads: int, words: Sequence[str] = ()):
        self.runner = runner
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [runner.python, str(BENCH / "child.py"), runner.library, runner.how, work, *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, cwd=scratch(),
            env=environment(threads, runner.env, runner.is_cpaddle),
        )

    def answer(self) -> dict:
        """The next line of the child."""
        text = self.process.stdout.readline()
        said = json.loads(text) if text else {"error": self.last_words()}
        if "error" in said:
            self.kill()
            raise ChildFailed(said["error"])
        if not math.isfinite(said.get("loss", 0.0)):
            self.kill()
            raise ChildFailed(f"the loss became {said['loss']}")
        return said

    def ask(self, **request) -> dict:
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # answer() tells why
        return self.answer()

    def last_words(self) -> str:
        status = self.process.wait()
        self.log.seek(0)
        lines = [text.strip() for text in self.log.read().splitlines() if text.strip()]
        return f"ended with status {status}: {lines[-1] if lines else 'nothing was said'}"

    def end(self) -> float:
        """Ends the child; returns its peak resident memory in MB."""
        peak = self.ask(do="end")["peak_mb"]
        self.process.wait()
        self.close()
        return peak

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.close()

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.log):
            try:
                stream.close()
            except OSError:
                pass
