"""RoleMakerBase: who a process is, and how workers meet."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from paddle import _core
from paddle.fluid.incubate.fleet.base import packed

_NO_SERVERS = ("workers meet at the servers of their job, and this one has none. Leave it out, or use what your cluster has for "
               "it. A job with 1 worker can call it.")


def _ordered(pick: Callable, a: Any, b: Any) -> Any:
    """min or max; NaN wins, as in numpy's."""
    return a if a != a else b if b != b else pick(a, b)


_MODES = {"sum": operator.add, "min": functools.partial(_ordered, min), "max": functools.partial(_ordered, max)}
_ARRAY_MODES = {"sum": np.add, "min": np.minimum, "max": np.maximum}


def _reduced(given: list, mode: str) -> Any:
    """The sum (or ...) of all that workers gave, each a mode and a list or an array."""
    modes, values = zip(*given)
    shapes = {np.shape(value) for value in values}
    if len(set(modes)) > 1 or len(shapes) > 1:
        raise ValueError(f"all_reduce_worker: workers ask for {', '.join(sorted(set(modes)))} of shapes "
                         f"{', '.join(map(str, sorted(shapes)))}; all must give the same.")
    if all(isinstance(value, np.ndarray) for value in values):
        if mode == "sum":  # small integers, and counts of True, need more room than they have
            values = [value.astype(np.promote_types(value.dtype, "int64" if value.dtype.kind != "u" else "uint64"))
                      if value.dtype.kind in "biu" else value for value in values]
        return functools.reduce(_ARRAY_MODES[mode], values)
    return [functools.reduce(_MODES[mode], each) for each in zip(*values)]


def _check_fits(found: Any, output: Any, mode: str) -> None:
    """May an array take what was found? A list takes all."""
    if not isinstance(output, np.ndarray) or output.dtype.hasobject or not len(found):
        return
    made = np.asarray(found)
    if not np.can_cast(made.dtype, output.dtype, "same_kind"):
        raise TypeError(f"all_reduce_worker: the {mode} is {made.dtype}, and output an array of {output.dtype}, which cannot hold "
                        "it.")
    if output.dtype.kind in "iu":
        lowest, highest = int(made.min()), int(made.max())
        room = np.iinfo(output.dtype)
        if lowest < room.min or highest > room.max:
            raise OverflowError(f"all_reduce_worker: the {mode} goes from {lowest} to {highest}, and output is an array of "
                                f"{output.dtype}, which cannot hold that.")


class Role:
    """What a process does."""

    WORKER = 1
    SERVER = 2


class RoleMakerBase:
    """What a role maker answers; Fleet asks nothing else. A class of your own overrides generate_role(), which sets `_role`,
    `_current_id`, `_trainers_num` and the endpoints.
    """

    _missed: dict[str, int] = {}  # by meeting: calls of this worker that failed before it gave anything

    def __init__(self):
        self._worker_endpoints: list[str] = []
        self._server_endpoints: list[str] = []
        self._role_is_generated = False
        self._role: int | None = None
        self._current_id = -1
        self._trainers_num = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.to_string()})"

    def generate_role(self) -> None:
        """Finds out who this process is, once."""
        raise NotImplementedError("Please implement this method in child class")

    def _ready(self) -> RoleMakerBase:
        if not self._role_is_generated:
            self.generate_role()
        return self

    def is_worker(self) -> bool:
        """Does this process train?"""
        return self._ready()._role == Role.WORKER

    def is_server(self) -> bool:
        """Does this process serve?"""
        return self._ready()._role == Role.SERVER

    def is_first_worker(self) -> bool:
        """Is it worker 0?"""
        return self.is_worker() and self._current_id == 0

    def worker_num(self) -> int:
        """How many workers there are."""
        return self._ready()._trainers_num

    def server_num(self) -> int:
        """How many servers there are."""
        return len(self.get_pserver_endpoints())

    def worker_index(self) -> int:
        """The number of this worker."""
        return self._ready()._current_id

    def server_index(self) -> int:
        """The number of this server."""
        return self._ready()._current_id

    def get_trainer_endpoints(self) -> list[str]:
        """The endpoints of all workers; empty where they have none."""
        return self._ready()._worker_endpoints

    def get_pserver_endpoints(self) -> list[str]:
        """The endpoints of all servers."""
        return self._ready()._server_endpoints

    def to_string(self) -> str:
        """All of it in a line."""
        return (f"role: {self._role}, current_id: {self._current_id}, worker_endpoints: {self._worker_endpoints}, "
                f"server_endpoints: {self._server_endpoints}")

    # ---- where workers meet: at the first server of their job ----

    def _need_company(self, what: str, others: int, why: str) -> None:
        """Raises unless there is nobody to meet."""
        if others:
            raise NotImplementedError(f"{type(self).__name__}.{what} with {others + 1} processes is not there: {why}")

    def _meet(self, what: str, given: bytes | None = None) -> bytes | None:
        """Waits for all workers, there are several, and returns what they gave."""
        servers = self.get_pserver_endpoints()
        if not servers:
            self._need_company(what, self.worker_num() - 1, _NO_SERVERS)
        try:
            found = _core.job_meet(what, servers, self.worker_index(), self.worker_num(), given)
        finally:
            is_behind = bool(servers) and _core.job_passed(servers[0])
            if is_behind:
                _core._set_left(True)  # the next step begins with the servers' parameters, in whichever scope
        if is_behind:
            from paddle.fluid import executor_servers

            executor_servers.receive_passed(servers[0])
        return found

    def _gathered(self, what: str, obj: Any) -> list:
        """What each worker gave; those that have ended or were lost are not in it."""
        if self.worker_num() == 1:
            return [obj]
        try:
            mine = packed.pack([self._missed.get(what, 0), obj])
        except (TypeError, ValueError) as error:
            raise self._missing(what, error) from None
        given = [(number, *packed.unpack(each)) for number, each in packed.split(self._meet(what, mine))]
        first, its_misses, _ = given[0]
        for number, misses, _ in given:
            if misses != its_misses:
                raise RuntimeError(f"{what}: worker {first} has failed in {its_misses} of its own calls before, and worker "
                                   f"{number} in {misses}: what one gives now is not of the same call as what the other gives. All "
                                   "workers make the same calls in the same order.")
        return [obj for _, _, obj in given]

    def _missing(self, what: str, error: Exception) -> Exception:
        """This worker's call of a meeting fails before it gave anything: its later ones are others than those of the workers whose
        call went well. They are told."""
        self._missed = {**self._missed, what: self._missed.get(what, 0) + 1}
        return error

    def barrier_worker(self) -> None:
        """Returns when all workers have called it, but for those that have ended; what any of them sent to servers before is there
        then. Servers pass.
        """
        if self.is_worker() and self.worker_num() > 1:
            self._meet("barrier_worker")
        elif self.is_worker():
            _core.communicator_flush()

    def barrier_all(self) -> None:
        """Returns when all workers have called it, and all servers serve: a server that got here serves soon, and passes."""
        if self.is_worker() and self.get_pserver_endpoints():
            self._meet("barrier_all")
        elif self.is_worker():
            self._need_company("barrier_all", self.worker_num() - 1, _NO_SERVERS)

    def all_reduce_worker(self, input: Any, output: Any, mode: str = "sum") -> None:
        """Writes the sum (or "min", "max") of all workers' `input` into `output`, both lists or arrays. It is made in the order of
        workers, so that all have the same bits. A NaN gives NaN, in any mode. Servers pass.

        Args:
            input: what this worker has.
            output: what all have; of the same length.
            mode: "sum", "min" or "max".
        """
        if not self.is_worker():
            return
        mine = input if isinstance(input, np.ndarray) else list(input)
        if mode not in _MODES:
            raise self._missing("all_reduce_worker", ValueError(f"unknown mode: {mode}. There are sum, min and max."))
        if len(output) != len(mine):
            raise self._missing("all_reduce_worker", ValueError(
                f"all_reduce_worker: input has {len(mine)} elements, output {len(output)}; give it as many."))
        found = _reduced(self._gathered("all_reduce_worker", [mode, mine]), mode)
        _check_fits(found, output, mode)
        for i, value in enumerate(found):
            output[i] = value

    def all_gather(self, input: Any) -> list:
        """What all workers gave, in a list, in their order; those that have ended or were lost are not in it.

        Args:
            input: what this worker gives: plain values, lists, dicts and arrays of them, 1 MiB at most.
        """
        if not self.is_worker():
            raise NotImplementedError(f"{type(self).__name__}.all_gather in a server is not there: servers serve, and gather "
                                      "what workers give. Call it in workers.")
        return self._gathered("all_gather", input)

    # Names that FleetUtil and scripts for upstream's insides use.

    def _worker_gather(self, obj: Any) -> list | None:
        return self._gathered("_worker_gather", obj) if self.is_worker() else None

    def _barrier_server(self) -> None:
        if self.is_server():
            self._need_company("_barrier_server", self.server_num() - 1, "servers do not wait for each other; workers do for them.")

    def _barrier_worker(self) -> None:
        self.barrier_worker()

    def _barrier_all(self) -> None:
        self.barrier_all()

    def _all_gather(self, obj: Any) -> list:
        return self.all_gather(obj)

    def _all_reduce(self, input: Any, output: Any, mode: str = "sum") -> None:
        self.all_reduce_worker(input, output, mode)

    def _finalize(self) -> None:
        """The end of the job: nothing is held here."""
