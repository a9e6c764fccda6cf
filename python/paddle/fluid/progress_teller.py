"""What those who watch a process from outside are told of its training: a launcher's page (PADDLE_PROGRESS_FILE, which the
launcher sets) and TensorBoard (FLAGS_tensorboard_dir)."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from typing import Any

from paddle import _core
from paddle.fluid.event_file import EventFile

_TOLD_SECONDS = 1.0


class Teller:
    """Tells what a process has done to those who watch it from outside. What goes wrong with that is said
    once, and training goes on."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.file = os.environ.get("PADDLE_PROGRESS_FILE", "")
        self.asked = self.folder = _core.flag_get("tensorboard_dir")
        self.events: EventFile | None = None
        self.told, self.samples_then, self.step = time.monotonic(), 0, 0

    def __bool__(self) -> bool:
        return bool(self.file or self.folder)

    def is_due(self) -> bool:
        return bool(self) and time.monotonic() - self.told >= _TOLD_SECONDS

    def rate(self, samples: int) -> float:
        """Samples a second since this was asked last."""
        now = time.monotonic()
        seconds, more = max(now - self.told, 1e-9), samples - self.samples_then
        self.told, self.samples_then = now, samples
        return more / seconds if more >= 0 else 0.0  # another data set begins at 0

    def tell_file(self, record: dict[str, Any]) -> None:
        """Appends a line, in one piece."""
        if not self.file:
            return
        try:
            to = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(to, (json.dumps({"time": time.time(), **record}) + "\n").encode())
            finally:
                os.close(to)
        except OSError as why:
            self.file = ""
            print(f"paddle: nothing is told to PADDLE_PROGRESS_FILE any more: {why}", file=sys.stderr, flush=True)

    def tell_events(self, step: int, scalars: dict[str, float], is_over: bool = False) -> None:
        if not self.folder:
            return
        try:
            if self.events is None:
                worker = os.environ.get("PADDLE_TRAINER_ID", "")
                self.events = EventFile(os.path.join(self.folder, f"worker-{worker}") if worker else self.folder)
            if scalars:
                self.events.add(step, scalars)
            if is_over:
                self.events.flush()
        except OSError as why:
            self.folder = ""
            print(f"paddle: nothing is written for TensorBoard (FLAGS_tensorboard_dir) any more: {why}", file=sys.stderr,
                  flush=True)


_teller: Teller | None = None


def of_process() -> Teller:
    """One for each process, and for each folder that the script sets meanwhile."""
    global _teller
    if _teller is None or _teller.pid != os.getpid() or _teller.asked != _core.flag_get("tensorboard_dir"):
        _teller = Teller()
    return _teller


def finite(values: dict[str, float]) -> dict[str, float | None]:
    """As JSON has it."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
