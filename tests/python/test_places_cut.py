"""What a Program on several places is cut into, what cannot be cut, and what the places hold."""

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import layers
from paddle.fluid.places_cut import cut
from paddle.fluid.vartype import OpRole

pytestmark = pytest.mark.usefixtures("fresh")

TWO = 2
ONES = fluid.ParamAttr("w", initializer=fluid.initializer.Constant(1.0))


def net(count=4):
    x = fluid.data("x", [None, 3])
    for _ in range(count):
        x = layers.fc(x, 3, act="relu")
    return layers.mean(x)


def compiled(loss):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    program = fluid.CompiledProgram(fluid.default_main_program())
    return exe, program.with_data_parallel(loss_name=loss.name, places=fluid.cpu_places(TWO))


def kinds_of(program):
    return ["once" if each.once else "each" for each in cut(program, TWO, frozenset()).segments]


def test_the_usual_training_is_two_segments():
    loss = net()
    program = fluid.default_main_program()
    assert kinds_of(program) == ["each"] and cut(program, TWO, frozenset()).segments[0].program is program
    clip = fluid.clip.GradientClipByGlobalNorm(1.0)
    rate = layers.linear_lr_warmup(layers.cosine_decay(0.1, 2, 5), 2, 0.0, 0.1)
    fluid.optimizer.Adam(rate, grad_clip=clip, regularization=fluid.regularizer.L2Decay(0.1)).minimize(loss)
    fluid.optimizer.ExponentialMovingAverage(0.9).update()
    assert kinds_of(program) == ["each", "once"]
    found = cut(program, TWO, frozenset())
    params = {param.name for param in program.all_parameters()}
    assert params <= found.single and not params & set(found.own)
    assert cut(program, TWO, frozenset()) is found  # remembered
    layers.reduce_sum(program.all_parameters()[0])
    assert cut(program, TWO, frozenset()) is not found


def test_all_updates_count_for_what_comes_behind_them():
    loss = net()
    fluid.optimizer.SGD(0.1).minimize(loss)
    again = layers.mean(layers.mul(loss.block.var("x"), fluid.default_main_program().all_parameters()[0]))
    assert kinds_of(fluid.default_main_program()) == ["each", "once", "each"]
    fluid.optimizer.SGD(0.1).minimize(again)
    assert kinds_of(fluid.default_main_program()) == ["each", "once", "each", "once"]


def test_values_of_a_loop_behind_an_update_are_refused():
    words = fluid.data("words", [None, 2], lod_level=1)
    loop = layers.DynamicRNN()
    with loop.block():
        word, memory = loop.step_input(words), loop.memory(shape=[2], value=0.0)
        state = layers.fc([word, memory], 2, param_attr=["a", "b"], bias_attr=False)
        loop.update_memory(memory, state)
        loop.output(state)
    last = layers.sequence_last_step(loop())
    loss = layers.mean(layers.fc(last, 1, param_attr="c"))
    fluid.optimizer.SGD(0.1).minimize(loss, parameter_list=["c"])
    other = layers.mean(layers.fc(last, 1, param_attr="c"))
    fluid.optimizer.SGD(0.1).minimize(other, parameter_list=["a", "b"])
    exe, program = compiled(loss)
    feed = fluid.create_lod_tensor(np.ones((6, 2), "float32"), [[1, 3, 1, 1]], fluid.CPUPlace())
    before = np.array(fluid.global_scope().find_var("c").get_tensor())
    with pytest.raises(fluid.core.EnforceNotMet, match="the op 'while' makes, .* no tensor: such a Program runs on one place only"):
        exe.run(program, feed={"words": feed}, fetch_list=[loss])
    assert np.array_equal(before, fluid.global_scope().find_var("c").get_tensor())
    exe.run(fluid.default_main_program(), feed={"words": feed}, fetch_list=[loss])  # on one


@pytest.mark.parametrize("sent", ["loss", "w", "statistics", "data"])
def test_messages_of_what_each_place_has_are_refused(sent):
    x = fluid.data("x", [None, 3])
    h = layers.fc(x, 3, param_attr="w")
    loss = layers.mean(layers.batch_norm(h, moving_mean_name="mean"))
    rate = layers.reduce_mean(x) if sent == "w" else 0.1
    block = loss.block
    what = {"loss": loss.name, "w": "w", "statistics": "mean", "data": "x"}[sent]
    attrs = {"op_role": int(OpRole.RPC), "epmap": ["127.0.0.1:1"]}
    send = {"type": "send", "inputs": {"X": [what]}, "outputs": {"Out": [block.create_var(name="mark")]}, "attrs": attrs}
    if sent == "w":  # before the update
        block.append_op(**send)
    fluid.optimizer.SGD(rate).minimize(loss)
    if sent != "w":
        block.append_op(**send)
    exe, program = compiled(loss)
    with pytest.raises(fluid.core.EnforceNotMet, match=f"'send', which exchanges data with servers, uses '{what}'"):
        exe.run(program, feed={"x": np.ones((4, 3), "float32")}, fetch_list=[loss])


def test_a_program_that_only_updates():
    rate = layers.exponential_decay(0.5, 1, 0.5)
    x = fluid.data("x", [None, 3])
    exe, program = compiled(rate)
    for want in (0.5, 0.25):
        found, fed = exe.run(program, feed={"x": np.ones((4, 3), "float32")}, fetch_list=[rate, x])
        assert found.tolist() == [want] * TWO and fed.shape == (4, 3)


def linear_loss(rate_of):
    x = fluid.data("x", [None, 3])
    loss = layers.mean(layers.fc(x, 1, param_attr=ONES, bias_attr=False))
    fluid.optimizer.SGD(rate_of(x)).minimize(loss)
    return loss


def rows(*values):
    return [{"x": np.full((2, 3), value, "float32")} for value in values]


def test_a_rate_that_is_fed_to_each_place():
    rate = layers.create_global_var([1], 0.5, "float32", persistable=True, name="rate")
    loss = linear_loss(lambda x: rate)
    exe, program = compiled(loss)

    def step(*rates):
        feeds = rows(1.0, 1.0)
        for feed, each in zip(feeds, rates):
            feed["rate"] = np.array([each], "float32")
        return exe.run(program, feed=feeds, fetch_list=["w", "rate", loss], return_merged=False)

    def firsts(parts):
        return [float(part.ravel()[0]) for part in parts]

    weights, rates, losses = step()
    assert firsts(weights) == firsts(rates) == [0.5, 0.5] and firsts(losses) == [3.0, 3.0]
    weights, rates, _ = step(0.25, 0.5)
    assert firsts(weights) == [0.25, 0.0] and firsts(rates) == [0.25, 0.5]
    weights, rates, losses = step()  # what was fed stays
    assert firsts(weights) == [0.0, -0.5] and firsts(rates) == [0.25, 0.5] and firsts(losses) == [0.75, 0.0]


def test_places_that_parted_come_together_when_the_program_does():
    loss = linear_loss(lambda x: layers.scale(layers.reduce_mean(x), 0.5))
    exe, program = compiled(loss)
    apart = exe.run(program, feed=rows(1.0, 3.0), fetch_list=["w"], return_merged=False)[0]
    assert [float(each.ravel()[0]) for each in apart] == [0.0, -2.0]  # 1 - 0.5 * 1 * 2, 1 - 0.5 * 3 * 2
    update = next(op for op in loss.block.ops if op.type == "sgd")
    fixed = layers.create_global_var([1], 0.5, "float32", persistable=True, name="fixed")
    fluid.global_scope().var("fixed").get_tensor().set(np.array([0.5], "float32"), fluid.CPUPlace())
    update._rename_input(update.input("LearningRate")[0], fixed.name)
    losses, weights = exe.run(program, feed=rows(1.0, 1.0), fetch_list=[loss, "w"], return_merged=False)
    assert [float(each[0]) for each in losses] == [0.0, 0.0]
    losses, = exe.run(program, feed=rows(1.0, 1.0), fetch_list=[loss], return_merged=False)
    assert [float(each[0]) for each in losses] == [-1.5, -1.5]


def test_random_numbers_on_gradients_are_each_places_own():
    x = fluid.data("x", [None, 3])
    loss = layers.mean(layers.fc(x, 1, param_attr="w", bias_attr=False))
    optimizer = fluid.optimizer.SGD(0.1)
    (param, grad), = optimizer.backward(loss)
    noise = layers.gaussian_random([3, 1])
    optimizer.apply_gradients([(param, grad + noise)])
    exe, program = compiled(loss)
    weights, noises, grads = exe.run(program, feed=rows(1.0, 1.0), fetch_list=["w", noise, grad], return_merged=False)
    assert not np.array_equal(noises[0], noises[1]) and np.array_equal(grads[0], grads[1])
    np.testing.assert_allclose(weights[0] + 0.1 * noises[0], weights[1] + 0.1 * noises[1], rtol=1e-5)
