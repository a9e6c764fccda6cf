"""What loops are built from: comparisons, arrays of tensors, rank tables that sort sequences by length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddle.fluid import unique_name
from paddle.fluid.framework import Variable
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers.build import VarType, add_op, emit, frozen, named, need_one_of, need_variable, older

if TYPE_CHECKING:
    from paddle.fluid.hints import DTypeLike

COMPARISONS = {
    "less_equal": "<=",
    "greater_than": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
}

__all__ = [
    "less_than",
    *COMPARISONS,
    "is_empty",
    "increment",
    "create_array",
    "array_write",
    "array_read",
    "array_length",
    "lod_rank_table",
    "max_sequence_len",
    "lod_tensor_to_array",
    "array_to_lod_tensor",
    "shrink_memory",
    "reorder_lod_tensor_by_rank",
    "split_lod_tensor",
    "merge_lod_tensor",
    "Print",
]


def _compare(op_type: str, x: Variable, y: Variable | None, cond: Variable | None, attrs: dict) -> Variable:
    need_variable(x, "x", op_type)
    helper = LayerHelper(op_type)
    if cond is None:
        cond = frozen(helper.create_variable_for_type_inference(dtype="bool"))
    ins = {"X": x} if y is None else {"X": x, "Y": need_variable(y, "y", op_type)}
    return add_op(helper, op_type, ins, {"Out": need_variable(cond, "cond", op_type)}, attrs)[0]


def less_than(
    x: Variable, y: Variable, force_cpu: bool | None = None, cond: Variable | None = None
) -> Variable:
    """x < y, element by element, in a new variable or in `cond`."""
    return _compare("less_than", x, y, cond, {"force_cpu": force_cpu})


def _comparison(op_type: str, sign: str):
    @older(drop=("force_cpu",))
    def layer(x: Variable, y: Variable, cond: Variable | None = None) -> Variable:
        return _compare(op_type, x, y, cond, {})

    return named(layer, op_type, f"x {sign} y, element by element, in a new variable or in `cond`.")


globals().update({op_type: _comparison(op_type, sign) for op_type, sign in COMPARISONS.items()})


@older(drop=("force_cpu",))
def is_empty(x: Variable, cond: Variable | None = None) -> Variable:
    """Whether x has no elements, in a new variable or in `cond`."""
    return _compare("is_empty", x, None, cond, {})


def increment(x: Variable, value: float = 1.0, in_place: bool = True) -> Variable:
    """x + value, written to x itself unless in_place is False."""
    need_variable(x, "x", "increment")
    return emit("increment", {"X": x}, {"Out": x if in_place else x.dtype}, {"step": float(value)})


def _need_array(array: Variable, layer: str) -> Variable:
    if need_variable(array, "array", layer).type != VarType.LOD_TENSOR_ARRAY:
        raise TypeError(
            f"{layer}: {array.name} must be an array of tensors, but its type is {array.type}. "
            "Make it with create_array or array_write."
        )
    return array


def create_array(dtype: DTypeLike) -> Variable:
    """An empty array of tensors."""
    helper = LayerHelper("array")
    return helper.create_variable(name=f"{helper.name}.out", type=VarType.LOD_TENSOR_ARRAY, dtype=dtype)


def array_write(x: Variable, i: Variable, array: Variable | None = None) -> Variable:
    """Put x at place i of an array, or of a new one."""
    need_variable(x, "x", "array_write")
    need_variable(i, "i", "array_write")
    helper = LayerHelper("array_write")
    if array is None:
        array = helper.create_variable(
            name=f"{helper.name}.out", type=VarType.LOD_TENSOR_ARRAY, dtype=x.dtype
        )
    return add_op(helper, "write_to_array", {"X": x, "I": i}, {"Out": _need_array(array, "array_write")})[0]


def array_read(array: Variable, i: Variable) -> Variable:
    """The tensor at place i of an array."""
    return emit(
        "read_from_array",
        {"X": _need_array(array, "array_read"), "I": i},
        {"Out": array.dtype},
        layer="array_read",
    )


def array_length(array: Variable) -> Variable:
    """The number of tensors in an array, as int64."""
    return frozen(
        emit(
            "lod_array_length",
            {"X": _need_array(array, "array_length")},
            {"Out": "int64"},
            layer="array_length",
        )
    )


def lod_rank_table(x: Variable, level: int = 0) -> Variable:
    """The sequences of x in the order of falling length."""
    need_variable(x, "x", "lod_rank_table")
    helper = LayerHelper("lod_rank_table")
    table = helper.create_variable(type=VarType.LOD_RANK_TABLE, name=unique_name.generate("lod_rank_table"))
    return add_op(helper, "lod_rank_table", {"X": x}, {"Out": table}, {"level": level})[0]


def max_sequence_len(rank_table: Variable) -> Variable:
    """The length of the longest sequence of a rank table."""
    # 1.8.5 spells the stem of the automatic name this way.
    return emit("max_sequence_len", {"RankTable": rank_table}, {"Out": "int64"}, layer="max_seqence_len")


def lod_tensor_to_array(x: Variable, table: Variable) -> Variable:
    """Sequences as an array: entry t holds step t of all sequences that are long enough."""
    need_variable(x, "x", "lod_tensor_to_array")
    helper = LayerHelper("lod_tensor_to_array")
    array = helper.create_variable(
        name=unique_name.generate("lod_tensor_to_array"), type=VarType.LOD_TENSOR_ARRAY, dtype=x.dtype
    )
    return add_op(helper, "lod_tensor_to_array", {"X": x, "RankTable": table}, {"Out": array})[0]


def array_to_lod_tensor(x: Variable, table: Variable) -> Variable:
    """The inverse of lod_tensor_to_array."""
    return emit("array_to_lod_tensor", {"X": x, "RankTable": table})


def shrink_memory(x: Variable, i: Variable, table: Variable) -> Variable:
    """The rows of x whose sequences still go on at step i."""
    return emit("shrink_rnn_memory", {"X": x, "I": i, "RankTable": table}, layer="shrink_memory")


def reorder_lod_tensor_by_rank(x: Variable, rank_table: Variable) -> Variable:
    """x with its sequences in the order of a rank table."""
    if need_variable(rank_table, "rank_table", "reorder_lod_tensor_by_rank").type != VarType.LOD_RANK_TABLE:
        raise TypeError(
            f"reorder_lod_tensor_by_rank: {rank_table.name} must be a rank table, "
            f"but its type is {rank_table.type}."
        )
    return emit("reorder_lod_tensor_by_rank", {"X": x, "RankTable": rank_table})


def split_lod_tensor(input: Variable, mask: Variable, level: int = 0) -> tuple[Variable, Variable]:
    """The rows where the mask is True, and those where it is not."""
    need_variable(input, "input", "split_lod_tensor")
    yes, no = emit(
        "split_lod_tensor",
        {"X": input, "Mask": mask},
        {"OutTrue": input.dtype, "OutFalse": input.dtype},
        {"level": level},
    )
    return yes, no


def merge_lod_tensor(
    in_true: Variable, in_false: Variable, x: Variable, mask: Variable, level: int = 0
) -> Variable:
    """The inverse of split_lod_tensor; x lends its sequences."""
    need_variable(in_true, "in_true", "merge_lod_tensor")
    return emit(
        "merge_lod_tensor",
        {"X": x, "Mask": mask, "InTrue": in_true, "InFalse": in_false},
        {"Out": in_true.dtype},
        {"level": level},
    )


def Print(
    input: Variable,
    first_n: int = -1,
    message: str | None = None,
    summarize: int = 20,
    print_tensor_name: bool = True,
    print_tensor_type: bool = True,
    print_tensor_shape: bool = True,
    print_tensor_lod: bool = True,
    print_phase: str = "both",
) -> Variable:
    """The input unchanged; each run prints it, at most first_n times and summarize elements of it."""
    need_variable(input, "input", "Print")
    need_one_of(print_phase.upper(), ("FORWARD", "BACKWARD", "BOTH"), "print_phase", "Print")
    return emit(
        "print",
        {"In": input},
        {"Out": input.dtype},
        {
            "first_n": first_n,
            "summarize": summarize,
            "message": message or "",
            "print_tensor_name": print_tensor_name,
            "print_tensor_type": print_tensor_type,
            "print_tensor_shape": print_tensor_shape,
            "print_tensor_lod": print_tensor_lod,
            "print_phase": print_phase.upper(),
        },
        layer=f"print_{input.name}",
    )
