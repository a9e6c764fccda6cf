"""Copies of ops and variables from one Program to another."""

from __future__ import annotations

from typing import Callable

from paddle.fluid.framework import EMPTY_VAR_NAME
from paddle.fluid.vartype import VarType

_BLOCK = 8  # the kind of an attribute that names a block


def declare(block, var, name: str | None = None, shape=None, persistable: bool | None = None, type=None):
    """The variable `var` of another Program in this block, maybe with another name and shape."""
    name = var.name if name is None else name
    found = block.vars.get(name)
    if found is not None:
        return found
    persistable = var.persistable if persistable is None else persistable
    type = var.type if type is None else type
    if type not in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS):
        return block.create_var(name=name, type=type, persistable=persistable)
    return block.create_var(
        name=name,
        type=type,
        shape=var.shape if shape is None else shape,
        dtype=var.dtype if var._has_dtype else None,
        lod_level=None if type == VarType.SELECTED_ROWS else var.lod_level,
        persistable=persistable,
    )


def remove_ops(ops) -> None:
    """Removes ops of one Program, from whatever blocks they stand in."""
    ops = list(ops)
    if ops:
        ops[0].block.program._remove_parts(ops)


def remove_vars(block, names) -> None:
    """Removes those of the variables that the block has."""
    found = [block.vars.get(name) for name in names]
    block.program._remove_parts([var for var in found if var is not None])


def attrs_of(op) -> dict:
    """The attributes that were set, but for blocks."""
    return {name: value for name, (kind, value) in op._attrs().items() if kind != _BLOCK}


def place_of(op) -> dict:
    """The attribute that keeps the place of an op which draws random numbers: a copy draws the same."""
    if "seed" not in op.attr_names:
        return {}
    return {"op_place": op.attr("op_place") if op.has_attr("op_place") else op._id}


def copy_op(block, op, name_in: Callable[[str], str] = str, **attrs):
    """Appends a copy of `op` to `block`. `name_in` gives each variable its name there and declares it."""

    def names(given):
        return [name if name == EMPTY_VAR_NAME else name_in(name) for name in given]

    inputs = {slot: names(op.input(slot)) for slot in op.input_names}
    outputs = {slot: names(op.output(slot)) for slot in op.output_names}
    blocks = {
        name: _copy_block(block, op.block.program.block(value), name_in)
        for name, (kind, value) in op._attrs().items()
        if kind == _BLOCK
    }
    return block.append_op(
        type=op.type, inputs=inputs, outputs=outputs, attrs={**attrs_of(op), **place_of(op), **blocks, **attrs}
    )


def _copy_block(parent, block, name_in: Callable[[str], str]):
    """A copy of a sub-block, inside `parent`. Its own variables keep their names."""
    program = parent.program
    made = program.block(program._add_block(parent.idx))
    for var in block._all_vars():
        declare(made, var)
    for op in block.ops:
        copy_op(made, op, lambda name: name if made.has_var(name) else name_in(name))
    return made
