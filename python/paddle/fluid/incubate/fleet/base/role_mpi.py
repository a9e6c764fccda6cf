"""The role maker of jobs that mpirun or srun started: half of the processes serve, the others train."""

from __future__ import annotations

import os
import re
import zlib

from paddle.fluid.incubate.fleet.base.environment import Environment
from paddle.fluid.incubate.fleet.base.role_base import Role, RoleMakerBase

# (rank, number of processes, processes on this host) as launchers tell them: Open MPI, MPICH and Intel MPI, Slurm.
_LAUNCHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
    ("SLURM_PROCID", "SLURM_NTASKS", ""),
)
_JOB_IDS = ("SLURM_JOB_ID", "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "PMI_JOBID")
# Ports of servers when PADDLE_PORT does not say: above those that Linux gives to connections that go out.
_FIRST_PORT, _PORTS = 61001, 3000
_EXAMPLE = {
    "OMPI_COMM_WORLD_RANK": "0",
    "OMPI_COMM_WORLD_SIZE": "4",
    "PADDLE_PSERVERS_IP_PORT_LIST": "10.0.0.1:36000,10.0.0.2:36000",
}
_SERVERS = ("all servers, HOST:PORT,HOST:PORT,...: the hosts of ranks 0, 2, 4, ... in that order. Only Slurm, and a job on one "
            "host, tell it without this variable; mpirun -x PADDLE_PSERVERS_IP_PORT_LIST hands it to all")


def hosts_of_slurm(text: str) -> list[str]:
    """The hosts of SLURM_JOB_NODELIST, such as 'n[1-2,07-08]x,gpu1'."""
    found = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        head, bracket, rest = part.partition("[")
        if not bracket:
            found.append(part)
            continue
        numbers, _, tail = rest.partition("]")
        for each in numbers.split(","):
            first, _, last = each.partition("-")
            found += [f"{head}{number:0{len(first)}d}{after}" for number in range(int(first), int(last or first) + 1)
                      for after in (hosts_of_slurm(tail) if tail else [""])]
    return found


def tasks_of_slurm(text: str) -> list[int]:
    """The numbers of SLURM_TASKS_PER_NODE, such as '2(x3),1'."""
    return [int(count) for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text) for _ in range(int(times or 1))]


def _port() -> int:
    """The port of a host's first server: PADDLE_PORT, or one that follows from the job's id: two jobs rarely have the same."""
    given = os.environ.get("PADDLE_PORT", "")
    if given.isdigit():
        return int(given)
    job = next((os.environ[name] for name in _JOB_IDS if os.environ.get(name)), "")
    return _FIRST_PORT + zlib.crc32(job.encode()) % _PORTS


def _on_hosts(hosts: list[str], counts: list[int], size: int) -> list[str]:
    """Endpoints of the even ranks, when host i has the next counts[i] ranks."""
    places = [host for host, count in zip(hosts, counts) for _ in range(count)][:size:2]
    return [f"{host}:{_port() + places[:i].count(host)}" for i, host in enumerate(places)]


class NoMPI(ValueError, ImportError):
    """Neither mpirun nor srun started this process. Scripts that get on without them catch an ImportError, which 1.8.5 raises where
    mpi4py is not installed."""


class MPISymetricRoleMaker(RoleMakerBase):
    """Even ranks of mpirun or srun are servers, odd ones workers: of two processes on a host, one of each. No mpi4py is needed.

    Rank and size are those of Open MPI (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE), of MPICH and Intel MPI (PMI_RANK, PMI_SIZE) or
    of Slurm (SLURM_PROCID, SLURM_NTASKS). The servers' endpoints are those of PADDLE_PSERVERS_IP_PORT_LIST. Without it they follow
    from SLURM_JOB_NODELIST, or from 127.0.0.1 when all processes run on one host, with ports from PADDLE_PORT on; without that too,
    from a port above 61000 that follows from the job's id.

    >>> import os
    >>> from unittest.mock import patch
    >>> from paddle.fluid.incubate.fleet.base import role_maker
    >>> role = role_maker.MPISymetricRoleMaker()
    >>> with patch.dict(os.environ, OMPI_COMM_WORLD_RANK="3", OMPI_COMM_WORLD_SIZE="4",
    ...                 PADDLE_PSERVERS_IP_PORT_LIST="10.0.0.1:36000,10.0.0.2:36000"):
    ...     role.generate_role()
    >>> role.is_worker(), role.worker_index(), role.worker_num()
    (True, 1, 2)
    """

    def generate_role(self) -> None:
        """Reads the environment; the second call does nothing."""
        if self._role_is_generated:
            return
        launcher = next((each for each in _LAUNCHERS if os.environ.get(each[0])), None)
        names = launcher or _LAUNCHERS[0]
        env = Environment("a process that mpirun or srun started", _EXAMPLE)
        rank = env.number(names[0], "the rank; or PMI_RANK, or SLURM_PROCID: was this process started by mpirun or srun?")
        size = env.number(names[1], "the number of processes", 2)
        if size is not None and size % 2:
            env.refuse(names[1], "it must be even: each worker has its server")
        elif size is not None and rank is not None and rank >= size:
            env.refuse(names[0], f"there are {size} processes, so it must be from 0 to {size - 1}")
        endpoints = self._derived(names, size) or env.endpoints("PADDLE_PSERVERS_IP_PORT_LIST", _SERVERS)
        if endpoints is not None and size is not None and len(endpoints) != size // 2:
            env.refuse("PADDLE_PSERVERS_IP_PORT_LIST", f"it has {len(endpoints)} servers; {size} processes have {size // 2}")
        env.check("something wrong with MPI, please check environment", ValueError if launcher else NoMPI)
        self._rank, self._size = rank, size
        self._role = Role.WORKER if rank % 2 else Role.SERVER
        self._current_id, self._trainers_num = rank // 2, size // 2
        self._server_endpoints = endpoints
        self._role_is_generated = True

    def _derived(self, names: tuple[str, str, str], size: int | None) -> list[str] | None:
        """The endpoints, where they are not given and follow from what the launcher tells; else None."""
        if os.environ.get("PADDLE_PSERVERS_IP_PORT_LIST") or size is None:
            return None
        if names[2] and os.environ.get(names[2]) == str(size):
            return _on_hosts(["127.0.0.1"], [size], size)
        hosts = hosts_of_slurm(os.environ.get("SLURM_JOB_NODELIST", ""))
        counts = tasks_of_slurm(os.environ.get("SLURM_TASKS_PER_NODE", ""))
        if names[0] == "SLURM_PROCID" and hosts and len(counts) == len(hosts) and sum(counts) == size:
            return _on_hosts(hosts, counts, size)
        return None

    def _get_rank(self) -> int:
        return self._ready()._rank

    def _get_size(self) -> int:
        return self._ready()._size
