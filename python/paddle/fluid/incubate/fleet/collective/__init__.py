"""Training without servers, by sums among workers. A job of one worker, which has nothing to add up, trains, with checkpoints. Of
several it is not there yet: the names are, and using one says what to use."""

from __future__ import annotations

from typing import Any

import paddle.fluid as fluid
from paddle.distributed.fs_wrapper import FS, LocalFS
from paddle.fluid import io
from paddle.fluid.compiler import BuildStrategy, CompiledProgram
from paddle.fluid.executor import Executor
from paddle.fluid.framework import Program, Variable
from paddle.fluid.incubate.fleet.base.fleet_base import DistributedOptimizer, Fleet, Mode
from paddle.fluid.incubate.fleet.collective import checkpoint
from paddle.fluid.incubate.fleet.collective.checkpoint import TrainStatus
from paddle.fluid.optimizer_base import Optimizer

__all__ = ["Collective", "CollectiveOpBasedOptimizer", "CollectiveOptimizer", "DistFCConfig", "DistributedStrategy", "LambConfig",
           "TrainStatus", "fleet"]  # fmt: skip

INSTEAD = ("Train with parameter servers: fleet of fluid.incubate.fleet.parameter_server.distribute_transpiler, with the sync "
           "strategy, averages in the same way (docs/FLEET.md); on one machine fluid.CompiledProgram(...).with_data_parallel uses "
           "all cores.")


def _not_there(what: str) -> NotImplementedError:
    return NotImplementedError(f"{what} is not there yet: workers cannot train without servers. {INSTEAD}")


class LambConfig:
    """Settings of Lamb in a collective job."""


class DistFCConfig:
    """Settings of an fc layer that lies on several workers."""


class DistributedStrategy(BuildStrategy):
    """How a collective job trains."""

    _defaults = {**BuildStrategy._defaults, "use_local_sgd": False, "use_dist_fc": False, "dist_fc_config": None, "mode": "nccl2",
                 "collective_mode": None, "nccl_comm_num": 1, "forward_recompute": False, "recompute_checkpoints": [],
                 "use_amp": False, "amp_loss_scaling": 2**15, "exec_strategy": None}  # fmt: skip


class Collective(Fleet):
    """The Fleet without servers."""

    def __init__(self):
        super().__init__(Mode.COLLECTIVE)
        self.startup_program: Program | None = None
        self.main_program: CompiledProgram | None = None
        self._origin_program: Program | None = None  # as minimize made it
        self._transpiled_program: Program | None = None  # what runs

    def _need_one_worker(self, what: str) -> None:
        if self._role_maker is None or self.worker_num() != 1:
            raise _not_there(f"fleet.collective.{what}")

    def distributed_optimizer(self, optimizer: Optimizer, strategy: DistributedStrategy | None = None) -> CollectiveOptimizer:
        """The optimizer of the job, which has one worker; of several it is not there yet.

        Args:
            optimizer: an optimizer of fluid.optimizer.
            strategy: a DistributedStrategy.
        """
        self._need_one_worker("distributed_optimizer")
        self._optimizer = CollectiveOptimizer(optimizer, strategy)
        return self._optimizer

    # ---- files ----

    def _program(self, call: str, program: Any, made: Program | None) -> Program:
        """The Program of a call, None is what minimize made."""
        program = made if program is None else program
        if not isinstance(program, Program):
            raise TypeError(f"fleet.{call}: main_program is a {type(program).__name__}; give a Program, or call minimize first.")
        return program

    def save_inference_model(self, executor: Executor, dirname: str, feeded_var_names: list[str] | None = None,
                             target_vars: list | None = None, main_program: Program | None = None,
                             export_for_deployment: bool = True) -> None:
        """Writes what is needed to compute some variables from others.

        Args:
            executor: an Executor.
            dirname: the folder.
            feeded_var_names: the names that will be fed.
            target_vars: the Variables that will be fetched.
            main_program: what to cut the model from; None: the job's Program.
            export_for_deployment: leave out what only training needs.
        """
        program = self._program("save_inference_model", main_program, self._origin_program)
        io.save_inference_model(dirname, feeded_var_names, target_vars, executor, program,
                                export_for_deployment=export_for_deployment)

    def save_persistables(self, executor: Executor, dirname: str, main_program: Program | None = None,
                          filename: str | None = None) -> None:
        """Writes all that lasts.

        Args:
            executor: an Executor.
            dirname: the folder.
            main_program: whose variables; None: the job's Program.
            filename: one file for all of them.
        """
        io.save_persistables(executor, dirname, self._program("save_persistables", main_program, self._origin_program), filename)

    def save_check_point(self, executor: Executor, path: str, train_status: TrainStatus, main_program: Program | None = None,
                         fs: FS | None = None, local_cache_path: str = ".cache", remain_all_checkpoint: bool = True) -> None:
        """Writes a checkpoint: all that lasts, and where the job is.

        Args:
            executor: an Executor.
            path: the folder of all checkpoints of the job.
            train_status: where the job is.
            main_program: whose variables; None: the job's Program.
            fs: where the folder is; None: a LocalFS.
            local_cache_path: a folder of this machine, for files that are on their way.
            remain_all_checkpoint: keep those before it.
        """
        fs = LocalFS() if fs is None else fs
        program = self._program("save_check_point", main_program, self._transpiled_program)
        checkpoint.save(executor, path, train_status, program, fs, local_cache_path)
        if not remain_all_checkpoint:
            self.clean_redundant_check_points(path, fs)

    def load_check_point(self, executor: Executor, path: str, trainer_id: int, main_program: Program | None = None,
                         fs: FS | None = None, local_cache_path: str = ".cache", ignore_empty: bool = True) -> TrainStatus | None:
        """Reads the newest checkpoint; returns where the job was, None when there is none.

        Args:
            executor: an Executor.
            path: the folder of all checkpoints of the job.
            trainer_id: the number of this worker.
            main_program: whose variables; None: the job's Program.
            fs: where the folder is; None: a LocalFS.
            local_cache_path: a folder of this machine, for files that are on their way.
            ignore_empty: that there is none is no error.
        """
        program = self._program("load_check_point", main_program, self._transpiled_program)
        found = checkpoint.load(executor, path, trainer_id, program, LocalFS() if fs is None else fs, local_cache_path)
        if found is None and not ignore_empty:
            raise FileNotFoundError(f"fleet.load_check_point: there is no checkpoint in {path!r}.")
        return found

    def clean_redundant_check_points(self, root_path: str, fs: FS | None = None, checkpoint_num: int = 1) -> None:
        """Removes all but the newest checkpoints.

        Args:
            root_path: the folder of all checkpoints of the job.
            fs: where the folder is; None: a LocalFS.
            checkpoint_num: how many to keep, 1 at least.
        """
        checkpoint.clean(root_path, LocalFS() if fs is None else fs, checkpoint_num)

    def _get_last_checkpoint_no(self, root_path: str, fs: FS) -> int:
        """-1: there is none."""
        return max(checkpoint.numbers(root_path, fs), default=-1)

    # ---- processes ----

    def init_worker(self) -> None:
        """A collective job has nothing to start."""
        raise _not_there("fleet.collective.init_worker")

    def run_worker(self, main_programs=None, scopes=None) -> None:
        """Not there yet; the call says what to use."""
        raise _not_there("fleet.collective.run_worker")

    def init_server(self, model_dir=None) -> None:
        """There are no servers."""
        raise _not_there("fleet.collective.init_server")

    def run_server(self) -> None:
        """There are no servers."""
        raise _not_there("fleet.collective.run_server")

    def stop_worker(self) -> None:
        """A collective job has nothing to stop."""
        raise _not_there("fleet.collective.stop_worker")


class CollectiveOptimizer(DistributedOptimizer):
    """The optimizer of a collective job.

    Args:
        optimizer: an optimizer of fluid.optimizer.
        strategy: a DistributedStrategy; None: its defaults.
    """

    def __init__(self, optimizer, strategy: DistributedStrategy | None = None):
        super().__init__(optimizer, DistributedStrategy() if strategy is None else strategy)

    def minimize(self, loss: Variable, startup_program: Program | None = None, parameter_list: list | None = None,
                 no_grad_set: set | None = None) -> tuple:
        """Adds gradient and update ops, and makes the Program of the job, which has one worker; of several it is not there yet.

        Args:
            loss: the Variable to make small.
            startup_program: what fills the parameters; None: the default startup program.
            parameter_list: which parameters; None: all.
            no_grad_set: variables without gradients.

        Returns:
            the ops, and pairs of a parameter and its gradient.
        """
        fleet._need_one_worker(f"{type(self).__name__}.minimize")
        strategy, optimizer = self._strategy, self._optimizer
        if strategy.use_dist_fc:
            raise _not_there("DistributedStrategy.use_dist_fc")
        if strategy.forward_recompute:
            optimizer = fluid.optimizer.RecomputeOptimizer(optimizer)
            optimizer._set_checkpoints(strategy.recompute_checkpoints)
        if strategy.use_amp:
            optimizer = fluid.contrib.mixed_precision.decorate(optimizer, init_loss_scaling=strategy.amp_loss_scaling,
                                                               use_dynamic_loss_scaling=True)
        made = optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)
        program = loss.block.program
        fleet.startup_program = fluid.default_startup_program() if startup_program is None else startup_program
        fleet._origin_program, fleet._transpiled_program = program.clone(for_test=False), program
        fleet.main_program = CompiledProgram(program).with_data_parallel(loss.name, strategy, strategy.exec_strategy)
        return made


class CollectiveOpBasedOptimizer(CollectiveOptimizer):
    """The same by ops in the Program."""


fleet = Collective()
