"""Layers that measure how good a prediction is."""

from __future__ import annotations

from paddle.fluid.framework import Variable
from paddle.fluid.initializer import Constant
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.layers.build import add_op, emit, need_variable
from paddle.fluid.layers.reduce import topk

__all__ = ["accuracy", "auc", "mean_iou", "chunk_eval"]


def accuracy(
    input: Variable,
    label: Variable,
    k: int = 1,
    correct: Variable | None = None,
    total: Variable | None = None,
) -> Variable:
    """The share of samples whose label is among the k most probable classes.

    The variables `correct` and `total`, when given, get the two counts.
    """
    helper = LayerHelper("accuracy")
    values, indices = topk(need_variable(input, "input", "accuracy"), k=k)
    return add_op(
        helper,
        "accuracy",
        {"Out": values, "Indices": indices, "Label": label},
        {
            "Accuracy": "float32",
            "Correct": "int32" if correct is None else correct,
            "Total": "int32" if total is None else total,
        },
    )[0]


def auc(
    input: Variable,
    label: Variable,
    curve: str = "ROC",
    num_thresholds: int = 2**12 - 1,
    topk: int = 1,
    slide_steps: int = 1,
) -> tuple[Variable, Variable, list[Variable]]:
    """The area under the curve: over all batches, over the last slide_steps batches, and the four counters.

    The input has two columns; the second is the probability of the positive class.
    """
    need_variable(input, "input", "auc")
    helper = LayerHelper("auc")
    overall = helper.create_variable_for_type_inference(dtype="float64")
    recent = helper.create_variable_for_type_inference(dtype="float64")
    recent_shape = [(1 + slide_steps) * (num_thresholds + 1) + 1]
    counters = [
        helper.create_global_variable(persistable=True, dtype="int64", shape=shape)
        for shape in (recent_shape, recent_shape, [1, num_thresholds + 1], [1, num_thresholds + 1])
    ]
    for counter in counters:
        helper.set_variable_initializer(counter, Constant(value=0.0, force_cpu=False))
    for area, (pos, neg), steps in ((recent, counters[:2], slide_steps), (overall, counters[2:], 0)):
        add_op(
            helper,
            "auc",
            {"Predict": input, "Label": label, "StatPos": pos, "StatNeg": neg},
            {"AUC": area, "StatPosOut": pos, "StatNegOut": neg},
            {"curve": curve, "num_thresholds": num_thresholds, "slide_steps": steps},
        )
    return overall, recent, counters


def mean_iou(input: Variable, label: Variable, num_classes: int) -> tuple[Variable, Variable, Variable]:
    """The mean over classes of intersection by union, and the wrong and correct counts of each class."""
    score, wrong, correct = emit(
        "mean_iou",
        {"Predictions": input, "Labels": label},
        {"OutMeanIou": "float32", "OutWrong": "int32", "OutCorrect": "int32"},
        {"num_classes": num_classes},
    )
    return score, wrong, correct


def chunk_eval(
    input: Variable,
    label: Variable,
    chunk_scheme: str,
    num_chunk_types: int,
    excluded_chunk_types: list[int] | None = None,
    seq_length: Variable | None = None,
) -> tuple:
    """Precision, recall and F1 of the chunks in tagged sequences, and the three counts behind them."""
    return tuple(
        emit(
            "chunk_eval",
            {"Inference": input, "Label": label, "SeqLength": seq_length},
            {
                "Precision": "float32",
                "Recall": "float32",
                "F1-Score": "float32",
                "NumInferChunks": "int64",
                "NumLabelChunks": "int64",
                "NumCorrectChunks": "int64",
            },
            {
                "num_chunk_types": num_chunk_types,
                "chunk_scheme": chunk_scheme,
                "excluded_chunk_types": excluded_chunk_types or [],
            },
        )
    )
