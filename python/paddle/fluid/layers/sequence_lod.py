"""Layers over batches of sequences of different lengths, which lie one after the other in one tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddle.fluid.framework import Variable
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers.build import (
    Fixed,
    VarType,
    add_op,
    emit,
    frozen,
    need_one_of,
    need_variable,
    need_variables,
    older,
    to_vartype,
)

if TYPE_CHECKING:
    from paddle.fluid.hints import DTypeLike, ParamAttrLike

__all__ = [
    "sequence_conv",
    "sequence_softmax",
    "sequence_pool",
    "sequence_concat",
    "sequence_first_step",
    "sequence_last_step",
    "sequence_slice",
    "sequence_expand",
    "sequence_expand_as",
    "sequence_pad",
    "sequence_unpad",
    "sequence_reshape",
    "sequence_scatter",
    "sequence_enumerate",
    "sequence_mask",
    "sequence_reverse",
]

POOLS = ("average", "sum", "sqrt", "max", "last", "first")


def sequence_conv(
    input: Variable,
    num_filters: int,
    filter_size: int = 3,
    filter_stride: int = 1,
    padding: bool | None = True,
    padding_start: int | None = None,
    bias_attr: ParamAttrLike = None,
    param_attr: ParamAttrLike = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """A convolution over the steps of each sequence, with bias and activation.

    The window of a step begins padding_start steps away from it (half the window before it when None).
    """
    need_variable(input, "input", "sequence_conv")
    helper = LayerHelper("sequence_conv", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    weight = helper.create_parameter(
        attr=helper.param_attr, shape=[filter_size * input.shape[1], num_filters], dtype=input.dtype
    )
    start = -int(filter_size // 2) if padding_start is None else padding_start
    (out,) = add_op(
        helper,
        "sequence_conv",
        {"X": input, "Filter": weight},
        {"Out": input.dtype},
        {"contextStride": filter_stride, "contextStart": start, "contextLength": filter_size},
    )
    return helper.append_activation(helper.append_bias_op(out))


@older(drop=("param_attr", "bias_attr"), x="input")
def sequence_softmax(input: Variable, use_cudnn: bool = False, name: str | None = None) -> Variable:
    """Softmax over the steps of each sequence."""
    return emit("sequence_softmax", {"X": input}, attrs={"use_cudnn": use_cudnn}, name=name)


def sequence_pool(input: Variable, pool_type: str, is_test: bool = False, pad_value: float = 0.0) -> Variable:
    """One row per sequence: average, sum, sqrt, max, last or first step; pad_value if it is empty."""
    need_variable(input, "input", "sequence_pool")
    need_one_of(str(pool_type).lower(), POOLS, "pool_type", "sequence_pool")
    out, index = emit(
        "sequence_pool",
        {"X": input},
        {"Out": input.dtype, "MaxIndex": input.dtype},
        {"pooltype": pool_type.upper(), "is_test": is_test, "pad_value": pad_value},
    )
    if pool_type == "max":
        frozen(index)
    return out


def sequence_first_step(input: Variable) -> Variable:
    """The first step of each sequence."""
    return sequence_pool(input, "first")


def sequence_last_step(input: Variable) -> Variable:
    """The last step of each sequence."""
    return sequence_pool(input, "last")


def sequence_concat(input: list[Variable], name: str | None = None) -> Variable:
    """Sequence i of all inputs, one after the other, as sequence i."""
    return emit("sequence_concat", {"X": need_variables(input, "input", "sequence_concat")}, name=name)


def sequence_slice(input: Variable, offset: Variable, length: Variable, name: str | None = None) -> Variable:
    """A part of each sequence, from its own offset and of its own length."""
    return emit(
        "sequence_slice",
        {
            "X": input,
            "Offset": frozen(need_variable(offset, "offset", "sequence_slice")),
            "Length": frozen(need_variable(length, "length", "sequence_slice")),
        },
        name=name,
    )


def sequence_expand(x: Variable, y: Variable, ref_level: int = -1, name: str | None = None) -> Variable:
    """Row or sequence i of x repeated as often as sequence i of y has entries at level ref_level."""
    return emit("sequence_expand", {"X": x, "Y": y}, attrs={"ref_level": ref_level}, name=name)


def sequence_expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Row i of x repeated over all steps of sequence i of y."""
    return emit("sequence_expand_as", {"X": x, "Y": y}, name=name)


def sequence_pad(
    x: Variable, pad_value: Variable, maxlen: int | None = None, name: str | None = None
) -> tuple[Variable, Variable]:
    """Sequences filled up to one length, maxlen or the longest, as a plain tensor; and their lengths."""
    need_variable(x, "x", "sequence_pad")
    frozen(need_variable(pad_value, "pad_value", "sequence_pad"))
    out, length = emit(
        "sequence_pad",
        {"X": x, "PadValue": pad_value},
        {"Out": x.dtype, "Length": VarType.INT64},
        {"padded_length": -1 if maxlen is None else maxlen},
        name=name,
    )
    return out, frozen(length)


def sequence_unpad(x: Variable, length: Variable, name: str | None = None) -> Variable:
    """The inverse of sequence_pad: rows cut to their lengths and laid one after the other."""
    return emit(
        "sequence_unpad",
        {"X": x, "Length": frozen(need_variable(length, "length", "sequence_unpad"))},
        name=name,
    )


def sequence_reshape(input: Variable, new_dim: int) -> Variable:
    """Steps of width new_dim, with the elements of each sequence kept in order."""
    return emit("sequence_reshape", {"X": input}, attrs={"new_dim": new_dim})


def sequence_scatter(
    input: Variable, index: Variable, updates: Variable, name: str | None = None
) -> Variable:
    """The input with the updates of sequence i added to row i at the columns that index gives."""
    return emit("sequence_scatter", {"X": input, "Ids": index, "Updates": updates}, name=name)


def sequence_enumerate(
    input: Variable, win_size: int, pad_value: int = 0, name: str | None = None
) -> Variable:
    """For each id the win_size ids from it on, with pad_value past the end of its sequence."""
    need_variable(input, "input", "sequence_enumerate")
    return emit(
        "sequence_enumerate",
        {"X": input},
        {"Out": Fixed(input.dtype)},
        {"win_size": win_size, "pad_value": pad_value},
        name=name,
    )


def sequence_mask(
    x: Variable, maxlen: int | Variable | None = None, dtype: DTypeLike = "int64", name: str | None = None
) -> Variable:
    """For each length a row of ones and then zeros, maxlen wide (the largest length when None)."""
    by_tensor = isinstance(maxlen, Variable)
    out = emit(
        "sequence_mask",
        {"X": x, "MaxLenTensor": maxlen if by_tensor else None},
        {"Y": dtype},
        {"out_dtype": to_vartype(dtype), "maxlen": None if by_tensor else maxlen},
        name=name,
    )
    return frozen(out)


def sequence_reverse(x: Variable, name: str | None = None) -> Variable:
    """Each sequence with its steps in reverse order."""
    return emit(
        "sequence_reverse", {"X": x}, {"Y": need_variable(x, "x", "sequence_reverse").dtype}, name=name
    )
