"""Finds, removes and prints ops of a Program."""

from __future__ import annotations

from paddle.fluid.transpiler.copying import remove_ops


def delete_ops(block, ops) -> None:
    """Removes ops of a block."""
    remove_ops(op for op in ops if op.block is block)


def find_op_by_input_arg(block, arg_name: str) -> int:
    """The place of the first op that reads a variable, or -1."""
    return next((i for i, op in enumerate(block.ops) if arg_name in op.input_arg_names), -1)


def find_op_by_output_arg(block, arg_name: str, reverse: bool = False) -> int:
    """The place of the first (with `reverse` the last) op that writes a variable, or -1."""
    found = [i for i, op in enumerate(block.ops) if arg_name in op.output_arg_names]
    return (found[-1] if reverse else found[0]) if found else -1


def block_to_code(block, block_idx: int | None = None, fout=None, skip_op_callstack: bool = False) -> None:
    """Prints a block."""
    print(block.to_string(throw_on_error=False), file=fout)


def program_to_code(prog, fout=None, skip_op_callstack: bool = True) -> None:
    """Prints a Program."""
    print(prog.to_string(throw_on_error=False), file=fout)
