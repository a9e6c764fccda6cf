"""How far a run over a data set is: a line on a terminal, lines of JSON when asked for (PADDLE_PROGRESS=json)."""

from __future__ import annotations

import json
import os
import sys
import time

_LINE_SECONDS = 0.3
_JSON_SECONDS = 1.0


class Progress:
    """Called with the engine's reports: (batches, samples, done, all, nanoseconds of reading, of running)."""

    def __init__(self, what: str):
        wanted = os.environ.get("PADDLE_PROGRESS", "")
        self.what, self.began, self.told = what, time.monotonic(), 0.0
        self.is_json = wanted == "json"
        self.is_line = wanted in ("", "1") and sys.stderr is not None and sys.stderr.isatty()
        self.width = 0

    def __call__(self, report: tuple) -> None:
        now = time.monotonic()
        if now - self.told < (_JSON_SECONDS if self.is_json else _LINE_SECONDS) or not (self.is_json or self.is_line):
            return
        self.told = now
        self.show(report, False)

    def close(self, report: tuple | None) -> None:
        """The end; None: it went wrong."""
        if report is not None and (self.is_json or self.is_line):
            self.show(report, True)
        elif self.width:
            print(file=sys.stderr)

    def show(self, report: tuple, is_over: bool) -> None:
        batches, samples, done, whole, read_ns, run_ns = report
        seconds = max(time.monotonic() - self.began, 1e-9)
        part = min(1.0, done / whole) if whole else 0.0
        left = seconds / part * (1 - part) if part else None
        reading = read_ns / max(read_ns + run_ns, 1)
        if self.is_json:
            print(json.dumps({"what": self.what, "batches": batches, "samples": samples, "seconds": round(seconds, 3),
                              "samples_per_second": round(samples / seconds, 1), "part": round(part, 4),
                              "seconds_left": None if left is None else round(left, 1), "reading": round(reading, 4),
                              "over": is_over}), file=sys.stderr, flush=True)
            return
        tail = "done" if is_over else "" if left is None else f"{left:.0f} s left"
        text = (f"batch {batches:,}  {samples / seconds:,.0f} samples/s  {part:.0%}  reading {reading:.0%} of the time  {tail}")
        print(f"\r{text:<{self.width}}", end="\n" if is_over else "", file=sys.stderr, flush=True)
        self.width = 0 if is_over else len(text)
