"""The Fleet with parameter servers: `fleet`, on DistributeTranspiler. docs/FLEET.md is the guide."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from paddle.fluid import data_passes, io, io_check
from paddle.fluid.communicator import Communicator, check_mode
from paddle.fluid.compiler import CompiledProgram
from paddle.fluid.executor import Executor
from paddle.fluid.framework import Program, Variable, default_main_program, default_startup_program
from paddle.fluid.incubate.fleet.base import checkpoint_job, checkpoints
from paddle.fluid.incubate.fleet.base.fleet_base import DistributedOptimizer, Fleet, Mode
from paddle.fluid.incubate.fleet.base.role_maker import MPISymetricRoleMaker, RoleMakerBase
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    AsyncStrategy,
    DistributedStrategy,
    GeoStrategy,
    HalfAsyncStrategy,
    StrategyFactory,
    SyncStrategy,
    TrainerRuntimeConfig,
)
from paddle.fluid.optimizer_base import Optimizer
from paddle.fluid.parallel_executor import ParallelExecutor
from paddle.fluid.transpiler.details.checkport import wait
from paddle.fluid.transpiler.distribute_transpiler import DistributeTranspiler, DistributeTranspilerConfig

__all__ = [
    "DistributedTranspiler",
    "TranspilerOptimizer",
    "fleet",
    "AsyncStrategy",
    "DistributedStrategy",
    "GeoStrategy",
    "HalfAsyncStrategy",
    "StrategyFactory",
    "SyncStrategy",
    "TrainerRuntimeConfig",
]

_LOOK_SECONDS = 0.05
_KINDS = "DistributeTranspilerConfig, SyncStrategy, HalfAsyncStrategy, AsyncStrategy or GeoStrategy"


def _say_not_ready(waiting: dict[str, str], seconds: float) -> None:
    """In upstream's words, at once; what is wrong with each comes later, when it is no longer a matter of who is started first."""
    text = f"server not ready, wait 3 sec to retry...\nnot ready endpoints:{list(waiting)}\n"
    if seconds > 1:
        text += f"{seconds:.0f} s: " + "; ".join(f"{endpoint}: {reason}" for endpoint, reason in waiting.items()) + "\n"
    sys.stderr.write(text)
    sys.stderr.flush()


def strategy_of(config: DistributedStrategy | DistributeTranspilerConfig) -> DistributedStrategy:
    """The strategy itself, or the one that a config of DistributeTranspiler stands for."""
    if isinstance(config, DistributedStrategy):
        return config
    if not isinstance(config, DistributeTranspilerConfig):
        raise TypeError(f"config must be an instance of {_KINDS}; found {config!r}.")
    if config.sync_mode or config.completely_not_async:
        found: DistributedStrategy = SyncStrategy()
    elif config.geo_sgd_mode:
        found = GeoStrategy(config.geo_sgd_need_push_nums)
    elif config.runtime_split_send_recv and not config.half_async:
        found = AsyncStrategy()
    else:
        found = HalfAsyncStrategy()
    found.set_program_config(config)
    return found


class DistributedTranspiler(Fleet):
    """The Fleet that trains with parameter servers; a script uses the one object `fleet`.

    >>> from paddle.fluid.incubate.fleet.base import role_maker
    >>> from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet, StrategyFactory
    >>> fleet.init(role_maker.UserDefinedRoleMaker(current_id=0, role=role_maker.Role.SERVER, worker_num=2,
    ...                                            server_endpoints=["127.0.0.1:36011"]))
    >>> loss = fluid.layers.mean(fluid.layers.fc(fluid.data(name='x', shape=[None, 2]), 1))
    >>> optimizer = fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), StrategyFactory.create_sync_strategy())
    >>> ops, pairs = optimizer.minimize(loss)
    >>> fleet.init_server()                 # then fleet.run_server() serves
    >>> [op.type for op in fleet.main_program.global_block().ops]
    ['listen_and_serv']
    """

    def __init__(self):
        super().__init__(Mode.TRANSPILER)
        self._transpile_config: DistributedStrategy | None = None
        self._transpiler: DistributeTranspiler | None = None
        self._origin_program: Program | None = None
        self.startup_program: Program | None = None
        self.main_program: Program | None = None
        self._communicator: Communicator | None = None
        self._opt_info: dict = {}
        self._checkpoints: checkpoints.Checkpoints | None = None

    def init(self, role_maker: RoleMakerBase | None = None) -> None:
        """Finds out who this process is, and where its job goes on (FLAGS_checkpoint_dir, FLAGS_resume). A script calls it first.

        Args:
            role_maker: who tells it; None: a PaddleCloudRoleMaker, which reads the environment.
        """
        super().init(role_maker)
        self._checkpoints = checkpoints.from_flags(self)
        data_passes.counter = self._checkpoints if self.is_worker() else None

    def _need(self, name: str) -> Any:
        """One of the Programs that minimize makes."""
        found = getattr(self, name)
        if found is None:
            raise ValueError(f"{name} is None, need invoke DistributedOptimizer.minimize first: "
                             "fleet.distributed_optimizer(optimizer, strategy).minimize(loss)")
        return found

    # ---- a worker ----

    def init_worker(self) -> None:
        """Makes a worker ready to train: shows its knobs and starts its communicator. Then run fleet.startup_program."""
        self._need("main_program")
        if not self.is_worker():
            raise ValueError("fleet.init_worker() is for workers; this process is a server: call init_server() and run_server().")
        if self._checkpoints is not None:
            self._checkpoints.check()
        if isinstance(self._role_maker, MPISymetricRoleMaker):
            self._wait_for_servers()
        if self._communicator is not None and self._communicator.is_running():
            warnings.warn("communicator has been initialized, skip", stacklevel=2)
            return
        knobs = self._transpile_config.get_trainer_runtime_config()
        print(knobs, flush=True)
        who = {"pserver_endpoints": self.server_endpoints(), "trainer_id": self.worker_index()}
        self._communicator = Communicator(self.main_program, knobs.mode, who, knobs.get_communicator_flags())
        self._communicator.start()

    def stop_worker(self) -> None:
        """A worker is done: servers hear it, and end when all are."""
        if self._checkpoints is not None:
            self._checkpoints.check_end()
        if self._communicator is not None:
            self._communicator.stop()
        self._role()._finalize()
        self._executor.close()

    def _wait_for_servers(self) -> None:
        wait(self.server_endpoints(), _say_not_ready, _LOOK_SECONDS, at_once=True)

    # ---- a server ----

    def init_server(self, model_dir: str | None = None) -> None:
        """Fills a server's parameters: as their initializers say, or from a folder.

        Args:
            model_dir: a folder that save_persistables wrote, on any number of servers or in one process.
        """
        if model_dir and not os.path.isdir(model_dir):
            raise ValueError(f"There is no directory named '{model_dir}'.{io_check.not_there(model_dir)}")
        startup = self._need("startup_program")
        newer = self._checkpoints.model() if self._checkpoints is not None else None
        self._executor.run(startup)
        if newer or model_dir:
            io.load_persistables(self._executor, newer or model_dir, self.main_program)
        if newer:
            self._executor.run(checkpoint_job.giving_rates(self._origin_program, startup))

    def run_server(self) -> None:
        """Serves until all workers are done; the process ends then."""
        program = self._need("main_program")
        if not self.is_server():
            raise ValueError("fleet.run_server() is for servers; this process is a worker: call init_worker().")
        self._executor.run(program)

    # ---- the job ----

    def distributed_optimizer(self, optimizer: Optimizer, strategy: Any = None) -> TranspilerOptimizer:
        """An optimizer whose minimize() makes the Programs of workers and servers.

        Args:
            optimizer: an optimizer of fluid.optimizer.
            strategy: one of StrategyFactory, or a DistributeTranspilerConfig; None: sync.
        """
        if not isinstance(optimizer, Optimizer):
            raise ValueError(f"optimizer must be an instance of Optimizer; found {optimizer!r}.")
        self._role()
        self._optimizer = TranspilerOptimizer(optimizer, strategy)
        return self._optimizer

    def _transpile(self, config: DistributedStrategy | DistributeTranspilerConfig, program: Program | None = None,
                   startup_program: Program | None = None) -> None:
        """Makes the Programs of this process; a worker waits for its servers."""
        strategy = strategy_of(config)
        check_mode(strategy.get_trainer_runtime_config().mode)
        options = strategy.get_program_config()
        program = default_main_program() if program is None else program
        startup = default_startup_program() if startup_program is None else startup_program
        origin = program.clone(for_test=False)
        transpiler = DistributeTranspiler(options)
        transpiler._goes_on_from = self._checkpoints.name if self._checkpoints is not None else ""
        transpiler._set_server_config(strategy.get_server_runtime_config())
        # A server's number is no trainer's.
        transpiler.transpile(trainer_id=self.worker_index() if self.is_worker() else 0, program=program, startup_program=startup,
                             pservers=self.server_endpoints(to_string=True), trainers=self.worker_num(),
                             sync_mode=options.sync_mode)
        self._transpile_config, self._transpiler, self._origin_program = strategy, transpiler, origin
        is_same = self._checkpoints is None or self._checkpoints.describe(transpiler)
        if self.is_server():
            self.main_program, self.startup_program = transpiler.get_pserver_programs(self.server_endpoints()[self.server_index()])
            return
        self.main_program, self.startup_program = transpiler.get_trainer_program(), startup
        if not is_same:
            return  # servers will not listen: init_worker says why
        if options.wait_port and not isinstance(self._role_maker, MPISymetricRoleMaker):
            self._wait_for_servers()

    # ---- going on from a checkpoint ----

    def resumable(self, reader: Callable[[], Iterator]) -> Callable[[], Iterator]:
        """A reader whose items are the batches of the job's checkpoints, for loops that feed:
        `for data in fleet.resumable(reader)():`. A job that goes on from a checkpoint begins behind the batches that it has. All
        workers read as often, each to the end.

        Args:
            reader: gives the same batches in the same order whenever it is called for the same pass.
        """
        return reader if self._checkpoints is None else self._checkpoints.resumable(reader)

    def is_passing_over(self) -> bool:
        """Is the script on its way to the place of the checkpoint that the job goes on from? What it prints then means nothing.
        """
        return self._checkpoints is not None and self._checkpoints.is_passing_over()

    def _set_opt_info(self, opt_info: dict) -> None:
        self._opt_info = opt_info

    # ---- files ----

    def _check(self, call: str, executor: Any, main_program: Any) -> None:
        if not isinstance(executor, Executor):
            also = ", ParallelExecutor is not allowed" if isinstance(executor, ParallelExecutor) else ""
            raise TypeError(f"in fleet.{call}() function, executor must be as Executor type{also}")
        if isinstance(main_program, CompiledProgram):
            raise TypeError(f"in fleet.{call}() function, main_program must be as Program type, CompiledProgram is not allowed")

    def save_inference_model(self, executor: Executor, dirname: str, feeded_var_names: list[str], target_vars: list,
                             main_program: Program | None = None, export_for_deployment: bool = True) -> None:
        """Writes what is needed to compute some variables from others, with the servers' values.

        Args:
            executor: an Executor.
            dirname: the folder.
            feeded_var_names: the names that will be fed.
            target_vars: the Variables that will be fetched.
            main_program: what to cut the model from; None: the job's Program.
            export_for_deployment: leave out what only training needs.
        """
        self._check("save_inference_model", executor, main_program)
        source = self._need("main_program") if main_program is None else main_program
        io.save_inference_model(dirname, feeded_var_names, target_vars, executor, source,
                                export_for_deployment=export_for_deployment)

    def save_persistables(self, executor: Executor, dirname: str, main_program: Program | None = None) -> None:
        """Writes all that lasts, with the servers' values; init_server(dirname) loads it on any number of servers.

        Args:
            executor: an Executor.
            dirname: the folder.
            main_program: whose variables; None: the job's Program.
        """
        self._check("save_persistables", executor, main_program)
        program = self._need("main_program") if main_program is None else main_program
        if not program._is_distributed:
            raise ValueError("main_program is for local, may not use fleet.save_persistables")
        io.save_persistables(executor, dirname, program, None)


fleet = DistributedTranspiler()


def _as_it_was(loss: Variable, startup: Program | None) -> tuple[Variable, Program | None]:
    """The loss and the startup Program to begin with: when minimize was called for them before, in copies from before that."""
    program = loss.block.program
    before = getattr(program, "_fleet_untrained", None)
    if program._is_distributed and before is not None:
        return before[0].clone().block(loss.block.idx).var(loss.name), before[1].clone()
    program._fleet_untrained = program.clone(), (default_startup_program() if startup is None else startup).clone()
    return loss, startup


class TranspilerOptimizer(DistributedOptimizer):
    """What fleet.distributed_optimizer() makes.

    Args:
        optimizer: an optimizer of fluid.optimizer.
        strategy: one of StrategyFactory, or a DistributeTranspilerConfig; None: sync.
    """

    def __init__(self, optimizer: Optimizer, strategy: Any = None):
        super().__init__(optimizer, strategy)
        if strategy is not None and not isinstance(strategy, (DistributeTranspilerConfig, DistributedStrategy)):
            raise TypeError(f"In transpiler mode, strategy must be an instance of {_KINDS}; found {strategy!r}.")
        self._strategy = StrategyFactory.create_sync_strategy() if strategy is None else strategy
        self.opt_info: dict = {}
        if isinstance(self._strategy, DistributedStrategy):
            self.opt_info = {**self._strategy.get_debug_opt(), "mpi_rank": fleet.worker_index(), "mpi_size": fleet.worker_num(),
                             "trainer": "MultiTrainer", "device_worker": "Hogwild"}
            fleet._set_opt_info(self.opt_info)

    def minimize(self, loss: Variable, scopes: Any = None, startup_program: Program | None = None,
                 parameter_list: list | None = None, no_grad_set: set | None = None) -> tuple:
        """Adds gradient and update ops, then makes the Programs of this process. A worker waits for its servers here. A server may
        call it again for the same loss, with another strategy: its Programs are made anew.

        Args:
            loss: the Variable to make small.
            scopes: has no effect.
            startup_program: what fills the parameters; None: the default startup program.
            parameter_list: which parameters; None: all.
            no_grad_set: variables without gradients.

        Returns:
            the ops, and pairs of a parameter and its gradient.
        """
        for name, value in (("loss", loss), ("program", startup_program)):
            if isinstance(value, list):
                raise TypeError(f"DistributedTranspiler's minimize can not accept {name} with list")
        if not fleet.is_server() and loss.block.program._is_distributed:
            raise ValueError("minimize() was called before for this Program, which is a worker's now. Give it all losses at once "
                             "(their sum), or build each model in a Program of its own.")
        if fleet.is_server():
            loss, startup_program = _as_it_was(loss, startup_program)
        made = self._optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)
        fleet._transpile(self._strategy, loss.block.program, startup_program)
        loss.block.program._fleet_opt = self.opt_info
        return made
