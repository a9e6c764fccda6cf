"""Convolution, transposed convolution and pooling over two or three spatial dimensions."""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING

from paddle.fluid.framework import Variable
from paddle.fluid.initializer import Normal
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers.build import add_op, emit, need_int, need_one_of, need_variable, older
from paddle.fluid.layers.utils import convert_to_list

if TYPE_CHECKING:
    from paddle.fluid.hints import ParamAttrLike, Sizes

__all__ = [
    "conv2d",
    "conv3d",
    "conv2d_transpose",
    "conv3d_transpose",
    "pool2d",
    "pool3d",
    "adaptive_pool2d",
    "adaptive_pool3d",
    "row_conv",
]

LAYOUTS = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def _read_padding(padding, n: int, channel_last: bool, layer: str) -> tuple[list[int], str]:
    """Padding in any of its forms as (before, after) of each spatial dimension, flat, and the algorithm.

    The forms: 'SAME' or 'VALID', one int, one int per dimension, a flat list of before and after,
    or one pair for every dimension of the input, where batch and channel must have [0, 0].
    """
    if isinstance(padding, str):
        need_one_of(padding.upper(), ("SAME", "VALID"), "padding", layer)
        return [0] * (2 * n), padding.upper()
    if isinstance(padding, (list, tuple)) and padding and isinstance(padding[0], (list, tuple)):
        pairs = [list(pair) for pair in padding]
        first = 1 if channel_last else 2
        if len(pairs) != n + 2 or any(pair != [0, 0] for pair in pairs[:first] + pairs[first + n :]):
            raise ValueError(
                f"{layer}: padding in pairs needs {n + 2} pairs with [0, 0] for batch and channel, "
                f"but {padding} was given."
            )
        return [side for pair in pairs[first : first + n] for side in pair], "EXPLICIT"
    if isinstance(padding, (list, tuple)) and len(padding) == 2 * n:
        return convert_to_list(padding, 2 * n, f"{layer}: padding"), "EXPLICIT"
    each = convert_to_list(padding, n, f"{layer}: padding")
    return [side for size in each for side in (size, size)], "EXPLICIT"


def _shortest(padding: list[int]) -> list[int]:
    """One value per dimension where before and after agree everywhere."""
    return padding[::2] if padding[::2] == padding[1::2] else padding


def _channels(input: Variable, n: int, data_format: str, layer: str) -> int:
    need_variable(input, "input", layer)
    need_one_of(data_format, LAYOUTS[n], "data_format", layer)
    if len(input.shape) != n + 2:
        raise ValueError(f"{layer}: the input must have {n + 2} dimensions, but its shape is {input.shape}.")
    channels = input.shape[1 if data_format == LAYOUTS[n][0] else -1]
    if channels < 0:
        raise ValueError(
            f"{layer}: the number of channels must be known, but the input's shape is {input.shape}."
        )
    return channels


def _need_bool(value, arg: str, layer: str) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{layer}: {arg} must be True or False, but {value!r} was given.")


def _finish(helper: LayerHelper, out: Variable, n: int, channel_last: bool) -> Variable:
    """Add the bias over the channels, then the activation."""
    axis = n + 1 if channel_last else 1
    return helper.append_activation(helper.append_bias_op(out, dim_start=axis, dim_end=axis + 1))


def _conv(
    n: int,
    input,
    num_filters,
    filter_size,
    stride,
    padding,
    dilation,
    groups,
    param_attr,
    bias_attr,
    use_cudnn,
    act,
    name,
    data_format,
) -> Variable:
    layer = f"conv{n}d"
    channels = _channels(input, n, data_format, layer)
    _need_bool(use_cudnn, "use_cudnn", layer)
    need_int(num_filters, "num_filters", layer)
    if param_attr is False:
        raise ValueError(f"{layer}: param_attr cannot be False, a convolution needs its filter.")
    if groups is not None and channels % groups != 0:
        raise ValueError(
            f"{layer}: the {channels} channels of the input cannot be split into {groups} groups."
        )
    op_type = layer
    if n == 2 and channels == groups and num_filters % channels == 0 and not use_cudnn:
        op_type = "depthwise_conv2d"
    helper = LayerHelper(
        op_type, param_attr=param_attr, bias_attr=bias_attr, use_cudnn=use_cudnn, act=act, name=name
    )
    kernel = convert_to_list(filter_size, n, f"{layer}: filter_size")
    channel_last = data_format == LAYOUTS[n][1]
    pads, algorithm = _read_padding(padding, n, channel_last, layer)
    weight = helper.create_parameter(
        attr=helper.param_attr,
        shape=[num_filters, channels // (groups or 1), *kernel],
        dtype=input.dtype,
        default_initializer=Normal(0.0, sqrt(2.0 / (prod(kernel) * channels)), 0),
    )
    attrs = {
        "strides": convert_to_list(stride, n, f"{layer}: stride"),
        "paddings": _shortest(pads),
        "dilations": convert_to_list(dilation, n, f"{layer}: dilation"),
        "groups": groups,
        "use_cudnn": use_cudnn,
        "use_mkldnn": False,
        "padding_algorithm": algorithm,
        "data_format": data_format,
    }
    if n == 2:
        attrs["fuse_relu_before_depthwise_conv"] = False
    (out,) = add_op(helper, op_type, {"Input": input, "Filter": weight}, {"Output": input.dtype}, attrs)
    return _finish(helper, out, n, channel_last)


@older(drop=("use_mkldnn",))
def conv2d(
    input: Variable,
    num_filters: int,
    filter_size: Sizes,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int | None = None,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """Convolution of images, with bias and activation. Sizes are one int or one per dimension.

    >>> image = fluid.layers.data(name='image', shape=[3, 32, 32])
    >>> fluid.layers.conv2d(image, num_filters=8, filter_size=3, padding=1, act='relu').shape
    (-1, 8, 32, 32)
    """
    return _conv(
        2,
        input,
        num_filters,
        filter_size,
        stride,
        padding,
        dilation,
        groups,
        param_attr,
        bias_attr,
        use_cudnn,
        act,
        name,
        data_format,
    )


@older(drop=("use_mkldnn",))
def conv3d(
    input: Variable,
    num_filters: int,
    filter_size: Sizes,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int | None = None,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Variable:
    """Convolution of volumes, with bias and activation."""
    return _conv(
        3,
        input,
        num_filters,
        filter_size,
        stride,
        padding,
        dilation,
        groups,
        param_attr,
        bias_attr,
        use_cudnn,
        act,
        name,
        data_format,
    )


def _conv_transpose(
    n: int,
    input,
    num_filters,
    output_size,
    filter_size,
    padding,
    stride,
    dilation,
    groups,
    param_attr,
    bias_attr,
    use_cudnn,
    act,
    name,
    data_format,
) -> Variable:
    layer = f"conv{n}d_transpose"
    channels = _channels(input, n, data_format, layer)
    _need_bool(use_cudnn, "use_cudnn", layer)
    if param_attr is False:
        raise ValueError(f"{layer}: param_attr cannot be False, a convolution needs its filter.")
    op_type = layer
    if n == 2 and channels == groups and num_filters == channels and not use_cudnn:
        op_type = "depthwise_conv2d_transpose"
    helper = LayerHelper(
        op_type, param_attr=param_attr, bias_attr=bias_attr, use_cudnn=use_cudnn, act=act, name=name
    )
    channel_last = data_format == LAYOUTS[n][1]
    strides = convert_to_list(stride, n, f"{layer}: stride")
    dilations = convert_to_list(dilation, n, f"{layer}: dilation")
    pads, algorithm = _read_padding(padding, n, channel_last, layer)
    sizes = [] if output_size is None else convert_to_list(output_size, n, f"{layer}: output_size")
    if filter_size is not None:
        kernel = convert_to_list(filter_size, n, f"{layer}: filter_size")
    elif sizes:
        spatial = input.shape[1:-1] if channel_last else input.shape[2:]
        kernel = [
            (out - (size - 1) * strides[i] + pads[2 * i] + pads[2 * i + 1] - 1) // dilations[i] + 1
            for i, (out, size) in enumerate(zip(sizes, spatial))
        ]
    else:
        raise ValueError(f"{layer}: give filter_size or output_size.")
    groups = 1 if groups is None else groups
    weight = helper.create_parameter(
        attr=helper.param_attr, shape=[channels, num_filters // groups, *kernel], dtype=input.dtype
    )
    # Over volumes the op itself knows only the names of the two layouts for images.
    attrs = {
        "output_size": sizes,
        "strides": strides,
        "paddings": _shortest(pads),
        "padding_algorithm": algorithm,
        "dilations": dilations,
        "groups": groups,
        "use_cudnn": use_cudnn,
        "data_format": LAYOUTS[2][channel_last],
    }
    (out,) = add_op(helper, op_type, {"Input": [input], "Filter": [weight]}, {"Output": input.dtype}, attrs)
    return _finish(helper, out, n, channel_last)


def conv2d_transpose(
    input: Variable,
    num_filters: int,
    output_size: Sizes | None = None,
    filter_size: Sizes | None = None,
    padding: Sizes | str = 0,
    stride: Sizes = 1,
    dilation: Sizes = 1,
    groups: int | None = None,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """Transposed convolution of images. Without filter_size the filter is as large as output_size needs."""
    return _conv_transpose(
        2,
        input,
        num_filters,
        output_size,
        filter_size,
        padding,
        stride,
        dilation,
        groups,
        param_attr,
        bias_attr,
        use_cudnn,
        act,
        name,
        data_format,
    )


def conv3d_transpose(
    input: Variable,
    num_filters: int,
    output_size: Sizes | None = None,
    filter_size: Sizes | None = None,
    padding: Sizes | str = 0,
    stride: Sizes = 1,
    dilation: Sizes = 1,
    groups: int | None = None,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
    use_cudnn: bool = True,
    act: str | None = None,
    name: str | None = None,
    data_format: str = "NCDHW",
) -> Variable:
    """Transposed convolution of volumes. Without filter_size the filter is as large as output_size needs."""
    return _conv_transpose(
        3,
        input,
        num_filters,
        output_size,
        filter_size,
        padding,
        stride,
        dilation,
        groups,
        param_attr,
        bias_attr,
        use_cudnn,
        act,
        name,
        data_format,
    )


def _pool(
    n: int,
    input,
    pool_size,
    pool_type,
    pool_stride,
    pool_padding,
    global_pooling,
    use_cudnn,
    ceil_mode,
    name,
    exclusive,
    data_format,
) -> Variable:
    layer = f"pool{n}d"
    need_variable(input, "input", layer)
    need_one_of(pool_type, ("max", "avg"), "pool_type", layer)
    need_one_of(data_format, LAYOUTS[n], "data_format", layer)
    if not isinstance(use_cudnn, bool):
        raise TypeError(f"{layer}: use_cudnn must be True or False, but {use_cudnn!r} was given.")
    if not global_pooling and pool_size == -1:
        raise ValueError(f"{layer}: give pool_size, or set global_pooling=True.")
    pads, algorithm = _read_padding(pool_padding, n, data_format == LAYOUTS[n][1], layer)
    if algorithm == "VALID" and ceil_mode:
        raise ValueError(f"{layer}: pool_padding='VALID' does not go with ceil_mode=True.")
    attrs = {
        "pooling_type": pool_type,
        "ksize": convert_to_list(pool_size, n, f"{layer}: pool_size"),
        "global_pooling": global_pooling,
        "strides": convert_to_list(pool_stride, n, f"{layer}: pool_stride"),
        "paddings": _shortest(pads),
        "padding_algorithm": algorithm,
        "use_cudnn": use_cudnn,
        "ceil_mode": ceil_mode,
        "use_mkldnn": False,
        "exclusive": exclusive,
        "data_format": data_format,
    }
    return emit(layer, {"X": input}, {"Out": input.dtype}, attrs, name=name)


@older(drop=("use_mkldnn",))
def pool2d(
    input: Variable,
    pool_size: Sizes = -1,
    pool_type: str = "max",
    pool_stride: Sizes = 1,
    pool_padding: Sizes | str = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCHW",
) -> Variable:
    """The largest or mean value of each window of an image; `exclusive` leaves padding out of a mean."""
    return _pool(
        2,
        input,
        pool_size,
        pool_type,
        pool_stride,
        pool_padding,
        global_pooling,
        use_cudnn,
        ceil_mode,
        name,
        exclusive,
        data_format,
    )


@older(drop=("use_mkldnn",))
def pool3d(
    input: Variable,
    pool_size: Sizes = -1,
    pool_type: str = "max",
    pool_stride: Sizes = 1,
    pool_padding: Sizes | str = 0,
    global_pooling: bool = False,
    use_cudnn: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
    exclusive: bool = True,
    data_format: str = "NCDHW",
) -> Variable:
    """The largest or mean value of each window of a volume; `exclusive` leaves padding out of a mean."""
    return _pool(
        3,
        input,
        pool_size,
        pool_type,
        pool_stride,
        pool_padding,
        global_pooling,
        use_cudnn,
        ceil_mode,
        name,
        exclusive,
        data_format,
    )


def _adaptive_pool(n: int, input, pool_size, pool_type, require_index, name):
    layer = f"adaptive_pool{n}d"
    need_variable(input, "input", layer)
    need_one_of(pool_type, ("max", "avg"), "pool_type", layer)
    if pool_type == "avg" and require_index:
        raise ValueError(f"{layer}: require_index=True goes with pool_type='max' only.")
    attrs = {"ksize": convert_to_list(pool_size, n, f"{layer}: pool_size"), "adaptive": True}
    if pool_type == "avg":
        return emit(
            f"pool{n}d", {"X": input}, {"Out": input.dtype}, {"pooling_type": "avg", **attrs}, name=name
        )
    out, mask = emit(
        f"max_pool{n}d_with_index", {"X": input}, {"Out": input.dtype, "Mask": input.dtype}, attrs, name=name
    )
    return (out, mask) if require_index else out


def adaptive_pool2d(
    input: Variable, pool_size: Sizes, pool_type: str = "max", require_index: bool = False, name: str | None = None
):
    """Pooling of images with windows chosen so that the output has size pool_size."""
    return _adaptive_pool(2, input, pool_size, pool_type, require_index, name)


def adaptive_pool3d(
    input: Variable, pool_size: Sizes, pool_type: str = "max", require_index: bool = False, name: str | None = None
):
    """Pooling of volumes with windows chosen so that the output has size pool_size."""
    return _adaptive_pool(3, input, pool_size, pool_type, require_index, name)


def row_conv(input: Variable, future_context_size: int, param_attr: ParamAttrLike = None, act: str | None = None) -> Variable:
    """Each step of a sequence plus weighted later steps, with own weights for each feature."""
    need_variable(input, "input", "row_conv")
    helper = LayerHelper("row_conv", param_attr=param_attr, act=act)
    weight = helper.create_parameter(
        attr=helper.param_attr, shape=[future_context_size + 1, input.shape[-1]], dtype=input.dtype
    )
    (out,) = add_op(helper, "row_conv", {"X": [input], "Filter": [weight]}, {"Out": input.dtype})
    return helper.append_activation(out)
