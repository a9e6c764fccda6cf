"""What a job does when a process of it is killed: how long until somebody says so, and until it goes on.

Jobs of fit_a_line, one server and two trainers, sync, as cluster.py starts them. Ours keeps a log (FLAGS_ps_log=write) and
goes on where it was; 1.8.5 keeps nothing, so that a server that returns there hands out start values. A library that
says nothing is given up after a while.
"""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import runners
from runners import BENCH, OURS, Runner

WORK, TRAINERS = "fit_a_line", 2
START, PATIENCE, POLL = 60.0, 12.0, 0.005  # seconds


class Peer:
    """A process whose output goes to files that can be read while it runs."""

    def __init__(self, runner: Runner, env: dict, role: str, index: int, endpoint: str, folder: Path):
        self.said_path, self.steps_path = folder / f"{role}-{index}.err", folder / f"{role}-{index}.out"
        command = [runner.python, str(BENCH / "cluster_child.py"), role, str(index), WORK, endpoint, str(TRAINERS), "0", runner.how]
        with self.said_path.open("a") as said, self.steps_path.open("a") as steps:
            self.process = subprocess.Popen(command, stdout=steps, stderr=said, cwd=runners.scratch(), env=env)

    def said(self) -> str:
        return self.said_path.read_text(errors="replace")

    def steps(self) -> list[float]:
        """Times of the steps that were told; a pause ends with one that is."""
        return [float(word) for word in self.steps_path.read_text().split("\n")[:-1]]

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def wait_for(what, seconds: float):
    """Asks until the answer is true; returns (it, the time), or None."""
    end = time.time() + seconds
    while time.time() < end:
        found = what()
        if found:
            return found, time.time()
        time.sleep(POLL)
    return None


def accepts(endpoint: str) -> bool:
    host, port = endpoint.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


class Job:
    """A job that trains until it is stopped."""

    def __init__(self, runner: Runner, endpoint: str, folder: Path, flags: dict):
        self.runner, self.endpoint, self.folder = runner, endpoint, folder
        self.env = {**runners.environment(1, runner.env, runner.is_cpaddle), **flags}
        self.all: list[Peer] = []

    def __enter__(self) -> Job:
        self.server = self.start("server", 0)
        self.trainers = [self.start("trainer", i) for i in range(TRAINERS)]
        if wait_for(lambda: all(len(t.steps()) > 5 for t in self.trainers), START) is None:
            self.__exit__()
            raise TimeoutError(f"the job did not train: {self.trainers[0].said()[-300:]}")
        return self

    def __exit__(self, *unused) -> None:
        for peer in self.all:
            peer.kill()

    def start(self, role: str, index: int) -> Peer:
        self.all.append(Peer(self.runner, self.env, role, index, self.endpoint, self.folder))
        return self.all[-1]


def kill_server(job: Job) -> dict:
    """Seconds until a trainer names the server; after its return: until the next step of all trainers."""
    before = [len(t.said()) for t in job.trainers]
    job.server.kill()
    killed = time.time()
    found = wait_for(lambda: any(job.endpoint in t.said()[n:] for t, n in zip(job.trainers, before)), PATIENCE)
    job.start("server", 0)
    back = wait_for(lambda: accepts(job.endpoint), START)
    resumed = None
    if back is not None:
        after = wait_for(lambda: all(t.steps()[-1] > back[1] for t in job.trainers), PATIENCE)
        resumed = max(min(s for s in t.steps() if s > back[1]) for t in job.trainers) - back[1] if after else None
    return {"said": found[1] - killed if found else None, "resumed": resumed}


def kill_trainer(job: Job) -> dict:
    """Seconds until the other trainer names the one that is gone, and until it has ended (the policy `fail`)."""
    lost, other = job.trainers
    before = len(other.said())
    lost.kill()
    killed = time.time()
    found = wait_for(lambda: re.search(r"trainer 0\b", other.said()[before:]), PATIENCE)
    ended = wait_for(lambda: other.process.poll() is not None, PATIENCE if found else 0)
    return {"named": found[1] - killed if found else None, "ended": ended[1] - killed if ended else None}


def measure(runner: Runner, endpoints) -> dict:
    """Both faults. `endpoints`: gives n free endpoints."""
    found: dict = {}
    for number, fault in enumerate((kill_server, kill_trainer)):
        with tempfile.TemporaryDirectory() as folder:
            flags = {"FLAGS_ps_dir": f"{folder}/server", "FLAGS_ps_log": "write"} if number == 0 else {}
            with Job(runner, endpoints(1)[0], Path(folder), flags if runner.family == OURS else {}) as job:
                found.update(fault(job))
    return found


ROWS = (
    ("kill -9 of the server: a trainer says so", "said", "5 s"),
    ("its return to the next step", "resumed", "3 s"),
    ("kill -9 of a trainer: the other names it", "named", "10 s"),
    ("the other has ended", "ended", "-"),
)


def table(results: dict) -> str:
    """{family: what measure gave} as a table."""
    lines = ["| fault, sync 1x2 | s | paddle 1.8.5 | wanted within |", "|---|---|---|---|"]
    for words, key, wanted in ROWS:
        cells = []
        for family in (OURS, runners.PADDLE):
            if family not in results:
                cells.append("-")
            else:
                value = results[family][key]
                cells.append(f"not in {PATIENCE:.0f} s" if value is None else f"{value:.2f}")
        lines.append(f"| {words} | {' | '.join(cells)} | {wanted} |")
    note = ("A server of 1.8.5 that returns has lost the parameters: its trainers go on from "
            "start values.") if runners.PADDLE in results else ""
    return "\n".join([*lines, *(["", note] if note else [])]) + "\n"
