"""Layers for images beside convolution: resizing, rearranging of pixels and channels, warping."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from paddle.fluid.framework import Variable
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers.build import (
    add_op,
    as_tensors,
    emit,
    frozen,
    has_variable,
    need_int,
    need_one_of,
    need_variable,
    older,
)
from paddle.fluid.layers.utils import convert_to_list

if TYPE_CHECKING:
    from paddle.fluid.hints import ShapeLike, Sizes

__all__ = [
    "image_resize",
    "image_resize_short",
    "interpolate",
    "resize_bilinear",
    "resize_trilinear",
    "resize_nearest",
    "upsampling_bilinear2d",
    "affine_grid",
    "affine_channel",
    "grid_sampler",
    "pixel_shuffle",
    "space_to_depth",
    "shuffle_channel",
    "temporal_shift",
    "unfold",
    "im2sequence",
]

METHODS = {
    "BILINEAR": ("bilinear", 4),
    "NEAREST": ("nearest", 4),
    "BICUBIC": ("bicubic", 4),
    "TRILINEAR": ("trilinear", 5),
}
LAYOUTS = {4: {"NCHW": "NCHW", "NHWC": "NHWC"}, 5: {"NCDHW": "NCHW", "NDHWC": "NHWC"}}


def _resize(
    methods, input, out_shape, scale, name, resample, actual_shape, align_corners, align_mode, data_format
):
    layer = "image_resize"
    need_variable(input, "input", layer)
    need_one_of(resample, methods, "resample", layer)
    method, ndim = METHODS[resample]
    if len(input.shape) != ndim:
        raise ValueError(
            f"{layer}: {resample} needs an input of {ndim} dimensions, but its shape is {input.shape}."
        )
    need_one_of(data_format, LAYOUTS[ndim], "data_format", layer)
    need_one_of(align_mode, (0, 1), "align_mode", layer)
    if not isinstance(align_corners, bool):
        raise TypeError(f"{layer}: align_corners must be True or False, but {align_corners!r} was given.")
    if out_shape is None and scale is None:
        raise ValueError(f"{layer}: give out_shape or scale.")
    op_type = f"{method}_interp"
    helper = LayerHelper(op_type, name=name)
    ins = {"X": input}
    attrs = {
        "out_d": -1,
        "out_h": -1,
        "out_w": -1,
        "interp_method": method,
        "align_corners": align_corners,
        "align_mode": align_mode,
        "data_layout": LAYOUTS[ndim][data_format],
    }
    if isinstance(out_shape, Variable):
        ins["OutSize"] = frozen(out_shape)
    elif out_shape is not None:
        if not isinstance(out_shape, (list, tuple)):
            raise TypeError(
                f"{layer}: out_shape must be a list, a tuple or a Variable, but {out_shape!r} was given."
            )
        sizes = list(out_shape)
        if len(sizes) != ndim - 2 or any(not isinstance(each, Variable) and each <= 0 for each in sizes):
            raise ValueError(
                f"{layer}: out_shape must hold {ndim - 2} sizes above 0, but {out_shape} was given."
            )
        if has_variable(sizes):
            ins["SizeTensor"] = as_tensors(helper, sizes)
        for key, each in zip(("out_d", "out_h", "out_w")[5 - ndim :], sizes):
            attrs[key] = -1 if isinstance(each, Variable) else int(each)
    elif isinstance(scale, Variable):
        ins["Scale"] = frozen(scale)
    elif isinstance(scale, (int, float)) and scale > 0:
        attrs["scale"] = float(scale)
    else:
        raise ValueError(f"{layer}: scale must be a number above 0 or a Variable, but {scale!r} was given.")
    if actual_shape is not None:
        warnings.warn(
            f"{layer}: actual_shape is an old argument; give a Variable as out_shape.", stacklevel=3
        )
        ins["OutSize"] = frozen(need_variable(actual_shape, "actual_shape", layer))
    return add_op(helper, op_type, ins, {"Out": input.dtype}, attrs)[0]


def image_resize(
    input: Variable,
    out_shape: ShapeLike | None = None,
    scale: float | None = None,
    name: str | None = None,
    resample: str = "BILINEAR",
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """Images in another size: out_shape, or `scale` times their own."""
    return _resize(
        ("BILINEAR", "TRILINEAR", "NEAREST"),
        input,
        out_shape,
        scale,
        name,
        resample,
        actual_shape,
        align_corners,
        align_mode,
        data_format,
    )


def interpolate(
    input: Variable,
    out_shape: ShapeLike | None = None,
    scale: float | Variable | None = None,
    name: str | None = None,
    resample: str = "BILINEAR",
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """image_resize that knows BICUBIC too."""
    return _resize(
        METHODS, input, out_shape, scale, name, resample, actual_shape, align_corners, align_mode, data_format
    )


def resize_bilinear(
    input: Variable,
    out_shape: ShapeLike | None = None,
    scale: float | Variable | None = None,
    name: str | None = None,
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """Images in another size, by bilinear interpolation."""
    return image_resize(
        input, out_shape, scale, name, "BILINEAR", actual_shape, align_corners, align_mode, data_format
    )


def resize_trilinear(
    input: Variable,
    out_shape: ShapeLike | None = None,
    scale: float | Variable | None = None,
    name: str | None = None,
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCDHW",
) -> Variable:
    """Volumes in another size, by trilinear interpolation."""
    return image_resize(
        input, out_shape, scale, name, "TRILINEAR", actual_shape, align_corners, align_mode, data_format
    )


def resize_nearest(
    input: Variable,
    out_shape: ShapeLike | None = None,
    scale: float | Variable | None = None,
    name: str | None = None,
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    data_format: str = "NCHW",
) -> Variable:
    """Images in another size, each pixel from its nearest neighbour."""
    return image_resize(input, out_shape, scale, name, "NEAREST", actual_shape, align_corners, 1, data_format)


def upsampling_bilinear2d(input: Variable, out_shape: ShapeLike | None = None, scale: float | Variable | None = None,
                          name: str | None = None) -> Variable:
    """The name that resize_bilinear had at first."""
    return resize_bilinear(input, out_shape, scale, name)


def image_resize_short(input: Variable, out_short_len: int, resample: str = "BILINEAR") -> Variable:
    """Images resized so that their shorter side is out_short_len, with the same proportions."""
    sides = list(need_variable(input, "input", "image_resize_short").shape[2:])
    if len(sides) != 2:
        raise ValueError(
            f"image_resize_short: the input must have 4 dimensions, but its shape is {input.shape}."
        )
    short = sides.index(min(sides))
    ratio = float(out_short_len) / float(sides[short])
    sides[short], sides[1 - short] = out_short_len, int(float(sides[1 - short]) * ratio + 0.5)
    return image_resize(input, out_shape=sides, resample=resample)


def affine_grid(theta: Variable, out_shape: ShapeLike, name: str | None = None) -> Variable:
    """The places to sample for an image transformed by the matrices theta."""
    if not isinstance(out_shape, (list, tuple, Variable)):
        raise ValueError(
            f"affine_grid: out_shape must be a list, a tuple or a Variable, but {out_shape!r} was given."
        )
    by_tensor = isinstance(out_shape, Variable)
    return emit(
        "affine_grid",
        {"Theta": theta, "OutputShape": out_shape if by_tensor else None},
        {"Output": need_variable(theta, "theta", "affine_grid").dtype},
        {"output_shape": None if by_tensor else out_shape},
    )


def affine_channel(
    x: Variable,
    scale: Variable | None = None,
    bias: Variable | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
    act: str | None = None,
) -> Variable:
    """scale * x + bias with one scale and one bias per channel."""
    return emit(
        "affine_channel",
        {"X": x, "Scale": scale, "Bias": bias},
        attrs={"data_layout": data_layout},
        name=name,
        act=act,
    )


def grid_sampler(x: Variable, grid: Variable, name: str | None = None) -> Variable:
    """The values of x at the places of a grid, by bilinear interpolation."""
    return emit(
        "grid_sampler",
        {"X": x, "Grid": grid},
        {"Output": need_variable(x, "x", "grid_sampler").dtype},
        name=name,
    )


def pixel_shuffle(x: Variable, upscale_factor: int) -> Variable:
    """Channels laid out as pixels: larger images with fewer channels."""
    return emit(
        "pixel_shuffle",
        {"X": x},
        attrs={"upscale_factor": need_int(upscale_factor, "upscale_factor", "pixel_shuffle")},
    )


def space_to_depth(x: Variable, blocksize: int, name: str | None = None) -> Variable:
    """Blocks of pixels laid out as channels: smaller images with more channels."""
    return emit(
        "space_to_depth",
        {"X": x},
        attrs={"blocksize": need_int(blocksize, "blocksize", "space_to_depth")},
        name=name,
    )


def shuffle_channel(x: Variable, group: int, name: str | None = None) -> Variable:
    """The channels dealt out again over groups."""
    return emit(
        "shuffle_channel", {"X": x}, attrs={"group": need_int(group, "group", "shuffle_channel")}, name=name
    )


def temporal_shift(x: Variable, seg_num: int, shift_ratio: float = 0.25, name: str | None = None) -> Variable:
    """Frames of a video where a share of the channels comes from the frame before and from the one after."""
    return emit(
        "temporal_shift",
        {"X": x},
        attrs={"seg_num": need_int(seg_num, "seg_num", "temporal_shift"), "shift_ratio": shift_ratio},
        name=name,
    )


def unfold(
    x: Variable, kernel_sizes: Sizes, strides: Sizes = 1, paddings: Sizes = 0, dilations: Sizes = 1, name: str | None = None
) -> Variable:
    """The windows of a convolution as columns."""
    need_variable(x, "x", "unfold")
    if len(x.shape) != 4:
        raise ValueError(f"unfold: x must have 4 dimensions, but its shape is {x.shape}.")
    if isinstance(paddings, list) and len(paddings) == 2:
        paddings = paddings * 2
    return emit(
        "unfold",
        {"X": x},
        {"Y": x.dtype},
        {
            "kernel_sizes": convert_to_list(kernel_sizes, 2, "unfold: kernel_sizes"),
            "strides": convert_to_list(strides, 2, "unfold: strides"),
            "paddings": convert_to_list(paddings, 4, "unfold: paddings"),
            "dilations": convert_to_list(dilations, 2, "unfold: dilations"),
        },
        name=name,
    )


@older(drop=("use_cudnn",))
def im2sequence(
    input: Variable,
    filter_size: Sizes = 1,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    input_image_size: Variable | None = None,
    out_stride: Sizes = 1,
    name: str | None = None,
) -> Variable:
    """Images as sequences: each window of an image is one step. Padding: up, left, down, right."""
    sides = [padding, padding] if isinstance(padding, int) else list(padding)
    ins = {"X": input, "Y": input_image_size}
    attrs = {
        "kernels": convert_to_list(filter_size, 2, "im2sequence: filter_size"),
        "strides": convert_to_list(stride, 2, "im2sequence: stride"),
        "paddings": sides * 2 if len(sides) == 2 else sides,
    }
    if input_image_size is not None:
        attrs["out_stride"] = convert_to_list(out_stride, 2, "im2sequence: out_stride")
    return emit("im2sequence", ins, attrs=attrs, name=name)
