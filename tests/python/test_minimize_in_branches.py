"""minimize inside cond and case: a branch updates when it is taken. The figures are those of the real 1.8.5."""

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import layers

OPTIMIZERS = {
    "adam": lambda: fluid.optimizer.Adam(0.05),
    "sgd": lambda: fluid.optimizer.SGD(0.1),
    "momentum": lambda: fluid.optimizer.Momentum(0.1, 0.9, regularization=fluid.regularizer.L2Decay(0.1)),
}

# (first, second optimizer, how) -> the losses of five steps.
OF_185 = {
    ("adam", "sgd", "case"): [1.0963, 1.08293, 1.15977, 1.09224, 1.06781],
    ("adam", "sgd", "case, losses outside"): [1.0963, 1.08293, 1.15977, 1.09224, 1.06781],
    ("momentum", "sgd", "cond"): [1.0963, 1.09402, 1.10996, 1.09338, 1.10156],
    ("sgd", "momentum", "cond, losses outside"): [1.0963, 1.09396, 1.10993, 1.09388, 1.10188],
}


def initial(array):
    return fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(np.array(array, "float32")))


def constant(value):
    return fluid.ParamAttr(initializer=fluid.initializer.Constant(value))


pytestmark = pytest.mark.usefixtures("fresh")


@pytest.mark.parametrize("case", OF_185)
def test_each_branch_updates_when_it_is_taken(case):
    one, other, how = case
    image, label = fluid.data("image", [8, 6]), fluid.data("label", [8, 1], "int64")
    weight = np.arange(24).reshape(6, 4).astype("float32") / 30 - 0.3
    hidden = layers.fc(image, 4, act="tanh", param_attr=initial(weight), bias_attr=constant(0.1))
    weight = np.arange(12).reshape(4, 3).astype("float32") / 12 - 0.5
    predict = layers.fc(hidden, 3, act="softmax", param_attr=initial(weight), bias_attr=constant(0.8))
    number = fluid.data("number", [1], "int32")
    even = layers.elementwise_mod(number, layers.fill_constant([1], "int32", 2)) == 0
    costs = (layers.cross_entropy, layers.softmax_with_cross_entropy)
    outside = [layers.mean(cost(predict, label)) for cost in costs] if "outside" in how else None

    def branch(i, optimizer):
        def build():
            loss = outside[i] if outside else layers.mean(costs[i](predict, label))
            optimizer.minimize(loss)
            return loss

        return build

    branches = branch(0, OPTIMIZERS[one]()), branch(1, OPTIMIZERS[other]())
    loss = layers.case([(even, branches[0])], branches[1]) if "case" in how else layers.cond(even, *branches)
    test = fluid.default_main_program().clone(for_test=True)
    assert not any("@" in name for block in test.blocks for name in block.vars)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    rng = np.random.RandomState(0)
    found = []
    for step in range(5):
        feed = {"image": rng.rand(8, 6).astype("float32"), "label": rng.randint(0, 3, (8, 1)), "number": np.array([step], "int32")}
        tested = [exe.run(test, feed=feed, fetch_list=[loss])[0].item() for _ in range(2)]  # which changes nothing
        found.append(exe.run(feed=feed, fetch_list=[loss])[0].item())
        assert tested == [found[-1]] * 2
    assert found == pytest.approx(OF_185[case], abs=2e-5)


def test_a_parameter_that_both_blocks_use():
    """The gradient is that of both uses; the branch that is not taken leaves the parameter alone."""
    x = fluid.data("x", [1])
    weight = layers.create_parameter([1], "float32", name="w", default_initializer=fluid.initializer.Constant(3.0))
    before = weight * x
    taken = fluid.data("taken", [1], "bool")

    def update():
        loss = layers.reduce_sum(before * weight)  # w^2 x
        fluid.optimizer.SGD(0.5).minimize(loss)
        return loss

    layers.cond(taken, update, lambda: layers.reduce_sum(before))
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())

    def step(value, choice):
        exe.run(feed={"x": np.array([value], "float32"), "taken": np.array([choice])})
        return np.array(fluid.global_scope().find_var("w").get_tensor()).item()

    assert step(0.25, False) == 3
    assert step(0.25, True) == 3 - 0.5 * 2 * 3 * 0.25
    assert step(0.25, False) == 2.25


def test_what_is_not_there_is_said():
    x = fluid.data("x", [None, 2])
    flag = fluid.data("flag", [1], "bool")

    def inner():
        loss = layers.mean(layers.cond(flag, lambda: layers.fc(x, 1), lambda: layers.fc(x, 1)))
        fluid.optimizer.SGD(0.1).minimize(loss)
        return loss

    with pytest.raises(NotImplementedError, match="inside a branch that holds a block of its own"):
        layers.cond(flag, inner, lambda: layers.reduce_sum(x))
