"""paddle.fluid: Programs, layers, optimizers and the Executor, as scripts of v0.11 to v1.8 use them.

Only Program, Variable and Executor are loaded at once; every other part is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from paddle import absent
from paddle.fluid import core, framework, unique_name  # noqa: F401
from paddle.fluid.core import (  # noqa: F401
    CPUPlace,
    CUDAPinnedPlace,
    CUDAPlace,
    LoDTensor,
    LoDTensorArray,
    Scope,
    Tensor,
    _Scope,
)
from paddle.fluid.data import data  # noqa: F401  (now: an import of the module would take the function's name)
from paddle.fluid.framework import *  # noqa: F401,F403
from paddle.fluid.framework import Parameter  # noqa: F401

del annotations  # `fluid.annotations` is a module

# Modules that `fluid.<name>` loads.
_MODULES = frozenset("""
    annotations average backward clip communicator compiler contrib data_feed_desc data_feeder dataset debugger
    default_scope_funcs device_worker distribute_lookup_table evaluator executor graphviz incubate initializer input
    install_check io layer_helper layers learning_rate_decay lod_tensor log_helper metrics nets op optimizer
    parallel_executor param_attr profiler reader regularizer trainer_desc trainer_factory transpiler wrapped_decorator
    """.split())

# Names that `fluid.<name>` takes from a module.
_NAMES = {
    "Executor": "executor",
    "global_scope": "executor",
    "scope_guard": "executor",
    "_switch_scope": "executor",
    "FetchHandler": "executor",
    "DatasetFactory": "dataset",
    "InMemoryDataset": "dataset",
    "QueueDataset": "dataset",
    "DataFeedDesc": "data_feed_desc",
    "TrainerDesc": "trainer_desc",
    "MultiTrainer": "trainer_desc",
    "DistMultiTrainer": "trainer_desc",
    "PipelineTrainer": "trainer_desc",
    "append_backward": "backward",
    "gradients": "backward",
    "ParamAttr": "param_attr",
    "WeightNormParamAttr": "param_attr",
    "DataFeeder": "data_feeder",
    "embedding": "input",
    "one_hot": "input",
    "create_lod_tensor": "lod_tensor",
    "create_random_int_lodtensor": "lod_tensor",
    "ParallelExecutor": "parallel_executor",
    "CompiledProgram": "compiler",
    "ExecutionStrategy": "compiler",
    "BuildStrategy": "compiler",
    "DataLoader": "reader",
    "PyReader": "reader",
    "save": "io",
    "load": "io",
    "load_program_state": "io",
    "set_program_state": "io",
    "memory_optimize": "transpiler",
    "release_memory": "transpiler",
    "DistributeTranspiler": "transpiler",
    "DistributeTranspilerConfig": "transpiler",
    "HashName": "transpiler",
    "RoundRobin": "transpiler",
}

# Names and modules of v0.11 to v1.4 that v1.8 has not; `from paddle.fluid import *` leaves them out.
_OLD_NAMES = {
    "Block": "framework",
    "Operator": "framework",
    "get_var": "framework",
    "switch_main_program": "framework",
    "switch_startup_program": "framework",
    "switch_scope": "executor",
    "fetch_var": "executor",
    "Trainer": "trainer",
    "BeginEpochEvent": "trainer",
    "EndEpochEvent": "trainer",
    "BeginStepEvent": "trainer",
    "EndStepEvent": "trainer",
    "CheckpointConfig": "trainer",
    "Inferencer": "inferencer",
    "AsyncExecutor": "async_executor",
    "InferenceTranspiler": "transpiler",
}
_OLD_MODULES = frozenset("""
    async_executor debuger distribute_transpiler distributed_splitter inference_transpiler inferencer
    memory_optimization_transpiler trainer
    """.split())

# The same for tools that read the code without running it.
if TYPE_CHECKING:
    from paddle.fluid import annotations as annotations
    from paddle.fluid import async_executor as async_executor
    from paddle.fluid import average as average
    from paddle.fluid import backward as backward
    from paddle.fluid import clip as clip
    from paddle.fluid import communicator as communicator
    from paddle.fluid import compiler as compiler
    from paddle.fluid import contrib as contrib
    from paddle.fluid import data_feed_desc as data_feed_desc
    from paddle.fluid import data_feeder as data_feeder
    from paddle.fluid import dataset as dataset
    from paddle.fluid import debuger as debuger
    from paddle.fluid import debugger as debugger
    from paddle.fluid import default_scope_funcs as default_scope_funcs
    from paddle.fluid import device_worker as device_worker
    from paddle.fluid import distribute_lookup_table as distribute_lookup_table
    from paddle.fluid import distribute_transpiler as distribute_transpiler
    from paddle.fluid import distributed_splitter as distributed_splitter
    from paddle.fluid import evaluator as evaluator
    from paddle.fluid import executor as executor
    from paddle.fluid import graphviz as graphviz
    from paddle.fluid import incubate as incubate
    from paddle.fluid import inference_transpiler as inference_transpiler
    from paddle.fluid import inferencer as inferencer
    from paddle.fluid import initializer as initializer
    from paddle.fluid import input as input
    from paddle.fluid import install_check as install_check
    from paddle.fluid import io as io
    from paddle.fluid import layer_helper as layer_helper
    from paddle.fluid import layers as layers
    from paddle.fluid import learning_rate_decay as learning_rate_decay
    from paddle.fluid import lod_tensor as lod_tensor
    from paddle.fluid import log_helper as log_helper
    from paddle.fluid import memory_optimization_transpiler as memory_optimization_transpiler
    from paddle.fluid import metrics as metrics
    from paddle.fluid import nets as nets
    from paddle.fluid import op as op
    from paddle.fluid import optimizer as optimizer
    from paddle.fluid import parallel_executor as parallel_executor
    from paddle.fluid import param_attr as param_attr
    from paddle.fluid import profiler as profiler
    from paddle.fluid import reader as reader
    from paddle.fluid import regularizer as regularizer
    from paddle.fluid import trainer as trainer
    from paddle.fluid import trainer_desc as trainer_desc
    from paddle.fluid import trainer_factory as trainer_factory
    from paddle.fluid import transpiler as transpiler
    from paddle.fluid import wrapped_decorator as wrapped_decorator
    from paddle.fluid.async_executor import AsyncExecutor as AsyncExecutor
    from paddle.fluid.backward import append_backward as append_backward
    from paddle.fluid.backward import gradients as gradients
    from paddle.fluid.compiler import BuildStrategy as BuildStrategy
    from paddle.fluid.compiler import CompiledProgram as CompiledProgram
    from paddle.fluid.compiler import ExecutionStrategy as ExecutionStrategy
    from paddle.fluid.data_feed_desc import DataFeedDesc as DataFeedDesc
    from paddle.fluid.data_feeder import DataFeeder as DataFeeder
    from paddle.fluid.dataset import DatasetFactory as DatasetFactory
    from paddle.fluid.dataset import InMemoryDataset as InMemoryDataset
    from paddle.fluid.dataset import QueueDataset as QueueDataset
    from paddle.fluid.executor import Executor as Executor
    from paddle.fluid.executor import FetchHandler as FetchHandler
    from paddle.fluid.executor import _switch_scope as _switch_scope
    from paddle.fluid.executor import fetch_var as fetch_var
    from paddle.fluid.executor import global_scope as global_scope
    from paddle.fluid.executor import scope_guard as scope_guard
    from paddle.fluid.executor import switch_scope as switch_scope
    from paddle.fluid.framework import Block as Block
    from paddle.fluid.framework import Operator as Operator
    from paddle.fluid.framework import get_var as get_var
    from paddle.fluid.framework import switch_main_program as switch_main_program
    from paddle.fluid.framework import switch_startup_program as switch_startup_program
    from paddle.fluid.inferencer import Inferencer as Inferencer
    from paddle.fluid.input import embedding as embedding
    from paddle.fluid.input import one_hot as one_hot
    from paddle.fluid.io import load as load
    from paddle.fluid.io import load_program_state as load_program_state
    from paddle.fluid.io import save as save
    from paddle.fluid.io import set_program_state as set_program_state
    from paddle.fluid.lod_tensor import create_lod_tensor as create_lod_tensor
    from paddle.fluid.lod_tensor import create_random_int_lodtensor as create_random_int_lodtensor
    from paddle.fluid.parallel_executor import ParallelExecutor as ParallelExecutor
    from paddle.fluid.param_attr import ParamAttr as ParamAttr
    from paddle.fluid.param_attr import WeightNormParamAttr as WeightNormParamAttr
    from paddle.fluid.reader import DataLoader as DataLoader
    from paddle.fluid.reader import PyReader as PyReader
    from paddle.fluid.trainer import BeginEpochEvent as BeginEpochEvent
    from paddle.fluid.trainer import BeginStepEvent as BeginStepEvent
    from paddle.fluid.trainer import CheckpointConfig as CheckpointConfig
    from paddle.fluid.trainer import EndEpochEvent as EndEpochEvent
    from paddle.fluid.trainer import EndStepEvent as EndStepEvent
    from paddle.fluid.trainer import Trainer as Trainer
    from paddle.fluid.trainer_desc import DistMultiTrainer as DistMultiTrainer
    from paddle.fluid.trainer_desc import MultiTrainer as MultiTrainer
    from paddle.fluid.trainer_desc import PipelineTrainer as PipelineTrainer
    from paddle.fluid.trainer_desc import TrainerDesc as TrainerDesc
    from paddle.fluid.transpiler import DistributeTranspiler as DistributeTranspiler
    from paddle.fluid.transpiler import DistributeTranspilerConfig as DistributeTranspilerConfig
    from paddle.fluid.transpiler import HashName as HashName
    from paddle.fluid.transpiler import InferenceTranspiler as InferenceTranspiler
    from paddle.fluid.transpiler import RoundRobin as RoundRobin
    from paddle.fluid.transpiler import memory_optimize as memory_optimize
    from paddle.fluid.transpiler import release_memory as release_memory

__all__ = [
    *framework.__all__,
    *(name for name in _NAMES if not name.startswith("_")),
    "data",
    *sorted(_MODULES),
    "core",
    "unique_name",
    "LoDTensor",
    "LoDTensorArray",
    "CPUPlace",
    "CUDAPlace",
    "CUDAPinnedPlace",
    "Tensor",
    "Scope",
]


def __getattr__(name: str) -> Any:
    home = _NAMES.get(name) or _OLD_NAMES.get(name)
    if home is not None:
        value = getattr(importlib.import_module(f"paddle.fluid.{home}"), name)
        globals()[name] = value
        return value
    if name in _MODULES or name in _OLD_MODULES:
        return importlib.import_module(f"paddle.fluid.{name}")
    absent.refuse(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_OLD_NAMES, *_OLD_MODULES})
