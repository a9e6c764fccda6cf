"""Helpers for layer arguments: lists of a known length, nested structures, shapes that hold Variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable, Iterator

from paddle.fluid.framework import Variable
from paddle.fluid.layers.build import VarType, frozen, has_variable, need_int


def convert_to_list(value: Any, n: int, name: str, dtype: type = int) -> list:
    """`n` values from one value or from a list of `n`; `name` is used in the error text."""
    if isinstance(value, dtype):
        return [value] * n
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise ValueError(f"{name} must be one {dtype.__name__} or {n} of them, but {value!r} was given.")
    values = list(value)
    if len(values) != n:
        raise ValueError(f"{name} must have {n} values, but {values} has {len(values)}.")
    for each in values:
        try:
            dtype(each)
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} must hold values of type {dtype.__name__}, but {values} holds {each!r}."
            ) from None
    return values


def is_sequence(seq: Any) -> bool:
    """Whether `seq` is a structure to walk into: a dict, list or tuple, but not a string."""
    return isinstance(seq, dict) or (isinstance(seq, Sequence) and not isinstance(seq, (str, bytes)))


def _children(nest: Any) -> list:
    return [nest[key] for key in sorted(nest)] if isinstance(nest, dict) else list(nest)


def _leaves(nest: Any) -> Iterator:
    if not is_sequence(nest):
        yield nest
        return
    for child in _children(nest):
        yield from _leaves(child)


def flatten(nest: Any) -> list:
    """All leaves of a nested structure, left to right; dicts in the order of their sorted keys."""
    return list(_leaves(nest))


def _like(model: Any, children: list) -> Any:
    if isinstance(model, dict):
        by_key = dict(zip(sorted(model), children))
        return type(model)((key, by_key[key]) for key in model)
    if isinstance(model, tuple) and hasattr(model, "_fields"):
        return type(model)(*children)
    return type(model)(children)


def _fill(structure: Any, leaves: Iterator) -> Any:
    if not is_sequence(structure):
        return next(leaves)
    return _like(structure, [_fill(child, leaves) for child in _children(structure)])


def pack_sequence_as(structure: Any, flat_sequence: Sequence) -> Any:
    """The inverse of flatten: put a flat list into the shape of `structure`."""
    if not is_sequence(flat_sequence):
        raise TypeError(
            f"pack_sequence_as: flat_sequence must be a list, not {type(flat_sequence).__name__}."
        )
    wanted = len(flatten(structure))
    if wanted != len(flat_sequence):
        raise ValueError(
            f"pack_sequence_as: the structure has {wanted} leaves, the list has {len(flat_sequence)}."
        )
    return _fill(structure, iter(flat_sequence))


def map_structure(func: Callable, *structure: Any) -> Any:
    """Call `func` on the matching leaves of all structures; the result has the shape of the first."""
    rows = zip(*(flatten(each) for each in structure))
    return pack_sequence_as(structure[0], [func(*row) for row in rows])


def hold_mutable_vars(structure: Sequence) -> bool:
    """Whether a list of loop variables holds nested structures."""
    return any(is_sequence(each) for each in structure)


def copy_mutable_vars(structure: Any) -> Any:
    """The same leaves in new containers."""
    return pack_sequence_as(structure, flatten(structure))


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """Raise ValueError unless both structures nest alike, TypeError unless their types agree too."""
    if is_sequence(nest1) != is_sequence(nest2):
        raise ValueError(f"The structures differ: {nest1!r} against {nest2!r}.")
    if not is_sequence(nest1):
        return
    if check_types and type(nest1) is not type(nest2):
        raise TypeError(
            f"The structures differ in type: {type(nest1).__name__} against {type(nest2).__name__}."
        )
    if isinstance(nest1, Mapping) and isinstance(nest2, Mapping) and set(nest1) != set(nest2):
        raise ValueError(f"The structures differ in keys: {sorted(nest1)} against {sorted(nest2)}.")
    left, right = _children(nest1), _children(nest2)
    if len(left) != len(right):
        raise ValueError(f"The structures differ in length: {len(left)} against {len(right)}.")
    for one, other in zip(left, right):
        assert_same_structure(one, other, check_types)


def shape_inputs(helper: Any, shape: Any, inputs: dict, attrs: dict) -> None:
    """Describe a shape to an op that takes it as an attribute or as int32 tensors.

    A Variable goes into slot ShapeTensor. A list goes into the attribute `shape`, with -1 where it
    holds Variables; in that case slot ShapeTensorList holds one tensor per dimension.
    """
    from paddle.fluid.layers.tensor import cast, fill_constant

    layer = helper.layer_type

    def narrow(var: Variable) -> Variable:
        frozen(var)
        return cast(var, "int32") if var.dtype == VarType.INT64 else var

    if isinstance(shape, Variable):
        inputs["ShapeTensor"] = narrow(shape)
        return
    if not isinstance(shape, (list, tuple)) or not len(shape):
        raise TypeError(
            f"{layer}: shape must be a Variable or a non-empty list or tuple, but {shape!r} was given."
        )
    attrs["shape"] = [-1 if isinstance(dim, Variable) else need_int(dim, "shape", layer) for dim in shape]
    if has_variable(shape):
        inputs["ShapeTensorList"] = [
            narrow(dim) if isinstance(dim, Variable) else fill_constant([1], "int32", dim, force_cpu=True)
            for dim in shape
        ]
