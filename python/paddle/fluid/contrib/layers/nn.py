"""Layers that upstream kept in contrib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddle.fluid.entry_attr import EntryAttr
from paddle.fluid.framework import Variable
from paddle.fluid.layers.nn import lookup

if TYPE_CHECKING:
    from paddle.fluid.hints import DTypeLike, ParamAttrLike

__all__ = ["sparse_embedding"]


def sparse_embedding(
    input: Variable,
    size: list[int],
    padding_idx: int | None = None,
    is_test: bool = False,
    entry: EntryAttr | None = None,
    param_attr: ParamAttrLike = None,
    dtype: DTypeLike = "float32",
    expires: int | None = None,
    most_rows: int | None = None,
) -> Variable:
    """The rows of a table without a vocabulary: on servers any id from 0 on has a row once it is trained. The ids' last
    dimension must be 1.

    Args:
        input: the ids, int64.
        size: [rows, width]. The rows count where the Program runs without servers: ids must be below them there.
        padding_idx: this id gives zeros.
        is_test: has no effect.
        entry: which ids get a row: a CountFilterEntry or a ProbabilityEntry of fluid.entry_attr; None: all.
        param_attr: name and initializer of the table.
        dtype: float32.
        expires: rows that so many steps did not train begin anew.
        most_rows: on all servers together; those that were not trained for longest go.

    Returns:
        the rows, as fluid.layers.embedding gives them.
    """
    if entry is not None and not isinstance(entry, EntryAttr):
        raise ValueError("entry must be a CountFilterEntry or a ProbabilityEntry of paddle.fluid.entry_attr.")
    for name, value in (("expires", expires), ("most_rows", most_rows)):
        if value is not None and (not isinstance(value, int) or value < 1):
            raise ValueError(f"{name} is {value!r}; it must be a whole number, 1 at least.")
    out = lookup("lookup_table", input, size, True, True, padding_idx, param_attr, dtype)
    block = out.block.program.global_block()
    made_by = next(op for op in reversed(out.block.ops) if out.name in op.output_arg_names)
    settings = dict(entry.settings) if entry is not None else {}
    settings.update({key: str(value) for key, value in (("expires", expires), ("most", most_rows)) if value is not None})
    table = block.var(made_by.input("W")[0])
    if table.table_settings not in (None, settings):
        raise ValueError(f"the table {table.name!r} was given another entry or other limits before; give all its lookups the same.")
    table.table_settings = settings
    return out
