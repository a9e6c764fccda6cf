"""Layers that pick and place rows and elements by number: gathering, scattering, finding, numbering."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from paddle.fluid.framework import Variable
from paddle.fluid.layers.build import (
    Fixed,
    VarType,
    dtype_name,
    emit,
    need_one_of,
    need_variable,
    need_variables,
    older,
    to_vartype,
)
from paddle.fluid.layers.shape_ops import slice

if TYPE_CHECKING:
    from paddle.fluid.hints import DTypeLike

__all__ = [
    "gather",
    "gather_nd",
    "scatter",
    "scatter_nd",
    "scatter_nd_add",
    "index_select",
    "index_sample",
    "multiplex",
    "where",
    "nonzero",
    "unique",
    "unique_with_counts",
    "shard_index",
    "gather_tree",
    "hash",
]


def gather(input: Variable, index: Variable, overwrite: bool = True) -> Variable:
    """The rows of the input that index names."""
    return emit("gather", {"X": input, "Index": index}, attrs={"overwrite": overwrite})


def gather_nd(input: Variable, index: Variable, name: str | None = None) -> Variable:
    """The slices of the input at the places that the rows of index give."""
    return emit("gather_nd", {"X": input, "Index": index}, name=name)


@older(x="input", ids="index")
def scatter(
    input: Variable, index: Variable, updates: Variable, name: str | None = None, overwrite: bool = True
) -> Variable:
    """The input with the rows that index names replaced by updates, or with updates added up there."""
    return emit(
        "scatter", {"X": input, "Ids": index, "Updates": updates}, attrs={"overwrite": overwrite}, name=name
    )


def scatter_nd_add(ref: Variable, index: Variable, updates: Variable, name: str | None = None) -> Variable:
    """ref with updates added at the places that the rows of index give."""
    need_variable(ref, "ref", "scatter_nd_add")
    if ref.dtype != need_variable(updates, "updates", "scatter_nd_add").dtype:
        raise ValueError(
            f"scatter_nd_add: ref and updates must have the same dtype, but they are "
            f"{ref.dtype} and {updates.dtype}."
        )
    return emit("scatter_nd_add", {"X": ref, "Index": index, "Updates": updates}, name=name)


def scatter_nd(index: Variable, updates: Variable, shape: list[int], name: str | None = None) -> Variable:
    """Zeros of this shape with updates added at the places that the rows of index give."""
    from paddle.fluid.layers.tensor import zeros

    return scatter_nd_add(zeros(shape, updates.dtype), index, updates, name)


def index_select(input: Variable, index: Variable, dim: int = 0) -> Variable:
    """The entries of the input along a dimension that index names."""
    return emit("index_select", {"X": input, "Index": index}, attrs={"dim": dim})


def index_sample(x: Variable, index: Variable) -> Variable:
    """From each row of x the columns that the same row of index names."""
    return emit("index_sample", {"X": x, "Index": index})


def multiplex(inputs: list[Variable], index: Variable) -> Variable:
    """Row i from the input whose number is index[i]."""
    choices = need_variables(inputs, "inputs", "multiplex")
    if len(choices) < 2:
        raise ValueError("multiplex: give at least 2 inputs to choose from.")
    return emit("multiplex", {"X": choices, "Ids": index}, {"Out": choices[0].dtype})


def where(condition: Variable) -> Variable:
    """The places of all elements that are True, one row each."""
    return emit("where_index", {"Condition": condition}, {"Out": VarType.INT64})


def nonzero(input: Variable, as_tuple: bool = False):
    """The places of all elements that are not zero: one row each, or a tuple of columns."""
    places = where(need_variable(input, "input", "nonzero"))
    if not as_tuple:
        return places
    ndim = len(input.shape)
    if ndim == 1:
        return (places,)
    return tuple(slice(places, axes=[1], starts=[i], ends=[i + 1]) for i in builtins.range(ndim))


def unique(x: Variable, dtype: DTypeLike = "int32") -> tuple[Variable, Variable]:
    """The different values of a vector, and for each element the place of its value among them."""
    need_variable(x, "x", "unique")
    out, index = emit("unique", {"X": x}, {"Out": x.dtype, "Index": dtype}, {"dtype": to_vartype(dtype)})
    return out, index


def unique_with_counts(x: Variable, dtype: DTypeLike = "int32") -> tuple[Variable, Variable, Variable]:
    """unique, and how often each value occurs."""
    need_variable(x, "x", "unique_with_counts")
    need_one_of(dtype_name(dtype), ("int32", "int64"), "dtype", "unique_with_counts")
    if len(x.shape) != 1:
        raise ValueError(f"unique_with_counts: x must have 1 dimension, but its shape is {x.shape}.")
    out, index, count = emit(
        "unique_with_counts",
        {"X": x},
        {"Out": x.dtype, "Index": dtype, "Count": dtype},
        {"dtype": to_vartype(dtype)},
    )
    return out, index, count


def shard_index(
    input: Variable, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1
) -> Variable:
    """Ids as this shard counts them, and ignore_value for the ids of other shards."""
    if not 0 <= shard_id < nshards:
        raise ValueError(f"shard_index: shard_id must be from 0 to {nshards - 1}, but {shard_id} was given.")
    return emit(
        "shard_index",
        {"X": [input]},
        attrs={
            "index_num": index_num,
            "nshards": nshards,
            "shard_id": shard_id,
            "ignore_value": ignore_value,
        },
    )


def gather_tree(ids: Variable, parents: Variable) -> Variable:
    """Whole sequences of a beam search, traced back from the last step through the parents."""
    need_variable(ids, "ids", "gather_tree")
    return emit("gather_tree", {"Ids": ids, "Parents": parents}, {"Out": ids.dtype})


def hash(input: Variable, hash_size: int, num_hash: int = 1, name: str | None = None) -> Variable:
    """num_hash hash values, each below hash_size, for every row of ids."""
    need_variable(input, "input", "hash")
    return emit(
        "hash",
        {"X": input},
        {"Out": Fixed(input.dtype)},
        {"num_hash": num_hash, "mod_by": hash_size},
        name=name,
    )
