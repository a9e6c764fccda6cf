"""Layers by which data comes into a program."""

from __future__ import annotations

from paddle.fluid.framework import Variable
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers.build import VarType, need_variable

__all__ = ["data", "load"]


def data(
    name: str,
    shape: list[int],
    append_batch_size: bool = True,
    dtype="float32",
    lod_level: int = 0,
    type=VarType.LOD_TENSOR,
    stop_gradient: bool = True,
) -> Variable:
    """A variable to feed. The batch size is put in front of the shape unless the shape holds a -1 or None.

    >>> fluid.layers.data(name='x', shape=[13], dtype='float32').shape
    (-1, 13)
    """
    if not isinstance(name, str):
        raise TypeError(f"data: name must be a string, but {name!r} was given.")
    if not isinstance(shape, (list, tuple)):
        raise TypeError(f"data: shape must be a list or a tuple, but {shape!r} was given.")
    sizes = [-1 if size is None else size for size in shape]
    if append_batch_size and all(size >= 0 for size in sizes):
        sizes = [-1, *sizes]
    return LayerHelper("data", name=name).create_global_variable(
        name=name,
        shape=sizes,
        dtype=dtype,
        type=type,
        stop_gradient=stop_gradient,
        lod_level=lod_level,
        is_data=True,
    )


def load(out: Variable, file_path: str, load_as_fp16: bool | None = None) -> None:
    """Read a variable from a file that io.save_vars or the op `save` wrote."""
    need_variable(out, "out", "load")
    attrs = {"file_path": file_path}
    if load_as_fp16 is not None:
        attrs["load_as_fp16"] = load_as_fp16
    LayerHelper("load").append_op(type="load", inputs={}, outputs={"Out": out}, attrs=attrs)
