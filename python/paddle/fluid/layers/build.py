"""The small tools that every layer is made of.

A layer checks its arguments, makes parameters and temporaries, and appends ops. The order in which
temporaries are made decides their automatic names, and parameter files are found by name, so the
functions here keep that order: first the layer's own name, then one temporary per output slot, in
the order in which the slots are given.
"""

from __future__ import annotations

import functools
import numbers
from typing import Any, Callable, Iterable, Mapping, NamedTuple

from paddle.fluid import core
from paddle.fluid.framework import Variable, convert_np_dtype_to_dtype_
from paddle.fluid.layer_helper import LayerHelper

VarType = core.VarDesc.VarType

DTYPE_NAMES = {
    VarType.BOOL: "bool",
    VarType.INT8: "int8",
    VarType.UINT8: "uint8",
    VarType.INT16: "int16",
    VarType.INT32: "int32",
    VarType.INT64: "int64",
    VarType.FP16: "float16",
    VarType.FP32: "float32",
    VarType.FP64: "float64",
}


class Fixed(NamedTuple):
    """Stands for a new temporary of this dtype through which no gradient flows."""

    dtype: Any


def to_vartype(dtype) -> VarType:
    """The VarType of a dtype given as a VarType, a numpy dtype or a string."""
    return dtype if isinstance(dtype, VarType) else convert_np_dtype_to_dtype_(dtype)


def dtype_name(dtype) -> str:
    """The numpy-style name of a dtype given in any form, for example 'float32'."""
    kind = to_vartype(dtype)
    if kind not in DTYPE_NAMES:
        raise TypeError(
            f"{dtype!r} is not the type of an element. Use one of {', '.join(DTYPE_NAMES.values())}."
        )
    return DTYPE_NAMES[kind]


def need_variable(value: Any, arg: str, layer: str) -> Variable:
    """`value` itself if it is a Variable; else a TypeError that names the layer and the argument."""
    if not isinstance(value, Variable):
        raise TypeError(f"{layer}: {arg} must be a Variable, but {type(value).__name__} was given.")
    return value


def need_variables(values: Any, arg: str, layer: str) -> list[Variable]:
    """A list of Variables from one Variable or a list or tuple of them."""
    if isinstance(values, Variable):
        return [values]
    if not isinstance(values, (list, tuple)) or not values:
        raise TypeError(
            f"{layer}: {arg} must be a Variable or a non-empty list of Variables, "
            f"but {type(values).__name__} was given."
        )
    return [need_variable(value, f"{arg}[{i}]", layer) for i, value in enumerate(values)]


def need_int(value: Any, arg: str, layer: str) -> int:
    """`value` as an int; else a TypeError that names the layer and the argument."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{layer}: {arg} must be an int, but {value!r} was given.")
    return int(value)


def need_one_of(value: Any, choices: Iterable, arg: str, layer: str) -> None:
    """A ValueError that lists the choices unless `value` is one of them."""
    if value not in choices:
        raise ValueError(
            f"{layer}: {arg} must be one of {', '.join(map(repr, choices))}, but {value!r} was given."
        )


def has_variable(values: Iterable) -> bool:
    """Whether any entry of a list is a Variable."""
    return any(isinstance(value, Variable) for value in values)


def add_op(
    helper: LayerHelper,
    op_type: str,
    ins: Mapping[str, Any],
    outs: Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
) -> list:
    """Append one op to the current block and return its outputs, in the order of `outs`.

    An output is a Variable (or a list of them) that exists, or the dtype of a new temporary, or
    Fixed(dtype). Inputs and attributes that are None are left out.
    """
    made = {}
    for slot, out in outs.items():
        if isinstance(out, Variable) or (isinstance(out, list) and has_variable(out)):
            made[slot] = out
        elif isinstance(out, Fixed):
            made[slot] = helper.create_variable_for_type_inference(dtype=out.dtype, stop_gradient=True)
        else:
            made[slot] = helper.create_variable_for_type_inference(dtype=out)
    helper.append_op(
        type=op_type,
        inputs={slot: value for slot, value in ins.items() if value is not None},
        outputs=made,
        attrs={key: value for key, value in (attrs or {}).items() if value is not None},
    )
    return list(made.values())


def emit(
    op_type: str,
    ins: Mapping[str, Any],
    outs: Mapping[str, Any] | None = None,
    attrs: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    layer: str | None = None,
    act: str | None = None,
):
    """A whole layer of one op: its output, or the list of its outputs.

    Without `outs` there is one output 'Out' with the dtype of input 'X'. `layer` is the stem of the
    automatic name where it differs from the op's type.
    """
    label = layer or op_type
    if outs is None:
        first = ins["X"][0] if isinstance(ins["X"], (list, tuple)) else ins["X"]
        outs = {"Out": need_variable(first, "the input", label).dtype}
    for slot, value in ins.items():
        if value is not None and not isinstance(value, (list, tuple)):
            need_variable(value, f"input {slot}", label)
    helper = LayerHelper(label, name=name, act=act)
    made = add_op(helper, op_type, ins, outs, attrs)
    if len(made) > 1:
        return made
    return helper.append_activation(made[0]) if act is not None else made[0]


def as_tensors(helper: LayerHelper, values: Iterable, dtype: str = "int32") -> list[Variable]:
    """One Variable per entry of a list that mixes ints and Variables: an int becomes a constant."""
    from paddle.fluid.layers.tensor import fill_constant

    tensors = []
    for value in values:
        if isinstance(value, Variable):
            value.stop_gradient = True
        else:
            place = helper.create_variable_for_type_inference(dtype)
            value = fill_constant(
                [1], dtype, need_int(value, "an entry", helper.layer_type), force_cpu=True, out=place
            )
        tensors.append(value)
    return tensors


def frozen(value: Variable) -> Variable:
    """Mark a Variable that only steers an op (a shape, an axis) as one that gets no gradient."""
    value.stop_gradient = True
    return value


def older(drop: tuple[str, ...] = (), **renamed: str) -> Callable:
    """Let a layer take keywords of earlier releases: some mean nothing now, some have a new name."""

    def wrap(layer: Callable) -> Callable:
        @functools.wraps(layer)
        def call(*args, **kwargs):
            for key in drop:
                kwargs.pop(key, None)
            for old, new in renamed.items():
                if old in kwargs:
                    if new in kwargs:
                        raise TypeError(
                            f"{layer.__name__}: {old} is the old name of {new}; give only one of them."
                        )
                    kwargs[new] = kwargs.pop(old)
            return layer(*args, **kwargs)

        call.__older__ = (*drop, *renamed)
        return call

    return wrap


def named(layer: Callable, name: str, doc: str) -> Callable:
    """Give a layer that came out of a table its own name and docstring."""
    layer.__name__ = layer.__qualname__ = name
    layer.__doc__ = doc
    return layer
