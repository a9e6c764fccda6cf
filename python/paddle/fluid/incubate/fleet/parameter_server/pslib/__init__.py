"""The Fleet of pslib, on this package's own servers: `embedding(is_distributed=True)` becomes rows by id, for any ids, and training
is async. docs/FLEET.md tells what differs from pslib."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle.fluid as fluid
from paddle import absent
from paddle.fluid import io
from paddle.fluid.executor import Executor
from paddle.fluid.framework import Program, Variable
from paddle.fluid.incubate.fleet.base.fleet_base import DistributedOptimizer, Mode
from paddle.fluid.incubate.fleet.base.role_maker import MPISymetricRoleMaker, RoleMakerBase
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import DistributedTranspiler
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import StrategyFactory
from paddle.fluid.incubate.fleet.parameter_server.pslib.not_there import fill_absent, not_there
from paddle.fluid.incubate.fleet.parameter_server.pslib.optimizer_factory import FLEET_GLOBAL_DICT, DistributedAdam
from paddle.fluid.log_helper import notice
from paddle.fluid.optimizer_base import Optimizer
from paddle.fluid.transpiler.lookup_table import LOOKUPS

__all__ = ["PSLib", "DownpourOptimizer", "DistributedAdam", "FLEET_GLOBAL_DICT", "fleet", "fleet_embedding"]


def _no_meaning(what: str, why: str) -> None:
    notice(f"{what} has no effect: {why}.")


def _note_options(call: str, options: dict) -> None:
    """pslib's own options of a call, apart from the mode 0, which is all of the model."""
    for name, value in options.items():
        if (name, value) != ("mode", 0):
            _no_meaning(f"fleet.{call}({name}={value!r})", "the whole model is written and read")


class PSLib(DistributedTranspiler):
    """The Fleet of pslib; a script uses the one object `fleet`."""

    def __init__(self):
        super().__init__()
        self._mode = Mode.PSLIB
        self._is_filled = False

    def init(self, role_maker: RoleMakerBase | None = None) -> None:
        """Finds out who this process is.

        Args:
            role_maker: who tells it; None: a MPISymetricRoleMaker.
        """
        super().init(MPISymetricRoleMaker() if role_maker is None else role_maker)

    def distributed_optimizer(self, optimizer: Optimizer, strategy: dict | None = None) -> DownpourOptimizer:
        """An optimizer whose minimize() makes the Programs of workers and servers.

        Args:
            optimizer: an optimizer of fluid.optimizer.
            strategy: pslib's settings of tables and accessors; they have no effect.
        """
        self._role()
        self._optimizer = DownpourOptimizer(optimizer, strategy)
        return self._optimizer

    # ---- processes ----

    def init_server(self, model_dir: str | None = None, **options: Any) -> None:
        """Fills a server's parameters. Servers call it before run_server(); in a worker it does nothing without a folder.

        Args:
            model_dir: a folder that save_persistables wrote.
            options: pslib's; they have no effect.
        """
        _note_options("init_server", options)
        if not self.is_server():
            if model_dir:
                raise ValueError(f"fleet.init_server({model_dir!r}) was called in a worker: servers load models here. Call it "
                                 "where fleet.is_server(), before fleet.run_server().")
            return
        super().init_server(model_dir)
        self._is_filled = True

    def run_server(self) -> None:
        """Serves until all workers are done; the process ends then. Parameters that init_server() has not filled begin as their
        initializers say."""
        self._need("main_program")
        if not self._is_filled:
            self.init_server()
        super().run_server()

    # ---- files ----

    def save_persistables(self, executor: Executor, dirname: str, main_program: Program | None = None, **options: Any) -> None:
        """Writes all that lasts; init_server(dirname) loads it on any number of servers.

        Args:
            executor: an Executor.
            dirname: the folder.
            main_program: whose variables; None: the job's Program.
            options: pslib's; they have no effect.
        """
        _note_options("save_persistables", options)
        super().save_persistables(executor, dirname, main_program)

    def save_inference_model(self, executor: Executor, dirname: str, feeded_var_names: list[str] | None = None,
                             target_vars: list | None = None, main_program: Program | None = None,
                             export_for_deployment: bool = True) -> None:
        """As pslib does, all that lasts: the rows of a table lie on servers, and no file of one process has them.

        Args:
            executor: an Executor.
            dirname: the folder.
            feeded_var_names: has no effect.
            target_vars: has no effect.
            main_program: whose variables; None: the job's Program.
            export_for_deployment: has no effect.
        """
        self.save_persistables(executor, dirname, main_program)

    def save_cache_model(self, executor: Executor, dirname: str, main_program: Program | None = None, **options: Any) -> int:
        """Writes nothing: there is no cache of the rows that come most often, all are in memory.

        Args:
            executor: an Executor.
            dirname: the folder.
            main_program: whose variables.
            options: pslib's.

        Returns:
            the rows in the cache: 0.
        """
        _no_meaning("fleet.save_cache_model", "all rows are in the servers' memory; save_persistables writes them")
        return 0

    def save_model(self, model_dir: str | None = None, **options: Any) -> None:
        """save_persistables of the job's Program.

        Args:
            model_dir: the folder.
            options: pslib's; they have no effect.
        """
        _note_options("save_model", options)
        if not model_dir:
            raise ValueError("fleet.save_model needs model_dir, the folder to write.")
        super().save_persistables(self._executor, model_dir)

    def load_model(self, model_dir: str | None = None, **options: Any) -> None:
        """init_server of a server; workers are told so.

        Args:
            model_dir: the folder.
            options: pslib's; they have no effect.
        """
        self.init_server(model_dir, **options)

    def load_one_table(self, table_id: int, model_path: str, **options: Any) -> None:
        """Loads the rows of the table, in a server that init_server() has filled.

        Args:
            table_id: has no effect: a Program has one table.
            model_path: a folder that save_persistables wrote.
            options: pslib's; they have no effect.
        """
        _note_options("load_one_table", {key: value for key, value in options.items() if key not in ("scope", "load_combine")})
        if not self.is_server():
            raise ValueError("fleet.load_one_table was called in a worker: servers load tables here, between fleet.init_server() "
                             "and fleet.run_server().")
        program = self._need("main_program")
        if program._distributed_lookup_table is None:
            raise ValueError("fleet.load_one_table: the Program has no distributed table.")
        if not self._is_filled:
            self.init_server()
        io.load_vars(self._executor, model_path, program, vars=[program._distributed_lookup_table])

    # ---- tables ----

    def shrink_sparse_table(self) -> None:
        """Has no effect: rows go by the settings of their table (contrib.layers.sparse_embedding)."""
        _no_meaning("fleet.shrink_sparse_table", "rows go by `expires` and `most_rows` of contrib.layers.sparse_embedding, while "
                    "the job trains")

    def shrink_dense_table(self, decay: float, emb_dim: int = 11, scope: Any = None, table_id: int | None = None) -> None:
        """Has no effect: there are no sums of data_norm on servers to be made smaller.

        Args:
            decay: by which pslib multiplies.
            emb_dim: the width of an embedding.
            scope: where the variables are.
            table_id: which table.
        """
        _no_meaning("fleet.shrink_dense_table", "statistics are each worker's own")

    def print_table_stat(self, table_id: int) -> None:
        """Says how to see the rows and bytes of the servers' tables.

        Args:
            table_id: has no effect.
        """
        print("\n".join(f"paddle ps status {endpoint}" for endpoint in self.server_endpoints()), flush=True)

    def set_pull_local_thread_num(self, thread_num: int) -> None:
        """Has no effect.

        Args:
            thread_num: of pslib's client.
        """
        _no_meaning("fleet.set_pull_local_thread_num", "a worker's lookups go out together")

    def confirm(self) -> None:
        """Has no effect: what a pass has pushed is applied."""
        _no_meaning("fleet.confirm", "what is pushed is applied at once")


fill_absent(PSLib, "save_model_with_whitelist clear_one_table clear_model load_pslib_whitelist revert save_one_table")
fleet = PSLib()


def _as_table(layer: Callable) -> Callable:
    """An embedding layer whose rows are always those of a table of any ids."""

    def embedding(input, size, is_sparse=False, is_distributed=False, padding_idx=None, param_attr=None, dtype="float32"):
        return layer(input, [max(size[0], 1), size[1]], True, True, padding_idx, param_attr, dtype)

    return embedding


# What fleet_embedding puts in the place of fluid.layers.embedding and fluid.embedding.
_fleet_embedding, _fleet_embedding_v2 = _as_table(fluid.layers.embedding), _as_table(fluid.embedding)


def _prepare_params(*unused: Any, **unused_too: Any) -> None:
    """Not there; a call says what to use."""
    raise not_there("_prepare_params")


class fleet_embedding:
    """In a `with`: embeddings are tables of any ids, whatever rows they are declared with.

    Args:
        click_name: the variable of clicks; it has no effect.
        scale_sparse_grad: has no effect: gradients are those of the mean loss.
    """

    def __init__(self, click_name: str, scale_sparse_grad: bool = True):
        self.click_name, self.scale_sparse_grad = click_name or "", scale_sparse_grad
        self._layers: tuple = ()

    def __enter__(self) -> None:
        self._layers = fluid.layers.embedding, fluid.embedding
        fluid.layers.embedding, fluid.embedding = _fleet_embedding, _fleet_embedding_v2

    def __exit__(self, *unused: Any) -> None:
        fluid.layers.embedding, fluid.embedding = self._layers


class DownpourOptimizer(DistributedOptimizer):
    """What fleet.distributed_optimizer() makes.

    Args:
        optimizer: an optimizer of fluid.optimizer; pslib took Adam for any, here it is the one that was given.
        strategy: pslib's settings of tables and accessors; they have no effect.
    """

    def __init__(self, optimizer: Optimizer, strategy: dict | None = None):
        if not isinstance(optimizer, Optimizer):
            raise ValueError(f"optimizer must be an instance of Optimizer; found {optimizer!r}.")
        super().__init__(optimizer, strategy)
        if strategy:
            _no_meaning(f"the strategy of pslib ({', '.join(map(str, strategy))})", "tables take the optimizer of the script, and "
                        "their settings from contrib.layers.sparse_embedding")

    def minimize(self, losses: Variable | list, scopes: Any = None, startup_programs: Any = None,
                 parameter_list: list | None = None, no_grad_set: set | None = None) -> list:
        """Adds gradient and update ops, then makes the Programs of this process.

        Args:
            losses: the Variable to make small, or a list with it.
            scopes: has no effect.
            startup_programs: what fills the parameters, or a list with it; None: the default startup program.
            parameter_list: which parameters; None: all.
            no_grad_set: variables without gradients.

        Returns:
            the ops, and pairs of a parameter and its gradient.
        """
        loss, startup = (each[0] if isinstance(each, (list, tuple)) and len(each) == 1 else each
                         for each in (losses, startup_programs))
        for name, each in (("losses", loss), ("startup_programs", startup)):
            if isinstance(each, (list, tuple)):
                raise TypeError(f"DownpourOptimizer.minimize trains one Program; {name} has {len(each)}. Start a job for each.")
        program = loss.block.program
        for op in program.global_block().ops:
            if op.type in LOOKUPS and op.attr("is_distributed"):
                table = program.global_block().var(op.input("W")[0])
                table.table_settings = table.table_settings or {}  # any ids have rows
        made = self._optimizer.minimize(loss, startup, parameter_list, no_grad_set)
        fleet._transpile(StrategyFactory.create_async_strategy(), program, startup)
        program._fleet_opt = {"mpi_rank": fleet.worker_index(), "mpi_size": fleet.worker_num(), "trainer": "MultiTrainer",
                              "device_worker": "Hogwild"}
        return list(made)


def __getattr__(name: str):
    return absent.module_or_refuse(__name__, name, frozenset({"node", "optimizer_factory"}))
