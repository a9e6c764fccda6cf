"""Runs the processes of a job on this machine for tests: free ports, deadlines, output when something goes wrong."""

from __future__ import annotations

import atexit
import functools
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parents[1]
if str(TESTS) not in sys.path:
    sys.path.insert(0, str(TESTS))

from clusters.nursery import Child, Nursery  # noqa: E402

JOBS = Path(__file__).parent / "jobs"


_held: list[socket.socket] = []


def free_ports(n: int) -> list[int]:
    """Ports that are free now. None of them is one that the system hands out by itself, to a listener on port 0 or to a connection
    that goes out, and other tests, which run at the same time, find it taken: nobody gets it before the server binds it. (Sockets
    that both have SO_REUSEADDR may have one port while none of them listens.)"""
    handed_out = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found: list[int] = []
    while len(found) < n:
        port = random.SystemRandom().randrange(10000, max(handed_out, 20000))
        s = socket.socket()
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            s.close()
            continue
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _held.append(s)
        found.append(port)
    return found


def give_back(ports: list[int]) -> None:
    """For those who need thousands."""
    for s in [s for s in _held if s.getsockname()[1] in ports]:
        _held.remove(s)
        s.close()


@functools.cache
def nursery(number: int) -> Nursery:
    """Where processes come from. There are two, so that in one job sets do not have one order in all processes."""
    made = Nursery()
    atexit.register(made.close)
    return made


class Process:
    """One process with its output in a file. A script is run by a child of a nursery, which is there sooner, unless its environment
    has something that Python or the system read at the start; `number` says which nursery."""

    def __init__(self, name: str, command: list[str], env: dict[str, str] | None = None, cwd: str | None = None, number: int = 0):
        self.name = name
        self.log = tempfile.NamedTemporaryFile("w+", prefix=f"{name}-", suffix=".log", delete=False)
        self.started = time.monotonic()
        self.process: Child | subprocess.Popen
        whole = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
        is_plain = all(key.startswith(("FLAGS_", "PADDLE_")) for key in env or {}) and (
            signal.getsignal(signal.SIGINT) != signal.SIG_IGN)  # which a process gets from who starts it
        if is_plain and command[0] == sys.executable and command[1].endswith(".py"):
            self.process = nursery(number % 2).start(command[1:], whole, self.log.name, cwd=str(cwd or os.getcwd()))
        else:
            self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=cwd,
                                            env=whole)
            self.process.handle = os.pidfd_open(self.process.pid)
            weakref.finalize(self, os.close, self.process.handle)

    @property
    def pid(self) -> int:
        return self.process.pid

    def output(self) -> str:
        return Path(self.log.name).read_text(errors="replace")

    def wait_for(self, text: str, deadline: float = 30) -> None:
        """Waits until the process has printed `text`."""
        end = time.monotonic() + deadline
        seen = 0
        while True:
            if (size := os.fstat(self.log.fileno()).st_size) != seen:
                seen = size
                if text in self.output():
                    return
            if self.process.poll() is not None and text not in self.output():
                raise AssertionError(f"{self.name} ended with {self.process.returncode} before it said {text!r}:\n{self.output()}")
            if time.monotonic() > end:
                raise AssertionError(f"{self.name} did not say {text!r} within {deadline} s:\n{self.output()}")
            time.sleep(0.01)

    def end(self, deadline: float = 60) -> int:
        """The exit status; a process that does not end in time is killed, and that is an error."""
        try:
            return self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not end within {deadline} s:\n{self.output()}") from None

    def signal(self, number: int) -> None:
        """SIGSTOP: returns when all threads stand still."""
        self.process.send_signal(number)
        end = time.monotonic() + 10
        while number == signal.SIGSTOP and any(state not in "TZ" for state in self._states()):
            assert time.monotonic() < end, f"{self.name} does not stop"
            time.sleep(0.001)

    def _states(self) -> list[str]:
        return [(task / "stat").read_text().rsplit(")", 1)[1].split()[0] for task in Path(f"/proc/{self.pid}/task").iterdir()]

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.kill()
        self.log.close()
        os.unlink(self.log.name)


def alone(script: str, *options: str, deadline: float = 60) -> str:
    """What a script says as one process, which ends well."""
    process = Process("single", [sys.executable, str(JOBS / script), "single", *options])
    try:
        assert process.end(deadline) == 0, process.output()
        return process.output()
    finally:
        process.close()


def single(out: Path, *options: str, trainers: int = 2, script: str = "equality.py") -> dict[str, np.ndarray]:
    """What one process gives with the joined batch of `trainers`: losses and parameters."""
    alone(script, "--trainers", str(trainers), "--out", str(out), *options, deadline=300)
    return dict(np.load(out))


def until(is_so: Callable[[], bool], deadline: float = 20, told: Callable[[], object] = lambda: "") -> None:
    """Waits until it is so; `told` is shown when that does not come."""
    end = time.monotonic() + deadline
    while not is_so():
        assert time.monotonic() < end, told()
        time.sleep(0.01)


class Job:
    """Servers and trainers of one job; `with` kills what is left."""

    def __init__(self, servers: int, trainers: int, script: str = "equality.py", env: dict[str, str] | None = None):
        self.endpoints = [f"127.0.0.1:{port}" for port in free_ports(servers)]
        self.trainers = trainers
        self.script = str(JOBS / script)
        self.env = env or {}
        self.processes: list[Process] = []

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *unused) -> None:
        for p in self.processes:
            p.close()

    def prefix(self, role: str, index: int) -> list[str]:
        """What stands before the command; for jobs whose processes run somewhere else."""
        return []

    def start(self, role: str, index: int, *options: str, env: dict[str, str] | None = None) -> Process:
        command = [*self.prefix(role, index), sys.executable, self.script, role, "--endpoints", ",".join(self.endpoints),
                   "--trainers", str(self.trainers)]
        command += ["--endpoint", self.endpoints[index]] if role == "server" else ["--id", str(index)]
        process = Process(f"{role}-{index}", command + list(options), {**self.env, **(env or {})},
                          number=index + (role == "server"))
        self.processes.append(process)
        return process

    def start_all(self, *options: str, out: Path | None = None) -> None:
        for i in range(len(self.endpoints)):
            self.start("server", i, *options, *(["--out", str(out / f"server-{i}.npz")] if out else []))
        for i in range(self.trainers):
            self.start("trainer", i, *options, *(["--out", str(out / f"trainer-{i}.npz")] if out else []))

    def clear(self) -> list[str]:
        """What each process said; all are gone, and their places are free for others."""
        said = [p.output() for p in self.processes]
        for p in self.processes:
            p.close()
        self.processes.clear()
        return said

    def end(self, deadline: float = 60) -> None:
        """All processes end by themselves with status 0."""
        end = time.monotonic() + deadline
        while (left := [p for p in self.processes if p.process.poll() is None]) and time.monotonic() < end:
            if any(p.process.poll() for p in self.processes):
                end = min(end, time.monotonic() + 5)
            waits = select.poll()
            for p in left:
                waits.register(p.process.handle, select.POLLIN)
            waits.poll(max(end - time.monotonic(), 0) * 1000)
        bad = [f"{p.name}: {p.process.poll()}" for p in self.processes if p.process.poll() != 0]
        assert not bad, f"exit status {bad}\n" + "\n".join(f"--- {p.name}\n{p.output()}" for p in self.processes)
