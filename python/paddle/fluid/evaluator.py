"""Evaluators that keep their counts in the program. `fluid.metrics` has the same on fetched arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paddle.fluid import framework, suggest, unique_name
from paddle.fluid.layer_helper import LayerHelper
from paddle.fluid.metrics import _clone_var, _ground_truth, _run_fill

if TYPE_CHECKING:
    from paddle.fluid.hints import Executor, Program, Variable

__all__ = ["Accuracy", "ChunkEvaluator", "EditDistance", "DetectionMAP"]


class Evaluator:
    """What all evaluators share: `states` live over batches, `metrics` are the values of one batch."""

    def __init__(self, name: str, **kwargs):
        self.states: list = []
        self.metrics: list = []
        self.helper = LayerHelper(name, **kwargs)
        if self.helper.main_program.current_block().idx != 0:
            raise ValueError(f"{type(self).__name__} can only be made in the outermost block of a program.")

    def reset(self, executor: Executor, reset_program: Program | None = None) -> None:
        """Sets all states to zero; do it before each pass."""
        _run_fill(executor, reset_program, self.states, 0.0)

    def eval(self, executor: Executor, eval_program: Program | None = None):
        raise NotImplementedError(f"{type(self).__name__} must define eval(executor).")

    def _create_state(self, suffix: str, dtype: str, shape):
        state = self.helper.create_variable(
            name=f"{unique_name.generate(self.helper.name)}_{suffix}",
            persistable=True,
            dtype=dtype,
            shape=shape,
        )
        self.states.append(state)
        return state

    create_state = _create_state

    def _accumulate(self, state, value) -> None:
        from paddle.fluid import layers

        layers.sums(input=[state, value], out=state)

    def _fetch_states(self, executor, eval_program) -> list:
        program = framework.Program() if eval_program is None else eval_program
        block = program.current_block()
        return executor.run(program, fetch_list=[_clone_var(block, state) for state in self.states])


class Accuracy(Evaluator):
    """The part of right predictions (label among the top `k`) since the last reset; v0.11 scripts use it.

    Args:
        input: probabilities, a Variable.
        label: the classes.
        k: the label may be among the first k.
    """

    def __init__(self, input: Variable, label: Variable, k: int = 1, **kwargs):
        from paddle.fluid import layers

        super().__init__("accuracy", **kwargs)
        self.total = self._create_state("total", "int64", [1])
        self.correct = self._create_state("correct", "int64", [1])
        total = self.helper.create_variable_for_type_inference(dtype="int32")
        correct = self.helper.create_variable_for_type_inference(dtype="int32")
        accuracy = layers.accuracy(input=input, label=label, k=k, total=total, correct=correct)
        self._accumulate(self.total, layers.cast(x=total, dtype="int64"))
        self._accumulate(self.correct, layers.cast(x=correct, dtype="int64"))
        self.metrics.append(accuracy)

    def eval(self, executor: Executor, eval_program: Program | None = None) -> np.ndarray:
        """Returns the accuracy since the last reset.

        Args:
            executor: an Executor.
            eval_program: the Program that gets the ops; None: a new one.

        Returns:
            the accuracy.
        """
        total, correct = (int(np.sum(value)) for value in self._fetch_states(executor, eval_program))
        return np.array([correct / total if total else 0.0], dtype="float32")


class ChunkEvaluator(Evaluator):
    """Precision, recall and F1 over chunks of tagged sequences since the last reset.

    Args:
        input: the predicted tags, a Variable.
        label: the right tags.
        chunk_scheme: 'IOB', 'IOE', 'IOBES' or 'plain'.
        num_chunk_types: the number of kinds of chunks.
        excluded_chunk_types: kinds that do not count.
    """

    def __init__(self, input: Variable, label: Variable, chunk_scheme: str, num_chunk_types: int,
                 excluded_chunk_types: list | None = None):
        from paddle.fluid import layers

        super().__init__("chunk_eval")
        self.num_infer_chunks = self._create_state("num_infer_chunks", "int64", [1])
        self.num_label_chunks = self._create_state("num_label_chunks", "int64", [1])
        self.num_correct_chunks = self._create_state("num_correct_chunks", "int64", [1])
        precision, recall, f1_score, infer, labels, correct = layers.chunk_eval(
            input=input,
            label=label,
            chunk_scheme=chunk_scheme,
            num_chunk_types=num_chunk_types,
            excluded_chunk_types=excluded_chunk_types,
        )
        self._accumulate(self.num_infer_chunks, infer)
        self._accumulate(self.num_label_chunks, labels)
        self._accumulate(self.num_correct_chunks, correct)
        self.metrics.extend([precision, recall, f1_score])

    def eval(self, executor: Executor, eval_program: Program | None = None) -> tuple:
        """Returns (precision, recall, F1), an array of one float32 each.

        Args:
            executor: an Executor.
            eval_program: the Program that gets the ops; None: a new one.

        Returns:
            three arrays.
        """
        infer, label, correct = (float(np.sum(value)) for value in self._fetch_states(executor, eval_program))
        precision = correct / infer if infer else 0.0
        recall = correct / label if label else 0.0
        f1_score = 2 * precision * recall / (precision + recall) if correct else 0.0
        return tuple(np.array([value], dtype="float32") for value in (precision, recall, f1_score))


class EditDistance(Evaluator):
    """The mean edit distance and the part of sequences with any error since the last reset.

    Args:
        input: the predicted tokens, a Variable.
        label: the right tokens.
        ignored_tokens: tokens that are left out first.
    """

    def __init__(self, input: Variable, label: Variable, ignored_tokens: list | None = None, **kwargs):
        from paddle.fluid import layers

        super().__init__("edit_distance", **kwargs)
        self.total_distance = self._create_state("total_distance", "float32", [1])
        self.seq_num = self._create_state("seq_num", "int64", [1])
        self.instance_error = self._create_state("instance_error", "int64", [1])
        distances, seq_num = layers.edit_distance(input=input, label=label, ignored_tokens=ignored_tokens)
        distances = layers.cast(distances, "float32")  # which they are; the layer declares int64, as upstream's
        zero = layers.fill_constant(shape=[1], value=0.0, dtype="float32")
        right = layers.reduce_sum(layers.cast(x=layers.equal(distances, zero), dtype="int64"))
        wrong = layers.elementwise_sub(x=seq_num, y=right)
        total = layers.reduce_sum(distances)
        self._accumulate(self.total_distance, total)
        self._accumulate(self.seq_num, seq_num)
        self._accumulate(self.instance_error, wrong)
        self.metrics.extend([total, wrong])

    def eval(self, executor: Executor, eval_program: Program | None = None) -> tuple:
        """Returns (mean distance, part of sequences with errors), an array of one float32 each.

        Args:
            executor: an Executor.
            eval_program: the Program that gets the ops; None: a new one.

        Returns:
            two arrays.
        """
        total, count, wrong = (float(np.sum(value)) for value in self._fetch_states(executor, eval_program))
        return (
            np.array([total / count if count else 0.0], dtype="float32"),
            np.array([wrong / count if count else 0.0], dtype="float32"),
        )


class DetectionMAP(Evaluator):
    """Mean average precision of detections, of the batch and since the last reset.

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

        super().__init__("map_eval")
        label = _ground_truth(gt_label, gt_box, gt_difficult)
        options = {
            "class_num": class_num,
            "background_label": background_label,
            "overlap_threshold": overlap_threshold,
            "evaluate_difficult": evaluate_difficult,
            "ap_version": ap_version,
        }
        self.cur_map = layers.detection_map(input, label, **options)
        self._create_state("accum_pos_count", "int32", None)
        self._create_state("accum_true_pos", "float32", None)
        self._create_state("accum_false_pos", "float32", None)
        self.has_state = self.helper.create_variable(persistable=True, dtype="int32", shape=[1])
        self.helper.set_variable_initializer(self.has_state, initializer=Constant(value=0))
        self.accum_map = layers.detection_map(
            input,
            label,
            has_state=self.has_state,
            input_states=self.states,
            out_states=self.states,
            **options,
        )
        layers.fill_constant(
            shape=self.has_state.shape, value=1, dtype=self.has_state.dtype, out=self.has_state
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


suggest.make_helpful(__all__, globals())
