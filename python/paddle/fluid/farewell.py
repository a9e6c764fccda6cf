"""How a trainer leaves its job: every way a Python process ends tells the servers.

A normal end, sys.exit() included, says that the trainer is done; an exception that nobody caught says that it failed.
A process that is killed says nothing, and counts as lost.
"""

from __future__ import annotations

import atexit
import sys

from paddle import _core

_failure = ""


def _remember(kind: type, error: BaseException | None) -> None:
    global _failure
    if not issubclass(kind, SystemExit):
        _failure = f"{kind.__name__}: {error}"


def _watch() -> None:
    before = sys.excepthook

    def hook(kind, error, trace):
        _remember(kind, error)
        before(kind, error, trace)

    sys.excepthook = hook


def _leave() -> None:
    _core.leave_job(bool(_failure), _failure)


_watch()
atexit.register(_leave)
