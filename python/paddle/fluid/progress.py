"""How far training is: a line on a terminal, plain lines now and then elsewhere, lines of JSON when asked for
(PADDLE_PROGRESS=json); and the same for those who watch from outside (progress_teller.py)."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from typing import Any

from paddle.fluid import progress_teller
from paddle.fluid.framework import OpRole, Program
from paddle.fluid.progress_teller import finite

__all__ = ["report"]

_LINE_SECONDS = 0.3
_JSON_SECONDS = 1.0
_PLAIN_SECONDS = 10.0
_EVERY_SECONDS = 1.0

_lock = threading.Lock()


def watched(program: Program) -> dict[str, str]:
    """What of a Program tells how well it does: {"loss": the variable that was minimized, "auc": the first layers.auc's}."""
    found: dict[str, str] = {}
    for op in program.global_block().ops:
        role = op.attr("op_role") if op.has_attr("op_role") else 0
        if role == int(OpRole.Forward) | int(OpRole.Loss) and "loss" not in found:
            found["loss"] = op.output_arg_names[0]
        elif op.type == "auc" and "auc" not in found:
            found["auc"] = op.output("AUC")[0]
    return found


_reported = {"samples": 0, "calls": 0}


def report(samples: int = 0, step: int | None = None, **scalars: float) -> None:
    """
    Tells those who watch the job how training goes; for loops of your own with ``Executor.run``. ``train_from_dataset`` does it by
    itself. TensorBoard (``FLAGS_tensorboard_dir``) gets every call, the page of ``paddle launch --http`` one a second. Where nobody
    watches it does nothing, in a microsecond.

    Args:
        samples(int): Samples trained since the last call: the rate is made of them. Default 0.
        step(int, optional): The step that the numbers are of. Default None: calls are counted.
        scalars: Numbers by name, such as ``loss`` and ``auc``: each becomes a curve.

    Examples:
        .. code-block:: python

            import paddle.fluid as fluid
            from paddle.fluid import progress

            for step in range(3):
                loss = 1.0 / (step + 1)  # of exe.run(...)
                progress.report(samples=32, loss=loss)
    """
    with _lock:
        _reported["samples"] += int(samples)
        _reported["calls"] += 1
        teller = progress_teller.of_process()
        if not teller:
            return
        number = _reported["calls"] if step is None else int(step)
        values = {name: float(value) for name, value in scalars.items()}
        is_first = _reported["calls"] == 1  # since when its samples were trained nobody knows
        if teller.is_due() or is_first:
            rate: float | None = teller.rate(_reported["samples"])
            if is_first or not rate:  # or it does not say how many
                rate = None
            teller.tell_file({"what": "report", "batches": _reported["calls"], "samples": _reported["samples"],
                              "samples_per_second": None if rate is None else round(rate, 1), "values": finite(values),
                              "step": number})
            if rate is not None:
                values["samples_per_second"] = rate
        teller.tell_events(number, values)


class Progress:
    """Called with the engine's reports: (batches, samples, done, all, nanoseconds of reading, of running, of these for servers, and
    one more).

    `values` has what is shown of the model, where `wants_values`.
    """

    def __init__(self, what: str):
        wanted = os.environ.get("PADDLE_PROGRESS", "")
        has_stream = sys.stderr is not None
        self.what, self.began = what, time.monotonic()
        self.is_json = wanted == "json"
        self.is_line = wanted in ("", "1") and has_stream and sys.stderr.isatty()
        self.is_plain = wanted == "lines" or (wanted in ("", "1") and has_stream and not self.is_line)
        self.seconds = (_JSON_SECONDS if self.is_json else _LINE_SECONDS if self.is_line else
                        _EVERY_SECONDS if wanted else _PLAIN_SECONDS)
        self.told = self.began if self.is_plain else 0.0
        self.has_told = bool(wanted)  # plain lines of a short run nobody asked for
        self.width = 0
        self.teller = progress_teller.of_process()
        self.teller.told, self.teller.samples_then = self.began, 0
        self.values_seconds = min(self.seconds, _EVERY_SECONDS) if self.teller else self.seconds
        self.values: dict[str, float] = {}
        self.noted: set[str] = set()  # of these, what the script fetches

    @property
    def is_shown(self) -> bool:
        return self.is_json or self.is_line or self.is_plain

    @property
    def wants_values(self) -> bool:
        """Does anybody see them?"""
        return self.is_shown or bool(self.teller)

    def __call__(self, report: tuple) -> None:
        if self.teller.is_due():
            self.tell(report, False)
        now = time.monotonic()
        if now - self.told < self.seconds or not self.is_shown:
            return
        self.told, self.has_told = now, True
        self.show(report, False)

    def note(self, batch: int, values: dict[str, float]) -> None:
        """Numbers of a batch that the script shows: curves are made of them."""
        self.values.update(values)
        self.noted.update(values)
        if values:
            self.teller.tell_events(self.teller.step + batch, values)

    def close(self, report: tuple | None) -> None:
        """The end; None: it went wrong."""
        if report is not None and self.teller:
            self.tell(report, True)
        if report is not None and (self.is_json or self.is_line or (self.is_plain and self.has_told)):
            self.show(report, True)
        elif self.width:
            print(file=sys.stderr)

    def tell(self, report: tuple, is_over: bool) -> None:
        """Those who watch from outside."""
        batches, samples, _, _, read_ns, run_ns, *_ = report
        rate = self.teller.rate(samples)
        self.teller.tell_file({**self.record(report, is_over), "values": finite(self.values), "samples_per_second": round(rate, 1),
                               "read_seconds": round(read_ns * 1e-9, 6), "run_seconds": round(run_ns * 1e-9, 6)})
        watched = {name: value for name, value in self.values.items() if name not in self.noted}
        self.teller.tell_events(self.teller.step + batches, {"samples_per_second": rate, **watched}, is_over)
        if is_over:
            self.teller.step += batches

    def record(self, report: tuple, is_over: bool) -> dict[str, Any]:
        batches, samples, done, whole, read_ns, run_ns, wait_ns, _ = report
        seconds = max(time.monotonic() - self.began, 1e-9)
        part = min(1.0, done / whole) if whole else 0.0
        busy = max(read_ns + run_ns, 1)
        return {"what": self.what, "batches": batches, "samples": samples, "seconds": round(seconds, 3),
                "samples_per_second": round(samples / seconds, 1), "part": round(part, 4),
                "seconds_left": round(seconds / part * (1 - part), 1) if part else None, "reading": round(read_ns / busy, 4),
                "computing": round((run_ns - wait_ns) / busy, 4), "waiting": round(wait_ns / busy, 4),
                "waiting_for": "servers" if wait_ns else None, "over": is_over}

    def show(self, report: tuple, is_over: bool) -> None:
        now = self.record(report, is_over)
        if self.is_json:
            print(json.dumps({**finite(self.values), **now}), file=sys.stderr, flush=True)
            return
        words = [f"batch {now['batches']:,}", f"{now['samples_per_second']:,.0f} samples/s", f"{now['part']:.0%}"]
        left = now["seconds_left"]
        words.append(f"done in {now['seconds']:.0f} s" if is_over else "" if left is None else f"{left:.0f} s left")
        words += [f"{key} {value:.4f}" for key, value in self.values.items()]
        spent = f"reading {now['reading']:.0%}, computing {now['computing']:.0%}"
        words.append(spent + (f", waiting for servers {now['waiting']:.0%}" if now["waiting_for"] else ""))
        self.write("  ".join(word for word in words if word), is_over)

    def write(self, text: str, is_over: bool) -> None:
        if self.is_plain:
            print(f"{self.what}: {text}", file=sys.stderr, flush=True)
            return
        text = text[: shutil.get_terminal_size().columns - 1]
        print(f"\r{text:<{self.width}}", end="\n" if is_over else "", file=sys.stderr, flush=True)
        self.width = 0 if is_over else len(text)
