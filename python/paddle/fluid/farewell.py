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
import threading

from paddle import _core

_MOMENT_S = 2.0  # in which a process ends by an exception that is on its way
_failure = ""
_inherited: BaseException | None = None  # what the process that forked this one was handling then


def _why_of(code: object) -> str:
    """What the argument of sys.exit says of a process, by the status that Python makes of it; empty: it has done its work."""
    status = 0 if code is None else code & 0xFF if isinstance(code, int) else 1
    if not status:
        return ""
    return code if isinstance(code, str) and code else f"its process ended with status {status}"


def say_goodbye() -> None:
    """A trainer closes an executor: it is done with its job. Or an exception is on its way, or being handled, and nobody can tell
    which: then the end of the process says it, or a moment that it lives on. So it is when the script is over (atexit).
    """
    from paddle.fluid.core import EOFException

    _, error, _ = sys.exc_info()
    is_main = threading.current_thread() is threading.main_thread()
    if error is _inherited or (isinstance(error, SystemExit) and not is_main):  # of a thread, which ends it alone
        error = None
    if isinstance(error, SystemExit):
        why = _why_of(error.code)
        _core.leave_job(bool(why), why)
    elif _failure or (is_main and not threading.main_thread().is_alive()):
        return
    elif error is None or (isinstance(error, (EOFException, StopIteration)) and error.__context__ is None):
        _core.leave_job(False, "")
    else:
        timer = threading.Timer(_MOMENT_S, lambda: _core.leave_job(bool(_failure), _failure))
        timer.daemon = True
        timer.start()


def _remember(kind: type, error: BaseException | None) -> None:
    global _failure
    if not issubclass(kind, SystemExit):
        _failure = f"{kind.__name__}: {error}" if str(error) else kind.__name__


def _watch() -> None:
    before = sys.excepthook

    def hook(kind, error, trace):
        if sys.exc_info()[1] is not error:  # else a script prints by it what it has caught
            _remember(kind, error)
        before(kind, error, trace)

    sys.excepthook = hook


def _leave() -> None:
    """The status is not known yet, but a text that it has not."""
    if _failure:
        _core.leave_job(True, _failure)


def _leave_process(handled: BaseException | None, was_spawned: bool) -> None:
    """At the end of a multiprocessing.Process: what ends it, if anything, is on its way out of there. `handled`: what
    the process that forked it was handling then is no failure of this one.
    """
    kind, error, _ = sys.exc_info()
    is_failed = error is not None and error is not handled
    if is_failed:
        _remember(kind, error)
    if was_spawned:  # its process ends as that of a script
        return
    _join_threads()
    why = _why_of(error.code if isinstance(error, SystemExit) else 1) if is_failed else ""
    _core.leave_job(bool(why), why and (_failure or why), True)


def _join_threads() -> None:
    """A process waits for its threads at its end, which come to theirs in the job. Finalizers come before that."""
    while True:
        others = [t for t in threading.enumerate() if not t.daemon and t is not threading.current_thread()]
        if not others:
            return
        for thread in others:
            thread.join()


def _watch_process() -> None:
    """In a Process that begins. Its other finalizers come before this one, and its children have ended then."""
    was_spawned = getattr(sys.modules["multiprocessing.process"].current_process(), "_start_method", None) == "spawn"
    finalize = sys.modules["multiprocessing.util"].Finalize
    finalize(None, _leave_process, args=(sys.exc_info()[1], was_spawned), exitpriority=-1000)


def _begin_child() -> None:
    global _inherited
    _inherited = sys.exc_info()[1]
    _watch_processes()


def _watch_processes() -> None:
    """What a Process does when it begins, after it has forgotten the finalizers of its parent."""
    global _watches
    util = sys.modules.get("multiprocessing.util")
    if util is not None and not _watches:
        _watches = True
        util.register_after_fork(sys.modules[__name__], lambda module: module._watch_process())


_watches = False
_watch()
os.register_at_fork(after_in_child=_begin_child)
_watch_processes()
if _watches and sys.modules["multiprocessing.process"].parent_process() is not None:
    _watch_process()
atexit.register(_leave)
_core.leave_job_at_exit()
