"""What a launcher says: its own lines on standard error, the output that it follows on standard output, the table at the end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

TAIL_LINES, TAIL_BYTES = 20, 8192
_TABLE = re.compile(r"^\n?=+\n +Trainer\w*Config Overview .*\n-+\n(?:\S+ +\S+ *\n)*=+\n\n?", re.MULTILINE)  # of a worker's settings


def say(text: str) -> None:
    """A line of the launcher's own."""
    write(f"launch: {text}")


def write(text: str) -> None:
    """A line on standard error. Where nobody can read it any more the job goes on."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def red(text: str) -> str:
    return f"\033[1;31m{text}\033[0m" if sys.stderr.isatty() and not os.environ.get("NO_COLOR") else text


def span(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{seconds / 60:.1f} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def ending(status: int) -> str:
    """How a process ended; `status` as os.waitstatus_to_exitcode has it."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed by {name}"


def count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows in columns."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def tail(path: str) -> str:
    """The last lines of a log, under a heading, less the table of a worker's settings: the reason of an end is not in it."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError as why:
        return f"{path} cannot be read: {why.strerror}"
    lines = _TABLE.sub("", text).splitlines()
    if not lines:
        return f"{path} is empty: the process said nothing"
    shown = lines[-TAIL_LINES:]
    return f"the last {count(len(shown), 'line')} of {path}:\n" + "\n".join(f"  | {line}" for line in shown)


class Follower:
    """Shows what is new in logs, line by line, each with the name of its process before it."""

    def __init__(self, logs: dict[str, str]):
        """`logs`: the file of each name. What is in them now is not shown."""
        self._logs = logs
        self._places = dict.fromkeys(logs, 0)
        self._begun = dict.fromkeys(logs, b"")  # the line whose end is not there yet

    def __bool__(self) -> bool:
        return bool(self._logs)

    def show(self, all_of_it: bool = False) -> None:
        """`all_of_it`: also a last line without an end."""
        for name, path in list(self._logs.items()):
            try:
                with open(path, "rb") as file:
                    file.seek(self._places[name])
                    new = file.read()
            except OSError:
                continue  # not there yet
            self._places[name] += len(new)
            *lines, self._begun[name] = (self._begun[name] + new).split(b"\n")
            if all_of_it and self._begun[name]:
                lines.append(self._begun[name])
                self._begun[name] = b""
            self._write(name, lines)

    def _write(self, name: str, lines: list[bytes]) -> None:
        try:
            for line in lines:
                sys.stdout.write(f"{name} | {line.decode(errors='replace')}\n")
            if lines:
                sys.stdout.flush()
        except OSError:  # whoever read it has gone; the logs have it
            self._logs = {}


def clear(paths: Sequence[str]) -> None:
    """Empties logs of an earlier job, so that nobody takes its lines for those of this one."""
    for path in paths:
        if Path(path).exists():
            os.truncate(path, 0)
