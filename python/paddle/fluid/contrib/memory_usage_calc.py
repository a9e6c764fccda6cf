"""memory_usage: about how much memory the variables of a Program take."""

from __future__ import annotations

import numpy as np

from paddle.fluid import shown
from paddle.fluid.framework import Program
from paddle.fluid.vartype import DTYPE_NAMES, VarType

__all__ = ["memory_usage"]

_LEAST, _MOST = 1.05, 1.1  # beside the variables: what a process needs for its own


def _bytes_of(var, batch_size: int) -> int:
    unknown = [side for side in var.shape if side < 0]
    if len(unknown) > 1:
        raise ValueError(f"memory_usage: {var.name} has shape {list(var.shape)}; a batch size settles one unknown side only.")
    total = np.dtype(DTYPE_NAMES[var.dtype]).itemsize
    for side in var.shape:
        total *= side if side >= 0 else batch_size * -side
    return total


def memory_usage(program: Program, batch_size: int) -> tuple[float, float, str]:
    """Adds up all tensors that the ops of a Program's first block write, each in memory of its own. The engine needs less:
    variables that are not used at the same time share memory.

    Args:
        program: the Program.
        batch_size: what stands for the unknown size.

    Returns:
        two bounds, and their unit: 'B', 'KB' or 'MB'.

    >>> x = fluid.data(name='x', shape=[None, 256])
    >>> y = fluid.layers.scale(x, 2.0)
    >>> '%.2f to %.2f %s' % fluid.contrib.memory_usage(fluid.default_main_program(), batch_size=8)
    '8.40 to 8.80 KB'
    """
    if not isinstance(program, Program):
        raise TypeError(f"memory_usage takes a Program, found {shown.found(program)}.")
    if batch_size <= 0:
        raise ValueError(f"memory_usage: batch_size must be 1 or more, found {batch_size}.")
    block = program.global_block()
    written = dict.fromkeys(name for op in block.ops for name in op.output_arg_names if name != "@EMPTY@")
    variables = [block.var(name) for name in written]
    total, unit = float(sum(_bytes_of(var, batch_size) for var in variables if var.type == VarType.LOD_TENSOR)), "B"
    for larger in ("KB", "MB"):
        if total > 1024:
            total, unit = total / 1024, larger
    return total * _LEAST, total * _MOST, unit
