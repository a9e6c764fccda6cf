"""How a trainer leaves its job: every way a Python process ends tells the servers.

Status 0 says that the trainer is done: the end of the script, sys.exit(), exit(0). Every other status says that
it failed: sys.exit(1), sys.exit("a message"), and an exception that nobody caught, whose text the others hear.
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
        _failure = f"{kind.__name__}: {error}" if str(error) else kind.__name__


def _watch() -> None:
    before = sys.excepthook

    def hook(kind, error, trace):
        _remember(kind, error)
        before(kind, error, trace)

    sys.excepthook = hook


def _leave() -> None:
    """The status is not known yet, but a text that it has not."""
    if _failure:
        _core.leave_job(True, _failure)


_watch()
atexit.register(_leave)
_core.leave_job_at_exit()
