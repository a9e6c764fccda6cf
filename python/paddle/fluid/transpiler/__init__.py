"""fluid.transpiler: Programs from Programs. memory_optimize has nothing to do: the engine plans memory."""

from __future__ import annotations

from paddle.fluid.framework import Program
from paddle.fluid.transpiler.distribute_transpiler import DistributeTranspiler, DistributeTranspilerConfig
from paddle.fluid.transpiler.ps_dispatcher import HashName, RoundRobin

__all__ = [
    "DistributeTranspiler",
    "DistributeTranspilerConfig",
    "HashName",
    "RoundRobin",
    "memory_optimize",
    "release_memory",
]


def memory_optimize(
    input_program: Program,
    skip_opt_set=None,
    print_log: bool = False,
    level: int = 0,
    skip_grads: bool = True,
) -> None:
    """Marks the Program as optimized; the engine shares memory between variables by itself."""
    input_program._is_mem_optimized = True


def release_memory(input_program: Program, skip_opt_set=None) -> None:
    """Nothing to do: the engine gives memory on as soon as a value is no longer needed."""


def __getattr__(name: str):
    if name == "InferenceTranspiler":
        raise AttributeError(f"fluid.transpiler.{name} is not there yet in this package.")
    raise AttributeError(f"module 'paddle.fluid.transpiler' has no attribute {name!r}")
