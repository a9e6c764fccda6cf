"""Layers made from nothing but an op's own description, and decorators that fill in docstrings from it."""

from __future__ import annotations

import functools
import re
import string
import warnings
from typing import Any, Callable

from paddle.fluid.framework import OpProtoHolder, Variable
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers.build import VarType, emit, named, to_vartype

__all__ = ["deprecated", "generate_layer_fn", "generate_activation_fn", "autodoc", "templatedoc"]


def _argument_name(slot: str) -> str:
    """The argument of a slot: CamelCase becomes snake_case, so 'XShape' is x_shape."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=.)(?=[A-Z][a-z])", "_", slot).lower()


def _describe(proto: Any) -> str:
    """A docstring from an op's description."""
    lines = [getattr(proto, "comment", "") or f"The op {proto.type}.", "", "Args:"]
    lines += [f"    {_argument_name(slot.name)}: {slot.comment}" for slot in proto.inputs]
    hidden = set(OpProtoHolder.generated_op_attr_names())
    lines += [f"    {attr.name}: {attr.comment}" for attr in proto.attrs if attr.name not in hidden]
    return "\n".join(lines)


def generate_layer_fn(op_type: str) -> Callable:
    """A layer for an op with one output that is not an intermediate one.

    The layer takes inputs by place or by their slot's name in lower case, attributes by name, and act.
    """
    proto = OpProtoHolder.instance().get_op_proto(op_type)
    results = [out for out in proto.outputs if not out.intermediate]
    extra = [out for out in proto.outputs if out.intermediate]
    if len(results) != 1 or any(out.duplicable for out in proto.outputs):
        raise ValueError(
            f"A layer can be generated only for an op with one output of one variable; {op_type} has "
            f"{[out.name for out in results]}."
        )
    result = results[0].name

    def layer(*args, **kwargs) -> Variable:
        helper = LayerHelper(op_type, **kwargs)
        given, inputs, dtype = list(args), {}, None
        for slot in proto.inputs:
            value = kwargs.pop(_argument_name(slot.name), None)
            if value is None and given:
                value = given.pop(0)
            values = [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]
            for each in values:
                if not isinstance(each, Variable):
                    raise ValueError(
                        f"{op_type}: input {slot.name} must be a Variable, "
                        f"but {type(each).__name__} was given."
                    )
                if dtype is not None and each.dtype != dtype:
                    raise ValueError(
                        f"{op_type}: all inputs must have one dtype, but there are {dtype} and {each.dtype}."
                    )
                dtype = each.dtype
            inputs[slot.name] = values
        if dtype is None:
            dtype = to_vartype(kwargs["dtype"]) if kwargs.get("dtype") is not None else VarType.FP32
        out = kwargs.pop(_argument_name(result), None)
        out = out[0] if isinstance(out, (list, tuple)) and out else out
        if not isinstance(out, Variable):
            out = helper.create_variable_for_type_inference(dtype=dtype)
        outputs = {result: [out]}
        outputs.update(
            {each.name: [helper.create_variable_for_type_inference(dtype=dtype)] for each in extra}
        )
        attrs = {key: value for key, value in kwargs.items() if key not in ("name", "act")}
        helper.append_op(type=op_type, inputs=inputs, outputs=outputs, attrs=attrs)
        return helper.append_activation(out)

    return named(layer, op_type, _describe(proto))


def generate_activation_fn(op_type: str) -> Callable:
    """A layer for an op from one input X to one output Out of the same dtype, without attributes."""
    proto = OpProtoHolder.instance().get_op_proto(op_type)

    def layer(x: Variable, name: str | None = None) -> Variable:
        return emit(op_type, {"X": x}, name=name)

    return named(layer, op_type, _describe(proto))


def deprecated(func_or_class: Callable) -> Callable:
    """Warn at each call that the function is an old one."""

    @functools.wraps(func_or_class)
    def call(*args, **kwargs):
        warnings.warn(f"{func_or_class.__name__} is deprecated.", category=DeprecationWarning, stacklevel=2)
        return func_or_class(*args, **kwargs)

    return call


def autodoc(comment: str = "") -> Callable:
    """Take the docstring from the op that is called as the function is, and add a comment."""

    def wrap(func: Callable) -> Callable:
        func.__doc__ = _describe(OpProtoHolder.instance().get_op_proto(func.__name__)) + comment
        return func

    return wrap


def templatedoc(op_type: str | None = None) -> Callable:
    """Fill ${comment}, ${<argument>_comment} and ${<argument>_type} in a docstring from an op."""

    def wrap(func: Callable) -> Callable:
        proto = OpProtoHolder.instance().get_op_proto(op_type or func.__name__)
        words = {"comment": getattr(proto, "comment", "").strip().rstrip(".")}
        for slot in [*proto.inputs, *proto.outputs]:
            words[f"{_argument_name(slot.name)}_comment"] = slot.comment.rstrip(".")
            words[f"{_argument_name(slot.name)}_type"] = "Variable"
        for attr in proto.attrs:
            words[f"{_argument_name(attr.name)}_comment"] = attr.comment.rstrip(".")
            words[f"{_argument_name(attr.name)}_type"] = str(attr.type)
        func.__doc__ = string.Template(func.__doc__ or "").safe_substitute(words)
        return func

    return wrap
