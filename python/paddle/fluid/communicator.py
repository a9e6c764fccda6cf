"""The Communicator of a trainer.

Upstream's gathers gradients in threads beside the step and sends them. Here a step's own exchange does that, from its first
gradient on (src/pserver/client), so that this object only marks when a trainer begins and ends.
"""

from __future__ import annotations

from paddle.fluid.framework import Program
from paddle.fluid.log_helper import log_line
from paddle.fluid.transpiler.config import DistributedMode

__all__ = ["Communicator"]

NAMES = {DistributedMode.SYNC: "sync", DistributedMode.ASYNC: "async", DistributedMode.HALF_ASYNC: "half_async",
         DistributedMode.GEO: "geo"}
_WANTED = {
    DistributedMode.HALF_ASYNC: "merges the gradients of several batches before it sends them",
    DistributedMode.GEO: "sends what a worker's own optimizer changed, every so many batches",
}


def check_mode(mode: int) -> None:
    """Raises for modes that cannot train yet: the one place that says so."""
    if mode not in NAMES:
        raise ValueError(f"the mode of a Communicator is {mode!r}; there are DistributedMode.SYNC, ASYNC, HALF_ASYNC and GEO.")
    if mode in _WANTED:
        raise NotImplementedError(
            f"the strategy {NAMES[mode]} is not there yet: it needs a communicator that {_WANTED[mode]}. "
            "Use StrategyFactory.create_async_strategy() or create_sync_strategy()."
        )


class Communicator:
    """Stands for the exchange of a trainer with its servers.

    Args:
        program: the trainer's Program.
        mode: one of DistributedMode; None: that of the Program's job.
        kwargs: `trainer_id` and `pserver_endpoints` of a sync job.
        envs: knobs of upstream's queues and threads, which this one has not.

    >>> comm = fluid.communicator.Communicator(fluid.Program())
    >>> comm.start()
    >>> comm.is_running()
    True
    >>> comm.stop()
    """

    def __init__(self, program: Program, mode: int | None = None, kwargs: dict | None = None, envs: dict | None = None):
        if not isinstance(program, Program):
            raise TypeError(f"program is a {type(program).__name__}; a Communicator takes the trainer's Program.")
        job = getattr(program._parameters_on_pservers, "job", None)
        self._mode = (DistributedMode.ASYNC if job is None else job.mode) if mode is None else mode
        check_mode(self._mode)
        self._trainer_id = (kwargs or {}).get("trainer_id", 0 if job is None else job.trainer_id)
        self._envs = dict(envs or {})
        self._running = False

    def __repr__(self) -> str:
        return f"Communicator({NAMES[self._mode]}, {'running' if self._running else 'stopped'})"

    def start(self) -> None:
        """Called before training."""
        if not self._running:
            self._running = True
            log_line("Communicator start")
            log_line(f"init rpc client with trainer_id {self._trainer_id}")

    def stop(self) -> None:
        """Called after training."""
        if self._running:
            self._running = False
            log_line("Communicator stop")

    def is_running(self) -> bool:
        """Was it started, and not stopped since?"""
        return self._running
