"""Layers that combine two tensors element by element, and the scaling, clipping and logic beside them."""

from __future__ import annotations

import sys

from paddle.fluid import unique_name
from paddle.fluid.framework import Variable
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers.build import add_op, emit, frozen, named, need_variable, older

# The pairs (name, what it computes). A shorter y is lined up with the dimensions of x from `axis` on.
BINARY = {
    "elementwise_add": "x + y",
    "elementwise_div": "x / y",
    "elementwise_sub": "x - y",
    "elementwise_mul": "x * y",
    "elementwise_max": "the larger of x and y",
    "elementwise_min": "the smaller of x and y",
    "elementwise_pow": "x to the power of y",
    "elementwise_mod": "the remainder of x / y",
    "elementwise_floordiv": "x / y rounded down",
}
LOGICAL = {
    "logical_and": "True where x and y both are",
    "logical_or": "True where x or y is",
    "logical_xor": "True where exactly one of x and y is",
}

__all__ = [
    *BINARY,
    *LOGICAL,
    "logical_not",
    "elementwise_equal",
    "scale",
    "clip",
    "clamp",
    "clip_by_norm",
    "addcmul",
    "kron",
    "allclose",
    "dist",
]


def _binary(op_type: str, formula: str):
    @older(drop=("use_mkldnn",))
    def layer(
        x: Variable, y: Variable, axis: int = -1, act: str | None = None, name: str | None = None
    ) -> Variable:
        need_variable(x, "x", op_type)
        helper = LayerHelper(op_type, act=act, name=name)
        ins = {"X": x, "Y": need_variable(y, "y", op_type)}
        (out,) = add_op(helper, op_type, ins, {"Out": x.dtype}, {"axis": axis, "use_mkldnn": False})
        return helper.append_activation(out)

    return named(
        layer,
        op_type,
        f"{formula}, element by element. A y of fewer dimensions is lined up with the "
        "dimensions of x from axis on; axis -1 means the last ones.",
    )


globals().update({op_type: _binary(op_type, formula) for op_type, formula in BINARY.items()})


def _logical(op_type: str, meaning: str):
    def layer(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
        need_variable(x, "x", op_type)
        need_variable(y, "y", op_type)
        if x.dtype != y.dtype:
            raise TypeError(
                f"{op_type}: x and y must have the same dtype, but they are {x.dtype} and {y.dtype}."
            )
        return emit(op_type, {"X": x, "Y": y}, {"Out": x.dtype if out is None else out}, name=name)

    return named(layer, op_type, f"{meaning}, element by element.")


globals().update({op_type: _logical(op_type, meaning) for op_type, meaning in LOGICAL.items()})


def logical_not(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """True where x is False."""
    need_variable(x, "x", "logical_not")
    return emit("logical_not", {"X": x}, {"Out": x.dtype if out is None else out}, name=name)


def elementwise_equal(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """True where x and y are equal."""
    out = emit(
        "equal",
        {"X": [x], "Y": [y]},
        {"Out": "bool"},
        {"force_cpu": False},
        name=name,
        layer="elementwise_equal",
    )
    return frozen(out)


def scale(
    x: Variable,
    scale: float | Variable = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """scale * x + bias, or scale * (x + bias) when bias_after_scale is False."""
    ins, attrs = {"X": [x]}, {"bias": float(bias), "bias_after_scale": bias_after_scale}
    if isinstance(scale, Variable):
        ins["ScaleTensor"] = [scale]
    else:
        attrs["scale"] = float(scale)
    return emit("scale", ins, {"Out": need_variable(x, "x", "scale").dtype}, attrs, name=name, act=act)


def _same_kind(op_type: str, x: Variable, attrs: dict, name: str | None) -> Variable:
    """One op whose output is what its input is: a tensor, or the selected rows of a sparse gradient."""
    need_variable(x, "x", op_type)
    helper = LayerHelper(op_type, name=name)
    if name is None:
        name = unique_name.generate_with_ignorable_key(f"{helper.name}.tmp")
    out = helper.create_variable(type=x.type, name=name, dtype=x.dtype, persistable=False)
    return add_op(helper, op_type, {"X": x}, {"Out": out}, attrs)[0]


def clip(x: Variable, min: float, max: float, name: str | None = None) -> Variable:
    """x cut to the range from min to max."""
    return _same_kind("clip", x, {"min": min, "max": max}, name)


def clip_by_norm(x: Variable, max_norm: float, name: str | None = None) -> Variable:
    """x scaled down so that its L2 norm is at most max_norm."""
    return _same_kind("clip_by_norm", x, {"max_norm": max_norm}, name)


def clamp(
    input: Variable,
    min: float | Variable | None = None,
    max: float | Variable | None = None,
    output: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """The input cut to the range from min to max; either may be left out or be a Variable."""
    if min is None and max is None:
        raise ValueError("clamp: give min or max, or both.")
    need_variable(input, "input", "clamp")
    ins, attrs = {"X": input}, {"min": sys.float_info.min, "max": sys.float_info.max}
    for key, slot, value in (("min", "Min", min), ("max", "Max", max)):
        if isinstance(value, Variable):
            ins[slot] = frozen(value)
        elif value is not None:
            attrs[key] = value
    return emit(
        "clip", ins, {"Out": input.dtype if output is None else output}, attrs, name=name, layer="clamp"
    )


def addcmul(
    input: Variable,
    tensor1: Variable,
    tensor2: Variable,
    value: float = 1.0,
    out: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """input + value * tensor1 * tensor2."""
    from paddle.fluid.layers.tensor import assign

    table = globals()
    total = table["elementwise_add"](input, table["elementwise_mul"](tensor1, tensor2) * value)
    if out is None:
        return total
    assign(total, out)
    return out


def kron(x: Variable, y: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """The Kronecker product of x and y."""
    return emit(
        "kron",
        {"X": x, "Y": y},
        {"Out": need_variable(x, "x", "kron").dtype if out is None else out},
        name=name,
    )


def allclose(
    input: Variable,
    other: Variable,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Variable:
    """One bool: whether |input - other| <= atol + rtol * |other| holds everywhere."""
    return emit(
        "allclose",
        {"Input": input, "Other": other},
        {"Out": "bool"},
        {"rtol": rtol, "atol": atol, "equal_nan": equal_nan},
        name=name,
    )


def dist(x: Variable, y: Variable, p: float = 2) -> Variable:
    """The p-norm of x - y."""
    return emit("dist", {"X": [x], "Y": [y]}, attrs={"p": float(p)})
