"""Tensors of sequences from lists and arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paddle.fluid import core, suggest

if TYPE_CHECKING:
    from paddle.fluid.hints import ArrayLike, LoDTensor, PlaceLike

__all__ = ["create_lod_tensor", "create_random_int_lodtensor"]


def _flatten(data: list, depth: int) -> tuple:
    """Returns (the innermost items, the lengths met at each of `depth` levels)."""
    lengths = [[] for _ in range(depth)]
    items = [data]
    for level in range(depth):
        items = [each for group in items for each in group]
        lengths[level] = [len(each) for each in items]
    return [each for group in items for each in group], lengths


def create_lod_tensor(data: ArrayLike | LoDTensor, recursive_seq_lens: list, place: PlaceLike):
    """Makes a tensor with sequence lengths, one list of lengths per level.

    `data` is a numpy array or a LoDTensor with all items behind one another, or a list of sequences of
    numbers (which become the rows of a matrix with one column).

    Args:
        data: a numpy array, a LoDTensor or a list of sequences.
        recursive_seq_lens: a list of lengths for each level.
        place: fluid.CPUPlace().

    Returns:
        a LoDTensor.

    >>> t = fluid.create_lod_tensor([[1, 2], [3]], [[2, 1]], fluid.CPUPlace())
    >>> t.shape()
    [3, 1]
    """
    if isinstance(data, core.LoDTensor):
        data = np.array(data)
    elif isinstance(data, list):
        items, lengths = _flatten(data, len(recursive_seq_lens))
        if lengths != [list(level) for level in recursive_seq_lens]:
            raise ValueError(f"create_lod_tensor: the list has lengths {lengths}, not {recursive_seq_lens}.")
        data = np.array(items)
        data = data.reshape(data.shape + (1,))
    if not isinstance(data, np.ndarray):
        raise TypeError(
            f"create_lod_tensor takes an array, a list or a LoDTensor, not a {type(data).__name__}."
        )
    counts = [sum(level) for level in recursive_seq_lens]
    wanted = [len(level) for level in recursive_seq_lens[1:]] + [data.shape[0] if data.ndim else 0]
    if recursive_seq_lens and counts != wanted:
        raise ValueError(
            f"create_lod_tensor: the lengths {recursive_seq_lens} do not fit. Each level must add up to "
            f"the number of parts on the next one, and the last to the {wanted[-1]} rows of the data."
        )
    tensor = core.LoDTensor()
    tensor.set(data, place)
    tensor.set_recursive_sequence_lengths(recursive_seq_lens)
    return tensor


def create_random_int_lodtensor(recursive_seq_lens: list, base_shape: list, place: PlaceLike, low: int, high: int):
    """Makes a tensor of sequences of random integers between `low` and `high` (both can occur).

    One item has shape `base_shape`; there are as many as the last level's lengths add up to.

    Args:
        recursive_seq_lens: a list of lengths for each level.
        base_shape: the shape of one item.
        place: fluid.CPUPlace().
        low: the smallest number.
        high: the largest number.

    Returns:
        a LoDTensor of int64.
    """
    if not isinstance(base_shape, (list, tuple)):
        raise TypeError(
            f"create_random_int_lodtensor: base_shape must be a list, not a {type(base_shape).__name__}."
        )
    shape = [sum(recursive_seq_lens[-1]), *base_shape]
    data = np.random.randint(low, high + 1, size=shape).astype("int64")
    return create_lod_tensor(data, recursive_seq_lens, place)


suggest.make_helpful(__all__, globals())
