"""Variable[...]: an index becomes a slice, strided_slice or reverse op."""

from __future__ import annotations

from typing import Any, NamedTuple

from paddle.fluid import unique_name

# Stands for "to the end": longer than any side.
_END = 10000000


class _Cut(NamedTuple):
    axis: int
    start: Any
    end: Any
    step: Any
    drops: bool  # a single position: the axis goes away


def _constant(block, value: int):
    out = block.create_var(dtype="int32", stop_gradient=True)
    block.append_op(
        type="fill_constant",
        outputs={"Out": [out]},
        attrs={"shape": [1], "dtype": out.dtype, "value": float(value), "force_cpu": True},
    )
    return out


def _after(block, position):
    """The position behind `position`: where a cut of one element ends."""
    from paddle.fluid.framework_variable import Variable

    if not isinstance(position, Variable):
        return position + 1 if position != -1 else _END
    one = _constant(block, 1)
    end = block.create_var(dtype="int32")
    block.append_op(
        type="elementwise_add",
        inputs={"X": [position], "Y": [one]},
        outputs={"Out": [end]},
        attrs={"axis": -1},
    )
    return end


def _cuts(var, item) -> tuple[list[_Cut], list[int]]:
    cuts, reversed_axes = [], []
    items = list(item) if isinstance(item, tuple) else [item]
    if Ellipsis in [each for each in items if each is Ellipsis]:
        at = next(i for i, each in enumerate(items) if each is Ellipsis)
        items[at : at + 1] = [slice(None)] * (len(var.shape) - len(items) + 1)
    if len(items) > len(var.shape):
        raise IndexError(
            f"{var.name!r} has {len(var.shape)} dimensions, but {len(items)} indices were given."
        )
    for axis, each in enumerate(items):
        if not isinstance(each, slice):
            cuts.append(_Cut(axis, each, _after(var.block, each), 1, True))
        elif each.start is None and each.stop is None and each.step is None:
            continue
        elif each.start is None and each.stop is None and each.step == -1:
            reversed_axes.append(axis)
        else:
            start = 0 if each.start is None else each.start
            stop = _END if each.stop is None else each.stop
            cuts.append(_Cut(axis, start, stop, 1 if each.step is None else each.step, False))
    return cuts, reversed_axes


def _bounds(block, inputs: dict, attrs: dict, flags: list, slot: str, attr: str, values: list) -> None:
    """Plain numbers go into the attribute; as soon as one is a Variable, all go into the slot too."""
    from paddle.fluid.framework_variable import Variable

    attrs[attr] = [-1 if isinstance(value, Variable) else int(value) for value in values]
    if not any(isinstance(value, Variable) for value in values):
        return
    tensors = []
    for i, value in enumerate(values):
        if isinstance(value, Variable):
            value.stop_gradient = True
            flags[i] = -1
            tensors.append(value)
        else:
            tensors.append(_constant(block, int(value)))
    inputs[slot] = tensors


def _append(var, op_type: str, suffix: str, inputs: dict, attrs: dict):
    name = unique_name.generate_with_ignorable_key(f"{var.name}_{suffix}")
    out = var.block.create_var(name=name, dtype=var.dtype)
    var.block.append_op(type=op_type, inputs=inputs, outputs={"Out": [out]}, attrs=attrs)
    return out


def index(var, item):
    """The part of `var` that `item` names, as a new variable (or `var` itself for all of it)."""
    cuts, reversed_axes = _cuts(var, item)
    out = var
    if cuts:
        strided = any(not isinstance(cut.step, int) or cut.step != 1 for cut in cuts)
        inputs: dict = {"Input": [var]}
        attrs: dict = {"axes": [cut.axis for cut in cuts]}
        flags = [1] * len(cuts)
        _bounds(var.block, inputs, attrs, flags, "StartsTensorList", "starts", [cut.start for cut in cuts])
        _bounds(var.block, inputs, attrs, flags, "EndsTensorList", "ends", [cut.end for cut in cuts])
        if strided:
            _bounds(
                var.block, inputs, attrs, flags, "StridesTensorList", "strides", [cut.step for cut in cuts]
            )
        attrs["infer_flags"] = flags
        attrs["decrease_axis"] = [cut.axis for cut in cuts if cut.drops]
        kind = "strided_slice" if strided else "slice"
        out = _append(var, kind, kind, inputs, attrs)
    if reversed_axes:
        out = _append(out, "reverse", "slice_reverse", {"X": [out]}, {"axis": reversed_axes})
    return out
