"""Who counts the passes of this process over its data. A Fleet job that keeps checkpoints does
(incubate/fleet/base/checkpoints.py): it knows then where in the data a checkpoint was made, and goes on there.
"""

from __future__ import annotations

import random
from typing import Any, Protocol

from paddle.fluid.log_helper import tell


class Pass(Protocol):
    """One pass over a data set, or over a reader, as the counter sees it."""

    is_over: bool  # the checkpoint has all of it: nothing is done again but end()
    skip: int  # so many batches of each thread are read over
    every: int  # after so many batches of each thread pause() is called, when none of them computes
    since: int  # so many of the first ones were in passes before

    def goes_over(self, data: dict) -> None: ...

    def pause(self, report: Any = None) -> None: ...

    def end(self, since: int | None = None) -> None: ...


class Counter(Protocol):
    def begin(self, kind: str, scope: Any) -> Pass: ...

    def draw(self, bits: int) -> int: ...

    def is_passing_over(self) -> bool: ...


counter: Counter | None = None


def begin(kind: str, scope: Any) -> Pass | None:
    """A pass begins: "train" or "infer". None: nobody counts."""
    return None if counter is None else counter.begin(kind, scope)


def is_passing_over(what: str) -> bool:
    """Is the script on its way to the place of a checkpoint? Then `what` is not done, and that is told: it would be of a later
    moment than the script means."""
    if counter is None or not counter.is_passing_over():
        return False
    tell(f"{what} is passed over: the checkpoint that this job goes on from was made later.")
    return True


def check_run() -> None:
    """Before a step of Executor.run: raises where it is one that the checkpoint has, and that nobody has counted."""
    if counter is not None and counter.is_passing_over():
        raise RuntimeError("this script trains outside of its passes over data, and its job goes on from a checkpoint, which "
                           "has these steps already. Let fleet.resumable(reader) count the batches that exe.run trains "
                           "(docs/RESUME.md).")


def draw(bits: int = 64) -> int:
    """A seed for what is done to data at random; a job that goes on gets those that it had."""
    return random.SystemRandom().getrandbits(bits) if counter is None else counter.draw(bits)
