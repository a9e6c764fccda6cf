"""How far a run over a data set is: a line on a terminal, plain lines now and then elsewhere, lines of JSON when asked for
(PADDLE_PROGRESS=json).
"""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import time

from paddle.fluid.framework import OpRole, Program

_LINE_SECONDS = 0.3
_JSON_SECONDS = 1.0
_PLAIN_SECONDS = 10.0
_EVERY_SECONDS = 1.0


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


class Progress:
    """Called with the engine's reports: (batches, samples, done, all, nanoseconds of reading, of running, of these for servers).

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
        self.values: dict[str, float] = {}

    @property
    def wants_values(self) -> bool:
        """Is anything shown?"""
        return self.is_json or self.is_line or self.is_plain

    def __call__(self, report: tuple) -> None:
        now = time.monotonic()
        if now - self.told < self.seconds or not self.wants_values:
            return
        self.told, self.has_told = now, True
        self.show(report, False)

    def close(self, report: tuple | None) -> None:
        """The end; None: it went wrong."""
        if report is not None and (self.is_json or self.is_line or (self.is_plain and self.has_told)):
            self.show(report, True)
        elif self.width:
            print(file=sys.stderr)

    def show(self, report: tuple, is_over: bool) -> None:
        batches, samples, done, whole, read_ns, run_ns, wait_ns = report
        seconds = max(time.monotonic() - self.began, 1e-9)
        part = min(1.0, done / whole) if whole else 0.0
        left = seconds / part * (1 - part) if part else None
        busy = max(read_ns + run_ns, 1)
        shares = {"reading": read_ns / busy, "computing": (run_ns - wait_ns) / busy, "waiting": wait_ns / busy}
        if self.is_json:
            values = {key: value if math.isfinite(value) else None for key, value in self.values.items()}
            print(json.dumps({"what": self.what, "batches": batches, "samples": samples, "seconds": round(seconds, 3),
                              "samples_per_second": round(samples / seconds, 1), "part": round(part, 4),
                              "seconds_left": None if left is None else round(left, 1), **values,
                              **{key: round(value, 4) for key, value in shares.items()},
                              "waiting_for": "servers" if wait_ns else None, "over": is_over}), file=sys.stderr, flush=True)
            return
        words = [f"batch {batches:,}", f"{samples / seconds:,.0f} samples/s", f"{part:.0%}"]
        words.append(f"done in {seconds:.0f} s" if is_over else "" if left is None else f"{left:.0f} s left")
        words += [f"{key} {value:.4f}" for key, value in self.values.items()]
        spent = f"reading {shares['reading']:.0%}, computing {shares['computing']:.0%}"
        words.append(spent + (f", waiting for servers {shares['waiting']:.0%}" if wait_ns else ""))
        self.write("  ".join(word for word in words if word), is_over)

    def write(self, text: str, is_over: bool) -> None:
        if self.is_plain:
            print(f"{self.what}: {text}", file=sys.stderr, flush=True)
            return
        text = text[: shutil.get_terminal_size().columns - 1]
        print(f"\r{text:<{self.width}}", end="\n" if is_over else "", file=sys.stderr, flush=True)
        self.width = 0 if is_over else len(text)
