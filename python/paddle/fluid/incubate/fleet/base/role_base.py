"""RoleMakerBase: who a process is, and how workers meet."""

from __future__ import annotations

from typing import Any

ALONE = ("Workers meet on their servers, and servers have no message for that yet: leave it out (steps of a sync job wait for all "
         "workers anyway), or use what your cluster has for it. A job with 1 worker can call it.")


class Role:
    """What a process does."""

    WORKER = 1
    SERVER = 2


class RoleMakerBase:
    """What a role maker answers; Fleet asks nothing else. A class of your own overrides generate_role(), which sets `_role`,
    `_current_id`, `_trainers_num` and the endpoints.
    """

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

    # ---- where workers meet: the one place that waits for a message of servers ----

    def _need_company(self, what: str, others: int) -> None:
        """Raises unless there is nobody to meet."""
        if others:
            raise NotImplementedError(f"{type(self).__name__}.{what} is not there yet with {others + 1} processes. {ALONE}")

    def barrier_worker(self) -> None:
        """Returns when all workers have called it. Servers pass."""
        if self.is_worker():
            self._need_company("barrier_worker", self.worker_num() - 1)

    def barrier_all(self) -> None:
        """Returns when all workers and servers have called it."""
        self._need_company("barrier_all", self.worker_num() + self.server_num() - 1)

    def all_reduce_worker(self, input: Any, output: Any, mode: str = "sum") -> None:
        """Writes the sum (or "min", "max") of all workers' `input` into `output`, both lists or arrays of one dimension. Servers
        pass.

        Args:
            input: what this worker has.
            output: what all have; of the same length.
            mode: "sum", "min" or "max".
        """
        if mode not in ("sum", "min", "max"):
            raise ValueError(f"unknown mode: {mode}. There are sum, min and max.")
        if self.is_worker():
            self._need_company("all_reduce_worker", self.worker_num() - 1)
            for i, value in enumerate(input):
                output[i] = value

    def all_gather(self, input: Any) -> list:
        """What all workers and servers gave, in a list.

        Args:
            input: what this process gives.
        """
        self._need_company("all_gather", self.worker_num() + self.server_num() - 1)
        return [input]

    # Names that FleetUtil and scripts for upstream's insides use.

    def _worker_gather(self, obj: Any) -> list | None:
        if not self.is_worker():
            return None
        self._need_company("_worker_gather", self.worker_num() - 1)
        return [obj]

    def _barrier_server(self) -> None:
        if self.is_server():
            self._need_company("_barrier_server", self.server_num() - 1)

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
