"""Gradients that 1.8.5 gets wrong (docs/DIFFERENCES.md), against finite differences."""

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import layers

pytestmark = pytest.mark.usefixtures("fresh")

STEP = 1e-5
CASES = {
    "group_norm": ([2, 6, 3, 2], lambda x: layers.group_norm(x, 2)),
    "group_norm without scale": ([2, 6, 3, 2], lambda x: layers.group_norm(x, 3, param_attr=False, bias_attr=False)),
    "leaky_relu": ([3, 4], lambda x: layers.leaky_relu(x, alpha=-0.3)),
    "shuffle_channel": ([2, 6, 3, 2], lambda x: layers.shuffle_channel(x, 3)),
    "sequence_conv": ([7, 3], lambda x: layers.sequence_conv(x, 4, 2, padding_start=1)),
    "sequence_conv, before": ([7, 3], lambda x: layers.sequence_conv(x, 4, 3, padding_start=-2)),
}


@pytest.mark.parametrize("case", CASES)
def test_by_finite_differences(case):
    """Of the input and of each parameter."""
    shape, build = CASES[case]
    lengths = [3, 1, 2, 1] if len(shape) == 2 and shape[0] == 7 else None
    x = fluid.data("x", [-1, *shape[1:]], "float64", lod_level=1 if lengths else 0)
    x.stop_gradient = False
    out = build(x)
    weights = layers.assign(np.random.RandomState(1).rand(*[n for n in out.shape[1:]]).astype("float32"))
    loss = layers.reduce_sum(layers.elementwise_mul(layers.square(out), layers.cast(weights, "float64")))
    fluid.append_backward(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    value = np.random.RandomState(0).randn(*shape)
    tensors = {p.name: fluid.global_scope().find_var(p.name).get_tensor() for p in fluid.default_main_program().all_parameters()}
    arrays = {"x": value, **{name: np.array(tensor) for name, tensor in tensors.items()}}

    def run(fetches):
        for name, tensor in tensors.items():
            tensor.set(arrays[name], fluid.CPUPlace())
        fed = fluid.create_lod_tensor(arrays["x"], [lengths], fluid.CPUPlace()) if lengths else arrays["x"]
        return [np.array(each) for each in exe.run(feed={"x": fed}, fetch_list=fetches, return_numpy=False)]

    found = run([f"{name}@GRAD" for name in arrays])
    for (name, array), grad in zip(arrays.items(), found):
        numeric = np.zeros_like(array)
        for at in np.ndindex(*array.shape):
            kept = array[at]
            array[at] = kept + STEP
            above = run([loss])[0][0]
            array[at] = kept - STEP
            numeric[at] = (above - run([loss])[0][0]) / (2 * STEP)
            array[at] = kept
        np.testing.assert_allclose(grad, numeric, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("text, check", [("nan", np.isnan), ("inf", np.isposinf), ("-inf", np.isneginf)])
def test_constants_that_are_not_finite(text, check):
    (found,) = fluid.Executor(fluid.CPUPlace()).run(fetch_list=[layers.fill_constant([3], "float32", text)])
    assert check(found).all()


def test_uniform_random_has_the_type_that_is_asked_for():
    made = layers.uniform_random([3], dtype="float64", seed=5)
    (found,) = fluid.Executor(fluid.CPUPlace()).run(fetch_list=[made])
    assert found.dtype == np.float64 and (np.float32(found) != found).all()


def test_gradients_that_nothing_reaches():
    """None for each of several inputs, an empty list for a single one, as in 1.8.5."""
    x, z = fluid.data("x", [4, 3]), fluid.data("z", [4, 3])
    x.stop_gradient = z.stop_gradient = False
    total = layers.reduce_sum(layers.square(z))
    assert fluid.gradients(total, x) == fluid.gradients([total], [x]) == []
    reached = fluid.gradients(total, [x, z])
    assert reached[0] is None and reached[1].name.startswith("z@GRAD")
    assert fluid.gradients(total, [x, x]) == [None, None]
    assert fluid.backward.calc_gradient(total, x) is None


@pytest.mark.parametrize("asked", ["z", "zh", "hz", "h"])
def test_asking_for_a_stopped_variable_changes_no_other_gradient(fresh, asked):
    z = fluid.data("z", [2], "float32")
    z.stop_gradient = False
    h = layers.square(z)
    h.stop_gradient = True
    loss = layers.reduce_sum(layers.elementwise_mul(h, z))
    grads = fluid.gradients([loss], [{"z": z, "h": h}[name] for name in asked])
    found = fluid.Executor().run(feed={"z": np.array([2, 3], "float32")}, fetch_list=grads)
    want = {"z": [4, 9], "h": [2, 3]}
    assert [value.tolist() for value in found] == [want[name] for name in asked]
