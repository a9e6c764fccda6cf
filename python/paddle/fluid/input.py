"""fluid.embedding and fluid.one_hot: the forms for ids without a last dimension of size 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddle.fluid import suggest
from paddle.fluid.framework import Variable
from paddle.fluid.layers.nn import lookup, one_hot_rows

if TYPE_CHECKING:
    from paddle.fluid.hints import DTypeLike, ParamAttrLike

__all__ = ["one_hot", "embedding"]


def one_hot(input: Variable, depth: int | Variable, allow_out_of_range: bool = False) -> Variable:
    """For each id a row of `depth` zeros with a 1 at the id; the shape of the ids stays in front.

    Args:
        input: the ids, int32 or int64.
        depth: the width of a row: a number or a Variable of one element.
        allow_out_of_range: an id that is not below depth gives zeros; else it is an error.

    Returns:
        float32: the shape of the ids, then depth.
    """
    return one_hot_rows("one_hot_v2", input, depth, allow_out_of_range)


def embedding(
    input: Variable,
    size: list[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: ParamAttrLike = None,
    dtype: DTypeLike = "float32",
) -> Variable:
    """The rows of a table of shape `size` that the ids name; the shape of the ids stays in front.

    Args:
        input: the ids, int64.
        size: [number of ids, width of a row].
        is_sparse: the gradient holds only the rows that were looked up.
        is_distributed: the table lies on the parameter servers of the job.
        padding_idx: ids equal to it give zeros and are not trained; a negative one counts from the end.
        param_attr: how the table is made; None: Xavier.
        dtype: of the table.

    Returns:
        the shape of the ids, then the width.

    >>> ids = fluid.data(name='ids', shape=[None, 5], dtype='int64')
    >>> fluid.embedding(ids, size=[1000, 16]).shape
    (-1, 5, 16)
    """
    return lookup("lookup_table_v2", input, size, is_sparse, is_distributed, padding_idx, param_attr, dtype)


suggest.make_helpful(__all__, globals())
