"""Layers that normalize: over a batch, a layer, a group of channels, neighbours, or by a vector's length."""

from __future__ import annotations

import warnings
from math import prod
from typing import TYPE_CHECKING

from paddle.fluid.framework import Variable
from paddle.fluid.initializer import Constant, Normal
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers.build import Fixed, VarType, add_op, emit, need_one_of, need_variable, older
from paddle.fluid.param_attr import ParamAttr

if TYPE_CHECKING:
    from paddle.fluid.hints import ParamAttrLike

__all__ = [
    "batch_norm",
    "inplace_abn",
    "instance_norm",
    "data_norm",
    "layer_norm",
    "group_norm",
    "spectral_norm",
    "lrn",
    "l2_normalize",
]


def _channel_count(input: Variable, data_layout: str, layer: str) -> int:
    need_variable(input, "input", layer)
    need_one_of(data_layout, ("NCHW", "NHWC"), "data_layout", layer)
    return input.shape[1] if data_layout == "NCHW" else input.shape[-1]


def _batch_norm(
    layer: str,
    input,
    in_place,
    is_test,
    momentum,
    epsilon,
    param_attr,
    bias_attr,
    data_layout,
    name,
    moving_mean_name,
    moving_variance_name,
    average_moving,
    use_global_stats,
    act,
    **more,
) -> Variable:
    """The parameters and the op that batch_norm and inplace_abn share.

    A moving mean and a moving variance are parameters that the op itself updates; they come after
    scale and bias, which gives them the names .w_1 and .w_2.
    """
    if bias_attr is False:
        raise ValueError(f"{layer}: bias_attr cannot be False.")
    shape = [_channel_count(input, data_layout, layer)]
    helper = LayerHelper(layer, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    dtype = VarType.FP32 if input.dtype == VarType.FP16 and layer == "batch_norm" else input.dtype
    weight = helper.create_parameter(
        attr=helper.param_attr, shape=shape, dtype=dtype, default_initializer=Constant(1.0)
    )
    bias = helper.create_parameter(attr=helper.bias_attr, shape=shape, dtype=dtype, is_bias=True)
    moving = []
    for moving_name, start in ((moving_mean_name, 0.0), (moving_variance_name, 1.0)):
        attr = ParamAttr(
            name=moving_name, initializer=Constant(start), trainable=False, do_model_average=average_moving
        )
        moving.append(helper.create_parameter(attr=attr, shape=shape, dtype=dtype))
        moving[-1].stop_gradient = True
    mean, variance = moving
    ins = {"X": input, "Scale": weight, "Bias": bias, "Mean": mean, "Variance": variance}
    attrs = {
        "epsilon": epsilon,
        "is_test": is_test,
        "data_layout": data_layout,
        "use_mkldnn": False,
        "fuse_with_relu": False,
        "use_global_stats": use_global_stats,
        **more,
    }
    if isinstance(momentum, Variable):
        ins["MomentumTensor"] = momentum
    else:
        attrs["momentum"] = momentum
    outs = {
        "SavedMean": Fixed(dtype),
        "SavedVariance": Fixed(dtype),
        "Y": input if in_place else dtype,
        "MeanOut": mean,
        "VarianceOut": variance,
    }
    out = add_op(helper, layer, ins, outs, attrs)[2]
    return out if layer == "inplace_abn" else helper.append_activation(out)


@older(drop=("use_mkldnn", "fuse_with_relu"))
def batch_norm(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float | Variable = 0.9,
    epsilon: float = 1e-05,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
) -> Variable:
    """Normalize each channel over the batch, then scale and shift it; tests use the moving statistics."""
    return _batch_norm(
        "batch_norm",
        input,
        in_place,
        is_test,
        momentum,
        epsilon,
        param_attr,
        bias_attr,
        data_layout,
        name,
        moving_mean_name,
        moving_variance_name,
        do_model_average_for_mean_and_var,
        use_global_stats,
        act,
    )


def inplace_abn(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float | Variable = 0.9,
    epsilon: float = 1e-05,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
    data_layout: str = "NCHW",
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
    act_alpha: float = 1.0,
) -> Variable:
    """batch_norm and an invertible activation in one op that writes over its input."""
    need_one_of(act, (None, "identity", "leaky_relu", "elu"), "act", "inplace_abn")
    return _batch_norm(
        "inplace_abn",
        input,
        True,
        is_test,
        momentum,
        epsilon,
        param_attr,
        bias_attr,
        data_layout,
        name,
        moving_mean_name,
        moving_variance_name,
        do_model_average_for_mean_and_var,
        use_global_stats,
        act,
        activation=act,
        alpha=act_alpha,
    )


def instance_norm(
    input: Variable, epsilon: float = 1e-05, param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None, name: str | None = None
) -> Variable:
    """Normalize each channel of each sample by itself, then scale and shift it."""
    if bias_attr is False:
        raise ValueError("instance_norm: bias_attr cannot be False.")
    shape = [_channel_count(input, "NCHW", "instance_norm")]
    helper = LayerHelper("instance_norm", param_attr=param_attr, bias_attr=bias_attr, name=name)
    dtype = VarType.FP32 if input.dtype == VarType.FP16 else input.dtype
    weight = helper.create_parameter(
        attr=helper.param_attr, shape=shape, dtype=dtype, default_initializer=Constant(1.0)
    )
    bias = helper.create_parameter(
        attr=helper.bias_attr, shape=shape, dtype=dtype, is_bias=True, default_initializer=Constant(0.0)
    )
    return add_op(
        helper,
        "instance_norm",
        {"X": input, "Scale": weight, "Bias": bias},
        {"SavedMean": Fixed(dtype), "SavedVariance": Fixed(dtype), "Y": dtype},
        {"epsilon": epsilon},
    )[2]


@older(drop=("use_mkldnn",))
def data_norm(
    input: Variable,
    act: str | None = None,
    epsilon: float = 1e-05,
    param_attr: ParamAttrLike = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    slot_dim: int = -1,
    sync_stats: bool = False,
    summary_decay_rate: float = 0.9999999,
    enable_scale_and_shift: bool = False,
) -> Variable:
    """Normalize each feature by its sums over all batches so far, which are trained like parameters.

    param_attr may be a dict with the starting values batch_size, batch_sum, batch_square, scale_w and bias.
    """
    shape = [_channel_count(input, data_layout, "data_norm")]
    start = {"batch_size": 1e4, "batch_sum": 0.0, "batch_square": 1e4, "scale_w": 1.0, "bias": 0.0}
    if isinstance(param_attr, dict):
        start.update(param_attr)
    helper = LayerHelper("data_norm", act=act, name=name)
    stem = "dn" if name is None else name

    def parameter(suffix: str, key: str) -> Variable:
        attr = ParamAttr(name=f"{stem}.{suffix}", initializer=Constant(float(start[key])), trainable=True)
        return helper.create_parameter(attr=attr, shape=shape, dtype=input.dtype)

    shift = {}
    if enable_scale_and_shift:
        shift = {"scale_w": parameter("scale_w", "scale_w"), "bias": parameter("bias", "bias")}
    sums = {
        "BatchSize": parameter("batch_size", "batch_size"),
        "BatchSum": parameter("batch_sum", "batch_sum"),
        "BatchSquareSum": parameter("batch_square_sum", "batch_square"),
    }
    means = helper.create_variable(dtype=input.dtype, stop_gradient=True)
    scales = helper.create_variable(dtype=input.dtype, stop_gradient=True)
    out = input if in_place else helper.create_variable(dtype=input.dtype)
    attrs = {
        "epsilon": epsilon,
        "sync_stats": sync_stats,
        "summary_decay_rate": summary_decay_rate,
        "slot_dim": slot_dim if slot_dim > 0 else None,
        "enable_scale_and_shift": True if enable_scale_and_shift else None,
    }
    add_op(
        helper,
        "data_norm",
        {"X": input, **sums, **shift},
        {"Y": out, "Means": means, "Scales": scales},
        attrs,
    )
    return helper.append_activation(out)


def layer_norm(
    input: Variable,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-05,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Normalize each sample over the dimensions from begin_norm_axis on, then scale and shift it."""
    need_variable(input, "input", "layer_norm")
    helper = LayerHelper("layer_norm", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    shape = [prod(input.shape[begin_norm_axis:])]
    ins = {"X": input}
    for wanted, attr, arg in ((scale, param_attr, "param_attr"), (shift, bias_attr, "bias_attr")):
        if wanted and attr is False:
            raise ValueError(f"layer_norm: {arg} cannot be False while its part of the layer is asked for.")
        if not wanted and attr:
            warnings.warn(f"layer_norm: {arg} is not used, because scale or shift is False.", stacklevel=2)
    if scale:
        ins["Scale"] = helper.create_parameter(
            attr=helper.param_attr, shape=shape, dtype=input.dtype, default_initializer=Constant(1.0)
        )
    if shift:
        ins["Bias"] = helper.create_parameter(
            attr=helper.bias_attr, shape=shape, dtype=input.dtype, is_bias=True
        )
    out = add_op(
        helper,
        "layer_norm",
        ins,
        {"Mean": Fixed(input.dtype), "Variance": Fixed(input.dtype), "Y": input.dtype},
        {"epsilon": epsilon, "begin_norm_axis": begin_norm_axis},
    )[2]
    return helper.append_activation(out)


def group_norm(
    input: Variable,
    groups: int,
    epsilon: float = 1e-05,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
    act: str | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Normalize each sample over groups of channels; param_attr and bias_attr ask for scale and shift."""
    shape = [_channel_count(input, data_layout, "group_norm")]
    helper = LayerHelper("group_norm", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    ins = {"X": input}
    if param_attr:
        ins["Scale"] = helper.create_parameter(
            attr=helper.param_attr, shape=shape, dtype=input.dtype, default_initializer=Constant(1.0)
        )
    if bias_attr:
        ins["Bias"] = helper.create_parameter(
            attr=helper.bias_attr, shape=shape, dtype=input.dtype, is_bias=True
        )
    mean = helper.create_variable(dtype=input.dtype, stop_gradient=True)
    variance = helper.create_variable(dtype=input.dtype, stop_gradient=True)
    out = helper.create_variable(dtype=input.dtype)
    add_op(
        helper,
        "group_norm",
        ins,
        {"Y": out, "Mean": mean, "Variance": variance},
        {"epsilon": epsilon, "groups": groups, "data_layout": data_layout},
    )
    return helper.append_activation(out)


def spectral_norm(
    weight: Variable, dim: int = 0, power_iters: int = 1, eps: float = 1e-12, name: str | None = None
) -> Variable:
    """A weight divided by its largest singular value, which power iteration estimates."""
    need_variable(weight, "weight", "spectral_norm")
    helper = LayerHelper("spectral_norm", name=name)
    rows = weight.shape[dim]
    ins = {"Weight": weight}
    for slot, size in (("U", rows), ("V", prod(weight.shape) // rows)):
        ins[slot] = helper.create_parameter(
            attr=ParamAttr(), shape=[size], dtype=weight.dtype, default_initializer=Normal(0.0, 1.0)
        )
        ins[slot].stop_gradient = True
    out = helper.create_variable(dtype=weight.dtype)
    return add_op(
        helper, "spectral_norm", ins, {"Out": out}, {"dim": dim, "power_iters": power_iters, "eps": eps}
    )[0]


def lrn(
    input: Variable,
    n: int = 5,
    k: float = 1.0,
    alpha: float = 0.0001,
    beta: float = 0.75,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """Divide each value by a power of the squares of its n neighbouring channels."""
    need_variable(input, "input", "lrn")
    need_one_of(data_format, ("NCHW", "NHWC"), "data_format", "lrn")
    if len(input.shape) != 4:
        raise ValueError(f"lrn: the input must have 4 dimensions, but its shape is {input.shape}.")
    return emit(
        "lrn",
        {"X": input},
        {"MidOut": Fixed(input.dtype), "Out": input.dtype},
        {"n": n, "k": k, "alpha": alpha, "beta": beta, "data_format": data_format},
        name=name,
    )[1]


def l2_normalize(x: Variable, axis: int | None, epsilon: float = 1e-12, name: str | None = None) -> Variable:
    """x divided by its L2 norm along an axis (1 when None)."""
    need_variable(x, "x", "l2_normalize")
    axis = 0 if len(x.shape) == 1 else 1 if axis is None else axis
    return emit(
        "norm",
        {"X": x},
        {"Out": x.dtype, "Norm": x.dtype},
        {"axis": axis, "epsilon": epsilon},
        name=name,
        layer="l2_normalize",
    )[0]
