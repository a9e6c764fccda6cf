"""Layers that reduce a tensor along dimensions, and the ones that look for the largest or smallest."""

from __future__ import annotations

from paddle.fluid.framework import Variable
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers.build import Fixed, VarType, add_op, emit, frozen, named, need_variable

REDUCTIONS = {
    "reduce_sum": "The sum",
    "reduce_mean": "The mean",
    "reduce_max": "The largest element",
    "reduce_min": "The smallest element",
    "reduce_prod": "The product",
    "reduce_all": "Whether every element is True",
    "reduce_any": "Whether any element is True",
}

__all__ = [*REDUCTIONS, "mean", "logsumexp", "topk", "argmin", "argmax", "argsort"]


def _reduction(op_type: str, what: str):
    def layer(
        input: Variable, dim: int | list[int] | None = None, keep_dim: bool = False, name: str | None = None
    ) -> Variable:
        need_variable(input, "input", op_type)
        dims = [] if dim is None else list(dim) if isinstance(dim, (list, tuple)) else [dim]
        attrs = {"dim": dims or [0], "keep_dim": keep_dim, "reduce_all": not dims}
        return emit(op_type, {"X": input}, {"Out": input.dtype}, attrs, name=name)

    return named(
        layer,
        op_type,
        f"{what} over the dimensions dim, or over the whole tensor when dim is None. "
        "keep_dim keeps the reduced dimensions with size 1.",
    )


globals().update({op_type: _reduction(op_type, what) for op_type, what in REDUCTIONS.items()})


def mean(x: Variable, name: str | None = None) -> Variable:
    """The mean of all elements, as a tensor of shape [1]."""
    return emit("mean", {"X": x}, name=name)


def logsumexp(
    x: Variable, dim: int | list[int] | None = None, keepdim: bool = False, out: Variable | None = None, name: str | None = None
) -> Variable:
    """log(sum(exp(x))) over the dimensions dim."""
    from paddle.fluid.layers import ops

    total = globals()["reduce_sum"](ops.exp(need_variable(x, "x", "logsumexp")), dim, keepdim)
    if out is None:
        return ops.log(total, name)
    return emit("log", {"X": total}, {"Out": out}, name=name, layer="logsumexp")


def topk(input: Variable, k: int | Variable, name: str | None = None) -> tuple[Variable, Variable]:
    """The k largest values of each row, in falling order, and their positions."""
    need_variable(input, "input", "topk")
    by_tensor = isinstance(k, Variable)
    values, indices = emit(
        "top_k",
        {"X": [input], "K": [k] if by_tensor else None},
        {"Out": input.dtype, "Indices": "int64"},
        {} if by_tensor else {"k": k},
        name=name,
    )
    return frozen(values), frozen(indices)


def argmin(x: Variable, axis: int = 0) -> Variable:
    """The position of the smallest element along an axis."""
    return frozen(emit("arg_min", {"X": x}, {"Out": VarType.INT64}, {"axis": axis}))


def argmax(x: Variable, axis: int = 0) -> Variable:
    """The position of the largest element along an axis."""
    return frozen(emit("arg_max", {"X": x}, {"Out": VarType.INT64}, {"axis": axis}))


def argsort(
    input: Variable, axis: int = -1, descending: bool = False, name: str | None = None
) -> tuple[Variable, Variable]:
    """The elements sorted along an axis, and the positions they came from."""
    need_variable(input, "input", "argsort")
    helper = LayerHelper("argsort", name=name)
    values, indices = add_op(
        helper,
        "argsort",
        {"X": input},
        {"Out": Fixed(input.dtype), "Indices": Fixed(VarType.INT64)},
        {"axis": axis, "descending": descending},
    )
    return values, indices
