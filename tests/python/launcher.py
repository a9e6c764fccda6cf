"""Starts launchers for tests, with the stub jobs/launched.py as their script, and looks what they have left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cluster import free_ports, give_back, until

STUB = Path(__file__).parent / "jobs" / "launched.py"
PADDLE = Path(sys.executable).parent / "paddle"
COMMANDS = {
    "local": [str(PADDLE), "launch", "local"],
    "launch_ps": [sys.executable, "-m", "paddle.distributed.launch_ps"],
    "launch": [sys.executable, "-m", "paddle.distributed.launch"],
}
IDENTITY = ("PADDLE_", "TRAINING_ROLE", "POD_IP", "PSERVERS", "SERVER_ENDPOINT", "TRAINERS", "FLAGS_", "OMP_NUM_THREADS")


def environment(**more: str) -> dict[str, str]:
    """That of a user's shell, without what a job or a test run sets."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(IDENTITY)}
    return {**plain, **more}


def own_servers(n: int = 2) -> str:
    """Servers on ports that no other test has: with folders a job looks for no others."""
    ports = free_ports(n)
    give_back(ports)
    return "--servers=" + ",".join(f"127.0.0.1:{port}" for port in ports)


def is_alive(pid: int) -> bool:
    """Does it run? A process that has ended and waits to be read does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Launcher:
    """One run of a launcher in a folder; `with` kills what is left."""

    def __init__(self, folder: Path, *options: str, stub: Sequence[str] = (), command: str = "local", script: Path = STUB,
                 words: Sequence[str] | None = None, env: dict[str, str] | None = None, **popen):
        self.folder = folder
        self.out, self.err = folder / "out", folder / "err"
        line = [*COMMANDS[command], *options, str(script), *(words if words is not None else [str(folder), *stub])]
        with open(self.out, "w") as out, open(self.err, "w") as err:
            self.process = subprocess.Popen(line, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                            env=environment(**{"TMPDIR": str(folder), **(env or {})}), **popen)

    def __enter__(self) -> Launcher:
        return self

    def __exit__(self, *unused) -> None:
        for pid in [self.process.pid, *self.engines(), *self.pids()]:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def said(self) -> str:
        return self.err.read_text()

    def printed(self) -> str:
        return self.out.read_text()

    def wait_for(self, *names: str) -> None:
        """Until these processes (worker-0, ...) have written who they are."""
        until(lambda: all((self.folder / f"{name}.json").exists() for name in names) or self.process.poll() is not None,
              told=self.said)
        assert all((self.folder / f"{name}.json").exists() for name in names), self.said()

    def wait_until_said(self, text: str) -> None:
        until(lambda: text in self.said() or self.process.poll() is not None, told=self.said)
        assert text in self.said()

    def facts(self, name: str) -> dict:
        return json.loads((self.folder / f"{name}.json").read_text())

    def pid(self, name: str) -> int:
        return self.facts(name)["pid"]

    def pids(self) -> list[int]:
        """All processes that the job has had, children too."""
        return [int(line) for pattern in ("*.starts", "*.child") for path in self.folder.glob(pattern)
                for line in path.read_text().split()]

    def engines(self) -> list[int]:
        """The second process of the launcher."""
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in text.read_text().split()] if text.exists() else []

    def go(self) -> None:
        (self.folder / "go").touch()

    def end(self, deadline: float = 20) -> int:
        """Its status, as subprocess has it; nothing is left then, no process and no secret."""
        begun = time.monotonic()
        try:
            status = self.process.wait(deadline)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the launcher did not end within {deadline} s:\n{self.said()}") from None
        self.seconds = time.monotonic() - begun
        left = [pid for pid in self.pids() if is_alive(pid)]
        assert not left, f"{left} are left:\n{self.said()}"
        assert not list(self.folder.glob("*.secret")), self.said()
        return status

    def wait_until_gone(self, deadline: float = 20) -> None:
        until(lambda: not any(map(is_alive, self.pids())), deadline, lambda: f"{self.pids()}\n{self.said()}")


def run(folder: Path, *options: str, **more) -> Launcher:
    """One that has ended."""
    with Launcher(folder, *options, **more) as launcher:
        launcher.status = launcher.end()
        return launcher
