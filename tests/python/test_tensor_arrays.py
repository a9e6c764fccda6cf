"""Ops that run blocks, and the tensor arrays and rank tables that recurrent nets are built from."""

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import core, layers

EXE = fluid.Executor(fluid.CPUPlace())


def sequences(array, *lengths):
    tensor = core.LoDTensor()
    tensor.set(np.asarray(array), fluid.CPUPlace())
    tensor.set_recursive_sequence_lengths([list(level) for level in lengths])
    return tensor


class Net:
    """A Program whose ops are appended by name, and its runs."""

    def __init__(self):
        self.program, self.startup = fluid.Program(), fluid.Program()

    @property
    def block(self):
        return self.program.current_block()

    def data(self, name, shape, dtype="float64", lod_level=0):
        return self.block.create_var(name=name, shape=shape, dtype=dtype, lod_level=lod_level, stop_gradient=False,
                                     is_data=True)

    def op(self, op_type, inputs, outputs, **attrs):
        """Makes the output variables that are not there yet."""
        for names in outputs.values():
            for name in names:
                if not self.block._find_var_recursive(name):
                    self.program.global_block().create_var(name=name, stop_gradient=False)
        return self.block.append_op(type=op_type, inputs=inputs, outputs=outputs, attrs=attrs)

    def run(self, feed, fetches, **more):
        with fluid.scope_guard(fluid.Scope()):
            return EXE.run(self.program, feed=feed, fetch_list=fetches, **more)


def test_a_fetched_array_is_a_list():
    """Of arrays, or of LoDTensors that keep their sequences, as in 1.8.5."""
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = fluid.data("x", [None, 2], lod_level=1)
        i = layers.fill_constant([1], "int64", 0)
        array = layers.array_write(x, i)
        layers.array_write(x * 3.0, i + 1, array)
        rows = np.arange(6, dtype="float32").reshape(3, 2)
        (found,) = EXE.run(program, feed={"x": sequences(rows, [1, 2])}, fetch_list=[array], return_numpy=False)
    assert isinstance(found, list) and len(found) == 2 and len(found[:1]) == 1 and len(found + found) == 4
    for factor, each in zip((1, 3), found):
        assert isinstance(each, core.LoDTensor) and each.recursive_sequence_lengths() == [[1, 2]]
        np.testing.assert_array_equal(np.array(each), factor * rows)
    (arrays,) = EXE.run(program, feed={"x": rows}, fetch_list=[array])
    assert isinstance(arrays, list) and [type(each) for each in arrays] == [np.ndarray] * 2
    np.testing.assert_array_equal(arrays[1], 3 * rows)


# ---- blocks ----


def conditional(scalar=True):
    net = Net()
    net.data("x", [-1, 2])
    net.data("cond", [1], "bool" if scalar else "float64")
    net.op("fill_constant", {}, {"Out": ["y"]}, shape=[1], value=-1.0, dtype=6)
    net.op("assign", {"X": ["y"]}, {"Out": ["result"]})
    body = net.program._create_block()
    body.create_var(name="doubled")
    body.append_op(type="scale", inputs={"X": ["x"]}, outputs={"Out": ["doubled"]}, attrs={"scale": 2.0})
    body.append_op(type="assign", inputs={"X": ["doubled"]}, outputs={"Out": ["result"]})
    net.program._rollback()
    net.op("conditional_block", {"Cond": ["cond"], "Input": ["x"]}, {"Out": ["result"]}, sub_block=body,
           is_scalar_condition=scalar)
    net.op("scale", {"X": ["result"]}, {"Out": ["last"]}, scale=10.0)
    return net


def test_conditional_block_runs_when_the_condition_holds():
    net = conditional()
    for rows in (3, 1, 4):
        x = np.arange(2.0 * rows).reshape(rows, 2)
        (yes,) = net.run({"x": x, "cond": np.array([True])}, ["last"])
        (no,) = net.run({"x": x, "cond": np.array([False])}, ["last"])
        np.testing.assert_array_equal(yes, x * 20)
        np.testing.assert_array_equal(no, [-10])


def test_conditional_block_without_scalar_runs_when_nothing_is_empty():
    net = conditional(scalar=False)
    x = np.ones((2, 2))
    (yes,) = net.run({"x": x, "cond": np.zeros(1)}, ["last"])
    (no,) = net.run({"x": x, "cond": np.zeros(0)}, ["last"])
    np.testing.assert_array_equal(yes, x * 20)
    np.testing.assert_array_equal(no, [-10])


def test_conditional_block_wants_one_value():
    with pytest.raises(Exception, match="a condition is one value"):
        conditional().run({"x": np.ones((1, 2)), "cond": np.array([True, False])}, ["last"])


def counting(limit_op="less_than"):
    """total += i while i < limit."""
    net = Net()
    net.data("limit", [1], "int64")
    net.op("fill_constant", {}, {"Out": ["i"]}, shape=[1], value=0.0, dtype=3)
    net.op("fill_constant", {}, {"Out": ["total"]}, shape=[1], value=0.0, dtype=3)
    net.op(limit_op, {"X": ["i"], "Y": ["limit"]}, {"Out": ["cond"]})
    body = net.program._create_block()
    body.append_op(type="sum", inputs={"X": ["total", "i"]}, outputs={"Out": ["total"]}, attrs={})
    body.append_op(type="increment", inputs={"X": ["i"]}, outputs={"Out": ["i"]}, attrs={"step": 1.0})
    body.append_op(type=limit_op, inputs={"X": ["i"], "Y": ["limit"]}, outputs={"Out": ["cond"]}, attrs={})
    net.program._rollback()
    net.op("while", {"X": ["i", "total", "limit"], "Condition": ["cond"]}, {"Out": ["i", "total"]}, sub_block=body)
    return net


def test_while_runs_as_often_as_the_condition_says():
    net = counting()
    for limit in (5, 0, 1, 100):
        i, total = net.run({"limit": np.array([limit])}, ["i", "total"])
        assert (i[0], total[0]) == (limit, limit * (limit - 1) // 2)


def test_switch_chooses_the_first_case_that_holds():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = layers.data("x", [1], dtype="float32", append_batch_size=False)
        rate = layers.create_global_var([1], 0.0, "float32", persistable=True, name="rate")
        with layers.Switch() as switch:
            with switch.case(x < layers.fill_constant([1], "float32", 1.0)):
                layers.assign(layers.fill_constant([1], "float32", 0.1), rate)
            with switch.case(x < layers.fill_constant([1], "float32", 2.0)):
                layers.assign(layers.fill_constant([1], "float32", 0.2), rate)
            with switch.default():
                layers.assign(layers.fill_constant([1], "float32", 0.3), rate)
    with fluid.scope_guard(fluid.Scope()):
        EXE.run(startup)
        found = [EXE.run(main, feed={"x": np.array([v], "float32")}, fetch_list=[rate])[0][0] for v in (0.5, 1.5, 5, 0.5)]
    np.testing.assert_allclose(found, [0.1, 0.2, 0.3, 0.1], rtol=1e-6)


def test_cond_gives_the_branch_and_its_gradient():
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        x = layers.data("x", [2, 2], dtype="float64", append_batch_size=False, stop_gradient=False)
        pred = layers.data("pred", [1], dtype="bool", append_batch_size=False)
        out = layers.cond(pred, lambda: layers.scale(x, 3.0), lambda: layers.square(x))
        fluid.backward.append_backward(layers.reduce_sum(out), parameter_list=[x.name])
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    for choice, value, gradient_of_x in ((True, 3 * x, np.full((2, 2), 3.0)), (False, x**2, 2 * x),
                                         (True, 3 * x, np.full((2, 2), 3.0))):
        with fluid.scope_guard(fluid.Scope()):
            found = EXE.run(main, feed={"x": x, "pred": np.array([choice])}, fetch_list=[out, "x@GRAD"])
        np.testing.assert_allclose(found[0], value)
        np.testing.assert_allclose(found[1], gradient_of_x)


def test_select_gives_gradients_to_the_chosen_one():
    weights = ROWS * 3
    for chosen in (0, 1):
        net = Net()
        for name in ("a", "b", "weights"):
            net.data(name, [-1, 2])
        net.data("mask", [1], "int32")
        net.op("select_input", {"X": ["a", "b"], "Mask": ["mask"]}, {"Out": ["out"]})
        feed = {"a": ROWS, "b": ROWS + 1, "mask": np.array([chosen], "int32"), "weights": weights}
        found = gradient(net, "out", "a", feed)
        np.testing.assert_array_equal(found, weights if chosen == 0 else 0 * weights)


# ---- arrays ----


def test_array_items_are_written_read_and_counted():
    net = Net()
    net.data("x", [-1, 2])
    for i in range(3):
        net.op("fill_constant", {}, {"Out": [f"i{i}"]}, shape=[1], value=float(i), dtype=3)
    net.program.global_block().create_var(name="array", type=core.VarDesc.VarType.LOD_TENSOR_ARRAY)
    for i in (2, 0):
        net.op("scale", {"X": ["x"]}, {"Out": [f"x{i}"]}, scale=float(i + 1))
        net.op("write_to_array", {"X": [f"x{i}"], "I": [f"i{i}"]}, {"Out": ["array"]})
    net.op("lod_array_length", {"X": ["array"]}, {"Out": ["n"]})
    net.op("read_from_array", {"X": ["array"], "I": ["i2"]}, {"Out": ["back"]})
    net.op("scale", {"X": ["back"]}, {"Out": ["last"]}, scale=10.0)
    for rows in (2, 3):
        x = np.arange(2.0 * rows).reshape(rows, 2)
        n, last = net.run({"x": x}, ["n", "last"])
        assert n[0] == 3
        np.testing.assert_array_equal(last, x * 30)
    net.op("read_from_array", {"X": ["array"], "I": ["i1"]}, {"Out": ["nothing"]})
    with pytest.raises(Exception, match="nothing was written there"):
        net.run({"x": np.ones((1, 2))}, ["nothing"])


def test_items_are_joined_or_stacked():
    x = np.arange(6.0).reshape(3, 2)
    for stack, axis, value in ((False, 0, np.concatenate([x, 2 * x])), (False, 1, np.concatenate([x, 2 * x], 1)),
                               (True, 0, np.stack([x, 2 * x])), (True, -1, np.stack([x, 2 * x], -1))):
        net = Net()
        net.data("x", [-1, 2])
        net.data("weights", list(value.shape))
        net.program.global_block().create_var(name="array", type=core.VarDesc.VarType.LOD_TENSOR_ARRAY)
        for i in range(2):
            net.op("fill_constant", {}, {"Out": [f"i{i}"]}, shape=[1], value=float(i), dtype=3)
        net.op("write_to_array", {"X": ["x"], "I": ["i0"]}, {"Out": ["array"]})
        net.op("scale", {"X": ["x"]}, {"Out": ["twice"]}, scale=2.0)
        net.op("write_to_array", {"X": ["twice"], "I": ["i1"]}, {"Out": ["array"]})
        net.op("tensor_array_to_tensor", {"X": ["array"]}, {"Out": ["out"], "OutIndex": ["index"]}, axis=axis, use_stack=stack)
        feed = {"x": x, "weights": np.arange(12.0).reshape(value.shape)}
        out, index = net.run(feed, ["out", "index"])
        np.testing.assert_array_equal(out, value)
        assert index.tolist() == ([x.shape[axis]] * 2 if not stack or axis == 0 else [1, 1])
        first, second = (np.moveaxis(feed["weights"], axis, 0) if stack else np.split(feed["weights"], 2, axis))
        np.testing.assert_array_equal(gradient(net, "out", "x", feed), first + 2 * second)


# ---- rank tables ----

ROWS = np.arange(12.0).reshape(6, 2)
LENGTHS = [1, 3, 2]


def ranked():
    net = Net()
    net.data("x", [-1, 2], lod_level=1)
    net.op("lod_rank_table", {"X": ["x"]}, {"Out": ["table"]}, level=0)
    return net


def test_sequences_become_moments_and_sequences_again():
    net = ranked()
    net.op("max_sequence_len", {"RankTable": ["table"]}, {"Out": ["longest"]})
    net.op("lod_tensor_to_array", {"X": ["x"], "RankTable": ["table"]}, {"Out": ["moments"]})
    net.op("array_to_lod_tensor", {"X": ["moments"], "RankTable": ["table"]}, {"Out": ["again"]})
    net.op("lod_array_length", {"X": ["moments"]}, {"Out": ["n"]})
    feed = {"x": sequences(ROWS, LENGTHS)}
    longest, n, again = net.run(feed, ["longest", "n", "again"], return_numpy=False)
    assert np.array(longest)[0] == 3 and np.array(n)[0] == 3
    np.testing.assert_array_equal(np.array(again), ROWS)
    assert again.recursive_sequence_lengths() == [LENGTHS]
    (moments,) = net.run(feed, ["moments"], return_numpy=False)
    np.testing.assert_array_equal(np.array(moments[0]), ROWS[[1, 4, 0]])
    np.testing.assert_array_equal(np.array(moments[1]), ROWS[[2, 5]])
    np.testing.assert_array_equal(np.array(moments[2]), ROWS[[3]])


def test_reorder_and_shrink_follow_the_table():
    net = ranked()
    net.data("flat", [-1, 2])
    net.data("step", [1], "int64")
    net.op("reorder_lod_tensor_by_rank", {"X": ["x"], "RankTable": ["table"]}, {"Out": ["ordered"]})
    net.op("reorder_lod_tensor_by_rank", {"X": ["flat"], "RankTable": ["table"]}, {"Out": ["rows"]})
    net.op("shrink_rnn_memory", {"X": ["rows"], "RankTable": ["table"], "I": ["step"]}, {"Out": ["left"]})
    flat = np.arange(6.0).reshape(3, 2)
    for step, alive in ((0, 3), (1, 2), (2, 1), (3, 0)):
        ordered, rows, left = net.run({"x": sequences(ROWS, LENGTHS), "flat": flat, "step": np.array([step])},
                                      ["ordered", "rows", "left"], return_numpy=False)
        np.testing.assert_array_equal(np.array(ordered), ROWS[[1, 2, 3, 4, 5, 0]])
        assert ordered.recursive_sequence_lengths() == [[3, 2, 1]]
        np.testing.assert_array_equal(np.array(rows), flat[[1, 2, 0]])
        np.testing.assert_array_equal(np.array(left), flat[[1, 2, 0]][:alive])


def test_rank_table_wants_sequences():
    net = ranked()
    net.op("max_sequence_len", {"RankTable": ["table"]}, {"Out": ["longest"]})
    with pytest.raises(Exception, match="levels of sequences"):
        net.run({"x": np.ones((2, 2))}, ["longest"])


def gradient(net, loss_of, wanted, feed):
    """The gradient of sum(weights * loss_of) for `wanted`."""
    net.op("elementwise_mul", {"X": [loss_of], "Y": ["weights"]}, {"Out": ["weighted"]})
    net.op("reduce_sum", {"X": ["weighted"]}, {"Out": ["loss"]}, reduce_all=True)
    with fluid.program_guard(net.program, net.startup):
        fluid.backward.append_backward(net.program.global_block().var("loss"), parameter_list=[wanted])
    (found,) = net.run(feed, [f"{wanted}@GRAD"], return_numpy=False)
    return np.array(found)


def test_gradients_go_back_through_tables():
    weights = np.arange(12.0).reshape(6, 2) ** 2
    net = ranked()
    net.data("weights", [-1, 2])
    net.op("lod_tensor_to_array", {"X": ["x"], "RankTable": ["table"]}, {"Out": ["moments"]})
    net.op("array_to_lod_tensor", {"X": ["moments"], "RankTable": ["table"]}, {"Out": ["again"]})
    feed = {"x": sequences(ROWS, LENGTHS), "weights": weights}
    np.testing.assert_array_equal(gradient(net, "again", "x", feed), weights)

    net = ranked()
    net.data("weights", [-1, 2])
    net.op("reorder_lod_tensor_by_rank", {"X": ["x"], "RankTable": ["table"]}, {"Out": ["ordered"]})
    wanted = np.empty_like(weights)
    wanted[[1, 2, 3, 4, 5, 0]] = weights
    np.testing.assert_array_equal(gradient(net, "ordered", "x", feed), wanted)

    net = ranked()
    net.data("flat", [-1, 2])
    net.data("step", [1], "int64")
    net.data("weights", [-1, 2])
    net.op("shrink_rnn_memory", {"X": ["flat"], "RankTable": ["table"], "I": ["step"]}, {"Out": ["left"]})
    feed = {"x": sequences(ROWS, LENGTHS), "flat": ROWS[:3], "step": np.array([1]), "weights": weights[:2]}
    np.testing.assert_array_equal(gradient(net, "left", "flat", feed), np.concatenate([weights[:2], np.zeros((1, 2))]))


def test_gradient_goes_back_through_an_array():
    net = Net()
    net.data("x", [-1, 2])
    net.data("weights", [-1, 2])
    net.op("fill_constant", {}, {"Out": ["i"]}, shape=[1], value=0.0, dtype=3)
    net.op("write_to_array", {"X": ["x"], "I": ["i"]}, {"Out": ["array"]})
    net.op("read_from_array", {"X": ["array"], "I": ["i"]}, {"Out": ["back"]})
    feed = {"x": ROWS, "weights": ROWS * 3}
    np.testing.assert_array_equal(gradient(net, "back", "x", feed), ROWS * 3)


def test_places_are_counted():
    net = Net()
    net.op("get_places", {}, {"Out": ["places"]}, device_count=3, device_type="CPU")
    net.run({}, [])
    with pytest.raises(Exception, match="CPU places only"):
        net.op("get_places", {}, {"Out": ["places"]}, device_type="CUDA")


def overwrite_one(where, steps, item, reads):
    """Two items that hold x and 2x; then one of them becomes a value without gradient, `steps` times."""
    x = layers.data("x", [2], append_batch_size=False)
    x.stop_gradient = False
    places = [layers.fill_constant([1], "int64", n) for n in range(2)]
    array = layers.array_write(x, places[0])
    layers.array_write(x * 2.0, places[1], array=array)

    def change():
        value = layers.fill_constant([2], "float32", 0.3)
        if reads:
            value = layers.tanh(layers.zeros_like(layers.array_read(array, places[0])))
        layers.array_write(value, places[item], array=array)

    step, end = layers.fill_constant([1], "int64", 0), layers.fill_constant([1], "int64", steps)
    more = layers.less_than(step, end)
    if where == "main":
        for _ in range(steps):
            change()
    elif where == "branch":
        with layers.control_flow.ConditionalBlock([more], is_scalar_condition=True).block():
            change()
    else:
        with layers.While(more).block():
            change()
            layers.increment(step)
            layers.less_than(step, end, cond=more)
    first, second = [layers.array_read(array, place) for place in places]
    return x, layers.reduce_sum(first * 0.5 + second * 0.75)


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("item", [0, 1])
@pytest.mark.parametrize("steps", [0, 1, 2])
@pytest.mark.parametrize("where", ["main", "branch", "loop"])
@pytest.mark.usefixtures("fresh")
def test_item_that_becomes_a_value_without_gradient(where, steps, item, reads):
    """Who wrote the item before gets no gradient, who wrote the others gets all of theirs."""
    x, loss = overwrite_one(where, steps, item, reads)
    (grad,) = fluid.gradients(loss, x)
    found = fluid.Executor(fluid.CPUPlace()).run(feed={"x": np.array([0.1, 0.2], "float32")}, fetch_list=[grad])[0]
    np.testing.assert_allclose(found, 2.0 if not steps else [1.5, 0.5][item], rtol=1e-6)
