"""The tasks of a test run side by side: as many at a time as keep the processors busy, and no more.

What each task took on a quiet machine stands in tools/test_times: seconds, and seconds of processor time. Their ratio is its load:
1 for a compiler, a tenth of that for a job of processes that wait for each other's deadlines. A task begins when its load fits
beside those that run; of those that fit, the one with the longest way to the end, with what waits for it, comes first. Each run
writes what it measured to build/test-times, to be put in the place of the table when tests have changed much.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from test_task import UNKNOWN, Stopped, Task, stop

PROCESSORS = len(os.sched_getaffinity(0))
CAPACITY = 1.15 * PROCESSORS  # loads are averages
AT_ONCE = 4 * PROCESSORS  # each has its memory, and what waits must still be answered in time


def read_times(path: Path) -> dict[str, tuple[float, float]]:
    """Name -> (seconds, seconds of processor time)."""
    rows = [line.split() for line in path.read_text().splitlines() if line[0] != "#"] if path.exists() else []
    return {name: (float(wall), float(cpu)) for wall, cpu, name in rows}


def write_times(path: Path, tasks: list[Task]) -> None:
    """The longest first."""
    sums: dict[str, tuple[float, float]] = {}
    for task in tasks:
        wall, cpu = sums.get(task.name, (0.0, 0.0))
        sums[task.name] = (wall + task.wall, cpu + task.cpu)
    rows = sorted(sums.items(), key=lambda row: (-row[1][0], row[0]))
    lines = [f"{wall:.1f} {cpu:.1f} {name}\n" for name, (wall, cpu) in rows]
    path.write_text("".join(["# seconds, seconds of processor time, task\n", *lines]))


class Schedule:
    """Runs tasks, each in a thread of its own, and hands each to `ended` when it has ended, one at a time."""

    def __init__(self, tasks: list[Task], times: dict[str, tuple[float, float]], ended: Callable[[Task], None]):
        self.ended = ended
        self.changed = threading.Condition()
        self.running: list[Task] = []
        self.done: set[Task] = set()
        for task in tasks:
            wall, cpu = times.get(task.name, UNKNOWN)
            task.expected = (wall / task.parts, cpu / task.parts)
            task.way = task.expected[0]
        for task in reversed(tasks):  # who waits comes after what is waited for
            for earlier in task.after:
                earlier.way = max(earlier.way, earlier.expected[0] + task.way)
        self.left = sorted(tasks, key=lambda task: -task.way)

    def next(self) -> Task | None:
        """The first one that may begin now."""
        if len(self.running) >= AT_ONCE:
            return None
        room = CAPACITY - sum(task.load for task in self.running)
        ready = (task for task in self.left if self.done.issuperset(task.after))
        return next((task for task in ready if task.load <= room or not self.running), None)

    def work(self, task: Task) -> None:
        task.begin = time.monotonic()
        with tempfile.TemporaryFile("w+", errors="replace") as task.output:
            try:
                task.result = task.run(task)
            except Stopped:
                return
            finally:
                task.wall = time.monotonic() - task.begin
                with self.changed:
                    self.running.remove(task)
                    self.done.add(task)
                    if not stop.is_set():
                        task.output.seek(0)
                        self.ended(task)
                    self.changed.notify()

    def run(self) -> None:
        """All of them. What ends this, Ctrl-C say, ends them."""
        try:
            with self.changed:
                while self.left or self.running:
                    while task := self.next():
                        self.left.remove(task)
                        self.running.append(task)
                        threading.Thread(target=self.work, args=(task,)).start()
                    self.changed.wait()
        except BaseException:
            stop.set()
            raise
