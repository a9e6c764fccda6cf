"""memory_optimize and release_memory: nothing to do, the engine plans memory by itself."""

from __future__ import annotations

from paddle.fluid.framework import Program


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
