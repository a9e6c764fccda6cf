"""fluid.data: a variable to feed, whose feeds are checked against its shape and dtype."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING

from paddle.fluid import core, suggest
from paddle.fluid.framework import Variable

if TYPE_CHECKING:
    from paddle.fluid.hints import DTypeLike

__all__ = ["data"]


def sizes_of(shape: list[int | None]) -> list[int]:
    """The shape of a variable to feed, checked; -1 stands for None."""
    if not isinstance(shape, (list, tuple)):
        raise TypeError(f"data: shape must be a list or a tuple, but {shape!r} was given.")
    for size in shape:
        if size is not None and (isinstance(size, bool) or not isinstance(size, numbers.Integral)):
            raise TypeError(f"data: shape must hold integers or None, but {size!r} was given.")
    return [-1 if size is None else int(size) for size in shape]


def data(name: str, shape: list[int | None], dtype: DTypeLike = "float32", lod_level: int = 0) -> Variable:
    """A variable to feed. None, -1 or another number below 0 stands for a size that only the feed
    tells; no batch size is added.

    Args:
        name: of the variable, by which it is fed.
        shape: the sizes; None or below 0: any.
        dtype: the element type.
        lod_level: how many levels of sequences the feed has; 0: a plain tensor.

    Returns:
        a Variable that must be fed.

    >>> fluid.data(name='x', shape=[None, 13]).shape
    (-1, 13)
    """
    from paddle.fluid import layers  # noqa: F401  (layers give Variables their operators)
    from paddle.fluid.layer_helper import LayerHelper

    if not isinstance(name, str):
        raise TypeError(f"data: name must be a string, but {name!r} was given.")
    return LayerHelper("data", name=name).create_global_variable(
        name=name,
        shape=sizes_of(shape),
        dtype=dtype,
        type=core.VarDesc.VarType.LOD_TENSOR,
        stop_gradient=True,
        lod_level=lod_level,
        is_data=True,
        need_check_feed=True,
    )


suggest.make_helpful(__all__, globals())
