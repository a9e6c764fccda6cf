"""memory_optimize and release_memory: nothing to do, the engine plans memory by itself."""

from __future__ import annotations

from paddle.fluid.framework import Program


def memory_optimize(
    input_program: Program,
    skip_opt_set: set | list | None = None,
    print_log: bool = False,
    level: int = 0,
    skip_grads: bool = True,
) -> None:
    """Marks the Program as optimized; the engine shares memory between variables by itself.

    Args:
        input_program: a Program.
        skip_opt_set: has no effect.
        print_log: has no effect.
        level: has no effect.
        skip_grads: has no effect.
    """
    input_program._is_mem_optimized = True


def release_memory(input_program: Program, skip_opt_set: set | list | None = None) -> None:
    """Nothing to do: the engine gives memory on as soon as a value is no longer needed.

    Args:
        input_program: a Program.
        skip_opt_set: has no effect.
    """
