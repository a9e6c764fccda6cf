"""Layers that move elements without changing them: reshaping, cutting, joining, picking and placing."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from paddle.fluid.framework import Variable
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers.build import (
    VarType,
    add_op,
    as_tensors,
    emit,
    frozen,
    has_variable,
    need_int,
    need_one_of,
    need_variable,
    need_variables,
)

if TYPE_CHECKING:
    from paddle.fluid.hints import ShapeLike, Variables

__all__ = [
    "reshape",
    "squeeze",
    "unsqueeze",
    "flatten",
    "transpose",
    "t",
    "split",
    "stack",
    "unstack",
    "expand",
    "expand_as",
    "slice",
    "strided_slice",
    "crop",
    "crop_tensor",
    "pad",
    "pad2d",
    "pad_constant_like",
    "shape",
    "rank",
    "size",
    "flip",
    "roll",
    "meshgrid",
    "diag_embed",
    "lod_reset",
    "lod_append",
]


def _ints(values, layer: str) -> list[int]:
    """A list for an attribute, with -1 where a Variable says the value at run time."""
    return [-1 if isinstance(value, Variable) else need_int(value, "an entry", layer) for value in values]


def reshape(
    x: Variable,
    shape: ShapeLike,
    actual_shape: Variable | None = None,
    act: str | None = None,
    inplace: bool = False,
    name: str | None = None,
) -> Variable:
    """x in another shape. -1 stands for what is left, 0 for the size that x has there.

    shape may be a Variable or hold Variables. actual_shape, when given, wins at run time.
    """
    need_variable(x, "x", "reshape")
    helper = LayerHelper("reshape2", act=act, name=name)
    ins, attrs = {"X": x}, {}
    if isinstance(shape, Variable):
        ins["Shape"] = frozen(shape)
    elif isinstance(shape, (list, tuple)) and shape:
        sizes = attrs["shape"] = _ints(shape, "reshape")
        if [size for size in shape if not isinstance(size, Variable)].count(-1) > 1:
            raise ValueError(f"reshape: only one size may be -1, but the shape {list(shape)} was given.")
        for i, size in enumerate(sizes):
            if size < -1 or (size == 0 and i >= len(x.shape)):
                raise ValueError(
                    f"reshape: size {size} at position {i} has no meaning for an input of shape {x.shape}."
                )
        if has_variable(shape):
            ins["ShapeTensor"] = as_tensors(helper, shape)
        elif isinstance(actual_shape, Variable):
            ins["Shape"] = frozen(actual_shape)
    else:
        raise TypeError(
            f"reshape: shape must be a Variable or a non-empty list or tuple, but {shape!r} was given."
        )
    out, _ = add_op(helper, "reshape2", ins, {"Out": x if inplace else x.dtype, "XShape": x.dtype}, attrs)
    return helper.append_activation(out)


def squeeze(input: Variable, axes: list[int], name: str | None = None) -> Variable:
    """The input without the dimensions `axes` of size 1; all of size 1 when axes is empty."""
    need_variable(input, "input", "squeeze")
    return emit(
        "squeeze2",
        {"X": input},
        {"Out": input.dtype, "XShape": input.dtype},
        {"axes": axes},
        name=name,
        layer="squeeze",
    )[0]


def unsqueeze(input: Variable, axes: int | ShapeLike, name: str | None = None) -> Variable:
    """The input with dimensions of size 1 put in at the places `axes`."""
    need_variable(input, "input", "unsqueeze")
    helper = LayerHelper("unsqueeze2", name=name)
    ins, attrs = {"X": input}, {}
    if isinstance(axes, Variable):
        ins["AxesTensor"] = frozen(axes)
    elif isinstance(axes, (int, list, tuple)):
        axes = [axes] if isinstance(axes, int) else list(axes)
        if has_variable(axes):
            ins["AxesTensorList"] = as_tensors(helper, axes)
        else:
            attrs["axes"] = axes
    else:
        raise TypeError(
            f"unsqueeze: axes must be an int, a list, a tuple or a Variable, but {axes!r} was given."
        )
    return add_op(helper, "unsqueeze2", ins, {"Out": input.dtype, "XShape": input.dtype}, attrs)[0]


def flatten(x: Variable, axis: int = 1, name: str | None = None) -> Variable:
    """x as a matrix: the dimensions before axis become rows, the others columns."""
    need_variable(x, "x", "flatten")
    if not isinstance(axis, int) or not 0 <= axis <= len(x.shape):
        raise ValueError(f"flatten: axis must be an int from 0 to {len(x.shape)}, but {axis!r} was given.")
    return emit(
        "flatten2", {"X": x}, {"Out": x.dtype, "XShape": x.dtype}, {"axis": axis}, name=name, layer="flatten"
    )[0]


def transpose(x: Variable, perm: list[int], name: str | None = None) -> Variable:
    """x with its dimensions in the order perm."""
    need_variable(x, "x", "transpose")
    if (
        not isinstance(perm, (list, tuple))
        or len(perm) != len(x.shape)
        or max(perm, default=0) >= len(x.shape)
    ):
        raise ValueError(
            f"transpose: perm must name each of the {len(x.shape)} dimensions of x once, "
            f"but {perm!r} was given."
        )
    return emit(
        "transpose2",
        {"X": [x]},
        {"Out": x.dtype, "XShape": x.dtype},
        {"axis": perm},
        name=name,
        layer="transpose",
    )[0]


def t(input: Variable, name: str | None = None) -> Variable:
    """A matrix with rows and columns swapped; a vector as it is."""
    need_variable(input, "input", "t")
    if len(input.shape) > 2:
        raise ValueError(
            f"t: the input must have at most 2 dimensions, but its shape is {input.shape}. Use transpose."
        )
    helper = LayerHelper("t", name=name)
    out = helper.create_variable_for_type_inference(input.dtype)
    was = helper.create_variable_for_type_inference(input.dtype)
    if len(input.shape) == 1:
        return input
    return add_op(helper, "transpose2", {"X": [input]}, {"Out": out, "XShape": was}, {"axis": [1, 0]})[0]


def split(
    input: Variable, num_or_sections: int | list[int], dim: int | Variable = -1, name: str | None = None
) -> list[Variable]:
    """The input cut along a dimension, into equal parts or into parts of the sizes in a list."""
    need_variable(input, "input", "split")
    if not isinstance(num_or_sections, (int, list, tuple)):
        raise TypeError(
            f"split: num_or_sections must be an int, a list or a tuple, but {num_or_sections!r} was given."
        )
    if not isinstance(dim, (int, Variable)):
        raise TypeError(f"split: dim must be an int or a Variable, but {dim!r} was given.")
    helper = LayerHelper("split", name=name)
    ins, attrs, known = {"X": input}, {}, -1
    if isinstance(dim, Variable):
        ins["AxisTensor"] = frozen(dim)
    else:
        attrs["axis"] = dim % len(input.shape) if -len(input.shape) <= dim < 0 else dim
        if not 0 <= attrs["axis"] < len(input.shape):
            raise ValueError(f"split: dim {dim} is outside the {len(input.shape)} dimensions of the input.")
        known = input.shape[attrs["axis"]]
    if isinstance(num_or_sections, int):
        count = attrs["num"] = num_or_sections
        if count < 2:
            raise ValueError(f"split: the number of parts must be 2 or more, but {count} was given.")
        if known > 0 and known % count:
            raise ValueError(f"split: a dimension of size {known} cannot be cut into {count} equal parts.")
    else:
        count = len(num_or_sections)
        attrs.update(num=0, sections=_ints(num_or_sections, "split"))
        if 0 < known < count:
            raise ValueError(f"split: a dimension of size {known} cannot be cut into {count} parts.")
        if has_variable(num_or_sections):
            ins["SectionsTensorList"] = as_tensors(helper, num_or_sections)
    outs = [helper.create_variable_for_type_inference(dtype=input.dtype) for _ in builtins.range(count)]
    return add_op(helper, "split", ins, {"Out": outs}, attrs)[0]


def stack(x: Variables, axis: int = 0) -> Variable:
    """Tensors of one shape, or an array of them, joined along a new dimension."""
    parts = need_variables(x, "x", "stack")
    axis = 0 if axis is None else axis
    helper = LayerHelper("stack")
    if parts[0].type == VarType.LOD_TENSOR_ARRAY:
        return add_op(
            helper,
            "tensor_array_to_tensor",
            {"X": parts[0]},
            {"Out": parts[0].dtype, "OutIndex": "int32"},
            {"axis": axis, "use_stack": True},
        )[0]
    return add_op(helper, "stack", {"X": parts}, {"Y": parts[0].dtype}, {"axis": axis})[0]


def unstack(x: Variable, axis: int = 0, num: int | None = None) -> list[Variable]:
    """The slices of x along a dimension, which goes away."""
    need_variable(x, "x", "unstack")
    if num is None:
        num = x.shape[axis]
        if num <= 0:
            raise ValueError(
                f"unstack: give num, because the size along axis {axis} of {x.shape} is not known."
            )
    helper = LayerHelper("unstack")
    outs = [helper.create_variable_for_type_inference(x.dtype) for _ in builtins.range(num)]
    return add_op(helper, "unstack", {"X": [x]}, {"Y": outs}, {"axis": axis, "num": num})[0]


def expand(x: Variable, expand_times: ShapeLike, name: str | None = None) -> Variable:
    """x repeated along each dimension as often as expand_times says."""
    need_variable(x, "x", "expand")
    if x.dtype == VarType.BOOL and x.stop_gradient:
        raise ValueError(
            "expand: a bool input with stop_gradient=True is not supported. Cast it to int32 first."
        )
    helper = LayerHelper("expand", name=name)
    ins, attrs = {"X": [x]}, {}
    if isinstance(expand_times, Variable):
        ins["ExpandTimes"] = frozen(expand_times)
    elif isinstance(expand_times, (list, tuple)):
        attrs["expand_times"] = _ints(expand_times, "expand")
        if any(not isinstance(times, Variable) and times <= 0 for times in expand_times):
            raise ValueError(
                f"expand: each entry of expand_times must be above 0, but {expand_times} was given."
            )
        if has_variable(expand_times):
            ins["expand_times_tensor"] = as_tensors(helper, expand_times)
    else:
        raise TypeError(
            f"expand: expand_times must be a list, a tuple or a Variable, but {expand_times!r} was given."
        )
    return add_op(helper, "expand", ins, {"Out": x.dtype}, attrs)[0]


def expand_as(x: Variable, target_tensor: Variable, name: str | None = None) -> Variable:
    """x repeated until it has the shape of target_tensor."""
    return emit("expand_as", {"X": x, "target_tensor": target_tensor}, name=name)


def _cut(op_type: str, input: Variable, axes: list[int], bounds: dict) -> Variable:
    """slice and strided_slice: each bound is a list of ints and Variables, or one Variable.

    The attribute infer_flags has -1 where only running tells the size along an axis.
    """
    need_variable(input, "input", op_type)
    helper = LayerHelper(op_type)
    ins, attrs, flags = {"Input": input}, {"axes": axes}, [1] * len(axes)
    for key, value in bounds.items():
        slot = key.capitalize()
        if isinstance(value, Variable):
            ins[f"{slot}Tensor"] = frozen(value)
            if op_type == "slice":
                flags = [-1] * len(axes)
        elif isinstance(value, (list, tuple)):
            attrs[key] = _ints(value, op_type)
            if has_variable(value):
                ins[f"{slot}TensorList"] = as_tensors(helper, value)
                flags = [-1 if isinstance(each, Variable) else flag for each, flag in zip(value, flags)]
        else:
            raise ValueError(
                f"{op_type}: {key} must be a list, a tuple or a Variable, but {value!r} was given."
            )
    return add_op(helper, op_type, ins, {"Out": input.dtype}, {**attrs, "infer_flags": flags})[0]


def slice(input: Variable, axes: list[int], starts: ShapeLike, ends: ShapeLike) -> Variable:
    """The part of the input from starts up to ends along axes; negative places count from the end."""
    return _cut("slice", input, axes, {"starts": starts, "ends": ends})


def strided_slice(input: Variable, axes: list[int], starts: ShapeLike, ends: ShapeLike, strides: ShapeLike) -> Variable:
    """slice that takes every n-th element, as strides says; negative strides go backwards."""
    return _cut("strided_slice", input, axes, {"starts": starts, "ends": ends, "strides": strides})


def crop(x: Variable, shape: ShapeLike | None = None, offsets: ShapeLike | None = None, name: str | None = None) -> Variable:
    """The part of x that begins at offsets and has a shape, which another Variable may lend."""
    need_variable(x, "x", "crop")
    offsets = [0] * len(x.shape) if offsets is None else offsets
    ins, attrs = {"X": x}, {}
    for slot, key, value in (("Y", "shape", shape), ("Offsets", "offsets", offsets)):
        if isinstance(value, Variable):
            ins[slot] = value
        else:
            attrs[key] = value
    return emit("crop", ins, {"Out": x.dtype}, attrs, name=name)


def crop_tensor(x: Variable, shape: ShapeLike | None = None, offsets: ShapeLike | None = None, name: str | None = None) -> Variable:
    """crop where shape and offsets may be Variables or hold them; -1 in shape means all that is left."""
    need_variable(x, "x", "crop_tensor")
    offsets = [0] * len(x.shape) if offsets is None else offsets
    helper = LayerHelper("crop_tensor", name=name)
    out = helper.create_variable_for_type_inference(x.dtype)
    ins, attrs = {"X": x}, {}
    for key, slot, value, lowest in (("offsets", "Offsets", offsets, 0), ("shape", "Shape", shape, -1)):
        if isinstance(value, Variable):
            ins[slot] = frozen(value)
            if key == "offsets":
                attrs[key] = [-1] * len(x.shape)
            continue
        for each in value:
            if not isinstance(each, Variable) and (
                need_int(each, key, "crop_tensor") < lowest or (key == "shape" and each == 0)
            ):
                raise ValueError(f"crop_tensor: {each} is not allowed in {key}.")
        if has_variable(value):
            ins[f"{slot}Tensor"] = as_tensors(helper, value)
        unknown = 0 if key == "shape" else -1
        attrs[key] = [unknown if isinstance(each, Variable) else each for each in value]
    return add_op(helper, "crop_tensor", ins, {"Out": out}, attrs)[0]


def pad(x: Variable, paddings: list[int], pad_value: float = 0.0, name: str | None = None) -> Variable:
    """x with pad_value around it; paddings holds before and after of each dimension."""
    return emit("pad", {"X": x}, attrs={"paddings": paddings, "pad_value": float(pad_value)}, name=name)


def pad_constant_like(x: Variable, y: Variable, pad_value: float = 0.0, name: str | None = None) -> Variable:
    """y filled up at its ends with pad_value to the shape of x."""
    return emit("pad_constant_like", {"X": x, "Y": y}, attrs={"pad_value": float(pad_value)}, name=name)


def pad2d(
    input: Variable,
    paddings: ShapeLike = (0, 0, 0, 0),
    mode: str = "constant",
    pad_value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Images with a border: top, bottom, left, right; constant, reflected or repeated from the edge."""
    need_variable(input, "input", "pad2d")
    need_one_of(mode, ("reflect", "edge", "constant"), "mode", "pad2d")
    by_tensor = isinstance(paddings, Variable)
    return emit(
        "pad2d",
        {"X": [input], "Paddings": [paddings] if by_tensor else None},
        {"Out": input.dtype},
        {
            "mode": mode,
            "pad_value": pad_value,
            "data_format": data_format,
            "paddings": [] if by_tensor else list(paddings),
        },
        name=name,
    )


def shape(input: Variable) -> Variable:
    """The shape of the input at run time, as an int32 tensor."""
    return emit("shape", {"Input": input}, {"Out": "int32"})


def rank(input: Variable) -> Variable:
    """The number of dimensions, as an int32 constant."""
    from paddle.fluid.layers.tensor import assign

    return assign(np.array(len(need_variable(input, "input", "rank").shape), "int32"))


def size(input: Variable) -> Variable:
    """The number of elements at run time, as an int64 tensor."""
    return emit("size", {"Input": input}, {"Out": "int64"})


def flip(input: Variable, dims: list[int], name: str | None = None) -> Variable:
    """The input with its elements in reverse order along dims."""
    need_variable(input, "input", "flip")
    helper = LayerHelper("flip", name=name)
    out = (
        helper.create_variable_for_type_inference(input.dtype)
        if name is None
        else helper.create_variable(name=name, dtype=input.dtype, persistable=False)
    )
    return add_op(helper, "flip", {"X": input}, {"Out": out}, {"dims": dims})[0]


def roll(input: Variable, shifts: int | list[int], dims: int | list[int] | None = None) -> Variable:
    """The input with its elements moved on along dims, and those that fall off put in at the start."""
    was = need_variable(input, "input", "roll").shape
    shifts = [shifts] if isinstance(shifts, int) else shifts
    dims = [dims] if isinstance(dims, int) else dims
    helper = LayerHelper("roll")
    out = helper.create_variable_for_type_inference(input.dtype)
    if dims is None:
        input, dims = reshape(input, shape=[-1, 1]), [0]
    add_op(helper, "roll", {"X": input}, {"Out": out}, {"dims": dims, "shifts": shifts})
    return reshape(out, shape=was, inplace=True)


def meshgrid(input: list[Variable], name: str | None = None) -> list[Variable]:
    """One tensor per given vector, all in the shape of the grid, with its values along one axis."""
    if not isinstance(input, list):
        raise TypeError(f"meshgrid: input must be a list of Variables, but {type(input).__name__} was given.")
    helper = LayerHelper("meshgrid", name=name)
    outs = [helper.create_variable_for_type_inference(dtype=each.dtype) for each in input]
    return add_op(helper, "meshgrid", {"X": input}, {"Out": outs})[0]


def diag_embed(input: Variable, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Variable:
    """Matrices, over dimensions dim1 and dim2, with the last dimension of the input on a diagonal."""
    from paddle.fluid.layers.tensor import assign

    if not isinstance(input, Variable):
        input = assign(input)
    out = emit(
        "diag_embed", {"Input": [input]}, {"Out": input.dtype}, {"offset": offset, "dim1": dim1, "dim2": dim2}
    )
    return frozen(out)


def lod_reset(x: Variable, y: Variable | None = None, target_lod: list[int] | None = None) -> Variable:
    """x cut into other sequences: those of y, or those with the offsets target_lod."""
    if y is None and target_lod is None:
        raise ValueError("lod_reset: give y or target_lod.")
    attrs = {"target_lod": target_lod} if y is None else {}
    return emit("lod_reset", {"X": x, "Y": y}, attrs=attrs)


def lod_append(x: Variable, level: list[int] | Variable) -> Variable:
    """x with one more level of sequences: a list of lengths or a Variable."""
    need_variable(x, "x", "lod_append")
    if not isinstance(level, (Iterable, Variable)):
        raise ValueError(f"lod_append: level must be a list or a Variable, but {level!r} was given.")
    by_tensor = isinstance(level, Variable)
    return emit(
        "lod_reset",
        {"X": x, "Y": level if by_tensor else None},
        attrs={"append": True, "target_lod": None if by_tensor else level},
        layer="lod_append",
    )
