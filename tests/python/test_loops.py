"""Gradients of loops: While, while_loop, DynamicRNN, conditions inside them, and tensor arrays."""

import os
import resource
import warnings

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import core, layers

EXE = fluid.Executor(fluid.CPUPlace())
X = np.sin(np.arange(8, dtype="float64")).reshape(2, 4) + 0.3
W = np.cos(np.arange(16, dtype="float64")).reshape(4, 4) * 0.6


def count(value):
    var = layers.fill_constant([1], "int64", value)
    var.stop_gradient = True
    return var


def loop(times, body, start=0):
    """While with a counter; body(i) may count i up itself by returning True."""
    i, n = count(start), count(times)
    going = layers.less_than(i, n)
    with layers.While(going).block():
        if not body(i):
            layers.increment(i, in_place=True)
        layers.less_than(i, n, cond=going)
    return i


def copy_of(x):
    return layers.scale(x, 1.0)


# ---- the programs: x [2, 4] and w [4, 4] to a loss ----


def carried(x, w, times=3):
    h = copy_of(x)
    loop(times, lambda i: layers.assign(layers.tanh(layers.matmul(h, w)), h) and None)
    return layers.reduce_sum(layers.square(h))


def never_runs(x, w):
    return carried(x, w, times=0) + layers.reduce_sum(layers.matmul(x, w))


def value_used_after_update(x, w):
    """The body reads its variable before and after it writes it."""
    h, total = copy_of(x), copy_of(x)

    def body(i):
        before = layers.square(h)
        layers.assign(layers.matmul(h, w), h)
        layers.assign(layers.sums([total, layers.elementwise_mul(before, layers.sin(h))]), total)

    loop(3, body)
    return layers.reduce_sum(layers.elementwise_mul(total, total))


def overwritten(x, w):
    """What the loop only writes: the value from before it does not count."""
    h, last = copy_of(x), layers.matmul(x, w)

    def body(i):
        layers.assign(layers.tanh(layers.matmul(h, w)), last)
        layers.assign(layers.scale(last, 0.5), h)

    loop(3, body)
    return layers.reduce_sum(layers.square(last))


def overwritten_never(x, w):
    last = layers.matmul(x, w)
    loop(0, lambda i: layers.assign(layers.tanh(x), last) and None)
    return layers.reduce_sum(layers.square(last))


def float_counter(x, w):
    """A counter of the net itself, counted up in place."""
    t, h = layers.reduce_mean(x), copy_of(x)
    t = layers.reshape(t, [1])

    def body(i):
        layers.assign(layers.elementwise_mul(layers.matmul(h, w), t), h)
        layers.increment(t, 0.5, in_place=True)

    loop(3, body)
    return layers.reduce_sum(h) + layers.reduce_sum(t)


def arrays(x, w):
    """A recurrent net as scripts write it: memory and outputs in arrays, some items never used."""
    start = count(0)
    memory, outputs = layers.array_write(x, start), layers.create_array("float64")

    def body(i):
        h = layers.tanh(layers.matmul(layers.array_read(memory, i), w))
        layers.array_write(layers.scale(h, 2.0), i, array=outputs)
        layers.increment(i, in_place=True)
        layers.array_write(h, i, array=memory)
        return True

    i = loop(4, body)
    parts = [layers.array_read(outputs, count(1)), layers.array_read(outputs, count(3)), layers.array_read(memory, count(2)),
             layers.array_read(memory, i), layers.array_read(memory, i)]
    return layers.reduce_sum(layers.sums([layers.square(part) for part in parts]))


def cell_in_array(x, w):
    """One item, read and written again and again."""
    cell = layers.array_write(x, count(0))

    def body(i):
        at = count(0)
        layers.array_write(layers.tanh(layers.matmul(layers.array_read(cell, at), w)), at, array=cell)

    loop(3, body)
    return layers.reduce_sum(layers.square(layers.array_read(cell, count(0))))


def positions_counted_up(x, w):
    """Positions that are counted up in place, outside a loop; an item that is read twice, with a write between."""
    i = count(0)
    array = layers.array_write(x, i)
    first = layers.array_read(array, i)
    layers.increment(i, in_place=True)
    layers.array_write(layers.matmul(first, w), i, array=array)
    again = layers.array_read(array, count(0))
    return layers.reduce_sum(layers.elementwise_mul(layers.array_read(array, i), layers.sin(again)))


def nested(x, w):
    h, total = copy_of(x), layers.scale(x, 0.0)

    def outer(i):
        def inner(j):
            layers.assign(layers.tanh(layers.matmul(h, w)), h)
            layers.assign(layers.sums([total, layers.square(h)]), total)

        loop(2, inner)
        layers.assign(layers.elementwise_add(layers.scale(h, 1.5), x), h)

    loop(3, outer)
    return layers.reduce_sum(layers.elementwise_mul(total, h))


def nested_arrays(x, w):
    memory = layers.array_write(x, count(0))

    def outer(i):
        def inner(j):
            at = layers.elementwise_add(i, i)
            at = layers.elementwise_add(at, j)
            h = layers.tanh(layers.matmul(layers.array_read(memory, at), w))
            layers.array_write(h, layers.elementwise_add(at, count(1)), array=memory)

        loop(2, inner)

    loop(3, outer)
    return layers.reduce_sum(layers.sums([layers.square(layers.array_read(memory, count(k))) for k in (2, 3, 6)]))


def condition_inside(x, w):
    h = copy_of(x)

    def body(i):
        def even():
            return layers.tanh(layers.matmul(h, w))

        def odd():
            return layers.square(layers.scale(h, 0.7))

        half = layers.elementwise_floordiv(i, count(2))
        layers.assign(layers.cond(layers.equal(layers.elementwise_add(half, half), i), even, odd), h)

    loop(4, body)
    return layers.reduce_sum(layers.square(h))


def update_under_condition(x, w):
    """A condition that may leave the loop's variable as it was, and reads or does not read it."""
    h = copy_of(x)

    def body(i):
        with layers.Switch() as switch:
            with switch.case(layers.equal(i, count(1))):
                layers.assign(layers.matmul(x, w), h)
            with switch.case(layers.equal(i, count(2))):
                layers.assign(layers.tanh(layers.matmul(h, w)), h)
        layers.assign(layers.scale(h, 1.1), h)

    loop(4, body)
    return layers.reduce_sum(layers.square(h))


def loop_inside_condition(x, w):
    return layers.cond(layers.less_than(count(1), count(2)), lambda: carried(x, w), lambda: layers.reduce_sum(x))


def functional(x, w):
    i, h, total = layers.while_loop(
        lambda i, h, total: layers.less_than(i, count(3)),
        lambda i, h, total: [layers.increment(i), layers.tanh(layers.matmul(h, w)),
                             layers.elementwise_add(total, layers.square(h))],
        [count(0), copy_of(x), layers.scale(x, 0.0)])
    return layers.reduce_sum(layers.elementwise_mul(h, total))


def array_sum(x, w):
    """The gradients of an array that two loops read are added item by item."""
    array = layers.array_write(x, count(0))
    layers.array_write(layers.matmul(x, w), count(1), array=array)
    total = layers.scale(x, 0.0)
    for times in (2, 1):
        loop(times, lambda i: layers.assign(layers.sums([total, layers.sin(layers.array_read(array, i))]), total) and None)
    return layers.reduce_sum(layers.square(total))


PROGRAMS = [carried, never_runs, value_used_after_update, overwritten, overwritten_never, float_counter, arrays, cell_in_array,
            positions_counted_up, nested, nested_arrays, condition_inside, update_under_condition,
            loop_inside_condition, functional,
            array_sum]


class Built:
    def __init__(self, make):
        self.program = fluid.Program()
        with fluid.program_guard(self.program, fluid.Program()), fluid.unique_name.guard():
            x, w = (fluid.data(name, value.shape, "float64") for name, value in (("x", X), ("w", W)))
            x.stop_gradient = w.stop_gradient = False
            self.loss = layers.mean(make(x, w))
            self.forward = self.program.clone()
            fluid.append_backward(self.loss)

    def value(self, feed):
        return float(EXE.run(self.forward, feed=feed, fetch_list=[self.loss.name])[0][0])


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_gradients_are_those_of_finite_differences(make):
    built, feed = Built(make), {"x": X, "w": W}
    fetches = [self_grad for self_grad in ("x@GRAD", "w@GRAD") if built.program.global_block()._find_var_recursive(self_grad)]
    for _ in range(2):  # what a run leaves behind does not change the next one
        grads = EXE.run(built.program, feed=feed, fetch_list=[built.loss.name, *fetches])
        assert float(grads[0][0]) == pytest.approx(built.value(feed), rel=1e-12)
    for name, exact in zip(fetches, grads[1:]):
        name = name[0]
        for at in range(feed[name].size):
            high, low = feed[name].copy(), feed[name].copy()
            high.flat[at] += 1e-6
            low.flat[at] -= 1e-6
            numeric = (built.value({**feed, name: high}) - built.value({**feed, name: low})) / 2e-6
            assert exact.flat[at] == pytest.approx(numeric, rel=1e-5, abs=1e-6), f"{name}[{at}]"


def test_a_loop_may_run_longer_or_shorter_each_time():
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x, n = fluid.data("x", [2], "float64"), fluid.data("n", [1], "int64")
        x.stop_gradient = False
        i, h = count(0), copy_of(x)
        going = layers.less_than(i, n)
        with layers.While(going).block():
            layers.assign(layers.scale(h, 2.0), h)
            layers.increment(i)
            layers.less_than(i, n, cond=going)
        loss = layers.mean(h)
        fluid.append_backward(loss)
    for times in (3, 5, 0, 1):
        grad, = EXE.run(program, feed={"x": np.ones(2), "n": np.array([times])}, fetch_list=["x@GRAD"])
        assert grad.tolist() == [2.0 ** times / 2] * 2


def test_sparse_gradients_of_a_loop():
    """Rows of a table that several steps look up add up."""
    program, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(program, startup):
        ids = fluid.data("ids", [3, 1], "int64")
        total = layers.fill_constant([3, 2], "float32", 0.0)
        total.stop_gradient = False

        def body(i):
            found = layers.embedding(ids, [5, 2], is_sparse=True,
                                     param_attr=fluid.ParamAttr("table", initializer=fluid.initializer.Constant(1.0)))
            layers.assign(layers.sums([total, found]), total)

        loop(4, body)
        fluid.optimizer.SGD(0.5).minimize(layers.reduce_sum(total))
    with fluid.scope_guard(fluid.Scope()) as _:
        EXE.run(startup)
        EXE.run(program, feed={"ids": np.array([[1], [1], [4]])})
        table = np.array(fluid.global_scope().find_var("table").get_tensor())
    assert table.tolist() == [[1, 1], [-3, -3], [1, 1], [1, 1], [-1, -1]]


def test_a_fed_parameter_is_seen_inside_a_loop():
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        w = layers.create_parameter([2], "float64", name="w")
        h = layers.fill_constant([2], "float64", 1.0)
        loop(3, lambda i: layers.assign(layers.elementwise_mul(h, w), h) and None)
    with fluid.scope_guard(fluid.Scope()):
        found, = EXE.run(program, feed={"w": np.array([2.0, 3.0])}, fetch_list=[h])
    assert found.tolist() == [8.0, 27.0]


def test_a_loop_for_tests_has_no_gradient():
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = fluid.data("x", [2], "float64")
        x.stop_gradient = False
        h, i, n = copy_of(x), count(0), count(2)
        going = layers.less_than(i, n)
        with layers.While(going, is_test=True).block():
            layers.assign(layers.scale(h, 2.0), h)
            layers.increment(i)
            layers.less_than(i, n, cond=going)
        with pytest.raises(Exception, match="is_test=True keeps nothing for a gradient"):
            fluid.append_backward(layers.mean(h))


def long_loop(times, train, size=4096):
    """A loop over `size` floats; without gradient it keeps nothing, with gradient some 50 kB a step until it ran."""
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = fluid.data("x", [size], "float32")
        x.stop_gradient = False
        h = copy_of(x)
        loop(times, lambda i: layers.assign(layers.tanh(layers.scale(h, 0.9)), h) and None)
        loss = layers.mean(h)
        if train:
            fluid.append_backward(loss)
    return program, loss


def kept_by(program, loss) -> int:
    """kB more at its most after a run than a short loop has taken."""
    feed = {"x": np.ones(4096, "float32")}
    small, _ = long_loop(10, train=False)
    EXE.run(small, feed=feed)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    EXE.run(program, feed=feed, fetch_list=[loss])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def test_a_loop_without_gradient_keeps_no_steps():
    program, loss = long_loop(10_000, train=False)
    assert kept_by(program, loss) < 8_000, "kB more after 10,000 steps"


def test_a_test_clone_of_a_trained_loop_keeps_no_steps():
    program, loss = long_loop(10_000, train=True)
    assert kept_by(program.clone(for_test=True), loss) < 8_000, "kB more after 10,000 steps"


@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="the address sanitizer holds freed memory back")
def test_steps_are_freed_when_the_gradient_ran():
    """The most that is used stays that of one run."""
    program, _ = long_loop(500, train=True)
    feed = {"x": np.ones(4096, "float32")}
    for _ in range(2):
        EXE.run(program, feed=feed, fetch_list=["x@GRAD"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(10):
        EXE.run(program, feed=feed, fetch_list=["x@GRAD"])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 4_000


def test_arrays_are_added_item_by_item():
    """An item that one array has not is taken from the other."""
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = fluid.data("x", [2], "float64")
        first, second = layers.array_write(x, count(0)), layers.array_write(layers.scale(x, 10.0), count(2))
        layers.array_write(layers.scale(x, 100.0), count(0), array=second)
        layers.array_write(layers.scale(x, 3.0), count(1), array=first)
        total = program.global_block().create_var(name="total", type=core.VarDesc.VarType.LOD_TENSOR_ARRAY)
        program.global_block().append_op(type="sum", inputs={"X": [first, second]}, outputs={"Out": [total]})
        assert total.type == core.VarDesc.VarType.LOD_TENSOR_ARRAY
        items = [layers.array_read(total, count(k)) for k in range(3)]
        length = layers.array_length(total)
        found = EXE.run(program, feed={"x": np.array([1.0, 2.0])}, fetch_list=[*items, length])
    assert [each.tolist() for each in found] == [[101.0, 202.0], [3.0, 6.0], [10.0, 20.0], [3]]


def test_arrays_are_not_added_to_tensors():
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = fluid.data("x", [2], "float64")
        array = layers.array_write(x, count(0))
        with pytest.raises(Exception, match="arrays are added to arrays only"):
            layers.sums([array, x])


def test_a_saved_model_holds_nothing_of_the_gradient(tmp_path):
    program, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(program, startup), fluid.unique_name.guard():
        x = fluid.data("x", [2, 4], "float32")
        h = layers.fc(x, 4)
        loop(3, lambda i: layers.assign(layers.tanh(layers.scale(h, 2.0)), h) and None)
        fluid.optimizer.SGD(0.1).minimize(layers.mean(h))
    feed = {"x": X.astype("float32")}
    with fluid.scope_guard(fluid.Scope()):
        EXE.run(startup)
        wanted, = EXE.run(program.clone(for_test=True), feed=feed, fetch_list=[h.name])
        fluid.io.save_inference_model(str(tmp_path), ["x"], [h], EXE, main_program=program)
        saved, _, targets = fluid.io.load_inference_model(str(tmp_path), EXE)
        found, = EXE.run(saved, feed=feed, fetch_list=targets)
    assert np.array_equal(found, wanted)
    assert [op.type for op in saved.block(1).ops] == ["scale", "tanh", "assign", "increment", "less_than"]
    assert saved.num_blocks == 2 and program.num_blocks == 3


def train_from(start):
    """minimize() of a loop that starts from start(x): the parameters it found, and the losses of three steps."""
    program, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(program, startup), fluid.unique_name.guard():
        x = fluid.data("x", [2, 4], "float64")
        w = layers.create_parameter([4, 4], "float64", name="w", default_initializer=fluid.initializer.Constant(0.3))
        _, h = layers.while_loop(lambda i, h: layers.less_than(i, count(3)),
                                 lambda i, h: [i + 1, layers.tanh(layers.matmul(h, w)) + x], [count(0), start(x)])
        loss = layers.mean(layers.square(h))
        _, pairs = fluid.optimizer.SGD(1.0).minimize(loss)
    with fluid.scope_guard(fluid.Scope()):
        EXE.run(startup)
        losses = [EXE.run(program, feed={"x": X}, fetch_list=[loss])[0][0] for _ in range(3)]
    return [param.name for param, _ in pairs], losses


@pytest.mark.parametrize("name, start", [("x", lambda x: x),
                                         ("fill_constant", lambda x: layers.fill_constant([2, 4], "float64", 0.3))])
def test_a_loop_that_starts_from_a_stopped_variable_trains_nothing_and_says_so(name, start):
    said = rf"^minimize: no gradient of the loss 'mean_0.tmp_0' reaches any trainable.* stop_gradient is on for '{name}\S*', b"
    with pytest.warns(UserWarning, match=said):
        names, losses = train_from(start)
    assert names == [] and len(set(losses)) == 1


def test_a_loop_that_starts_from_assign_trains():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        names, losses = train_from(layers.assign)
    assert names == ["w"] and losses[0] > losses[1] > losses[2]


def test_a_loss_that_no_parameter_makes():
    with fluid.program_guard(fluid.Program(), fluid.Program()), pytest.warns(UserWarning, match="nothing. Make the loss from"):
        fluid.optimizer.SGD(1.0).minimize(layers.mean(fluid.data("x", [2, 4])))
    with fluid.program_guard(fluid.Program(), fluid.Program()), pytest.warns(UserWarning, match="a parameter of parameter_list"):
        other = layers.create_parameter([4], "float32")
        fluid.optimizer.SGD(1.0).minimize(layers.mean(layers.fc(fluid.data("x", [2, 4]), 1)), parameter_list=[other])
