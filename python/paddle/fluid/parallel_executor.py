"""ParallelExecutor: an Executor bound to one program, which it runs on CPU_NUM places (data_parallel.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddle.fluid import compiler, core, framework, suggest
from paddle.fluid.log_helper import notice

if TYPE_CHECKING:
    from paddle.fluid.hints import Program, Scope

__all__ = ["ParallelExecutor"]

ExecutionStrategy = compiler.ExecutionStrategy
BuildStrategy = compiler.BuildStrategy


class ParallelExecutor:
    """Runs `main_program` (the default one if left out) again and again.

    `num_threads`, `allow_op_delay` and `customize_loss_grad` are arguments of v0.12; they change nothing.

    Args:
        use_cuda: must be False.
        loss_name: the name of the loss.
        main_program: what to run; None: the default main program.
        share_vars_from: a ParallelExecutor whose scope is used.
        exec_strategy: accepted; the engine decides.
        build_strategy: on several places, how the gradient of the loss begins (`gradient_scale_strategy`);
            the engine decides the rest.
        num_trainers: has no effect: it runs in one process.
        trainer_id: has no effect.
        scope: where parameters live; None: the global scope.
    """

    ExecutionStrategy = ExecutionStrategy
    BuildStrategy = BuildStrategy

    def __init__(
        self,
        use_cuda: bool,
        loss_name: str | None = None,
        main_program: Program | None = None,
        share_vars_from: "ParallelExecutor | None" = None,
        exec_strategy: ExecutionStrategy | None = None,
        build_strategy: BuildStrategy | None = None,
        num_trainers: int = 1,
        trainer_id: int = 0,
        scope: Scope | None = None,
        **old,
    ):
        from paddle.fluid import executor

        for key in old:
            if key not in (
                "num_threads",
                "allow_op_delay",
                "customize_loss_grad",
                "use_default_grad_scale",
                "balance_parameter_opt_between_cards",
            ):
                raise suggest.no_argument(ParallelExecutor, key)
        if use_cuda:
            raise RuntimeError(
                "ParallelExecutor: use_cuda is True, and this build has no CUDA. Use use_cuda=False."
            )
        if share_vars_from is not None and not isinstance(share_vars_from, ParallelExecutor):
            raise TypeError(
                f"share_vars_from must be a ParallelExecutor, not a {type(share_vars_from).__name__}."
            )
        if num_trainers != 1:
            notice("num_trainers of ParallelExecutor has no effect; it runs in one process.")
        self._place = core.CPUPlace()
        if scope is None:
            scope = share_vars_from._scope if share_vars_from is not None else executor.global_scope()
        self._scope = scope
        self._compiled_program = compiler.CompiledProgram(
            framework.default_main_program() if main_program is None else main_program
        ).with_data_parallel(
            loss_name=loss_name,
            build_strategy=build_strategy,
            exec_strategy=exec_strategy,
            share_vars_from=share_vars_from._compiled_program if share_vars_from is not None else None,
        )
        self._exe = executor.Executor(self._place)
        self._dropped = True

    def run(self, fetch_list: list, feed: dict | list | None = None, feed_dict: dict | list | None = None,
            return_numpy: bool = True):
        """Runs one step.

        Args:
            fetch_list: names of variables.
            feed: a dict, whose batches are cut for the places, or a list of dicts, one for each place.
            feed_dict: the old name of feed.
            return_numpy: arrays instead of LoDTensors.

        Returns:
            a list of values.
        """
        feed = feed_dict if feed is None else feed
        self._dropped = False
        return self._exe.run(
            program=self._compiled_program,
            scope=self._scope,
            feed=feed or {},
            fetch_list=fetch_list,
            return_numpy=return_numpy,
        )

    @property
    def device_count(self) -> int:
        """The number of places."""
        several = self._compiled_program._on_places()
        return 1 if several is None else several.count

    def bcast_params(self) -> None:
        """Sends the parameters to all devices; with one there is nothing to do."""

    def drop_local_exe_scopes(self) -> None:
        """Drops what steps left behind; here a step leaves nothing."""
        self._dropped = True

    def _need_create_local_exe_scopes(self) -> bool:
        """Whether the next step must make what drop_local_exe_scopes() dropped."""
        return self._dropped
