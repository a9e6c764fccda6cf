"""Role makers that are told by the script who the process is."""

from __future__ import annotations

from paddle.fluid.incubate.fleet.base.role_base import Role, RoleMakerBase


def _check_endpoints(name: str, value) -> list[str]:
    if not isinstance(value, list):
        raise TypeError(f"{name} must be as string list, such as ['127.0.0.1:6174']; found {value!r}.")
    if not value:
        raise ValueError(f"the length of {name} list must be greater than 0")
    for each in value:
        if not isinstance(each, str):
            raise TypeError(f"every element in {name} list must be as string; found {each!r}.")
    if len(value) != len(set(value)):
        raise ValueError(f"{name} can't have duplicate elements; found {value}.")
    return value


def _check_number(name: str, value, least: int, words: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be as int; found {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be greater than {words}0; found {value}.")
    return value


class UserDefinedRoleMaker(RoleMakerBase):
    """Who this process is, said by the script.

    Args:
        current_id: the number of this worker or server, from 0 on.
        role: Role.WORKER or Role.SERVER.
        worker_num: how many workers there are.
        server_endpoints: HOST:PORT of all servers, the same in every process.

    >>> from paddle.fluid.incubate.fleet.base import role_maker
    >>> role = role_maker.UserDefinedRoleMaker(current_id=0, role=role_maker.Role.SERVER, worker_num=2,
    ...                                        server_endpoints=["127.0.0.1:36011", "127.0.0.1:36012"])
    >>> role.is_server(), role.server_index()
    (True, 0)
    """

    def __init__(self, current_id: int = 0, role: int = Role.WORKER, worker_num: int = 0,
                 server_endpoints: list[str] | None = None):
        super().__init__()
        self._server_endpoints = _check_endpoints("server_endpoints", server_endpoints)
        if role not in (Role.WORKER, Role.SERVER):
            raise TypeError(f"role must be as Role: Role.WORKER or Role.SERVER; found {role!r}.")
        self._role = role
        self._current_id = _check_number("current_id", current_id, 0, "or equal to ")
        if role == Role.SERVER and current_id >= len(server_endpoints):
            raise ValueError("if role is Role.SERVER, current_id must be less than or equal to len(server_endpoints) - 1; "
                             f"found {current_id} with {len(server_endpoints)} endpoints.")
        self._trainers_num = _check_number("worker_num", worker_num, 1, "")

    def generate_role(self) -> None:
        """Nothing to find out."""
        self._role_is_generated = True


class UserDefinedCollectiveRoleMaker(RoleMakerBase):
    """Who this worker of a job without servers is, said by the script.

    Args:
        current_id: the number of this worker, from 0 on.
        worker_endpoints: HOST:PORT of all workers, the same in every process.
    """

    def __init__(self, current_id: int = 0, worker_endpoints: list[str] | None = None):
        super().__init__()
        self._worker_endpoints = _check_endpoints("worker_endpoints", worker_endpoints)
        self._current_id = _check_number("current_id", current_id, 0, "or equal to ")
        if current_id >= len(worker_endpoints):
            raise ValueError("current_id must be less than or equal to len(worker_endpoints) - 1; "
                             f"found {current_id} with {len(worker_endpoints)} endpoints.")
        self._trainers_num = len(worker_endpoints)
        self._role = Role.WORKER

    def generate_role(self) -> None:
        """Nothing to find out."""
        self._role_is_generated = True
