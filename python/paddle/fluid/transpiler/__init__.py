"""fluid.transpiler: Programs from Programs."""

from __future__ import annotations

from paddle import absent
from paddle.fluid.transpiler.distribute_transpiler import DistributeTranspiler, DistributeTranspilerConfig
from paddle.fluid.transpiler.inference_transpiler import InferenceTranspiler  # noqa: F401  (v0.13 to v1.5)
from paddle.fluid.transpiler.memory_optimization_transpiler import memory_optimize, release_memory
from paddle.fluid.transpiler.ps_dispatcher import HashName, RoundRobin

__all__ = [
    "DistributeTranspiler",
    "DistributeTranspilerConfig",
    "HashName",
    "RoundRobin",
    "memory_optimize",
    "release_memory",
]


def __getattr__(name: str):
    absent.refuse(__name__, name)
