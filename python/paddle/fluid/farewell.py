"""How a trainer leaves its job: every way a Python process ends tells the servers.

Status 0 says that the trainer is done: the end of the script, sys.exit(), exit(0). Every other status says that
it failed: sys.exit(1), sys.exit("a message"), and an exception that nobody caught, whose text the others hear.
A process that is killed says nothing, and counts as lost.

A multiprocessing.Process that was forked ends by os._exit, of which Python and the C library tell nobody: there the
last of multiprocessing's own finalizers says it.
"""

from __future__ import annotations

import atexit
import os
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


def _leave_process() -> None:
    """At the end of a multiprocessing.Process: what ends it, if anything, is on its way out of there."""
    kind, error, _ = sys.exc_info()
    code = error.code if isinstance(error, SystemExit) else None
    if kind is None or (isinstance(error, SystemExit) and code in (None, 0)):
        _core.leave_job(False, "")
        return
    _remember(kind, error)
    _core.leave_job(True, _failure or (code if isinstance(code, str) else f"its process ended with status {code}"))


def _watch_process() -> None:
    """Its finalizers before these are done, and its children have ended."""
    sys.modules["multiprocessing.util"].Finalize(None, _leave_process, exitpriority=-1000)


def _in_child() -> None:
    """In a fork: should it become a multiprocessing.Process, it forgets its parent's finalizers first."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.register_after_fork(sys.modules[__name__], lambda module: module._watch_process())


_watch()
os.register_at_fork(after_in_child=_in_child)
if "multiprocessing.util" in sys.modules and sys.modules["multiprocessing.process"].parent_process() is not None:
    _watch_process()
atexit.register(_leave)
_core.leave_job_at_exit()
