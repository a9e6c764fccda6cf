"""CompiledProgram and its options.

A program runs with threads inside its ops, so compiling is a mark on the program; `data_parallel` runs one that was
compiled for several places. Most options are for GPUs: they are accepted and change nothing in the results.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import numpy as np

from paddle.fluid import core, framework
from paddle.fluid.shown import call_text

if TYPE_CHECKING:
    from paddle.fluid.hints import PlaceLike

__all__ = ["CompiledProgram", "ExecutionStrategy", "BuildStrategy"]


class _Options:
    """Named options with defaults. A name that is none of them is an error, as a typing mistake would be."""

    _defaults: dict = {}

    def __init__(self):
        for name, value in self._defaults.items():
            object.__setattr__(self, name, value.copy() if isinstance(value, (list, set)) else value)

    def __setattr__(self, name: str, value) -> None:
        if name not in self._defaults:
            raise AttributeError(
                f"{type(self).__name__} has no option {name!r}. There are: "
                f"{', '.join(sorted(self._defaults))}."
            )
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        changed = {name: getattr(self, name) for name, value in self._defaults.items() if getattr(self, name) != value}
        return call_text(type(self).__name__, changed)


class ExecutionStrategy(_Options):
    """How a compiled program runs."""

    _defaults = {
        "num_threads": 0,
        "use_cuda": False,
        "allow_op_delay": False,
        "num_iteration_per_drop_scope": 100,
        "num_iteration_per_run": 1,
        "use_thread_barrier": False,
        "use_experimental_executor": True,
        "_dry_run": False,
    }


class BuildStrategy(_Options):
    """How a compiled program is built."""

    class ReduceStrategy(enum.IntEnum):
        AllReduce = 0
        Reduce = 1

    class GradientScaleStrategy(enum.IntEnum):
        CoeffNumDevice = 0
        One = 1
        Customized = 2

    _defaults = {
        "reduce_strategy": ReduceStrategy.AllReduce,
        "gradient_scale_strategy": GradientScaleStrategy.CoeffNumDevice,
        "debug_graphviz_path": "",
        "enable_sequential_execution": False,
        "remove_unnecessary_lock": True,
        "num_trainers": 1,
        "trainers_endpoints": [],
        "trainer_id": 0,
        "nccl_comm_num": 1,
        "use_hierarchical_allreduce": False,
        "hierarchical_allreduce_inter_nranks": 0,
        "fuse_elewise_add_act_ops": False,
        "fuse_bn_act_ops": False,
        "fuse_relu_depthwise_conv": False,
        "fuse_broadcast_ops": True,
        "fuse_all_optimizer_ops": False,
        "fuse_all_reduce_ops": True,
        "enable_auto_fusion": False,
        "sync_batch_norm": False,
        "memory_optimize": None,
        "is_distribution": False,
        "async_mode": False,
        "enable_inplace": True,
        "enable_backward_optimizer_op_deps": True,
        "cache_runtime_context": False,
        "mkldnn_enabled_op_types": set(),
        "enable_data_balance": False,
    }


    def _finalize_strategy_and_create_passes(self) -> "PassBuilder":
        """Ends the setting of options. Returns the list of passes, which is empty here: the engine has its own."""
        return PassBuilder()


# Upstream's passes that change what is computed, and what a script does here instead. All others only make it faster.
_CHANGING = {
    "multi_batch_merge_pass": "Let the reader give batches num_repeats times as large: their mean gradient is the same.",
    "is_test_pass": "Use Program.clone(for_test=True).",
    "sync_batch_norm_pass": "On one place (places, CPU_NUM) batch_norm has the statistics of the whole batch.",
}


class Pass:
    """One of upstream's graph passes by its name; here it does nothing. One that would change results is refused."""

    def __init__(self, name: str):
        if name in _CHANGING:
            raise NotImplementedError(f"The pass {name!r} is not there yet, and training without it would be another one. "
                                      + _CHANGING[name])
        self._name = name

    def type(self) -> str:
        return self._name

    def set(self, name: str, value: object) -> None:
        """Upstream's passes have attributes."""


class PassBuilder:
    """Upstream's list of graph passes, which a script may change; here it changes nothing."""

    def __init__(self):
        self._passes: list = []

    def append_pass(self, name: str) -> Pass:
        return self.insert_pass(len(self._passes), name)

    def insert_pass(self, index: int, name: str) -> Pass:
        made = Pass(name)
        self._passes.insert(index, made)
        return made

    def remove_pass(self, index: int) -> None:
        del self._passes[index]

    def all_passes(self) -> list:
        return list(self._passes)


class CompiledProgram:
    """A program with options, to be given to Executor.run in its place.

    Args:
        program_or_graph: the Program.
        build_strategy: on several places, how the gradient of the loss begins (`gradient_scale_strategy`);
            the engine decides the rest.

    >>> loss = fluid.layers.mean(fluid.data(name='x', shape=[None, 2]))
    >>> train = fluid.CompiledProgram(fluid.default_main_program()).with_data_parallel(loss_name=loss.name)
    """

    def __init__(self, program_or_graph: framework.Program | CompiledProgram, build_strategy: BuildStrategy | None = None):
        if isinstance(program_or_graph, CompiledProgram):
            program_or_graph = program_or_graph._program
        if not isinstance(program_or_graph, framework.Program):
            raise TypeError(f"CompiledProgram takes a Program, not a {type(program_or_graph).__name__}.")
        self._program = program_or_graph
        self._build_strategy = build_strategy
        self._exec_strategy = None
        self._is_data_parallel = False
        self._is_inference = False
        self._predictor = None
        self._loss_name = None
        self._share_vars_from = None
        self._places = None
        self._several = None
        self._fed_loss = (-1, None)  # the Program without the op that begins the gradients, and of which change it is

    def __repr__(self) -> str:
        blocks = self._program.blocks
        how = "a predictor" if self._is_inference else "data parallel" if self._is_data_parallel else "plain"
        return f"CompiledProgram({how}, {len(blocks[0].ops)} ops, {len(blocks)} blocks)"

    def with_data_parallel(
        self,
        loss_name: str | None = None,
        build_strategy: BuildStrategy | None = None,
        exec_strategy: ExecutionStrategy | None = None,
        share_vars_from: "CompiledProgram | None" = None,
        places: PlaceLike | list | None = None,
    ) -> "CompiledProgram":
        """Marks the program as data parallel; returns itself. A program that trains needs its `loss_name`.

        Args:
            loss_name: the name of the loss, for a Program that trains.
            build_strategy: on several places, how the gradient of the loss begins (`gradient_scale_strategy`);
                the engine decides the rest.
            exec_strategy: accepted; the engine decides.
            share_vars_from: a CompiledProgram with_data_parallel whose variables are used.
            places: one part of each batch for each of them; None: as many as CPU_NUM says.

        Returns:
            itself.
        """
        if self._is_inference:
            raise ValueError("This CompiledProgram runs a predictor. Make a new one for with_data_parallel.")
        if self._is_data_parallel:
            raise ValueError("with_data_parallel was called before on this CompiledProgram. Make a new one.")
        if loss_name is None and any(op.type.endswith("_grad") for op in self._program.global_block().ops):
            raise ValueError("the program has a backward pass. Give with_data_parallel the loss_name.")
        if share_vars_from is not None and not share_vars_from._is_data_parallel:
            raise ValueError("share_vars_from must be a CompiledProgram with_data_parallel.")
        self._is_data_parallel = True
        self._loss_name = loss_name
        self._share_vars_from = share_vars_from
        if build_strategy is not None:
            self._build_strategy = build_strategy
        self._exec_strategy = exec_strategy
        self._places = [places] if places is not None and not isinstance(places, (list, tuple)) else places
        return self

    def _on_places(self):
        """What runs the program on several places; None when there is one. CPU_NUM counts where no places were given."""
        count = len(framework.cpu_places() if self._places is None else self._places)
        if not self._is_data_parallel or count < 2:
            return None
        if self._several is None or self._several.count != count:
            from paddle.fluid.data_parallel import Places

            shared = None if self._share_vars_from is None else self._share_vars_from._on_places()
            self._several = Places(count, self._build_strategy, shared)
        return self._several

    def _what_runs(self) -> framework.Program:
        """The Program; where the script feeds the gradient of the loss (GradientScaleStrategy.Customized), without the op that
        makes it."""
        scale = self._build_strategy and self._build_strategy.gradient_scale_strategy
        if not self._is_data_parallel or scale != BuildStrategy.GradientScaleStrategy.Customized:
            return self._program
        if self._fed_loss[0] != self._program._changes:
            from paddle.fluid.places_cut import begins_gradients

            program = self._program.clone()
            program._remove_parts([op for op in program.global_block().ops if begins_gradients(op)])
            self._fed_loss = self._program._changes, program
        return self._fed_loss[1]

    def with_inference_optimize(self, config: core.NativeConfig | core.AnalysisConfig) -> "CompiledProgram":
        """Makes run() use a predictor: `config` is a NativeConfig or an AnalysisConfig. Returns itself.

        Args:
            config: a NativeConfig or an AnalysisConfig.

        Returns:
            itself.
        """
        if self._is_data_parallel or self._is_inference:
            raise ValueError("This CompiledProgram was set up before. Make a new one for the predictor.")
        if not isinstance(config, (core.NativeConfig, core.AnalysisConfig)):
            raise TypeError(f"A predictor needs a NativeConfig or an AnalysisConfig, found {config!r}.")
        self._is_inference = True
        self._infer_config = config
        return self

    _with_inference_optimize = with_inference_optimize  # its name since v1.6

    def _predict(self, inputs: list) -> list:
        """Runs the predictor, which is made at the first call, with PaddleTensors."""
        if self._predictor is None:
            self._predictor = core.create_paddle_predictor(self._infer_config)
        return self._predictor.run(inputs)

    def _compile(self, scope, place) -> "CompiledProgram":
        return self


def merge_feeds(feeds) -> dict:
    """Makes one feed of several (one per device upstream): the batches stand behind one another."""
    feeds = [feeds] if isinstance(feeds, dict) else list(feeds)
    if not feeds:
        return {}
    if len(feeds) == 1:
        return feeds[0]
    for feed in feeds[1:]:
        if set(feed) != set(feeds[0]):
            raise ValueError(
                f"the feeds of the devices differ: {sorted(feeds[0])} and {sorted(feed)}. Give "
                "all the same names."
            )
    return {name: _join(name, [feed[name] for feed in feeds]) for name in feeds[0]}


def _join(name: str, parts: list):
    lengths = [
        part.recursive_sequence_lengths() if isinstance(part, core.LoDTensor) else [] for part in parts
    ]
    try:
        array = np.concatenate([np.asarray(part) for part in parts])
    except ValueError as error:
        raise ValueError(f"the feeds of {name} cannot be joined: {error}") from None
    if not any(lengths):
        return array
    if len({len(each) for each in lengths}) != 1:
        raise ValueError(f"the feeds of {name} have different numbers of LoD levels.")
    tensor = core.LoDTensor()
    tensor.set(array, core.CPUPlace())
    tensor.set_recursive_sequence_lengths([sum(level, []) for level in zip(*lengths)])
    return tensor


def join_values(name: str, parts: list, as_numpy: bool):
    """One result from those of several places, behind one another; of arrays of tensors, entry by entry."""
    first = parts[0]
    if isinstance(first, (core.LoDTensorArray, list)):
        return [join_values(name, list(each), as_numpy) for each in zip(*parts)]
    if not isinstance(first, (core.LoDTensor, np.ndarray)):
        if len(parts) == 1:
            return first
        raise core.UnsupportedError(
            f"The fetched {name!r} is of a kind whose values on several places cannot be put together. Run with "
            "return_merged=False."
        )
    if isinstance(first, core.LoDTensor) and not first._is_initialized():
        return None
    value = parts[0] if len(parts) == 1 else _join(name, parts)
    if as_numpy:
        if isinstance(value, core.LoDTensor) and value.lod():
            raise RuntimeError(
                f"The fetched {name!r} holds sequences (LoD), which an array cannot show. Run with return_numpy=False to get "
                "a LoDTensor; np.array(tensor) then gives its rows."
            )
        return np.array(value)
    if isinstance(value, core.LoDTensor):
        return value
    tensor = core.LoDTensor()
    tensor.set(value, core.CPUPlace())
    return tensor
