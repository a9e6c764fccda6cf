"""Role makers that read the environment of a cluster: PaddleCloudRoleMaker and GeneralRoleMaker."""

from __future__ import annotations

import os

from paddle.fluid import suggest
from paddle.fluid.incubate.fleet.base.environment import Environment
from paddle.fluid.incubate.fleet.base.role_base import Role, RoleMakerBase

HEAD = "something wrong with PaddleCloud, please check environment"
_EXAMPLE = {
    "PADDLE_PSERVERS_IP_PORT_LIST": "10.0.0.1:36000,10.0.0.2:36000",
    "PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:36001,10.0.0.2:36001",
    "PADDLE_TRAINERS_NUM": "2",
    "TRAINING_ROLE": "TRAINER",
    "PADDLE_TRAINER_ID": "0",
    "POD_IP": "10.0.0.1",
    "PADDLE_PORT": "36000",
}
_SERVERS = "all servers, HOST:PORT,HOST:PORT,..., the same in every process"
_WORKERS = "all workers, HOST:PORT,HOST:PORT,..., the same in every process"
_ROLES = ("PSERVER", "TRAINER")


def _servers(env: Environment) -> list[str] | None:
    name = "PADDLE_PSERVERS_IP_PORT_LIST"
    is_empty = os.environ.get(name) == ""  # as launchers set it that start no servers
    return env.endpoints(name, f"{_SERVERS} (it is empty: a job with Fleet has servers, --server_num=1)" if is_empty else _SERVERS)


def _is_server(env: Environment) -> bool:
    """Does TRAINING_ROLE say so? Where it is missing or wrong, what was most likely meant decides which variables are asked for."""
    role = env.choice("TRAINING_ROLE", "TRAINER or PSERVER", _ROLES)
    if role is None:
        near = suggest.nearest(os.environ.get("TRAINING_ROLE", "").upper(), _ROLES)
        role = near or ("PSERVER" if os.environ.get("POD_IP") and not os.environ.get("PADDLE_TRAINER_ID") else "TRAINER")
        env.show("TRAINING_ROLE", role)
    return role == "PSERVER"


def _worker_id(env: Environment, workers: int | None) -> int | None:
    number = env.number("PADDLE_TRAINER_ID", "the number of this worker, from 0 on")
    if number is not None and workers is not None and number >= workers:
        return env.refuse("PADDLE_TRAINER_ID", f"there are {workers} workers, so it must be from 0 to {workers - 1}")
    return number


def _server_id(env: Environment, endpoints: list[str] | None) -> int | None:
    """The place of POD_IP:PADDLE_PORT among the servers."""
    if endpoints:  # the lines to copy show one of the list, like what is set where there is one
        wanted = [os.environ.get(name, "").strip() for name in ("POD_IP", "PADDLE_PORT")]
        near = max((each.rpartition(":")[::2] for each in endpoints), key=lambda each: (each[0] == wanted[0], each[1] == wanted[1]))
        env.show("POD_IP", near[0])
        env.show("PADDLE_PORT", near[1])
    host = env.text("POD_IP", "the address of this server, as the list of servers has it")
    port = env.number("PADDLE_PORT", "the port of this server, as the list of servers has it", 0)
    if host is None or port is None or endpoints is None:
        return None
    if f"{host}:{port}" not in endpoints:
        env.refuse("POD_IP", f"{host}:{port} (POD_IP:PADDLE_PORT) is not among the servers {', '.join(endpoints)}")
        env.refuse("PADDLE_PORT", f"with POD_IP={host} it names no server of the list")
        return None
    return endpoints.index(f"{host}:{port}")


class PaddleCloudRoleMaker(RoleMakerBase):
    """Reads who this process is from the environment, as clusters set it.

    Every process has PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINERS_NUM and TRAINING_ROLE (TRAINER or PSERVER); a worker has
    PADDLE_TRAINER_ID too, a server POD_IP and PADDLE_PORT. What is missing or wrong is told in one ValueError.

    Args:
        is_collective: a job without servers: PADDLE_TRAINER_ENDPOINTS, PADDLE_TRAINER_ID and PADDLE_CURRENT_ENDPOINT are read.

    >>> import os
    >>> from unittest.mock import patch
    >>> from paddle.fluid.incubate.fleet.base import role_maker
    >>> role = role_maker.PaddleCloudRoleMaker()
    >>> with patch.dict(os.environ, PADDLE_PSERVERS_IP_PORT_LIST="10.0.0.1:36000,10.0.0.2:36000", PADDLE_TRAINERS_NUM="2",
    ...                 TRAINING_ROLE="TRAINER", PADDLE_TRAINER_ID="1"):
    ...     role.generate_role()
    >>> role.is_worker(), role.worker_index(), role.worker_num()
    (True, 1, 2)
    """

    def __init__(self, is_collective: bool = False):
        super().__init__()
        self._is_collective = is_collective

    def generate_role(self) -> None:
        """Reads the environment; the second call does nothing."""
        if not self._role_is_generated:
            (self._collective if self._is_collective else self._with_servers)()
            self._role_is_generated = True

    def _with_servers(self) -> None:
        env = Environment("a process of a job with servers", _EXAMPLE)
        endpoints = _servers(env)
        workers = env.number("PADDLE_TRAINERS_NUM", "the number of workers, the same in every process", 1)
        is_server = _is_server(env)
        number = _server_id(env, endpoints) if is_server else _worker_id(env, workers)
        env.check(HEAD, is_launched=True)
        self._server_endpoints, self._trainers_num, self._current_id = endpoints, workers, number
        self._role = Role.SERVER if is_server else Role.WORKER

    def _collective(self) -> None:
        env = Environment("a process of a job without servers", _EXAMPLE)
        endpoints = env.endpoints("PADDLE_TRAINER_ENDPOINTS", _WORKERS)
        env.choice("PADDLE_TRAINING_ROLE", "TRAINER", ("TRAINER",), "TRAINER")
        number = env.number("PADDLE_TRAINER_ID", "the number of this worker", 0, "0")
        if number is not None and endpoints is not None and number >= len(endpoints):
            env.refuse("PADDLE_TRAINER_ID", f"there are {len(endpoints)} workers, so it must be from 0 to {len(endpoints) - 1}")
        env.check(HEAD)
        self._worker_endpoints, self._trainers_num, self._current_id = endpoints, len(endpoints), number
        self._current_endpoint = os.environ.get("PADDLE_CURRENT_ENDPOINT")
        self._role = Role.WORKER


class GeneralRoleMaker(RoleMakerBase):
    """As PaddleCloudRoleMaker, for jobs whose workers have endpoints too.

    Every process has PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINER_ENDPOINTS and TRAINING_ROLE; a worker has PADDLE_TRAINER_ID, a
    server PADDLE_PSERVER_ID, or POD_IP and PADDLE_PORT.

    Args:
        **kwargs: hdfs_name, hdfs_ugi, path, http_ip_port, init_timeout_seconds and run_timeout_seconds, for a meeting point of
            all processes that is not needed here: they are kept and have no effect.
    """

    def __init__(self, **kwargs):
        super().__init__()
        self._options = kwargs
        self._prefix = os.environ.get("SYS_JOB_ID", "")
        self._cur_endpoint = ""

    def generate_role(self) -> None:
        """Reads the environment; the second call does nothing."""
        if self._role_is_generated:
            return
        env = Environment("a process of a job with servers", _EXAMPLE)
        endpoints = _servers(env)
        workers = env.endpoints("PADDLE_TRAINER_ENDPOINTS", _WORKERS)
        is_server = _is_server(env)
        if not is_server:
            number = _worker_id(env, workers and len(workers))
        elif os.environ.get("PADDLE_PSERVER_ID"):
            number = env.number("PADDLE_PSERVER_ID", "the number of this server")
            if number is not None and endpoints is not None and number >= len(endpoints):
                env.refuse("PADDLE_PSERVER_ID", f"there are {len(endpoints)} servers, so it must be from 0 to {len(endpoints) - 1}")
        else:
            number = _server_id(env, endpoints)
        env.check("something wrong with the environment of GeneralRoleMaker", is_launched=True)
        self._role = Role.SERVER if is_server else Role.WORKER
        self._server_endpoints, self._worker_endpoints = endpoints, workers
        self._trainers_num, self._current_id = len(workers), number
        self._cur_endpoint = (endpoints if is_server else workers)[number]
        self._role_is_generated = True

    def get_local_endpoint(self) -> str:
        """The endpoint of this process."""
        return self._ready()._cur_endpoint

    def _get_rank(self) -> int:
        """The place of this process among all, the workers first."""
        return self.worker_index() + (0 if self.is_worker() else self.worker_num())

    def _get_size(self) -> int:
        return self.worker_num() + self.server_num()
