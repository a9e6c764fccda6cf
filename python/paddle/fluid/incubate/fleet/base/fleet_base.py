"""What every Fleet has: questions about this process and its job, and the methods that each kind of Fleet fills."""

from __future__ import annotations

from typing import Any

from paddle.fluid import core
from paddle.fluid.executor import Executor
from paddle.fluid.framework import Program, Variable
from paddle.fluid.incubate.fleet.base.mode import Mode
from paddle.fluid.incubate.fleet.base.role_maker import PaddleCloudRoleMaker, RoleMakerBase
from paddle.fluid.optimizer_base import Optimizer

__all__ = ["Fleet", "DistributedOptimizer", "Mode"]


def share_of(files: list, index: int, count: int) -> list:
    """The files of worker `index` of `count`: a run of them, the first workers have one more where they do not divide."""
    size, more = divmod(len(files), count)
    begin = index * size + min(index, more)
    return files[begin : begin + size + (index < more)]


class NotInitialized(ValueError, AttributeError):
    """fleet.init() was not called, or failed. In 1.8.5 it is a ValueError of some calls, and an AttributeError of others."""


class Fleet:
    """The base of all Fleets.

    Args:
        mode: one of Mode.
    """

    def __init__(self, mode: int):
        self._is_initialized = False
        self._mode = mode
        self._optimizer: DistributedOptimizer | None = None
        self._role_maker: RoleMakerBase | None = None
        self._executor: Executor | None = None

    def init(self, role_maker: RoleMakerBase | None = None) -> None:
        """Finds out who this process is. A script calls it first.

        Args:
            role_maker: who tells it; None: a PaddleCloudRoleMaker, which reads the environment.
        """
        if role_maker is not None and not isinstance(role_maker, RoleMakerBase):
            raise TypeError(f"role_maker must be an instance of RoleMakerBase; found {role_maker!r}.")
        role = PaddleCloudRoleMaker() if role_maker is None else role_maker
        role.generate_role()
        self._role_maker, self._executor = role, Executor(core.CPUPlace())
        self._is_initialized = True

    def _role(self) -> RoleMakerBase:
        if self._role_maker is None:
            raise NotInitialized("use fleet.init(role) to initialize the role of current node before optimizer.minimize(loss)")
        return self._role_maker

    def is_first_worker(self) -> bool:
        """Is this process worker 0?"""
        return self._role().is_first_worker()

    def worker_index(self) -> int:
        """The number of this worker."""
        return self._role().worker_index()

    def worker_num(self) -> int:
        """How many workers the job has."""
        return self._role().worker_num()

    def is_worker(self) -> bool:
        """Does this process train?"""
        return self._role().is_worker()

    def worker_endpoints(self, to_string: bool = False) -> list[str] | str:
        """The endpoints of all workers, where they have any.

        Args:
            to_string: as one text with commas.
        """
        found = self._role().get_trainer_endpoints()
        return ",".join(found) if to_string else found

    def server_num(self) -> int:
        """How many servers the job has."""
        return len(self._role().get_pserver_endpoints())

    def server_index(self) -> int:
        """The number of this server."""
        return self._role().server_index()

    def server_endpoints(self, to_string: bool = False) -> list[str] | str:
        """The endpoints of all servers.

        Args:
            to_string: as one text with commas.
        """
        found = self._role().get_pserver_endpoints()
        return ",".join(found) if to_string else found

    def is_server(self) -> bool:
        """Does this process serve?"""
        return self._role().is_server()

    def split_files(self, files: list) -> list:
        """The part of a list of files that this worker reads: of [a, b, c, d, e] with two workers, [a, b, c] and [d, e].

        Args:
            files: the list, the same in every worker.
        """
        if not isinstance(files, list):
            raise TypeError(f"files should be a list of file need to be read. Found a {type(files).__name__}.")
        return share_of(files, self.worker_index(), self.worker_num())

    def all_reduce_worker(self, input: Any, output: Any) -> None:
        """Writes the sum of all workers' `input` into `output`; both are lists or arrays of one dimension.

        Args:
            input: what this worker has.
            output: what all have.
        """
        self._role().all_reduce_worker(input, output)

    def barrier_worker(self) -> None:
        """Returns when all workers have called it."""
        self._role().barrier_worker()

    def init_worker(self) -> None:
        """Makes a worker ready to train."""
        raise NotImplementedError

    def init_server(self, model_dir: str | None = None) -> None:
        """Fills a server's parameters.

        Args:
            model_dir: a folder to load them from.
        """
        raise NotImplementedError

    def run_server(self) -> None:
        """Serves until all workers are done."""
        raise NotImplementedError

    def stop_worker(self) -> None:
        """A worker is done."""
        raise NotImplementedError

    def distributed_optimizer(self, optimizer: Optimizer, strategy: Any = None) -> DistributedOptimizer:
        """An optimizer whose minimize() makes the job's Programs.

        Args:
            optimizer: an optimizer of fluid.optimizer.
            strategy: how the job trains.
        """
        raise NotImplementedError

    def save_inference_model(self, executor: Executor, dirname: str, feeded_var_names: list[str], target_vars: list,
                             main_program: Any = None, export_for_deployment: bool = True) -> None:
        """Writes what is needed to compute some variables from others.

        Args:
            executor: an Executor.
            dirname: the folder.
            feeded_var_names: the names that will be fed.
            target_vars: the Variables that will be fetched.
            main_program: what to cut the model from; None: the job's Program.
            export_for_deployment: leave out what only training needs.
        """
        raise NotImplementedError

    def save_persistables(self, executor: Executor, dirname: str, main_program: Any = None) -> None:
        """Writes all that lasts.

        Args:
            executor: an Executor.
            dirname: the folder.
            main_program: whose variables; None: the job's Program.
        """
        raise NotImplementedError


class DistributedOptimizer:
    """The base of the optimizers that a Fleet makes.

    Args:
        optimizer: an optimizer of fluid.optimizer.
        strategy: how the job trains.
    """

    def __init__(self, optimizer: Optimizer, strategy: Any = None):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"optimizer must be an instance of Optimizer; found {optimizer!r}.")
        self._optimizer = optimizer
        self._strategy = strategy

    def backward(self, loss: Variable, startup_program: Program | None = None, parameter_list: list | None = None,
                 no_grad_set: set | None = None, callbacks: list | None = None) -> list:
        """Adds the gradient ops: the first half of minimize().

        Args:
            loss: the Variable to make small.
            startup_program: what fills the parameters.
            parameter_list: which parameters; None: all.
            no_grad_set: variables without gradients.
            callbacks: called for each new op.

        Returns:
            pairs of a parameter and its gradient.
        """
        return self._optimizer.backward(loss, startup_program, parameter_list, no_grad_set, callbacks)

    def apply_gradients(self, params_grads: list) -> list:
        """Adds the update ops: the second half of minimize().

        Args:
            params_grads: pairs of a parameter and its gradient.

        Returns:
            the ops.
        """
        return self._optimizer.apply_gradients(params_grads)

    def minimize(self, losses: Any, scopes: Any = None, startup_programs: Any = None, parameter_list: list | None = None,
                 no_grad_set: set | None = None) -> tuple:
        """Adds gradient and update ops, and makes the job's Programs.

        Args:
            losses: the Variable to make small, or several.
            scopes: one for each loss, where a Fleet needs them.
            startup_programs: what fills the parameters.
            parameter_list: which parameters; None: all.
            no_grad_set: variables without gradients.

        Returns:
            the ops, and pairs of a parameter and its gradient.
        """
        raise NotImplementedError
