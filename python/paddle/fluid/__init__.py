"""paddle.fluid: Programs, layers, optimizers and the Executor, as scripts of v0.11 to v1.8 use them.

Only Program, Variable and Executor are loaded at once; every other part is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

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
    annotations average backward clip compiler contrib data_feeder debugger default_scope_funcs
    distribute_lookup_table evaluator executor graphviz initializer input install_check io layer_helper layers
    learning_rate_decay lod_tensor log_helper metrics nets op optimizer parallel_executor param_attr profiler
    reader regularizer transpiler wrapped_decorator
    """.split())

# Names that `fluid.<name>` takes from a module.
_NAMES = {
    "Executor": "executor",
    "global_scope": "executor",
    "scope_guard": "executor",
    "_switch_scope": "executor",
    "FetchHandler": "executor",
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

# Names and modules of v0.11 to v0.14 that v1.8 has not; `from paddle.fluid import *` leaves them out.
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
}
_OLD_MODULES = frozenset("""
    distribute_transpiler distributed_splitter inferencer memory_optimization_transpiler trainer
    """.split())

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
