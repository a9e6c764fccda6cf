"""Two processes that look after each other, so that nothing of a job is left when one of them is killed.

The first is the one that the user started and sends signals to; it only waits. The second, its child, is the engine that starts
and watches the job. When the first is killed, the second ends the job as after SIGTERM. When the second is killed, its processes
die with it, and the first, to whom falls what they leave behind, kills that too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Callable

from paddle.distributed import family

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def have_standard_files() -> None:
    """For a process that was started without them, as some daemons do: what is opened next would take their places."""
    while (spare := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(spare, True)
    os.close(spare)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))


def run(work: Callable[[int], int]) -> int:
    """Calls work(lifeline) in the second process and returns its status, or -N when signal N came and ended the job. The lifeline
    is a file that ends when the first process has ended."""
    family.adopt_orphans()
    lifeline, held_open = os.pipe()
    waits_for = {signal.SIGCHLD, *PASSED_ON}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever started this may have it ignored
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waits_for)
    sys.stdout.flush()
    sys.stderr.flush()
    engine = os.fork()
    if engine == 0:
        _be_engine(work, lifeline, held_open)
    os.close(lifeline)
    status, passed_on = _wait(engine, waits_for)
    family.kill_all()
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        name = signal.Signals(-code).name
        print(f"launch: the process that watches the job was ended by {name}; nothing of the job is left", file=sys.stderr)
        code = 128 - code
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return 128 - code if code - 128 in passed_on else code


def _be_engine(work: Callable[[int], int], lifeline: int, held_open: int) -> None:
    """In the second process; does not return. Its signals stay blocked until `work` can take them."""
    code = 1
    try:
        os.close(held_open)
        os.setpgid(0, 0)  # Ctrl-C comes once, from the first process
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # and it may write to the terminal all the same
        family.adopt_orphans()
        code = work(lifeline)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _wait(engine: int, signals: set) -> tuple[int, set]:
    """Passes signals on until the engine has ended; its status and these signals."""
    passed_on = set()
    while True:
        number = signal.sigwait(signals)
        if number != signal.SIGCHLD:
            passed_on.add(number)
            os.kill(engine, number)
            continue
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == engine:
                return status, passed_on
            if pid == 0:
                break


def leave(code: int) -> None:
    """Ends this process with a status; after Ctrl-C, SIGTERM or SIGHUP (-N) by that signal, so that a shell's loop ends too."""
    for file in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):  # nobody reads it any more
            file.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
        code = 128 - code  # process 1 of a container gets no such signal
    os._exit(code)  # not by way of Python, which would flush again, and fail
