"""How public scripts begin: the calls that stand in the first lines of recommendation and image models."""

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import layers

pytestmark = pytest.mark.usefixtures("fresh")


def start():
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe


def area(scores, labels):
    """By pairs of samples, with ties counted half; scores fall into 4095 bins as the layer's do."""
    scores = np.floor(scores.astype("float32") * np.float32(4095))
    apart = scores[labels == 1][:, None] - scores[labels == 0][None, :]
    return ((apart > 0) + 0.5 * (apart == 0)).mean()


def test_auc_over_all_steps_as_recommendation_models_ask_for_it():
    predict = fluid.data("predict", [None, 2], "float32")
    label = fluid.data("label", [None, 1], "int64")
    overall, of_batch, [batch_pos, batch_neg, pos, neg] = layers.auc(
        input=predict, label=label, num_thresholds=2**12, slide_steps=20
    )
    every, also_every, counts = layers.auc(predict, label, slide_steps=0)
    exe = start()
    rng = np.random.RandomState(3)
    scores, labels = rng.rand(3, 40), rng.randint(0, 2, (3, 40))
    for step in range(3):
        feed = {
            "predict": np.stack([1 - scores[step], scores[step]], 1).astype("float32"),
            "label": labels[step][:, None].astype("int64"),
        }
        values = exe.run(feed=feed, fetch_list=[overall, of_batch, every, also_every])
        want = area(scores[: step + 1].ravel(), labels[: step + 1].ravel())
        assert np.ravel(values)[2:] == pytest.approx([want, want], abs=1e-9)
        assert np.ravel(values)[:2] == pytest.approx([want, want], abs=1e-3)
    held = [np.array(fluid.global_scope().find_var(each.name).get_tensor()) for each in counts]
    assert [each.shape for each in held] == [(1, 4096)] * 4
    assert held[0].sum() == labels.sum() and held[1].sum() == labels.size - labels.sum()
    assert batch_pos.shape == batch_neg.shape == (21 * 4097 + 1,) and pos.shape == neg.shape == (1, 4097)


def test_last_pool_of_googlenet_on_small_images():
    """A window of 7 on what is left of a small image: 6x6 with stride 7 has room for it once."""
    image = fluid.data("image", [None, 3, 24, 24], "float32")
    conv = layers.conv2d(image, num_filters=4, filter_size=7, stride=2, padding=3, act=None)
    pool = layers.pool2d(conv, pool_size=3, pool_type="max", pool_stride=2)
    last = layers.pool2d(pool, pool_size=7, pool_type="avg", pool_stride=7)
    assert pool.shape == (-1, 4, 5, 5) and last.shape == (-1, 4, 1, 1)
    loss = layers.mean(layers.fc(layers.dropout(last, 0.0), size=10))
    fluid.optimizer.SGD(0.1).minimize(loss)
    exe = start()
    images = np.random.RandomState(0).rand(2, 3, 24, 24).astype("float32")
    before, after = exe.run(feed={"image": images}, fetch_list=[pool, last])
    assert np.allclose(after[:, :, 0, 0], before.mean((2, 3)), atol=1e-6)
    with pytest.raises(fluid.core.EnforceNotMet, match="too small for windows of 7"):
        layers.pool2d(pool, pool_size=7, pool_type="avg", pool_stride=2)


def test_layers_as_older_releases_let_them_be_called():
    """What upstream refuses only when it runs is built; keywords of old releases are taken."""
    rows = layers.data("rows", [20], lod_level=1)
    assert layers.sequence_softmax(rows).shape == (-1, 20)
    for layer in (layers.softshrink, layers.hard_shrink, layers.thresholded_relu):
        assert layer(rows, name="any").shape == (-1, 20)
    exe = fluid.Executor()
    feed = fluid.create_lod_tensor(np.ones((3, 20), "float32"), [[3]], fluid.CPUPlace())
    with pytest.raises(fluid.core.EnforceNotMet, match="a row must be one number"):
        exe.run(feed={"rows": feed})
