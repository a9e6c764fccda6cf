"""Gradients inside a branch: append_backward and minimize that are called while cond, case or switch_case builds a block.

What has run when the branch ends is the same as if its ops stood at the end of the main block. So they are put there, in a
copy of the Program; that copy is differentiated; and the gradient ops go to the end of the branch.
"""

from __future__ import annotations

from paddle.fluid import core
from paddle.fluid.framework import Block, Program, Variable
from paddle.fluid.vartype import AttrType


def _chain(program: Program) -> list[Block]:
    """The blocks from the main one to the current one."""
    blocks = [program.current_block()]
    while blocks[0].parent_idx >= 0:
        blocks.insert(0, program.block(blocks[0].parent_idx))
    return blocks


def _copy_var(var: Variable, block: Block) -> None:
    if block.has_var(var.name):
        return
    made = block.create_var(name=var.name, type=var.type, persistable=var.persistable, stop_gradient=var.stop_gradient)
    if var._has_dtype:
        made.desc.set_dtype(var.dtype)
    made.desc.set_shape(var.shape)
    made.desc.set_lod_level(var.lod_level)


def _copy_op(op, block: Block, place: int | None = None) -> None:
    """A copy of the op in another block, at its end or at a place; variables that it makes come along."""
    attrs = {}
    for name in op._attrs():
        if op.attr_type(name) in (AttrType.BLOCK, AttrType.BLOCKS):
            raise core.UnsupportedError(
                f"The gradient is asked for inside a branch that holds a block of its own (the op {op.type!r}): that is not there "
                "yet. Call minimize outside of it, or compute that part before the branch."
            )
        attrs[name] = op.attr(name)
    for name in op.output_arg_names:
        if name != core.kEmptyVarName() and block._find_var_recursive(name) is None:
            _copy_var(op.block._var_recursive(name), block)
    ins = {slot: op.input(slot) for slot in op.input_names}
    outs = {slot: op.output(slot) for slot in op.output_names}
    place = len(block.ops) if place is None else place
    block._insert_op(place, type=op.type, inputs=ins, outputs=outs, attrs=attrs)


def _written(block: Block) -> list:
    return [(op.type, op.output_arg_names) for op in block.ops]


def append(program: Program, loss: Variable, names: list, no_grads: list, clips: list) -> list[tuple]:
    """Appends gradient ops to the current block; returns pairs of names (parameter, gradient)."""
    copy = program.clone()
    flat = copy.global_block()
    blocks = _chain(program)
    origins = [(blocks[0], i) for i in range(len(flat.ops))]  # where each op of `flat` stands in the Program
    for block in blocks[1:]:
        for var in block._all_vars():
            _copy_var(var, flat)
        for i, op in enumerate(block.ops):
            _copy_op(op, flat)
            origins.append((block, i))
    known = _written(flat)
    pairs = copy._append_backward(loss.name, names, no_grads, clips)
    # Ops that keep a value before it is overwritten go to the same place; then come the gradients.
    added = dict.fromkeys((block.idx for block in blocks), 0)
    at = 0
    for op in list(flat.ops):
        if at < len(known) and known[at] == (op.type, op.output_arg_names):
            at += 1
        elif at < len(known):
            block, i = origins[at]
            _copy_op(op, block, i + added[block.idx])
            added[block.idx] += 1
        else:
            _copy_op(op, blocks[-1])
    return pairs
