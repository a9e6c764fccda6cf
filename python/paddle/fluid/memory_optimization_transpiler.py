"""fluid.memory_optimization_transpiler of v0.11.1 and v0.12; it is in fluid.transpiler since v0.13."""

from paddle.fluid.transpiler.memory_optimization_transpiler import (  # noqa: F401
    memory_optimize,
    release_memory,
)
