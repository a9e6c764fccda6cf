"""A NaN is not lost: what depends on it is NaN, wherever it stands, so that a hole in the data shows in the loss."""

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import layers

ACTIVATIONS = """relu relu6 leaky_relu brelu thresholded_relu hard_shrink softshrink hard_sigmoid hard_swish elu soft_relu softplus
    softsign tanh_shrink logsigmoid stanh swish selu gelu sigmoid tanh abs exp square""".split()


def run(build, feed):
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        exe = fluid.Executor(fluid.CPUPlace())
        found = list(build())
        exe.run(fluid.default_startup_program())
        return [np.array(each) for each in exe.run(feed=feed, fetch_list=found, return_numpy=False)]


def with_hole(shape, at, dtype="float32"):
    array = np.random.RandomState(3).uniform(-0.9, 0.9, shape).astype(dtype)
    array.reshape(-1)[at] = np.nan
    return array


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_activations(dtype):
    for size in (1, 7, 40):
        for at in {0, size // 2, size - 1}:
            x = with_hole((1, size), at, dtype)
            found = run(lambda: [getattr(layers, name)(layers.data("x", [size], dtype=dtype)) for name in ACTIVATIONS], {"x": x})
            for name, out in zip(ACTIVATIONS, found):
                np.testing.assert_array_equal(np.isnan(out), np.isnan(x), err_msg=name)


@pytest.mark.parametrize("act", ["relu", "relu6", "tanh", "softmax"])
@pytest.mark.parametrize("size", [3, 64])
def test_layers_with_an_activation(act, size):
    x = with_hole((4, 16), 20)
    (out,) = run(lambda: [layers.fc(layers.data("x", [16]), size, act=act)], {"x": x})
    assert np.isnan(out[1]).all() and not np.isnan(out[[0, 2, 3]]).any()
    (out,) = run(lambda: [layers.conv2d(layers.reshape(layers.data("x", [16]), [-1, 1, 4, 4]), 2, 4, act=act)], {"x": x})
    assert np.isnan(out[1]).all() and not np.isnan(out[[0, 2, 3]]).any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("at", [0, 37, 5000, 9999])
def test_extremes(at, dtype):
    x, other = with_hole((100, 100), at, dtype), np.zeros((100, 100), dtype)
    row, column = divmod(at, 100)

    def build():
        a, b = layers.data("x", [100], dtype=dtype), layers.data("other", [100], dtype=dtype)
        for kind in ("max", "min"):
            reduced = getattr(layers, f"reduce_{kind}")
            both = getattr(layers, f"elementwise_{kind}")
            yield from (reduced(a), reduced(a, 0), reduced(a, 1), both(a, b), both(b, a))
    for i, out in enumerate(run(build, {"x": x, "other": other})):
        wanted = [True, np.arange(100) == column, np.arange(100) == row, np.isnan(x), np.isnan(x)][i % 5]
        np.testing.assert_array_equal(np.isnan(out).reshape(np.shape(wanted)), wanted)


@pytest.mark.parametrize("at", range(16))
@pytest.mark.parametrize("form", ["NCHW", "NHWC"])
def test_pooling(at, form):
    x = with_hole((2, 1, 4, 4), at)
    hole = np.isnan(x[0, 0])

    def build():
        data = layers.data("x", [1, 4, 4])
        image = data if form == "NCHW" else layers.transpose(data, [0, 2, 3, 1])
        yield layers.pool2d(image, 2, "max", 2, data_format=form)
        yield layers.pool2d(image, 3, "max", 1, 1, data_format=form)
        yield layers.pool2d(image, 2, "max", global_pooling=True, data_format=form)
        yield layers.adaptive_pool2d(data, 2, "max")
        yield layers.adaptive_pool2d(data, 2, "max", require_index=True)[0]
        yield layers.maxout(layers.reshape(data, [-1, 4, 2, 2]), 4)
    found = [np.isnan(out.reshape(2, -1)) for out in run(build, {"x": x})]
    assert not any(out[1].any() for out in found)
    quarters = hole.reshape(2, 2, 2, 2).any((1, 3)).reshape(-1)
    around = np.array([[hole[max(i - 1, 0):i + 2, max(j - 1, 0):j + 2].any() for j in range(4)] for i in range(4)]).reshape(-1)
    for out, wanted in zip(found, [quarters, around, [True], quarters, quarters, hole.reshape(4, 4).any(0)]):
        np.testing.assert_array_equal(out[0], wanted)


@pytest.mark.parametrize("at", range(5))
def test_sequences(at):
    x = fluid.create_lod_tensor(with_hole((5, 1), at), [[3, 2]], fluid.CPUPlace())
    for kind in ("max", "sum", "average", "sqrt"):
        (out,) = run(lambda kind=kind: [layers.sequence_pool(layers.data("x", [1], lod_level=1), kind)], {"x": x})
        assert np.isnan(out).reshape(-1).tolist() == [at < 3, at >= 3], kind


@pytest.mark.parametrize("at", [0, 3, 39])
def test_order(at):
    """NaN is above all numbers, and the numbers are in order."""
    x = with_hole((1, 40), at)
    rest = np.sort(np.delete(x[0], at))

    def build():
        data = layers.data("x", [40])
        for k in (1, 3, 36):
            yield from layers.topk(data, k)
        yield from layers.argsort(data)
        yield layers.argmax(data, 1)
        yield layers.argmin(data, 1)
    found = run(build, {"x": x})
    for k, out, indices in zip((1, 3, 36), found[0:6:2], found[1:6:2]):
        np.testing.assert_array_equal(out[0], np.concatenate([[np.nan], rest[::-1]])[:k])
        np.testing.assert_array_equal(x[0][indices[0]], out[0])
    np.testing.assert_array_equal(found[6][0], np.concatenate([rest, [np.nan]]))
    assert found[8][0] == at and x[0][found[9][0]] == rest[0]


def test_losses():
    x, y, one = with_hole((3, 1), 1), np.full((3, 1), 0.5, "float32"), np.ones((3, 1), "float32")

    def build():
        a, b, label = (layers.data(name, [1]) for name in ("x", "y", "one"))
        loss = fluid.default_main_program().global_block().create_var(dtype="float32")
        loss.block.append_op(type="hinge_loss", inputs={"Logits": a, "Labels": label}, outputs={"Loss": loss})
        return [loss, layers.margin_rank_loss(label, a, b), layers.kldiv_loss(b, a, "none"), layers.kldiv_loss(a, b, "none"),
                layers.huber_loss(a, b, 1.0), layers.smooth_l1(a, b), layers.log_loss(a, label), layers.rank_loss(label, a, b),
                layers.sigmoid_cross_entropy_with_logits(a, label)]
    for i, out in enumerate(run(build, {"x": x, "y": y, "one": one})):
        assert np.isnan(out).reshape(-1)[1], i
    (out,) = run(lambda: [layers.clip_by_norm(layers.data("x", [1]), 1.0)], {"x": x})
    assert np.isnan(out).all()


@pytest.mark.parametrize("make", [
    lambda: fluid.optimizer.SGD(0.1), lambda: fluid.optimizer.Momentum(0.1, 0.9), lambda: fluid.optimizer.Adam(0.1),
    lambda: fluid.optimizer.Adamax(0.1), lambda: fluid.optimizer.Adagrad(0.1), lambda: fluid.optimizer.DecayedAdagrad(0.1),
    lambda: fluid.optimizer.Adadelta(0.1), lambda: fluid.optimizer.RMSProp(0.1), lambda: fluid.optimizer.Ftrl(0.1, 0.1, 0.1),
    lambda: fluid.optimizer.Lamb(0.1), lambda: fluid.optimizer.LarsMomentum(0.1, 0.9),
    lambda: fluid.optimizer.Ftrl(0.1, lr_power=-0.4),
])
def test_one_hole_in_a_batch_shows_in_every_loss_after_it(make):
    """With plain numbers in its place a network would train on, and be saved, as if nothing had been."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        x, y = layers.data("x", [13]), layers.data("y", [1])
        hidden = layers.fc(layers.fc(x, 16, act="relu"), 8, act="relu")
        loss = layers.mean(layers.square_error_cost(layers.fc(hidden, 1), y))
        make().minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        for step in range(4):
            data = with_hole((4, 13), 20) if step == 1 else np.random.RandomState(step).rand(4, 13).astype("float32")
            (got,) = exe.run(feed={"x": data, "y": np.ones((4, 1), "float32")}, fetch_list=[loss])
            assert np.isnan(got[0]) == (step >= 1), step
