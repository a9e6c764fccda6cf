"""Metrics over many batches. They take fetched arrays; only DetectionMAP adds to a Program."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from paddle.fluid import suggest

if TYPE_CHECKING:
    from paddle.fluid.hints import ArrayLike, Executor, Program, Variable

__all__ = [
    "MetricBase",
    "CompositeMetric",
    "Precision",
    "Recall",
    "Accuracy",
    "ChunkEvaluator",
    "EditDistance",
    "DetectionMAP",
    "Auc",
]


def _array(who: str, name: str, value) -> np.ndarray:
    if not isinstance(value, (np.ndarray, np.generic)):
        raise ValueError(f"{who}: {name} must be a numpy array, not a {type(value).__name__}.")
    return np.asarray(value)


def is_number(value) -> bool:
    """Is it one number, also as an array of one element?"""
    if isinstance(value, np.ndarray):
        return value.shape == (1,)
    return isinstance(value, (int, float, np.number))


def _number(who: str, name: str, value):
    if not is_number(value):
        raise ValueError(f"{who}: {name} must be one number, not a {type(value).__name__}.")
    return value


def _number_or_array(who: str, name: str, value):
    if not (is_number(value) or isinstance(value, np.ndarray)):
        raise ValueError(f"{who}: {name} must be a number or a numpy array, not a {type(value).__name__}.")
    return value


class MetricBase:
    """What all metrics share. Attributes without a leading underscore are its state.

    Args:
        name: for messages; None: the name of the class.
    """

    def __init__(self, name: str | None = None, **kwargs):
        self._name = type(self).__name__ if name is None else str(name)

    def __str__(self) -> str:
        return self._name

    def _states(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def reset(self) -> None:
        """Sets the state back to zeros (None for what is no number)."""
        for name, value in self._states().items():
            if isinstance(value, int):
                value = 0
            elif isinstance(value, float):
                value = 0.0
            elif isinstance(value, (np.ndarray, np.generic)):
                value = np.zeros_like(value)
            else:
                value = None
            setattr(self, name, value)

    def get_config(self) -> dict:
        """Returns the name and a copy of the state."""
        return {"name": self._name, "states": copy.deepcopy(self._states())}

    def update(self, preds: ArrayLike, labels: ArrayLike) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define update(preds, labels).")

    def eval(self):
        raise NotImplementedError(f"{type(self).__name__} must define eval().")


class CompositeMetric(MetricBase):
    """Several metrics over the same predictions and labels.

    Args:
        name: for messages; None: the name of the class.
    """

    def __init__(self, name: str | None = None, **kwargs):
        super().__init__(name)
        self._metrics: list = []

    def add_metric(self, metric: MetricBase) -> None:
        """Adds one more metric.

        Args:
            metric: a metric of this module.
        """
        if not isinstance(metric, MetricBase):
            raise ValueError(f"CompositeMetric.add_metric takes a metric, not a {type(metric).__name__}.")
        self._metrics.append(metric)

    def reset(self) -> None:
        """Resets all metrics in it."""
        for metric in self._metrics:
            metric.reset()

    def update(self, preds: ArrayLike, labels: ArrayLike) -> None:
        """Updates all metrics.

        Args:
            preds: predictions, a numpy array.
            labels: labels, a numpy array.
        """
        for metric in self._metrics:
            metric.update(preds, labels)

    def eval(self) -> list:
        """Returns the values in the order in which the metrics were added."""
        return [metric.eval() for metric in self._metrics]


def _binary(who: str, preds, labels) -> tuple:
    """Returns predictions (rounded) and labels as flat arrays with one entry per sample."""
    preds = np.rint(_array(who, "preds", preds)).astype("int32")
    labels = _array(who, "labels", labels)
    count = labels.shape[0]
    return preds.reshape(preds.shape[0], -1)[:count, 0], labels.reshape(count, -1)[:, 0]


class Precision(MetricBase):
    """Of all that was predicted 1, the part that is 1. Two classes, 0 and 1.

    Args:
        name: for messages; None: the name of the class.
    """

    def __init__(self, name: str | None = None):
        super().__init__(name)
        self.tp = 0
        self.fp = 0

    def update(self, preds: ArrayLike, labels: ArrayLike) -> None:
        """Adds one batch: predictions in [0, 1] and labels, one per sample.

        Args:
            preds: predictions, a numpy array.
            labels: labels, a numpy array.
        """
        preds, labels = _binary("Precision.update", preds, labels)
        positive = preds == 1
        self.tp += int(np.sum(positive & (labels == 1)))
        self.fp += int(np.sum(positive & (labels != 1)))

    def eval(self) -> float:
        """Returns the precision, 0.0 when nothing was predicted 1."""
        total = self.tp + self.fp
        return self.tp / total if total else 0.0


class Recall(MetricBase):
    """Of all that is 1, the part that was predicted 1. Two classes, 0 and 1.

    Args:
        name: for messages; None: the name of the class.
    """

    def __init__(self, name: str | None = None):
        super().__init__(name)
        self.tp = 0
        self.fn = 0

    def update(self, preds: ArrayLike, labels: ArrayLike) -> None:
        """Adds one batch: predictions in [0, 1] and labels, one per sample.

        Args:
            preds: predictions, a numpy array.
            labels: labels, a numpy array.
        """
        preds, labels = _binary("Recall.update", preds, labels)
        positive = labels == 1
        self.tp += int(np.sum(positive & (preds == 1)))
        self.fn += int(np.sum(positive & (preds != 1)))

    def eval(self) -> float:
        """Returns the recall, 0.0 when no label was 1."""
        total = self.tp + self.fn
        return self.tp / total if total else 0.0


class Accuracy(MetricBase):
    """The mean of batch accuracies (fetched from layers.accuracy), weighted by the sizes of the batches.

    Args:
        name: for messages; None: the name of the class.
    """

    def __init__(self, name: str | None = None):
        super().__init__(name)
        self.value = 0.0
        self.weight = 0.0

    def update(self, value: float | ArrayLike, weight: float | ArrayLike) -> None:
        """Adds the accuracy of one batch of `weight` samples.

        Args:
            value: the accuracy of the batch.
            weight: the number of samples in it.
        """
        _number_or_array("Accuracy.update", "value", value)
        _number("Accuracy.update", "weight", weight)
        if weight < 0:
            raise ValueError(f"Accuracy.update: weight is {weight}; it cannot be below zero.")
        self.value = self.value + value * weight
        self.weight = self.weight + weight

    def eval(self):
        """Returns the mean accuracy so far."""
        if self.weight == 0:
            raise ValueError(
                "Accuracy.eval: no batch was added. Call update(value, weight) with fetched accuracies."
            )
        return self.value / self.weight


class ChunkEvaluator(MetricBase):
    """Precision, recall and F1 over chunks; fed with the three counts of layers.chunk_eval.

    Args:
        name: for messages; None: the name of the class.
    """

    def __init__(self, name: str | None = None):
        super().__init__(name)
        self.num_infer_chunks = 0
        self.num_label_chunks = 0
        self.num_correct_chunks = 0

    def update(self, num_infer_chunks: float | ArrayLike, num_label_chunks: float | ArrayLike,
               num_correct_chunks: float | ArrayLike) -> None:
        """Adds the counts of one batch.

        Args:
            num_infer_chunks: the number of predicted chunks.
            num_label_chunks: the number of right chunks.
            num_correct_chunks: the number of correctly predicted chunks.
        """
        who = "ChunkEvaluator.update"
        self.num_infer_chunks += _number_or_array(who, "num_infer_chunks", num_infer_chunks)
        self.num_label_chunks += _number_or_array(who, "num_label_chunks", num_label_chunks)
        self.num_correct_chunks += _number_or_array(who, "num_correct_chunks", num_correct_chunks)

    def eval(self) -> tuple:
        """Returns (precision, recall, F1)."""
        infer, label, correct = (
            float(np.sum(count))
            for count in (self.num_infer_chunks, self.num_label_chunks, self.num_correct_chunks)
        )
        precision = correct / infer if infer else 0
        recall = correct / label if label else 0
        f1_score = 2 * precision * recall / (precision + recall) if correct else 0
        return precision, recall, f1_score


class EditDistance(MetricBase):
    """The mean edit distance, and the part of sequences with any error; fed from layers.edit_distance.

    Args:
        name: for messages; None: the name of the class.
    """

    def __init__(self, name: str | None = None):
        super().__init__(name)
        self.total_distance = 0.0
        self.seq_num = 0
        self.instance_error = 0

    def update(self, distances: ArrayLike, seq_num: float | ArrayLike) -> None:
        """Adds the distances of one batch of `seq_num` sequences.

        Args:
            distances: a distance for each sequence, a numpy array.
            seq_num: the number of sequences.
        """
        distances = _array("EditDistance.update", "distances", distances)
        _number("EditDistance.update", "seq_num", seq_num)
        self.seq_num += seq_num
        self.instance_error += seq_num - np.sum(distances == 0)
        self.total_distance += np.sum(distances)

    def eval(self) -> tuple:
        """Returns (mean distance, part of sequences that are not all right)."""
        if self.seq_num == 0:
            raise ValueError("EditDistance.eval: no batch was added. Call update(distances, seq_num) first.")
        return self.total_distance / self.seq_num, self.instance_error / self.seq_num


class Auc(MetricBase):
    """The area under the ROC curve, from counts in `num_thresholds` + 1 bins of the predicted probability.

    Args:
        name: for messages; None: the name of the class.
        curve: 'ROC'.
        num_thresholds: into how many bins the probabilities fall.
    """

    def __init__(self, name: str | None = None, curve: str = "ROC", num_thresholds: int = 4095):
        super().__init__(name)
        self._curve = curve
        self._num_thresholds = num_thresholds
        self._stat_pos = np.zeros(num_thresholds + 1)
        self._stat_neg = np.zeros(num_thresholds + 1)

    def reset(self) -> None:
        """Forgets all counts."""
        self._stat_pos[:] = 0
        self._stat_neg[:] = 0

    def update(self, preds: ArrayLike | None = None, labels: ArrayLike | None = None,
               predictions: ArrayLike | None = None, axis: int = 1) -> None:
        """Adds one batch: the second column of preds is the probability of class 1, labels are 0 or 1.

        v0.12 and v0.13 called it as update(labels, predictions); that works too.

        Args:
            preds: probabilities, of shape [batch, 2].
            labels: 0 or 1, of shape [batch, 1].
            predictions: the old name of preds.
            axis: has no effect.
        """
        if predictions is not None:
            preds, labels = predictions, preds if labels is None else labels
        preds = _array("Auc.update", "preds", preds)
        labels = _array("Auc.update", "labels", labels)
        if labels.ndim == 2 and labels.shape[1] == 2 and (preds.ndim == 1 or preds.shape[1] == 1):
            preds, labels = labels, preds
        labels = labels.reshape(-1)
        if preds.ndim != 2 or preds.shape[1] < 2 or preds.shape[0] < labels.size:
            raise ValueError(
                f"Auc.update: preds has shape {preds.shape}; {labels.size} labels need ({labels.size}, 2)."
            )
        bins = (preds[: labels.size, 1] * self._num_thresholds).astype("int64")
        if bins.size and (bins.min() < 0 or bins.max() > self._num_thresholds):
            raise ValueError("Auc.update: a prediction is outside of [0, 1].")
        positive = labels.astype(bool)
        size = self._num_thresholds + 1
        self._stat_pos += np.bincount(bins[positive], minlength=size)
        self._stat_neg += np.bincount(bins[~positive], minlength=size)

    @staticmethod
    def trapezoid_area(x1: float, x2: float, y1: float, y2: float) -> float:
        """The area between x1 and x2 under the line from y1 to y2.

        Args:
            x1: where the line begins.
            x2: where it ends.
            y1: its height at x1.
            y2: its height at x2.

        Returns:
            the area.
        """
        return abs(x1 - x2) * (y1 + y2) / 2.0

    def eval(self) -> float:
        """Returns the area, 0.0 while only one class was seen."""
        pos = np.concatenate([[0.0], np.cumsum(self._stat_pos[::-1])])
        neg = np.concatenate([[0.0], np.cumsum(self._stat_neg[::-1])])
        if pos[-1] <= 0.0 or neg[-1] <= 0.0:
            return 0.0
        area = np.sum(np.diff(neg) * (pos[1:] + pos[:-1]) / 2.0)
        return float(area / pos[-1] / neg[-1])


class DetectionMAP:
    """Mean average precision of detections, of the batch and since the last reset.

    It adds ops and states to the default program; fetch what `get_map_var` returns. `gt_difficult` marks
    boxes that count only if `evaluate_difficult`; `ap_version` is 'integral' or '11point'.

    Args:
        input: the detections, a Variable.
        gt_label: the right classes.
        gt_box: the right boxes.
        gt_difficult: marks difficult boxes; None: there are none.
        class_num: the number of classes.
        background_label: the class that does not count.
        overlap_threshold: a box is found when it overlaps by so much.
        evaluate_difficult: difficult boxes count.
        ap_version: 'integral' or '11point'.
    """

    def __init__(
        self,
        input: Variable,
        gt_label: Variable,
        gt_box: Variable,
        gt_difficult: Variable | None = None,
        class_num: int | None = None,
        background_label: int = 0,
        overlap_threshold: float = 0.5,
        evaluate_difficult: bool = True,
        ap_version: str = "integral",
    ):
        from paddle.fluid import layers
        from paddle.fluid.initializer import Constant
        from paddle.fluid.layer_helper import LayerHelper

        self.helper = LayerHelper("map_eval")
        label = _ground_truth(gt_label, gt_box, gt_difficult)
        options = {
            "class_num": class_num,
            "background_label": background_label,
            "overlap_threshold": overlap_threshold,
            "evaluate_difficult": evaluate_difficult,
            "ap_version": ap_version,
        }
        self.cur_map = layers.detection_map(input, label, **options)
        states = [
            self._create_state("accum_pos_count", "int32", None),
            self._create_state("accum_true_pos", "float32", None),
            self._create_state("accum_false_pos", "float32", None),
        ]
        self.has_state = self._create_state("has_state", "int32", [1])
        self.helper.set_variable_initializer(self.has_state, initializer=Constant(value=0))
        self.accum_map = layers.detection_map(
            input, label, has_state=self.has_state, input_states=states, out_states=states, **options
        )
        layers.fill_constant(
            shape=self.has_state.shape, value=1, dtype=self.has_state.dtype, out=self.has_state
        )

    def _create_state(self, suffix: str, dtype: str, shape):
        from paddle.fluid import unique_name

        return self.helper.create_variable(
            name=f"{unique_name.generate(self.helper.name)}_{suffix}",
            persistable=True,
            dtype=dtype,
            shape=shape,
        )

    def get_map_var(self) -> tuple:
        """Returns (value of the batch, value since the last reset) as variables to fetch."""
        return self.cur_map, self.accum_map

    def reset(self, executor: Executor, reset_program: Program | None = None) -> None:
        """Starts a new accumulation.

        Args:
            executor: an Executor.
            reset_program: the Program that gets the ops; None: a new one.
        """
        _run_fill(executor, reset_program, [self.has_state], 0)


def _ground_truth(gt_label, gt_box, gt_difficult):
    """One matrix per image: label, (difficult), box."""
    from paddle.fluid import layers

    parts = [layers.cast(x=gt_label, dtype=gt_box.dtype)]
    if gt_difficult is not None:
        parts.append(layers.cast(x=gt_difficult, dtype=gt_box.dtype))
    return layers.concat([*parts, gt_box], axis=1)


def _run_fill(executor, program, variables: list, value) -> None:
    """Runs a program that sets the variables, which live in the executor's scope, to `value`."""
    from paddle.fluid import layers
    from paddle.fluid.framework import Program, program_guard

    if program is None:
        program = Program()
    with program_guard(main_program=program):
        for var in variables:
            own = _clone_var(program.current_block(), var)
            layers.fill_constant(shape=own.shape, value=value, dtype=own.dtype, out=own)
    executor.run(program)


def _clone_var(block, var):
    """Declares in `block` a persistable variable of the same name and kind."""
    return block.create_var(
        name=var.name,
        shape=var.shape,
        dtype=var.dtype,
        type=var.type,
        lod_level=var.lod_level,
        persistable=True,
    )


suggest.make_helpful(__all__, globals())
