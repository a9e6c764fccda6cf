"""The processes of the demo's job, as they are seen from outside: their logs, what they report, what they use."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


class Member:
    """One process of the job."""

    def __init__(self, name: str, folder: Path):
        role, number = name.split()
        self.name, self.is_server = name, role == "server"
        self.log, self.report = folder / "logs" / f"{role}log.{number}", folder / f"report.{number}"
        self.records: list[dict] = []
        self.memory, self.cpu, self.busy = 0, 0.0, deque([(time.monotonic(), 0.0)], maxlen=20)
        self.read_to, self.state = 0, "starting"

    def look(self, pid: int | None) -> None:
        """Takes in what is new; without a process id it does not run yet, or no more."""
        if pid is None:
            self.state = "starting" if self.state == "starting" else "done"
        else:
            self._read_usage(pid)
            said = self.log.read_bytes() if self.log.exists() else b""
            if self.is_server:
                self.state = "serving" if b"Server listening on" in said else "starting"
            else:
                self.state = "testing" if b": trained for" in said else "training" if self.records else "starting"
        if not self.is_server:
            self._read_report()

    def end(self) -> None:
        """The job is over."""
        self.state = "done"
        if not self.is_server:
            self._read_report()

    def _read_report(self) -> None:
        if not self.report.exists():
            return
        with open(self.report, "rb") as file:
            file.seek(self.read_to)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]  # the last line may be half written
        self.read_to += len(whole)
        self.records += map(json.loads, whole.splitlines())

    def _read_usage(self, pid: int) -> None:
        """Peak memory, and cores in use over the last second; stays as it was when the process is gone."""
        folder = Path("/proc", str(pid))
        try:
            status, stat = (folder / "status").read_text(), (folder / "stat").read_text()
        except OSError:
            return
        peak = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
        self.memory = 1024 * int(peak[0]) if peak else self.memory
        fields = stat.rpartition(")")[2].split()
        self.busy.append((time.monotonic(), (int(fields[11]) + int(fields[12])) / TICKS))
        (begin, before), (end, after) = self.busy[0], self.busy[-1]
        self.cpu = (after - before) / max(end - begin, 1e-9)

    @property
    def samples(self) -> int:
        return self.records[-1]["samples"] if self.records else 0

    def last(self, name: str) -> float:
        return self.records[-1][name]

    @property
    def speed(self) -> float:
        """Samples a second over the last two seconds."""
        last = self.records[-1]
        near = next((each for each in reversed(self.records) if each["at"] < last["at"] - 2), self.records[0])
        return (last["samples"] - near["samples"]) / max(last["at"] - near["at"], 1e-9)


def find_members(launcher: int) -> dict[str, int]:
    """The processes of a launcher's job, by the variables that it gave them: 'server 0' -> process id."""
    found = {}
    for engine in children(launcher):
        for pid in children(engine):
            try:
                rows = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            told = dict(row.partition("=")[::2] for row in rows)
            is_server = told.get("TRAINING_ROLE") == "PSERVER"
            role, key = ("server", "PADDLE_PSERVER_ID") if is_server else ("worker", "PADDLE_TRAINER_ID")
            if told.get(key, "").isdecimal():
                found[f"{role} {told[key]}"] = pid
    return found


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
