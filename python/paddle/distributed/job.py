"""The description of a job: what runs, where, how often, with what, and what happens when something fails.

It says nothing of how processes are started. plan.py turns it into an environment and a command for each process, and an
engine (local.py) starts those and watches them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from paddle.distributed.hosts import Endpoint

SERVER, WORKER = "server", "worker"


@dataclass(frozen=True)
class Role:
    """The processes of one kind."""

    name: str  # SERVER or WORKER
    endpoints: tuple[Endpoint, ...]  # one for each process, in the order of their numbers
    command: tuple[str, ...]  # what each of them runs
    restarts: int = 0  # how often each one may be started again when it has failed


@dataclass(frozen=True)
class Secret:
    """How the processes know each other. A file of the job's own, or what the user's environment has."""

    file: str = ""  # made at the start and removed at the end; "": none is made
    is_theirs: bool = False  # the user's, in the environment


@dataclass(frozen=True)
class Job:
    servers: Role
    workers: Role
    environment: Mapping[str, str] = field(default_factory=dict)  # for all processes, stronger than what the plan sets
    threads: int | None = None  # OMP_NUM_THREADS of each process; None: as it is
    secret: Secret = Secret()
    log_dir: str = ""  # "": to the launcher's own output
    keeps_going: bool = False  # a worker that failed for good does not end the others
    grace: float = 30.0  # seconds between asking a process to end and killing it
    folder: str = "."  # where the processes run
    reports: str = ""  # the folder into which workers report how far they are; "": they do not

    @property
    def roles(self) -> tuple[Role, Role]:
        return self.servers, self.workers

    @property
    def size(self) -> int:
        """The number of its processes, on all machines."""
        return sum(len(role.endpoints) for role in self.roles)


def progress_file(reports: str, worker: int) -> str:
    """Where a worker reports, in the folder of reports."""
    return f"{reports}/worker.{worker}"
