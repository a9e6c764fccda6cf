"""Activations and other functions that work on each element by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paddle.fluid.framework import Variable
from paddle.fluid.initializer import Constant
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers import homes
from paddle.fluid.layers.build import add_op, emit, frozen, named, need_one_of, need_variable, older

if TYPE_CHECKING:
    from paddle.fluid.hints import ParamAttrLike

# Functions without attributes, and what they compute.
PLAIN = {
    "sigmoid": "1 / (1 + exp(-x))",
    "logsigmoid": "log(1 / (1 + exp(-x)))",
    "exp": "exp(x)",
    "tanh": "the hyperbolic tangent of x",
    "atan": "the arc tangent of x",
    "tanh_shrink": "x - tanh(x)",
    "sqrt": "the square root of x",
    "rsqrt": "1 / sqrt(x)",
    "abs": "|x|",
    "ceil": "the smallest integer that is not below x",
    "floor": "the largest integer that is not above x",
    "cos": "the cosine of x",
    "acos": "the arc cosine of x",
    "asin": "the arc sine of x",
    "sin": "the sine of x",
    "round": "the integer nearest to x",
    "reciprocal": "1 / x",
    "square": "x * x",
    "softplus": "log(1 + exp(x))",
    "softsign": "x / (1 + |x|)",
    "relu": "max(x, 0)",
    "log": "the natural logarithm of x",
}

__activations_noattr__ = [name for name in PLAIN if name not in ("relu", "log")]

__all__ = [
    *PLAIN,
    "softshrink",
    "hard_shrink",
    "cumsum",
    "thresholded_relu",
    "gelu",
    "erf",
    "log1p",
    "selu",
    "elu",
    "relu6",
    "pow",
    "stanh",
    "hard_sigmoid",
    "swish",
    "hard_swish",
    "mish",
    "brelu",
    "leaky_relu",
    "soft_relu",
    "prelu",
    "sign",
    "maxout",
]


def _plain(op_type: str, formula: str):
    def layer(x: Variable, name: str | None = None) -> Variable:
        return emit(op_type, {"X": x}, name=name)

    return named(layer, op_type, f"{formula}, for each element of x.")


globals().update({op_type: _plain(op_type, formula) for op_type, formula in PLAIN.items()})


@older(drop=("name",))
def softshrink(x: Variable, alpha: float | None = None) -> Variable:
    """x moved towards zero by alpha (0.5 when not given), and 0 where |x| <= alpha."""
    return emit("softshrink", {"X": x}, attrs={"lambda": alpha})


@older(drop=("name",))
def hard_shrink(x: Variable, threshold: float | None = None) -> Variable:
    """x, and 0 where |x| <= threshold (0.5 when not given)."""
    return emit("hard_shrink", {"X": x}, attrs={"threshold": threshold})


@older(drop=("name",))
def thresholded_relu(x: Variable, threshold: float | None = None) -> Variable:
    """x where it is above threshold (1.0 when not given), else 0."""
    return emit("thresholded_relu", {"X": x}, attrs={"threshold": threshold})


def cumsum(
    x: Variable, axis: int | None = None, exclusive: bool | None = None, reverse: bool | None = None
) -> Variable:
    """Running sums along an axis (the last when not given); `exclusive` leaves each element itself out."""
    return emit("cumsum", {"X": x}, attrs={"axis": axis, "exclusive": exclusive, "reverse": reverse})


def gelu(x: Variable, approximate: bool = False) -> Variable:
    """x times the normal distribution's cumulative probability at x, or its tanh approximation."""
    return emit("gelu", {"X": x}, attrs={"approximate": approximate})


def erf(x: Variable) -> Variable:
    """The error function."""
    return emit("erf", {"X": x})


def log1p(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """log(1 + x)."""
    need_variable(x, "x", "log1p")
    return emit("log1p", {"X": x}, {"Out": x.dtype if out is None else out}, name=name)


def selu(
    x: Variable, scale: float | None = None, alpha: float | None = None, name: str | None = None
) -> Variable:
    """scale * x for positive x, else scale * alpha * (exp(x) - 1)."""
    return emit("selu", {"X": x}, attrs={"scale": scale, "alpha": alpha}, name=name)


def elu(x: Variable, alpha: float = 1.0, name: str | None = None) -> Variable:
    """x for positive x, else alpha * (exp(x) - 1)."""
    return emit("elu", {"X": x}, attrs={"alpha": alpha}, name=name)


def relu6(x: Variable, threshold: float = 6.0, name: str | None = None) -> Variable:
    """x cut to the range from 0 to threshold."""
    return emit("relu6", {"X": x}, attrs={"threshold": threshold}, name=name)


def pow(x: Variable, factor: float | Variable = 1.0, name: str | None = None) -> Variable:
    """x to the power of factor, which may be a Variable of one element."""
    ins, attrs = {"X": x}, {"factor": factor}
    if isinstance(factor, Variable):
        ins, attrs = {"X": x, "FactorTensor": frozen(factor)}, {}
    return emit("pow", ins, {"Out": need_variable(x, "x", "pow").dtype}, attrs, name=name)


def stanh(x: Variable, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None) -> Variable:
    """scale_b * tanh(scale_a * x)."""
    return emit("stanh", {"X": x}, attrs={"scale_a": scale_a, "scale_b": scale_b}, name=name)


def hard_sigmoid(x: Variable, slope: float = 0.2, offset: float = 0.5, name: str | None = None) -> Variable:
    """slope * x + offset, cut to the range from 0 to 1."""
    return emit("hard_sigmoid", {"X": x}, attrs={"slope": slope, "offset": offset}, name=name)


def swish(x: Variable, beta: float = 1.0, name: str | None = None) -> Variable:
    """x * sigmoid(beta * x)."""
    return emit("swish", {"X": x}, attrs={"beta": beta}, name=name)


def hard_swish(
    x: Variable, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0, name: str | None = None
) -> Variable:
    """x * min(max(0, x + offset), threshold) / scale."""
    return emit(
        "hard_swish", {"X": x}, attrs={"threshold": threshold, "scale": scale, "offset": offset}, name=name
    )


def mish(x: Variable, threshold: float = 20, name: str | None = None) -> Variable:
    """x * tanh(softplus(x)); softplus is taken as x above threshold."""
    if threshold <= 0:
        raise ValueError(f"mish: threshold must be above 0, but {threshold} was given.")
    return emit("mish", {"X": x}, attrs={"threshold": threshold}, name=name)


def brelu(x: Variable, t_min: float = 0.0, t_max: float = 24.0, name: str | None = None) -> Variable:
    """x cut to the range from t_min to t_max."""
    return emit("brelu", {"X": x}, attrs={"t_min": t_min, "t_max": t_max}, name=name)


def leaky_relu(x: Variable, alpha: float = 0.02, name: str | None = None) -> Variable:
    """x for positive x, else alpha * x."""
    return emit("leaky_relu", {"X": x}, attrs={"alpha": alpha}, name=name)


def soft_relu(x: Variable, threshold: float = 40.0, name: str | None = None) -> Variable:
    """log(1 + exp(x)) with x cut to the range from -threshold to threshold."""
    return emit("soft_relu", {"X": x}, attrs={"threshold": threshold}, name=name)


def prelu(x: Variable, mode: str, param_attr: ParamAttrLike = None, name: str | None = None) -> Variable:
    """x for positive x, else x times a learned factor: one for all, one per channel or one per element."""
    need_variable(x, "x", "prelu")
    need_one_of(mode, ("all", "channel", "element"), "mode", "prelu")
    if mode == "channel" and len(x.shape) < 2:
        raise ValueError(
            f"prelu: mode 'channel' needs an input of 2 or more dimensions, but x has shape {x.shape}."
        )
    helper = LayerHelper("prelu", param_attr=param_attr, name=name)
    shape = {"all": [1], "channel": [1, *x.shape[1:2], 1, 1], "element": [1, *x.shape[1:]]}[mode]
    alpha = helper.create_parameter(
        attr=helper.param_attr, shape=shape, dtype="float32", default_initializer=Constant(0.25)
    )
    return add_op(helper, "prelu", {"X": x, "Alpha": alpha}, {"Out": x.dtype}, {"mode": mode})[0]


def sign(x: Variable | np.ndarray) -> Variable:
    """-1, 0 or 1 for each element of a Variable or of a numpy array."""
    from paddle.fluid.layers.tensor import assign

    helper = LayerHelper("sign")
    if isinstance(x, np.ndarray):
        x = assign(x)
    return add_op(helper, "sign", {"X": [need_variable(x, "x", "sign")]}, {"Out": x.dtype})[0]


def maxout(x: Variable, groups: int, name: str | None = None, axis: int = 1) -> Variable:
    """The largest of every `groups` neighbouring channels; axis says where the channels are."""
    need_one_of(axis, (1, -1, 3), "axis", "maxout")
    return emit("maxout", {"X": x}, attrs={"groups": groups, "axis": 3 if axis == -1 else axis}, name=name)


__getattr__ = homes.served(__name__)
