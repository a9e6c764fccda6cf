"""Layers that create tensors and parameters, fill them, copy, cast, join and add them."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

import numpy as np

from paddle.fluid.framework import Variable
from paddle.fluid.initializer import Constant
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers import homes
from paddle.fluid.layers.build import (
    VarType,
    add_op,
    dtype_name,
    emit,
    frozen,
    need_int,
    need_variable,
    need_variables,
    older,
    to_vartype,
)
from paddle.fluid.layers.reduce import argmax, argmin, argsort
from paddle.fluid.layers.utils import shape_inputs
from paddle.fluid.param_attr import ParamAttr

if TYPE_CHECKING:
    from paddle.fluid.hints import DTypeLike, Initializer, ParamAttrLike, ShapeLike, Variables

__all__ = [
    "create_tensor",
    "create_parameter",
    "create_global_var",
    "cast",
    "tensor_array_to_tensor",
    "concat",
    "sums",
    "assign",
    "fill_constant_batch_size_like",
    "fill_constant",
    "argmin",
    "argmax",
    "argsort",
    "ones",
    "zeros",
    "reverse",
    "has_inf",
    "has_nan",
    "isfinite",
    "range",
    "linspace",
    "full_like",
    "zeros_like",
    "ones_like",
    "diag",
    "eye",
    "arange",
    "full",
    "tril",
    "triu",
    "trace",
]

# The attribute of assign_value that holds elements of each dtype, and how to write one.
VALUE_ATTRS = {
    VarType.BOOL: ("bool_values", bool),
    VarType.FP32: ("fp32_values", float),
    VarType.INT32: ("int32_values", int),
    VarType.INT64: ("int64_values", int),
}


def create_tensor(dtype: DTypeLike, name: str | None = None, persistable: bool = False) -> Variable:
    """An empty variable for later ops to write to."""
    helper = LayerHelper("create_tensor", name=name)
    return helper.create_variable(name=helper.name, dtype=dtype, persistable=persistable)


def create_parameter(
    shape: ShapeLike, dtype: DTypeLike, name: str | None = None, attr: ParamAttrLike = None, is_bias: bool = False,
    default_initializer: Initializer | None = None
) -> Variable:
    """A trainable parameter of its own, outside any layer."""
    shape = [need_int(dim, "shape", "create_parameter") for dim in shape]
    helper = LayerHelper("create_parameter", name=name)
    attr = ParamAttr(name=name) if attr is None else attr
    return helper.create_parameter(attr, shape, dtype_name(dtype), is_bias, default_initializer)


def create_global_var(
    shape: ShapeLike, value: float, dtype: DTypeLike, persistable: bool = False, force_cpu: bool = False, name: str | None = None
) -> Variable:
    """A variable of the outermost block that the startup program fills with a value."""
    helper = LayerHelper("global_var", name=name)
    var = helper.create_global_variable(
        dtype=dtype, shape=shape, persistable=persistable, name=name, stop_gradient=True
    )
    helper.set_variable_initializer(var, initializer=Constant(value=float(value), force_cpu=force_cpu))
    return var


def cast(x: Variable, dtype: DTypeLike) -> Variable:
    """x as another dtype."""
    need_variable(x, "x", "cast")
    helper = LayerHelper("cast")
    out = helper.create_variable_for_type_inference(dtype=dtype)
    return add_op(helper, "cast", {"X": x}, {"Out": out}, {"in_dtype": x.dtype, "out_dtype": out.dtype})[0]


def concat(input: Variables, axis: int | Variable = 0, name: str | None = None) -> Variable:
    """Tensors, or an array of them, joined along an axis."""
    parts = need_variables(input, "input", "concat")
    helper = LayerHelper("concat", input=parts, name=name)
    if parts[0].type == VarType.LOD_TENSOR_ARRAY:
        return add_op(
            helper,
            "tensor_array_to_tensor",
            {"X": parts[0]},
            {"Out": parts[0].dtype, "OutIndex": "int32"},
            {"axis": axis, "use_stack": False},
        )[0]
    by_tensor = isinstance(axis, Variable)
    return add_op(
        helper,
        "concat",
        {"X": parts, "AxisTensor": frozen(axis) if by_tensor else None},
        {"Out": helper.input_dtype()},
        {"axis": None if by_tensor else axis},
    )[0]


def tensor_array_to_tensor(
    input: Variable, axis: int = 1, name: str | None = None, use_stack: bool = False
) -> tuple[Variable, Variable]:
    """The entries of a tensor array joined or stacked along an axis, and the size of each along it."""
    need_variable(input, "input", "tensor_array_to_tensor")
    out, sizes = emit(
        "tensor_array_to_tensor",
        {"X": input},
        {"Out": input.dtype, "OutIndex": "int32"},
        {"axis": axis, "use_stack": use_stack},
        name=name,
    )
    return out, sizes


@older(drop=("use_mkldnn",))
def sums(input: Variables, out: Variable | None = None) -> Variable:
    """The sum of several tensors, in a new variable or in `out`."""
    parts = need_variables(input, "input", "sums")
    helper = LayerHelper("sum", input=parts)
    return add_op(
        helper,
        "sum",
        {"X": input},
        {"Out": helper.input_dtype() if out is None else out},
        {"use_mkldnn": False},
    )[0]


def assign(input: Variable | np.ndarray, output: Variable | None = None) -> Variable:
    """A copy of a variable, or a constant from a numpy array of up to 1048576 elements."""
    helper = LayerHelper("assign")
    if isinstance(input, Variable):
        return add_op(helper, "assign", {"X": input}, {"Out": input.dtype if output is None else output})[0]
    if not isinstance(input, np.ndarray):
        raise TypeError(
            f"assign: input must be a Variable or a numpy array, but {type(input).__name__} was given."
        )
    dtype = to_vartype(input.dtype)
    if dtype not in VALUE_ATTRS:
        raise TypeError(
            f"assign: a numpy array must be bool, float32, int32 or int64, but it is {input.dtype}."
        )
    if input.size > 1024 * 1024:
        raise ValueError(
            f"assign: a numpy array may have up to 1048576 elements, but it has {input.size}. "
            "Use a parameter with NumpyArrayInitializer."
        )
    key, kind = VALUE_ATTRS[dtype]
    return add_op(
        helper,
        "assign_value",
        {},
        {"Out": dtype if output is None else output},
        {"dtype": dtype, "shape": list(input.shape), key: [kind(each) for each in input.flat]},
    )[0]


def _exact(value, dtype) -> str:
    """The value as text, which keeps all digits of a 64-bit integer."""
    return str(int(value)) if dtype_name(dtype) in ("int64", "int32") else str(float(value))


def fill_constant(shape: ShapeLike, dtype: DTypeLike, value: float | Variable, force_cpu: bool = False,
                  out: Variable | None = None) -> Variable:
    """A tensor of this shape filled with a value, in a new variable or in `out`."""
    ins, attrs = {}, {"force_cpu": force_cpu}
    if isinstance(value, Variable):
        ins["ValueTensor"] = value
    else:
        attrs.update(value=float(value), str_value=_exact(value, dtype))
    helper = LayerHelper("fill_constant")
    shape_inputs(helper, shape, ins, attrs)
    if out is None:
        out = helper.create_variable_for_type_inference(dtype=dtype)
    attrs["dtype"] = out.dtype
    return frozen(add_op(helper, "fill_constant", ins, {"Out": out}, attrs)[0])


def fill_constant_batch_size_like(
    input: Variable,
    shape: ShapeLike,
    dtype: DTypeLike,
    value: float | Variable,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    force_cpu: bool = False,
) -> Variable:
    """fill_constant where the size at output_dim_idx is the one that the input has at input_dim_idx."""
    need_variable(input, "input", "fill_constant_batch_size_like")
    return frozen(
        emit(
            "fill_constant_batch_size_like",
            {"Input": input},
            {"Out": dtype},
            {
                "shape": shape,
                "dtype": to_vartype(dtype),
                "value": float(value),
                "input_dim_idx": input_dim_idx,
                "output_dim_idx": output_dim_idx,
                "force_cpu": force_cpu,
                "str_value": _exact(value, dtype),
            },
        )
    )


def ones(shape: ShapeLike, dtype: DTypeLike, force_cpu: bool = False) -> Variable:
    """A tensor of ones."""
    return fill_constant(shape, dtype, 1.0, force_cpu)


def zeros(shape: ShapeLike, dtype: DTypeLike, force_cpu: bool = False) -> Variable:
    """A tensor of zeros."""
    return fill_constant(shape, dtype, 0.0, force_cpu)


def full(
    shape: ShapeLike,
    fill_value: float | Variable,
    out: Variable | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Variable:
    """A tensor of this shape filled with a value."""
    dtype = "float32" if dtype is None else dtype
    helper = LayerHelper("full", name=name)
    if out is None:
        out = helper.create_variable_for_type_inference(dtype=dtype)
    out.stop_gradient = stop_gradient
    return fill_constant(shape, dtype, fill_value, out=out)


def full_like(
    input: Variable,
    fill_value: float | Variable,
    out: Variable | None = None,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Variable:
    """A tensor shaped as the input and filled with a value."""
    need_variable(input, "input", "full_like")
    dtype = input.dtype if dtype is None else to_vartype(dtype)
    out = emit(
        "fill_any_like",
        {"X": [input]},
        {"Out": dtype if out is None else out},
        {"value": fill_value, "dtype": dtype},
        name=name,
        layer="full_like",
    )
    out.stop_gradient = stop_gradient
    return out


def zeros_like(x: Variable, out: Variable | None = None) -> Variable:
    """Zeros in the shape and dtype of x."""
    need_variable(x, "x", "zeros_like")
    return frozen(
        emit("fill_zeros_like", {"X": [x]}, {"Out": x.dtype if out is None else out}, layer="zeros_like")
    )


def ones_like(x: Variable, out: Variable | None = None) -> Variable:
    """Ones in the shape and dtype of x."""
    need_variable(x, "x", "ones_like")
    return emit(
        "fill_any_like",
        {"X": [x]},
        {"Out": x.dtype if out is None else out},
        {"value": 1.0},
        layer="ones_like",
    )


def reverse(x: Variable, axis: int | list[int]) -> Variable:
    """x with its elements in reverse order along one axis or several."""
    return emit("reverse", {"X": x}, attrs={"axis": [axis] if isinstance(axis, int) else axis})


def has_inf(x: Variable) -> Variable:
    """Whether any element is infinite."""
    return emit("isinf", {"X": x})


def has_nan(x: Variable) -> Variable:
    """Whether any element is not a number."""
    return emit("isnan", {"X": x})


def isfinite(x: Variable) -> Variable:
    """Whether every element is a finite number."""
    return emit("isfinite", {"X": x}, {"Out": "bool"})


def _one_value(value, dtype: str) -> Variable:
    if not isinstance(value, Variable):
        return fill_constant([1], dtype, value)
    return value if dtype_name(value.dtype) == dtype else cast(value, dtype)


def range(start: float | Variable, end: float | Variable, step: float | Variable, dtype: DTypeLike) -> Variable:
    """The values start, start + step, ... below end. Each of the three may be a Variable of one element."""
    dtype = dtype_name(dtype)
    helper = LayerHelper("range")
    ins = {"Start": _one_value(start, dtype), "End": _one_value(end, dtype), "Step": _one_value(step, dtype)}
    return frozen(add_op(helper, "range", ins, {"Out": ins["Start"].dtype})[0])


def arange(start: float | Variable, end: float | Variable, step: float | Variable = 1, dtype: DTypeLike | None = None,
           name: str | None = None) -> Variable:
    """range, of float32 when no dtype is given."""
    return range(start, end, step, "float32" if dtype is None else dtype)


def linspace(start: float | Variable, stop: float | Variable, num: int | Variable, dtype: DTypeLike) -> Variable:
    """`num` values at equal distances from start to stop, both included."""
    helper = LayerHelper("linspace")
    values = [
        each if isinstance(each, Variable) else fill_constant([1], kind, each)
        for each, kind in ((start, dtype), (stop, dtype), (num, "int32"))
    ]
    return add_op(helper, "linspace", dict(zip(("Start", "Stop", "Num"), values)), {"Out": values[0].dtype})[
        0
    ]


def diag(diagonal: Variable | np.ndarray) -> Variable:
    """A square matrix with these values on its diagonal."""
    helper = LayerHelper("diag")
    if not isinstance(diagonal, Variable):
        diagonal = assign(diagonal)
    return frozen(add_op(helper, "diag", {"Diagonal": [diagonal]}, {"Out": diagonal.dtype})[0])


def eye(
    num_rows: int, num_columns: int | None = None, batch_shape: list[int] | None = None, dtype: DTypeLike = "float32"
) -> Variable:
    """The identity matrix, or a batch of it."""
    from paddle.fluid.layers.shape_ops import stack

    num_columns = num_rows if num_columns is None else num_columns
    for arg, count in (("num_rows", num_rows), ("num_columns", num_columns)):
        if need_int(count, arg, "eye") < 0:
            raise TypeError(f"eye: {arg} must not be negative, but {count} was given.")
    if batch_shape is not None and (
        not isinstance(batch_shape, list) or any(each <= 0 for each in batch_shape)
    ):
        raise TypeError(f"eye: batch_shape must be a list of sizes above 0, but {batch_shape!r} was given.")
    out = frozen(
        emit(
            "eye",
            {},
            {"Out": dtype},
            {"num_rows": num_rows, "num_columns": num_columns, "dtype": to_vartype(dtype)},
        )
    )
    for count in reversed(batch_shape or []):
        out = stack([out for _ in builtins.range(count)], axis=0)
    return out


def _triangle(layer: str, input: Variable, diagonal: int, name: str | None) -> Variable:
    need_variable(input, "input", layer)
    if len(input.shape) < 2:
        raise ValueError(
            f"{layer}: the input must have 2 or more dimensions, but its shape is {input.shape}."
        )
    helper = LayerHelper(layer, name=name)
    out = helper.create_variable(name=helper.name, dtype=input.dtype, persistable=False)
    return add_op(
        helper,
        "tril_triu",
        {"X": input},
        {"Out": out},
        {"diagonal": need_int(diagonal, "diagonal", layer), "lower": layer == "tril"},
    )[0]


def tril(input: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """The input with zeros above a diagonal."""
    return _triangle("tril", input, diagonal, name)


def triu(input: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """The input with zeros below a diagonal."""
    return _triangle("triu", input, diagonal, name)


def trace(
    input: Variable,
    offset: int = 0,
    dim1: int = 0,
    dim2: int = 1,
    out: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """The sum of a diagonal of the matrices over dimensions dim1 and dim2."""
    ndim = len(need_variable(input, "input", "trace").shape)
    if ndim < 2 or not (-ndim <= dim1 < ndim and -ndim <= dim2 < ndim) or dim1 % ndim == dim2 % ndim:
        raise ValueError(
            f"trace: dim1={dim1} and dim2={dim2} must be two different dimensions of an input of shape "
            f"{input.shape}."
        )
    return emit(
        "trace",
        {"Input": [input]},
        {"Out": input.dtype if out is None else out},
        {"offset": offset, "dim1": dim1, "dim2": dim2},
        name=name,
    )


def save(x: Variable, file_path: str, overwrite: bool = True) -> None:
    """Write a variable to a file when the program runs."""
    attrs = {"file_path": file_path, "overwrite": overwrite}
    LayerHelper("save").append_op(type="save", inputs={"X": [x]}, outputs={}, attrs=attrs)


def save_combine(x: list[Variable], file_path: str, overwrite: bool = True) -> None:
    """Write a list of variables to one file when the program runs."""
    attrs = {"file_path": file_path, "overwrite": overwrite}
    LayerHelper("save_combine").append_op(type="save_combine", inputs={"X": x}, outputs={}, attrs=attrs)


def load_combine(out: list[Variable], file_path: str) -> None:
    """Read a list of variables from a file that save_combine wrote."""
    attrs = {"file_path": file_path}
    LayerHelper("load_combine").append_op(type="load_combine", inputs={}, outputs={"Out": out}, attrs=attrs)


__getattr__ = homes.served(__name__)
