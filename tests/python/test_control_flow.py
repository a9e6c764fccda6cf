"""Blocks inside blocks: conditions, loops, and gradients through them."""
import numpy as np
import pytest

import paddle.fluid as fluid

pytestmark = pytest.mark.usefixtures("fresh")


def run(feed, fetches):
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    return exe, lambda more: exe.run(feed={**feed, **more}, fetch_list=fetches)


def test_cond_and_its_gradient_follow_the_condition_in_each_run():
    x = fluid.layers.data("x", [3], append_batch_size=False)
    x.stop_gradient = False
    flag = fluid.layers.data("flag", [1], append_batch_size=False)
    small = fluid.layers.less_than(flag, fluid.layers.fill_constant([1], "float32", 0.5))
    loss = fluid.layers.mean(fluid.layers.cond(small, lambda: x * x, lambda: x * 3.0))
    grad, = fluid.gradients([loss], [x])
    _, step = run({"x": np.array([1, 2, 3], "float32")}, [loss, grad])
    for value in (0.0, 1.0, 0.0, 0.0, 1.0):
        got, slope = step({"flag": np.array([value], "float32")})
        if value < 0.5:
            np.testing.assert_allclose(got, [14 / 3], rtol=1e-6)
            np.testing.assert_allclose(slope, np.array([2, 4, 6]) / 3, rtol=1e-6)
        else:
            np.testing.assert_allclose(got, [6.0], rtol=1e-6)
            np.testing.assert_allclose(slope, [1, 1, 1], rtol=1e-6)


def test_cond_trains_a_parameter_of_one_branch_only():
    x = fluid.layers.data("x", [4])
    flag = fluid.layers.data("flag", [1], append_batch_size=False)
    one = fluid.layers.fill_constant([1], "float32", 1.0)
    left = fluid.layers.create_parameter([4], "float32", name="left", default_initializer=fluid.initializer.Constant(1.0))
    right = fluid.layers.create_parameter([4], "float32", name="right", default_initializer=fluid.initializer.Constant(1.0))
    out = fluid.layers.cond(fluid.layers.equal(flag, one), lambda: fluid.layers.elementwise_mul(x, left),
                            lambda: fluid.layers.elementwise_mul(x, right))
    fluid.optimizer.SGD(0.5).minimize(fluid.layers.reduce_sum(out))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {"x": np.ones((2, 4), "float32"), "flag": np.array([1], "float32")}
    exe.run(feed=feed)
    values = [np.array(fluid.global_scope().find_var(name).get_tensor()) for name in ("left", "right")]
    assert (values[0] == 0).all() and (values[1] == 1).all()


def test_switch_takes_the_first_case_that_holds():
    step = fluid.layers.data("step", [1], append_batch_size=False)
    out = fluid.layers.create_global_var([1], 0.0, "float32", persistable=True)
    with fluid.layers.Switch() as switch:
        with switch.case(fluid.layers.less_than(step, fluid.layers.fill_constant([1], "float32", 10.0))):
            fluid.layers.assign(fluid.layers.fill_constant([1], "float32", 1.0), out)
        with switch.case(fluid.layers.less_than(step, fluid.layers.fill_constant([1], "float32", 20.0))):
            fluid.layers.assign(fluid.layers.fill_constant([1], "float32", 2.0), out)
        with switch.default():
            fluid.layers.assign(fluid.layers.fill_constant([1], "float32", 3.0), out)
    _, at = run({}, [out])
    assert [float(at({"step": np.array([v], "float32")})[0][0]) for v in (5, 15, 25, 5)] == [1, 2, 3, 1]


def test_while_counts():
    i = fluid.layers.fill_constant([1], "int64", 0)
    end = fluid.layers.data("end", [1], dtype="int64", append_batch_size=False)
    total = fluid.layers.fill_constant([1], "float32", 0.0)
    holds = fluid.layers.less_than(i, end)
    loop = fluid.layers.While(holds)
    with loop.block():
        fluid.layers.assign(fluid.layers.elementwise_add(total, fluid.layers.cast(i, "float32")), total)
        fluid.layers.increment(i, in_place=True)
        fluid.layers.less_than(i, end, cond=holds)
    _, at = run({}, [total, i])
    for n in (5, 0, 100):
        got, count = at({"end": np.array([n], "int64")})
        assert float(got[0]) == n * (n - 1) / 2 and int(count[0]) == n


def test_a_branch_over_a_variable_that_is_another_in_each_scope():
    """The gradient's block uses nothing of the blocks around it, and still hangs below the frame of the forward block, which is
    made anew when the scope changes."""
    x = fluid.default_main_program().global_block().create_var(name="x", shape=[4], dtype="float32")
    x.stop_gradient = False
    holds = fluid.layers.less_than(fluid.layers.fill_constant([1], "float32", 0.0), fluid.layers.fill_constant([1], "float32", 1.0))
    loss = fluid.layers.mean(fluid.layers.cond(holds, lambda: fluid.layers.scale(x, 2.0), lambda: fluid.layers.scale(x, 3.0)))
    slope, = fluid.gradients(loss, x)
    exe = fluid.Executor(fluid.CPUPlace())
    scopes = [fluid.Scope() for _ in range(3)]
    for i, scope in enumerate(scopes):
        scope.var("x").get_tensor().set(np.full(4, i + 1, "float32"), fluid.CPUPlace())
    others = []
    for i in range(30):
        value, grad = exe.run(fetch_list=[loss, slope], scope=scopes[i % 3])
        assert value[0] == 2 * (i % 3 + 1) and (grad == 0.5).all()
        others.append(bytearray(600))  # memory that was freed is soon somebody else's


def write_when_true(x, holds, out):
    when = fluid.layers.control_flow.ConditionalBlock([holds], is_scalar_condition=True)
    with when.block():
        fluid.layers.assign(x * 2.0, out)


def write_the_chosen(x, holds, out):
    other = fluid.default_main_program().global_block().create_var(name="other", shape=[1], dtype="float32")
    fluid.layers.control_flow.select_output(x * 2.0, [other, out], fluid.layers.cast(holds, "int32"))


@pytest.mark.parametrize("write", [write_when_true, write_the_chosen])
def test_nothing_is_left_of_an_earlier_run(write):
    """What a branch that does not run would have written has no value, whatever the run before left there."""
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        holds = fluid.layers.data("holds", [1], append_batch_size=False, dtype="bool")
        x = fluid.layers.data("x", [1], append_batch_size=False)
        written = main.global_block().create_var(name="written", shape=[1], dtype="float32")
        write(x, holds, written)
        out = fluid.layers.scale(written, 3.0)
    exe = fluid.Executor(fluid.CPUPlace())
    for value in (1.0, 7.0):
        feed = {"x": np.array([value], "float32"), "holds": np.array([True])}
        assert exe.run(main, feed=feed, fetch_list=[out])[0] == 6 * value
        with pytest.raises(Exception, match="'written' has no value"):
            exe.run(main, feed=dict(feed, holds=np.array([False])), fetch_list=[out])


def test_value_that_select_output_leaves():
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        holds = fluid.layers.data("holds", [1], append_batch_size=False, dtype="bool")
        x = fluid.layers.data("x", [1], append_batch_size=False)
        written = fluid.layers.fill_constant([1], "float32", 5.0)
        write_the_chosen(x, holds, written)
        out = fluid.layers.scale(written, 3.0)
    exe = fluid.Executor(fluid.CPUPlace())
    for holds, expected in ((True, 6.0), (False, 15.0), (True, 6.0)):
        feed = {"x": np.array([1.0], "float32"), "holds": np.array([holds])}
        assert exe.run(main, feed=feed, fetch_list=[out])[0] == expected
