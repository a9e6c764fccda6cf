"""The layers that fit no other family, and one place from which all of them can be reached."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from paddle.fluid.framework import Variable
from paddle.fluid.initializer import Constant
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers import conv, elementwise, homes, image, index_ops, norm, ops, random_ops, reduce, shape_ops
from paddle.fluid.layers.build import (
    VarType,
    add_op,
    emit,
    frozen,
    need_int,
    need_variable,
    need_variables,
    older,
    to_vartype,
)
from paddle.fluid.layers.conv import *  # noqa: F401,F403
from paddle.fluid.layers.elementwise import *  # noqa: F401,F403
from paddle.fluid.layers.image import *  # noqa: F401,F403
from paddle.fluid.layers.index_ops import *  # noqa: F401,F403
from paddle.fluid.layers.norm import *  # noqa: F401,F403
from paddle.fluid.layers.ops import *  # noqa: F401,F403
from paddle.fluid.layers.random_ops import *  # noqa: F401,F403
from paddle.fluid.layers.reduce import *  # noqa: F401,F403
from paddle.fluid.layers.shape_ops import *  # noqa: F401,F403

if TYPE_CHECKING:
    from paddle.fluid.hints import DTypeLike, ParamAttrLike, Variables

FAMILIES = (conv, elementwise, image, index_ops, norm, ops, random_ops, reduce, shape_ops)

__all__ = [
    "fc",
    "embedding",
    "cos_sim",
    "softmax",
    "log_softmax",
    "matmul",
    "mul",
    "bmm",
    "addmm",
    "dot",
    "cross",
    "sum",
    "one_hot",
    "label_smooth",
    "autoincreased_step_counter",
    "merge_selected_rows",
    "get_tensor_from_selected_rows",
    "bilinear_tensor_product",
    "add_position_encoding",
    "fsp_matrix",
    "continuous_value_model",
    "filter_by_instag",
]
__all__ += [name for family in FAMILIES for name in family.__all__]


@older(drop=("use_mkldnn", "use_cudnn", "is_test"))
def fc(
    input: Variables,
    size: int,
    num_flatten_dims: int = 1,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """A fully connected layer: act(input * W + b). Several inputs have one W each and are added up.

    The dimensions from num_flatten_dims on are taken as the features.

    >>> x = fluid.layers.data(name='x', shape=[13])
    >>> fluid.layers.fc(input=x, size=1).shape
    (-1, 1)
    """
    inputs = need_variables(input, "input", "fc")
    size = need_int(size, "size", "fc")
    helper = LayerHelper("fc", input=inputs, param_attr=param_attr, bias_attr=bias_attr, act=act, name=name)
    dtype = helper.input_dtype()
    products = []
    for each, attr in helper.iter_inputs_and_params():
        if num_flatten_dims == -1:
            num_flatten_dims = len(each.shape) - 1
        features = prod(each.shape[num_flatten_dims:])
        if features <= 0:
            raise ValueError(
                f"fc: the sizes from dimension {num_flatten_dims} on must be known and above 0, but the "
                f"input {each.name} has shape {each.shape}."
            )
        weight = helper.create_parameter(attr=attr, shape=[features, size], dtype=dtype, is_bias=False)
        products += add_op(
            helper,
            "mul",
            {"X": each, "Y": weight},
            {"Out": dtype},
            {"x_num_col_dims": num_flatten_dims, "y_num_col_dims": 1},
        )
    out = products[0]
    if len(products) > 1:
        (out,) = add_op(helper, "sum", {"X": products}, {"Out": dtype}, {"use_mkldnn": False})
    return helper.append_activation(helper.append_bias_op(out, dim_start=num_flatten_dims))


def lookup(
    op_type: str,
    input: Variable,
    size,
    is_sparse: bool,
    is_distributed: bool,
    padding_idx: int | None,
    param_attr: ParamAttrLike,
    dtype: DTypeLike,
) -> Variable:
    """An embedding: both forms of it, which differ in the op only, are made here."""
    need_variable(input, "input", "embedding")
    if not isinstance(size, (list, tuple)) or len(size) != 2:
        raise TypeError(f"embedding: size must be [number of ids, width], but {size!r} was given.")
    helper = LayerHelper("embedding", param_attr=param_attr)
    weight = helper.create_parameter(attr=helper.param_attr, shape=size, dtype=dtype, is_bias=False)
    if padding_idx is None:
        padding_idx = -1
    elif padding_idx < 0:
        padding_idx += size[0]
    attrs = {
        "is_sparse": is_sparse,
        "is_distributed": is_distributed,
        "remote_prefetch": bool(is_sparse and not is_distributed),
        "padding_idx": padding_idx,
    }
    return add_op(helper, op_type, {"Ids": input, "W": weight}, {"Out": dtype}, attrs)[0]


def embedding(
    input: Variable,
    size: list[int],
    is_sparse: bool = False,
    is_distributed: bool = False,
    padding_idx: int | None = None,
    param_attr: ParamAttrLike = None,
    dtype: DTypeLike = "float32",
) -> Variable:
    """The rows of a table of shape `size` that the ids name. The ids' last dimension must be 1.

    is_sparse makes the gradient hold the touched rows only. Ids equal to padding_idx give zeros.

    >>> ids = fluid.layers.data(name='ids', shape=[1], dtype='int64')
    >>> fluid.layers.embedding(ids, size=[1000, 16], is_sparse=True).shape
    (-1, 16)
    """
    return lookup("lookup_table", input, size, is_sparse, is_distributed, padding_idx, param_attr, dtype)


def cos_sim(X: Variable, Y: Variable) -> Variable:
    """The cosine of the angle between the rows of X and of Y."""
    dtype = need_variable(X, "X", "cos_sim").dtype
    return emit(
        "cos_sim",
        {"X": [X], "Y": [need_variable(Y, "Y", "cos_sim")]},
        {"Out": dtype, "XNorm": dtype, "YNorm": dtype},
    )[0]


@older(drop=("param_attr", "bias_attr", "use_mkldnn"), x="input")
def softmax(input: Variable, use_cudnn: bool = False, name: str | None = None, axis: int = -1) -> Variable:
    """exp(x) divided by its sum along an axis."""
    return emit("softmax", {"X": input}, attrs={"axis": axis, "use_cudnn": use_cudnn}, name=name)


def log_softmax(input: Variable, axis: int | None = None, dtype: DTypeLike | None = None, name: str | None = None) -> Variable:
    """The logarithm of softmax; dtype casts the input first."""
    need_variable(input, "input", "log_softmax")
    helper = LayerHelper("log_softmax", name=name)
    if dtype is not None:
        (input,) = add_op(
            helper,
            "cast",
            {"X": input},
            {"Out": to_vartype(dtype)},
            {"in_dtype": input.dtype, "out_dtype": to_vartype(dtype)},
        )
    (share,) = add_op(
        helper,
        "softmax",
        {"X": input},
        {"Out": input.dtype},
        {"axis": -1 if axis is None else axis, "use_cudnn": False},
    )
    return add_op(helper, "log", {"X": share}, {"Out": share.dtype})[0]


def matmul(
    x: Variable,
    y: Variable,
    transpose_x: bool = False,
    transpose_y: bool = False,
    alpha: float = 1.0,
    name: str | None = None,
) -> Variable:
    """alpha * x * y over the last two dimensions; leading dimensions are a batch of products."""
    left, right = list(need_variable(x, "x", "matmul").shape), list(need_variable(y, "y", "matmul").shape)
    left, right = ([1] + left if len(left) == 1 else left), (right + [1] if len(right) == 1 else right)
    inner = left[-2 if transpose_x else -1], right[-1 if transpose_y else -2]
    if inner[0] != inner[1] and -1 not in inner:
        raise ValueError(
            f"matmul: the columns of x must be as many as the rows of y, but x has shape {x.shape} and y "
            f"{y.shape} with transpose_x={transpose_x}, transpose_y={transpose_y}."
        )
    if (
        len(left) > 2
        and len(right) > 2
        and any(a != b and a >= 0 and b >= 0 for a, b in zip(left[:-2], right[:-2]))
    ):
        raise ValueError(
            f"matmul: the leading dimensions must agree, but x has shape {x.shape} and y {y.shape}."
        )
    return emit(
        "matmul",
        {"X": x, "Y": y},
        attrs={"transpose_X": transpose_x, "transpose_Y": transpose_y, "alpha": float(alpha)},
        name=name,
    )


def mul(
    x: Variable, y: Variable, x_num_col_dims: int = 1, y_num_col_dims: int = 1, name: str | None = None
) -> Variable:
    """The matrix product of x and y, each taken as a matrix cut after its first so many dimensions."""
    return emit(
        "mul",
        {"X": x, "Y": y},
        attrs={"x_num_col_dims": x_num_col_dims, "y_num_col_dims": y_num_col_dims},
        name=name,
    )


def bmm(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """A batch of matrix products."""
    return emit("bmm", {"X": x, "Y": y}, name=name)


def addmm(
    input: Variable, x: Variable, y: Variable, alpha: float = 1.0, beta: float = 1.0, name: str | None = None
) -> Variable:
    """beta * input + alpha * x * y."""
    need_variable(x, "x", "addmm")
    return emit(
        "addmm", {"Input": input, "X": x, "Y": y}, {"Out": x.dtype}, {"Alpha": alpha, "Beta": beta}, name=name
    )


def dot(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The inner products of the rows of x and y."""
    need_variable(x, "x", "dot")
    helper = LayerHelper("dot", name=name)
    out = (
        helper.create_variable_for_type_inference(dtype=x.dtype)
        if name is None
        else helper.create_variable(name=name, dtype=x.dtype, persistable=False)
    )
    return add_op(helper, "dot", {"X": x, "Y": need_variable(y, "y", "dot")}, {"Out": out})[0]


def cross(input: Variable, other: Variable, dim: int | None = None) -> Variable:
    """The cross product along a dimension of size 3."""
    return emit("cross", {"X": input, "Y": other}, attrs={"dim": dim or None})


@older(drop=("use_mkldnn",))
def sum(x: Variables) -> Variable:
    """The sum of several tensors."""
    parts = need_variables(x, "x", "sum")
    helper = LayerHelper("sum", x=parts)
    return add_op(helper, "sum", {"X": x}, {"Out": helper.input_dtype("x")}, {"use_mkldnn": False})[0]


def one_hot_rows(op_type: str, input: Variable, depth: int | Variable, allow_out_of_range: bool) -> Variable:
    """Both forms of one_hot, which differ in the op only."""
    ins, attrs = {"X": input}, {"allow_out_of_range": allow_out_of_range}
    if isinstance(depth, Variable):
        ins["depth_tensor"] = frozen(depth)
    else:
        attrs["depth"] = depth
    return emit(op_type, ins, {"Out": "float32"}, attrs)


def one_hot(input: Variable, depth: int | Variable, allow_out_of_range: bool = False) -> Variable:
    """For each id a row of `depth` zeros with a 1 at the id. The ids' last dimension must be 1."""
    return frozen(one_hot_rows("one_hot", input, depth, allow_out_of_range))


def label_smooth(
    label: Variable,
    prior_dist: Variable | None = None,
    epsilon: float = 0.1,
    dtype: DTypeLike = "float32",
    name: str | None = None,
) -> Variable:
    """(1 - epsilon) * label + epsilon * prior, where the prior is even when not given."""
    if not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"label_smooth: epsilon must be from 0 to 1, but {epsilon} was given.")
    frozen(need_variable(label, "label", "label_smooth"))
    return emit(
        "label_smooth",
        {"X": label, "PriorDist": prior_dist},
        {"Out": dtype},
        {"epsilon": float(epsilon)},
        name=name,
    )


def autoincreased_step_counter(counter_name: str | None = None, begin: int = 1, step: int = 1) -> Variable:
    """A persistable int64 counter that grows by `step` at each run; its first value is `begin`.

    Calls with the same name share one counter, and only the first one makes it.
    """
    helper = LayerHelper("global_step_counter")
    counter, is_new = helper.create_or_get_global_variable(
        name=counter_name or "@STEP_COUNTER@",
        dtype="int64",
        shape=[1],
        persistable=True,
        belong_to_optimizer=True,
    )
    if is_new:
        helper.set_variable_initializer(counter, initializer=Constant(value=begin - 1, force_cpu=True))
        helper.main_program.global_block()._prepend_op(
            type="increment", inputs={"X": [counter]}, outputs={"Out": [counter]}, attrs={"step": float(step)}
        )
        frozen(counter)
    return counter


def merge_selected_rows(x: Variable, name: str | None = None) -> Variable:
    """Selected rows with the rows of equal number added up."""
    return emit("merge_selected_rows", {"X": x}, name=name)


def get_tensor_from_selected_rows(x: Variable, name: str | None = None) -> Variable:
    """The values of selected rows as a tensor."""
    if need_variable(x, "x", "get_tensor_from_selected_rows").type != VarType.SELECTED_ROWS:
        raise TypeError(
            f"get_tensor_from_selected_rows: {x.name} must hold selected rows, but its type is {x.type}."
        )
    return emit("get_tensor_from_selected_rows", {"X": x}, name=name)


def bilinear_tensor_product(
    x: Variable,
    y: Variable,
    size: int,
    act: str | None = None,
    name: str | None = None,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
) -> Variable:
    """x * W_i * y for each of `size` learned matrices W_i, with bias and activation."""
    need_variable(x, "x", "bilinear_tensor_product")
    need_variable(y, "y", "bilinear_tensor_product")
    helper = LayerHelper(
        "bilinear_tensor_product", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name
    )
    weight = helper.create_parameter(
        attr=helper.param_attr, shape=[size, x.shape[1], y.shape[1]], dtype=x.dtype, is_bias=False
    )
    out = helper.create_variable_for_type_inference(dtype=x.dtype)
    ins = {"X": x, "Y": y, "Weight": weight}
    if helper.bias_attr:
        ins["Bias"] = helper.create_parameter(
            attr=helper.bias_attr, shape=[1, size], dtype=x.dtype, is_bias=True
        )
    add_op(helper, "bilinear_tensor_product", ins, {"Out": out})
    return helper.append_activation(out)


def add_position_encoding(input: Variable, alpha: float, beta: float, name: str | None = None) -> Variable:
    """alpha * input + beta * sine and cosine waves that tell the position in a sequence."""
    return emit("add_position_encoding", {"X": input}, attrs={"alpha": alpha, "beta": beta}, name=name)


def fsp_matrix(x: Variable, y: Variable) -> Variable:
    """For each image the mean products of the channels of x with those of y."""
    return emit("fsp", {"X": x, "Y": y}, layer="fsp_matrix")


def continuous_value_model(input: Variable, cvm: Variable, use_cvm: bool = True) -> Variable:
    """Show and click counts at the head of an embedding, as logarithms or cut off."""
    need_variable(input, "input", "continuous_value_model")
    helper = LayerHelper("cvm")
    out = helper.create_variable(dtype=input.dtype)
    add_op(helper, "cvm", {"X": [input], "CVM": [cvm]}, {"Y": out}, {"use_cvm": use_cvm})
    return out


def filter_by_instag(
    ins: Variable, ins_tag: Variable, filter_tag: Variable, is_lod: bool, out_val_if_empty: int = 0
) -> list[Variable]:
    """The samples that carry one of the wanted tags, and their loss weights."""
    need_variable(ins, "ins", "filter_by_instag")
    need_variable(ins_tag, "ins_tag", "filter_by_instag")
    return emit(
        "filter_by_instag",
        {"Ins": ins, "Ins_tag": ins_tag, "Filter_tag": filter_tag},
        {"Out": ins.dtype, "LossWeight": "float64", "IndexMap": ins_tag.dtype},
        {"is_lod": is_lod, "out_val_if_empty": out_val_if_empty},
    )[:2]


__getattr__ = homes.served(__name__)
