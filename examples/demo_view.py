"""How the demo shows a running job: a table that is rewritten on a terminal, else plain lines."""

from __future__ import annotations

import os
import shutil
import sys
import time

WIDTH = 86
GREEN, YELLOW, GREY = "32", "33", "90"
COLORS = {"starting": YELLOW, "serving": GREEN, "training": GREEN, "testing": GREEN, "done": GREY}


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"


class Lines:
    """One line every two seconds."""

    def __init__(self, stream):
        self.stream, self.next = stream, 0.0

    def show(self, members: list, done: float, left: str, last: bool = False) -> None:
        now = time.monotonic()
        workers = [member for member in members if len(member.records) > (0 if last else 1)]
        if not workers or (now < self.next and not last):
            return
        self.next = now + 2.0
        samples, speed = (sum(getattr(member, name) for member in workers) for name in ("samples", "speed"))
        loss, auc = (sum(member.last(name) for member in workers) / len(workers) for name in ("loss", "AUC"))
        text = f"{samples:>9,} samples  {speed:>9,.0f} samples/s  loss {loss:.4f}  AUC {auc:.4f}  {left}"
        print(text.rstrip(), file=self.stream, flush=True)


class Table:
    """A row for each process, rewritten ten times a second."""

    def __init__(self, stream):
        self.stream, self.next, self.height = stream, 0.0, 0

    def show(self, members: list, done: float, left: str, last: bool = False) -> None:
        now = time.monotonic()
        if now < self.next and not last:
            return
        self.next = now + 0.1
        cells = round(40 * min(done, 1.0))
        rows = [f"\033[{GREEN}m{'█' * cells}\033[0m{'░' * (40 - cells)}  {left}",
                f"{'':<12}{'state':<10}{'samples':>11}{'samples/s':>12}{'loss':>10}{'AUC':>9}{'memory':>11}{'CPU':>8}"]
        rows += [self.row(member) for member in members]
        up = f"\033[{self.height}A" if self.height else ""
        self.height = len(rows)
        print(up + "".join(f"\r{row}\033[K\n" for row in rows), end="", file=self.stream, flush=True)

    def row(self, member) -> str:
        state = f"\033[{COLORS.get(member.state, YELLOW)}m{member.state:<10}\033[0m"
        facts = " " * 42
        if member.records:
            facts = f"{member.samples:>11,}{member.speed:>12,.0f}{member.last('loss'):>10.4f}{member.last('AUC'):>9.4f}"
        cpu = f"{100 * member.cpu:.0f} %" if member.state != "done" else ""
        return f"{member.name:<12}{state}{facts}{megabytes(member.memory):>11}{cpu:>8}"


def view(stream=None):
    """The table where it can be drawn: on a terminal that is wide enough, without NO_COLOR."""
    stream = stream or sys.stdout
    rich = stream.isatty() and not os.environ.get("NO_COLOR") and shutil.get_terminal_size().columns >= WIDTH
    return Table(stream) if rich else Lines(stream)
