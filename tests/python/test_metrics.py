"""Metrics and averages over fetched values, compared with plain formulas."""

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import metrics


def test_accuracy_is_weighted():
    metric = metrics.Accuracy()
    metric.update(value=np.array([0.5], "float32"), weight=10)
    metric.update(value=1.0, weight=30)
    assert float(np.asarray(metric.eval()).reshape(-1)[0]) == pytest.approx(0.875)
    metric.reset()
    with pytest.raises(ValueError, match="no batch was added"):
        metric.eval()
    with pytest.raises(ValueError, match="below zero"):
        metric.update(value=0.1, weight=-1)


def test_precision_and_recall():
    preds = np.array([[0.9], [0.2], [0.7], [0.8], [0.1]], "float32")
    labels = np.array([[1], [1], [0], [1], [0]], "int64")
    both = metrics.CompositeMetric()
    both.add_metric(metrics.Precision())
    both.add_metric(metrics.Recall())
    both.update(preds, labels)
    assert both.eval() == pytest.approx([2 / 3, 2 / 3])
    both.update(preds, labels)
    assert both.eval() == pytest.approx([2 / 3, 2 / 3])
    both.reset()
    assert both.eval() == [0.0, 0.0]
    with pytest.raises(ValueError, match="takes a metric"):
        both.add_metric(3)
    with pytest.raises(ValueError, match="numpy array"):
        metrics.Precision().update([1], labels)


def pairwise_auc(scores, labels):
    better = scores[labels == 1][:, None] > scores[labels == 0][None, :]
    equal = scores[labels == 1][:, None] == scores[labels == 0][None, :]
    return (better + 0.5 * equal).mean()


def test_auc_equals_the_count_of_pairs():
    rng = np.random.RandomState(1)
    labels = rng.randint(0, 2, 400)
    # Scores on the grid of thresholds, so that the bins lose nothing.
    scores = np.clip((rng.randint(0, 50, 400) + 20 * labels) / 100.0, 0, 1)
    metric = metrics.Auc("auc", num_thresholds=100)
    for part in np.array_split(np.arange(400), 4):
        metric.update(np.stack([1 - scores[part], scores[part]], 1), labels[part][:, None])
    assert metric.eval() == pytest.approx(pairwise_auc(np.floor(scores * 100), labels), abs=1e-9)
    metric.reset()
    assert metric.eval() == 0.0
    with pytest.raises(ValueError, match="outside"):
        metric.update(np.array([[0.0, 1.5]]), np.array([1]))
    with pytest.raises(ValueError, match="shape"):
        metric.update(np.array([0.5]), np.array([1]))


def test_chunk_evaluator():
    metric = metrics.ChunkEvaluator()
    metric.update(np.array([10]), np.array([8]), np.array([4]))
    metric.update(10, 12, 6)
    precision, recall, f1 = metric.eval()
    assert (precision, recall, f1) == pytest.approx((0.5, 0.5, 0.5))
    assert metrics.ChunkEvaluator().eval() == (0, 0, 0)


def test_edit_distance():
    metric = metrics.EditDistance("ed")
    metric.update(np.array([[0.0], [2.0], [1.0]]), 3)
    metric.update(np.array([[0.0]]), np.array([1]))
    distance, wrong = metric.eval()
    assert float(np.asarray(distance).reshape(-1)[0]) == pytest.approx(0.75)
    assert float(np.asarray(wrong).reshape(-1)[0]) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="no batch"):
        metrics.EditDistance().eval()


def test_metric_of_ones_own():
    class Mean(metrics.MetricBase):
        def __init__(self):
            super().__init__(None)
            self.total = 0.0
            self.count = 0
            self.last = np.ones(2)

        def update(self, preds, labels):
            self.total += float(np.sum(preds))
            self.count += 1

        def eval(self):
            return self.total / self.count

    metric = Mean()
    metric.update(np.array([3.0]), None)
    assert str(metric) == "Mean" and metric.eval() == 3.0
    assert metric.get_config()["states"]["count"] == 1
    metric.reset()
    assert (metric.total, metric.count) == (0.0, 0) and not metric.last.any()
    with pytest.raises(NotImplementedError, match="must define"):
        metrics.MetricBase("x").eval()


def test_weighted_average():
    average = fluid.average.WeightedAverage()
    with pytest.raises(ValueError, match="nothing was added"):
        average.eval()
    average.add(value=2.0, weight=1)
    average.add(value=np.array([4.0]), weight=2)
    assert float(np.asarray(average.eval()).reshape(-1)[0]) == pytest.approx(10 / 3)
    with pytest.raises(ValueError, match="weight"):
        average.add(1.0, "a")


def test_old_accuracy_evaluator():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        scores = fluid.layers.data("scores", [3])
        label = fluid.layers.data("label", [1], dtype="int64")
        evaluator = fluid.evaluator.Accuracy(input=scores, label=label)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        evaluator.reset(exe)
        eye = np.eye(3, dtype="float32")
        for wrong in (0, 1):
            labels = np.array([[0], [1], [2 - wrong]], "int64")
            exe.run(main, feed={"scores": eye, "label": labels}, fetch_list=evaluator.metrics)
        assert evaluator.eval(exe) == pytest.approx([5 / 6])
        evaluator.reset(exe)
        assert evaluator.eval(exe) == pytest.approx([0.0])


def test_old_edit_distance_evaluator():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        found = fluid.data("found", [None, 1], "int64", lod_level=1)
        right = fluid.data("right", [None, 1], "int64", lod_level=1)
        evaluator = fluid.evaluator.EditDistance(input=found, label=right)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)

        def words(*sequences):
            rows = np.concatenate(sequences).astype("int64")[:, None]
            return fluid.create_lod_tensor(rows, [[len(each) for each in sequences]], fluid.CPUPlace())

        for _ in range(2):
            evaluator.reset(exe)
            feed = {"found": words([1, 2], [3, 4]), "right": words([1, 2], [3])}
            total, wrong = exe.run(main, feed=feed, fetch_list=evaluator.metrics)
            assert (total.tolist(), wrong.tolist()) == ([1.0], [1])
            exe.run(main, feed={"found": words([5], [6]), "right": words([5], [7])})
            assert [each.tolist() for each in evaluator.eval(exe)] == [[0.5], [0.5]]
