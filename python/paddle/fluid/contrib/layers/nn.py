"""Layers that upstream kept in contrib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddle.fluid.entry_attr import EntryAttr
from paddle.fluid.framework import Variable
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers.build import add_op, need_variable
from paddle.fluid.layers.nn import lookup

if TYPE_CHECKING:
    from paddle.fluid.hints import DTypeLike, ParamAttrLike

__all__ = ["fused_embedding_seq_pool", "sparse_embedding"]


def fused_embedding_seq_pool(
    input: Variable,
    size: list[int],
    is_sparse: bool = False,
    padding_idx: int | None = None,
    combiner: str = "sum",
    param_attr: ParamAttrLike = None,
    dtype: DTypeLike = "float32",
) -> Variable:
    """An embedding with sequence_pool behind it, in one op: the rows that the ids of each sequence name, added up. Of ids with
    several columns each is added up by itself, and the sums stand side by side.

    Args:
        input: the ids, int64, with sequences; without them each place is one.
        size: [rows, width] of the table.
        is_sparse: makes the gradient hold the touched rows only.
        padding_idx: this id counts as zeros; below 0 it is counted from the end.
        combiner: sum.
        param_attr: name and initializer of the table.
        dtype: float32 or float64.

    Returns:
        one row for each sequence.
    """
    need_variable(input, "input", "fused_embedding_seq_pool")
    helper = LayerHelper("fused_embedding_seq_pool", param_attr=param_attr)
    table = helper.create_parameter(attr=helper.param_attr, shape=size, dtype=dtype, is_bias=False)
    padding = -1 if padding_idx is None else padding_idx if padding_idx >= 0 else size[0] + padding_idx
    attrs = {"is_sparse": is_sparse, "combiner": combiner, "padding_idx": padding}
    return add_op(helper, "fused_embedding_seq_pool", {"Ids": input, "W": table}, {"Out": dtype}, attrs)[0]


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
