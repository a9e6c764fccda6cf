"""The Communicator of a trainer: a thread of the engine that exchanges steps with the servers (pserver/client/communicator.h)."""

from __future__ import annotations

from paddle import _core
from paddle.fluid.framework import Program
from paddle.fluid.log_helper import log_line
from paddle.fluid.transpiler.config import DistributedMode

__all__ = ["Communicator"]

NAMES = {DistributedMode.SYNC: "sync", DistributedMode.ASYNC: "async", DistributedMode.HALF_ASYNC: "half_async",
         DistributedMode.GEO: "geo"}
_QUEUE, _ROUNDS = 1, 2  # of pd_communicator
_WAIT_MS = 10  # for each of communicator_send_wait_times


def check_mode(mode: int) -> None:
    """Raises for what is no mode."""
    if mode not in NAMES:
        raise ValueError(f"the mode of a Communicator is {mode!r}; there are DistributedMode.SYNC, ASYNC, HALF_ASYNC and GEO.")


class Communicator:
    """Exchanges a trainer's steps with its servers, beside the computing.

    async: a step is queued, and the next batch begins with the newest parameters that have come. sync and half_async: threads that
    train on a data set wait for each other, and what each of them has computed goes as one step, the average. geo: what has changed
    in so many batches is told to the servers, and what others have changed is added to the parameters.

    Args:
        program: the trainer's Program.
        mode: one of DistributedMode; None: that of the Program's job.
        kwargs: `trainer_id` and `pserver_endpoints` of a sync job.
        envs: knobs, numbers or texts: communicator_send_queue_size, communicator_max_merge_var_num, communicator_send_wait_times,
            communicator_independent_recv_thread, communicator_min_send_grad_num_before_recv and communicator_is_sgd_optimizer of
            an async job; others change nothing.

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
        self._sends = sum(op.type == "send" for op in program.global_block().ops)
        self._knobs = self._read_knobs()
        self._running = False

    def __repr__(self) -> str:
        return f"Communicator({NAMES[self._mode]}, {'running' if self.is_running() else 'stopped'})"

    def _knob(self, name: str, default: int, least: int) -> int:
        value = self._envs.get(f"communicator_{name}", default)
        try:
            number = int(value)
        except (TypeError, ValueError):
            number = least - 1
        if number < least:
            raise ValueError(f"communicator_{name} is {value!r}; it must be a whole number from {least} on.")
        return number

    def _read_knobs(self) -> tuple[int, int, int, bool, int]:
        """Steps in the queue, steps that go as one, how long they wait for that, are they averaged, exchanges for one pull."""
        queue, merge = self._knob("send_queue_size", 1, 1), self._knob("max_merge_var_num", 1, 1)
        wait_ms = _WAIT_MS * self._knob("send_wait_times", 5, 0)
        pulls_every = 1
        least = self._knob("min_send_grad_num_before_recv", 1, 0)
        if self._knob("independent_recv_thread", 1, 0):
            pulls_every = max(1, -(-least // max(1, self._sends)))  # gradients are counted there, and steps here
        return queue, merge, wait_ms, not self._knob("is_sgd_optimizer", 1, 0), pulls_every

    def start(self) -> None:
        """Called before training. Servers, Programs and parameters are looked at by the first step."""
        if self.is_running():
            return
        is_queue = self._mode in (DistributedMode.ASYNC, DistributedMode.GEO)
        _core.communicator_start(_QUEUE if is_queue else _ROUNDS, *self._knobs)
        self._running = True
        log_line("Communicator start")
        log_line(f"init rpc client with trainer_id {self._trainer_id}")

    def stop(self) -> None:
        """Called after training: sends what is queued, and raises what made it fail. Ctrl-C drops the queue."""
        if self._running:
            self._running = False
            _core.communicator_stop()
            log_line("Communicator stop")

    def is_running(self) -> bool:
        """Was it started, and not stopped since?"""
        self._running = self._running and _core.communicator_runs()
        return self._running
