"""Loss functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paddle.fluid.framework import Variable
from paddle.fluid.initializer import Constant, NumpyArrayInitializer
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers import homes, nn
from paddle.fluid.layers.build import VarType, add_op, emit, frozen, need_one_of, need_variable, older
from paddle.fluid.layers.control_flow import equal
from paddle.fluid.param_attr import ParamAttr

if TYPE_CHECKING:
    from paddle.fluid.hints import ParamAttrLike

__all__ = [
    "center_loss",
    "bpr_loss",
    "cross_entropy",
    "square_error_cost",
    "edit_distance",
    "nce",
    "hsigmoid",
    "sampled_softmax_with_cross_entropy",
    "softmax_with_cross_entropy",
    "rank_loss",
    "margin_rank_loss",
    "sigmoid_cross_entropy_with_logits",
    "teacher_student_sigmoid_loss",
    "huber_loss",
    "kldiv_loss",
    "npair_loss",
    "mse_loss",
    "log_loss",
    "smooth_l1",
    "dice_loss",
]

kIgnoreIndex = -100


def cross_entropy(
    input: Variable, label: Variable, soft_label: bool = False, ignore_index: int = kIgnoreIndex
) -> Variable:
    """-log of the probability that the input gives to the label, for each sample.

    The label is a class number, or with soft_label a probability for each class.
    """
    if not soft_label:
        return cross_entropy2(input, label, ignore_index)
    need_variable(input, "input", "cross_entropy")
    return emit(
        "cross_entropy",
        {"X": input, "Label": label},
        {"Y": input.dtype},
        {"soft_label": soft_label, "ignore_index": ignore_index},
    )


def cross_entropy2(input: Variable, label: Variable, ignore_index: int = kIgnoreIndex) -> Variable:
    """cross_entropy with class numbers."""
    dtype = need_variable(input, "input", "cross_entropy").dtype
    return emit(
        "cross_entropy2",
        {"X": input, "Label": label},
        {"Y": dtype, "XShape": dtype, "MatchX": dtype},
        {"ignore_index": ignore_index},
    )[0]


def softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    soft_label: bool = False,
    ignore_index: int = kIgnoreIndex,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
):
    """cross_entropy of softmax(logits) in one step; with return_softmax the pair (loss, softmax)."""
    dtype = need_variable(logits, "logits", "softmax_with_cross_entropy").dtype
    softmax, loss = emit(
        "softmax_with_cross_entropy",
        {"Logits": logits, "Label": label},
        {"Softmax": dtype, "Loss": dtype},
        {
            "soft_label": soft_label,
            "ignore_index": ignore_index,
            "numeric_stable_mode": numeric_stable_mode,
            "axis": axis,
        },
    )
    return (loss, softmax) if return_softmax else loss


@older(drop=("use_mkldnn",))
def sigmoid_cross_entropy_with_logits(
    x: Variable,
    label: Variable,
    ignore_index: int = kIgnoreIndex,
    name: str | None = None,
    normalize: bool = False,
) -> Variable:
    """The cross entropy of sigmoid(x) with labels from 0 to 1, for each element."""
    return emit(
        "sigmoid_cross_entropy_with_logits",
        {"X": x, "Label": label},
        attrs={"ignore_index": ignore_index, "normalize": normalize},
        name=name,
    )


def square_error_cost(input: Variable, label: Variable) -> Variable:
    """(input - label) squared, for each element."""
    need_variable(input, "input", "square_error_cost")
    helper = LayerHelper("square_error_cost")
    (difference,) = add_op(
        helper,
        "elementwise_sub",
        {"X": input, "Y": need_variable(label, "label", "square_error_cost")},
        {"Out": input.dtype},
    )
    return add_op(helper, "square", {"X": difference}, {"Out": input.dtype})[0]


def mse_loss(input: Variable, label: Variable) -> Variable:
    """The mean of (input - label) squared."""
    return nn.reduce_mean(square_error_cost(input, label))


def log_loss(input: Variable, label: Variable, epsilon: float = 0.0001, name: str | None = None) -> Variable:
    """-label * log(input + epsilon) - (1 - label) * log(1 - input + epsilon)."""
    need_variable(input, "input", "log_loss")
    return emit(
        "log_loss",
        {"Predicted": input, "Labels": label},
        {"Loss": input.dtype},
        {"epsilon": epsilon},
        name=name,
    )


def smooth_l1(
    x: Variable,
    y: Variable,
    inside_weight: Variable | None = None,
    outside_weight: Variable | None = None,
    sigma: float | None = None,
) -> Variable:
    """The sum over each row of a distance that is squared near zero and linear further out."""
    need_variable(x, "x", "smooth_l1")
    return emit(
        "smooth_l1_loss",
        {"X": x, "Y": y, "InsideWeight": inside_weight, "OutsideWeight": outside_weight},
        {"Diff": x.dtype, "Out": x.dtype},
        {"sigma": 1.0 if sigma is None else sigma},
    )[1]


def huber_loss(input: Variable, label: Variable, delta: float) -> Variable:
    """A loss that is squared up to a distance of delta and linear further out."""
    need_variable(input, "input", "huber_loss")
    return emit(
        "huber_loss",
        {"X": input, "Y": label},
        {"Residual": input.dtype, "Out": input.dtype},
        {"delta": delta},
    )[1]


def kldiv_loss(x: Variable, target: Variable, reduction: str = "mean", name: str | None = None) -> Variable:
    """The Kullback-Leibler divergence of target from exp(x)."""
    need_one_of(reduction, ("mean", "sum", "batchmean", "none"), "reduction", "kldiv_loss")
    return emit(
        "kldiv_loss",
        {"X": x, "Target": target},
        {"Loss": need_variable(x, "x", "kldiv_loss").dtype},
        {"reduction": reduction},
        name=name,
    )


def rank_loss(label: Variable, left: Variable, right: Variable, name: str | None = None) -> Variable:
    """RankNet's loss on the scores of a pair; the label says how far the left one should win."""
    return emit("rank_loss", {"Label": label, "Left": left, "Right": right}, {"Out": "float32"}, name=name)


def margin_rank_loss(
    label: Variable, left: Variable, right: Variable, margin: float = 0.1, name: str | None = None
) -> Variable:
    """max(0, -label * (left - right) + margin)."""
    dtype = need_variable(left, "left", "margin_rank_loss").dtype
    return emit(
        "margin_rank_loss",
        {"Label": label, "X1": left, "X2": right},
        {"Out": dtype, "Activated": dtype},
        {"margin": margin},
        name=name,
    )[0]


def bpr_loss(input: Variable, label: Variable, name: str | None = None) -> Variable:
    """The Bayesian personalized ranking loss of the label's score against all others."""
    return emit(
        "bpr_loss",
        {"X": input, "Label": label},
        {"Y": need_variable(input, "input", "bpr_loss").dtype},
        name=name,
    )


def teacher_student_sigmoid_loss(
    input: Variable, label: Variable, soft_max_up_bound: float = 15.0, soft_max_lower_bound: float = -15.0
) -> Variable:
    """The loss of a student that learns from clicks and from a teacher's scores at once."""
    need_variable(input, "input", "teacher_student_sigmoid_loss")
    helper = LayerHelper("teacher_student_sigmoid_loss")
    out = helper.create_variable(dtype=input.dtype)
    return add_op(
        helper,
        "teacher_student_sigmoid_loss",
        {"X": input, "Label": label},
        {"Y": out},
        {"soft_max_lower_bound": float(soft_max_lower_bound), "soft_max_up_bound": float(soft_max_up_bound)},
    )[0]


def center_loss(
    input: Variable,
    label: Variable,
    num_classes: int,
    alpha: float | Variable,
    param_attr: ParamAttrLike,
    update_center: bool = True,
) -> Variable:
    """Half the squared distance of each sample to the center of its class; alpha moves the centers."""
    need_variable(input, "input", "center_loss")
    helper = LayerHelper("center_loss", param_attr=param_attr)
    centers = frozen(
        helper.create_parameter(attr=param_attr, shape=[num_classes, input.shape[1]], dtype=input.dtype)
    )
    if not isinstance(alpha, Variable):
        if not isinstance(alpha, float):
            raise TypeError(f"center_loss: alpha must be a float or a Variable, but {alpha!r} was given.")
        alpha = helper.create_variable(
            name="centerloss_alpha",
            shape=[1],
            dtype="float32",
            type=VarType.LOD_TENSOR,
            persistable=True,
            stop_gradient=True,
            initializer=Constant(alpha),
        )
    return add_op(
        helper,
        "center_loss",
        {"X": input, "Label": label, "Centers": centers, "CenterUpdateRate": alpha},
        {"SampleCenterDiff": input.dtype, "Loss": input.dtype, "CentersOut": centers},
        {"cluster_num": num_classes, "need_update": update_center},
    )[1]


@older(drop=("name",))
def edit_distance(
    input: Variable,
    label: Variable,
    normalized: bool = True,
    ignored_tokens: list[int] | None = None,
    input_length: Variable | None = None,
    label_length: Variable | None = None,
) -> tuple[Variable, Variable]:
    """How many tokens to insert, delete or replace to get each label, and the number of sequences."""
    need_variable(input, "input", "edit_distance")
    helper = LayerHelper("edit_distance")
    if ignored_tokens:
        erased = [helper.create_variable_for_type_inference(dtype="int64") for _ in range(2)]
        for source, target in zip((input, label), erased):
            add_op(helper, "sequence_erase", {"X": source}, {"Out": target}, {"tokens": ignored_tokens})
        input, label = erased
    lengths = {}
    if input_length is not None and label_length is not None:
        lengths = {"HypsLength": input_length, "RefsLength": label_length}
    distance, count = add_op(
        helper,
        "edit_distance",
        {"Hyps": input, "Refs": label, **lengths},
        {"Out": "int64", "SequenceNum": "int64"},
        {"normalized": normalized},
    )
    return distance, count


def _alias_table(probabilities) -> tuple[np.ndarray, np.ndarray]:
    """Tables to draw a class in one step: who gets the rest of each class, and its own share."""
    count = len(probabilities)
    share, other = [0.0] * count, [0] * count
    large, small = [], []

    def sort_in(i: int, weight: float) -> None:
        if weight > 1.0:
            large.append((i, weight))
        elif weight < 1.0:
            small.append((i, weight))
        else:
            share[i], other[i] = weight, -1

    for i, probability in enumerate(probabilities):
        sort_in(i, probability * count)
    while large and small:
        (giver, surplus), (taker, weight) = large.pop(0), small.pop(0)
        share[taker], other[taker] = weight, giver
        sort_in(giver, surplus + weight - 1)
    # Only rounding errors leave anything here.
    for rest in (large, small):
        if rest:
            share[rest[0][0]], other[rest[0][0]] = 1.0, -1
    return np.array(other, "int32"), np.array(share, "float32")


def nce(
    input: Variable,
    label: Variable,
    num_total_classes: int,
    sample_weight: Variable | None = None,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
    num_neg_samples: int | None = None,
    name: str | None = None,
    sampler: str = "uniform",
    custom_dist: list[float] | None = None,
    seed: int = 0,
    is_sparse: bool = False,
) -> Variable:
    """Noise-contrastive estimation: the label's class against a few drawn ones, instead of all classes."""
    need_variable(input, "input", "nce")
    need_variable(label, "label", "nce")
    need_one_of(sampler, ("uniform", "log_uniform", "custom_dist"), "sampler", "nce")
    helper = LayerHelper("nce", param_attr=param_attr, bias_attr=bias_attr, name=name)
    ins = {
        "Weight": helper.create_parameter(
            attr=helper.param_attr,
            shape=[num_total_classes, input.shape[1]],
            is_bias=False,
            dtype=input.dtype,
        )
    }
    if helper.bias_attr:
        ins["Bias"] = helper.create_parameter(
            attr=helper.bias_attr, shape=[num_total_classes, 1], is_bias=True, dtype=input.dtype
        )
    outs = {
        slot: helper.create_variable_for_type_inference(dtype=dtype)
        for slot, dtype in (
            ("Cost", input.dtype),
            ("SampleLogits", input.dtype),
            ("SampleLabels", label.dtype),
        )
    }
    ins.update(Input=input, Label=label, SampleWeight=sample_weight)
    if sampler == "custom_dist":
        if custom_dist is None or len(custom_dist) != num_total_classes:
            raise ValueError(
                f"nce: custom_dist must hold a probability for each of the {num_total_classes} classes."
            )
        other, share = _alias_table(custom_dist)
        for slot, values in (
            ("CustomDistProbs", np.array(custom_dist).astype("float32")),
            ("CustomDistAlias", other),
            ("CustomDistAliasProbs", share),
        ):
            ins[slot] = frozen(
                helper.create_parameter(
                    attr=ParamAttr(),
                    shape=values.shape,
                    dtype=values.dtype,
                    default_initializer=NumpyArrayInitializer(values),
                )
            )
    negatives = 10 if num_neg_samples is None else int(num_neg_samples)
    cost = add_op(
        helper,
        "nce",
        ins,
        outs,
        {
            "num_total_classes": int(num_total_classes),
            "num_neg_samples": negatives,
            "seed": seed,
            "sampler": ("uniform", "log_uniform", "custom_dist").index(sampler),
            "is_sparse": is_sparse,
            "remote_prefetch": is_sparse,
        },
    )[0]
    return cost / (negatives + 1)


def hsigmoid(
    input: Variable,
    label: Variable,
    num_classes: int,
    param_attr: ParamAttrLike = None,
    bias_attr: ParamAttrLike = None,
    name: str | None = None,
    path_table: Variable | None = None,
    path_code: Variable | None = None,
    is_custom: bool = False,
    is_sparse: bool = False,
) -> Variable:
    """Hierarchical sigmoid: the cost of walking a binary tree, complete or given, to the label."""
    need_variable(input, "input", "hsigmoid")
    if num_classes is None or (num_classes < 2 and not is_custom):
        raise ValueError(f"hsigmoid: num_classes must be 2 or more, but {num_classes} was given.")
    if is_custom != (path_table is not None and path_code is not None) or (path_table is None) != (
        path_code is None
    ):
        raise ValueError(
            "hsigmoid: a tree of your own needs is_custom=True, path_table and path_code together."
        )
    helper = LayerHelper("hierarchical_sigmoid", param_attr=param_attr, bias_attr=bias_attr, name=name)
    is_sparse = is_sparse and is_custom
    outs = {slot: helper.create_variable_for_type_inference(input.dtype) for slot in ("Out", "PreOut")}
    nodes = num_classes if is_custom else num_classes - 1
    weight = helper.create_parameter(
        attr=helper.param_attr, shape=[nodes, input.shape[1]], is_bias=False, dtype=input.dtype
    )
    ins = {"X": input, "W": weight, "PathTable": path_table, "PathCode": path_code, "Label": label}
    if helper.bias_attr:
        ins["Bias"] = helper.create_parameter(
            attr=helper.bias_attr, shape=[nodes, 1], is_bias=True, dtype=input.dtype
        )
    return add_op(
        helper,
        "hierarchical_sigmoid",
        ins,
        {**outs, "W_Out": weight},
        {"num_classes": num_classes, "is_sparse": is_sparse, "remote_prefetch": is_sparse},
    )[0]


def sampled_softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    num_samples: int,
    num_true: int = 1,
    remove_accidental_hits: bool = True,
    use_customized_samples: bool = False,
    customized_samples: Variable | None = None,
    customized_probabilities: Variable | None = None,
    seed: int = 0,
) -> Variable:
    """softmax_with_cross_entropy over the label and num_samples drawn classes instead of all."""
    dtype = need_variable(logits, "logits", "sampled_softmax_with_cross_entropy").dtype
    need_variable(label, "label", "sampled_softmax_with_cross_entropy")
    if use_customized_samples and (customized_samples is None or customized_probabilities is None):
        raise ValueError(
            "sampled_softmax_with_cross_entropy: use_customized_samples needs customized_samples and "
            "customized_probabilities."
        )
    helper = LayerHelper("sample_logits")

    def temporary(kind) -> Variable:
        return helper.create_variable_for_type_inference(dtype=kind)

    samples = customized_samples if use_customized_samples else temporary("int64")
    probabilities = customized_probabilities if use_customized_samples else temporary(dtype)
    sampled_logits, sampled_label, soft_label = temporary(dtype), temporary("int64"), temporary(dtype)
    logits_dim, labels_dim = temporary(dtype), temporary(label.dtype)
    add_op(
        helper,
        "sample_logits",
        {
            "Logits": logits,
            "Labels": label,
            "CustomizedSamples": customized_samples,
            "CustomizedProbabilities": customized_probabilities,
        },
        {
            "Samples": samples,
            "Probabilities": probabilities,
            "SampledLabels": sampled_label,
            "SampledLogits": sampled_logits,
            "LogitsDim": logits_dim,
            "LabelsDim": labels_dim,
        },
        {
            "use_customized_samples": use_customized_samples,
            "uniq": True,
            "remove_accidental_hits": remove_accidental_hits,
            "num_samples": num_samples,
            "seed": seed,
        },
    )
    loss, softmax = temporary(dtype), temporary(dtype)
    add_op(helper, "one_hot", {"X": sampled_label}, {"Out": soft_label}, {"depth": num_samples + 1})
    add_op(
        helper,
        "softmax_with_cross_entropy",
        {"Logits": sampled_logits, "Label": soft_label},
        {"Softmax": softmax, "Loss": loss},
        {"soft_label": True, "ignore_index": 0, "numeric_stable_mode": False},
    )
    return loss / num_true


def dice_loss(input: Variable, label: Variable, epsilon: float = 1e-05, name: str | None = None) -> Variable:
    """1 - 2 * (overlap of input and label) / (their sizes together), as a mean over the batch."""
    label = nn.one_hot(label, depth=need_variable(input, "input", "dice_loss").shape[-1])
    dims = list(range(1, len(input.shape)))
    overlap = nn.reduce_sum(input * label, dim=dims)
    sizes = nn.reduce_sum(input, dim=dims) + nn.reduce_sum(label, dim=dims)
    return nn.reduce_mean(1 - overlap * 2 / (sizes + epsilon))


def npair_loss(anchor: Variable, positive: Variable, labels: Variable, l2_reg: float = 0.002) -> Variable:
    """Pull each anchor to its positive and away from those of other labels; the batch size must be known."""
    count = need_variable(labels, "labels", "npair_loss").shape[0]
    labels = nn.expand(nn.reshape(labels, shape=[count, 1], inplace=True), expand_times=[1, count])
    labels = equal(labels, nn.transpose(labels, perm=[1, 0])).astype("float32")
    labels = labels / nn.reduce_sum(labels, dim=1, keep_dim=True)
    squares = [nn.reduce_mean(nn.reduce_sum(nn.square(each), 1)) for each in (anchor, positive)]
    size = (squares[0] + squares[1]) * 0.25 * l2_reg
    similarity = nn.matmul(anchor, positive, transpose_x=False, transpose_y=True)
    entropy = softmax_with_cross_entropy(logits=similarity, label=labels, soft_label=True)
    return size + nn.reduce_mean(nn.reduce_sum(labels * entropy, 0))


__getattr__ = homes.served(__name__)
