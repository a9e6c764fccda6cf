"""What case tables cannot say of the math ops: whole numbers at their end, random numbers, dropout masks, selected rows."""

from __future__ import annotations

import numpy as np
import pytest

import paddle.fluid as fluid

FP32 = fluid.core.VarDesc.VarType.FP32
ROWS = fluid.core.VarDesc.VarType.SELECTED_ROWS


def run_op(op, inputs=None, attrs=None, outputs=("Out",), times=1, seed=0):
    """Runs one op `times` times; returns a list of results, each a list of arrays."""
    program = fluid.Program()
    program.random_seed = seed
    block = program.global_block()
    feed = inputs or {}
    for name, value in feed.items():
        block.create_var(name=name, shape=list(value.shape), dtype=str(value.dtype), is_data=True)
    for name in outputs:
        block.create_var(name=f"out_{name}")
    block.append_op(type=op, inputs={name: [name] for name in feed}, attrs=attrs or {},
                    outputs={name: [f"out_{name}"] for name in outputs})
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        fetches = [f"out_{name}" for name in outputs]
        return [exe.run(program, feed=feed, fetch_list=fetches) for _ in range(times)]


# ---- whole numbers ----

MOST = 2**63 - 1


def test_whole_numbers_wrap_around():
    assert run_op("increment", {"X": np.array([MOST])})[0][0] == [-MOST - 1]
    found = run_op("cumsum", {"X": np.array([MOST, 1, 1])})[0][0]
    assert found.tolist() == [MOST, -MOST - 1, -MOST]


BIG = 2**53 + 1  # the first that no double is


def test_clip_scale_and_pow_of_whole_numbers_that_no_double_is():
    feed = {"X": np.array([-5, BIG + 2, 2**61]), "Min": np.array([BIG]), "Max": np.array([2**60 + 1])}
    assert run_op("clip", feed)[0][0].tolist() == [BIG, BIG + 2, 2**60 + 1]
    feed = {"X": np.array([1, 3, -5]), "ScaleTensor": np.array([BIG])}
    assert run_op("scale", feed, {"bias": 2.0})[0][0].tolist() == [BIG + 2, 3 * BIG + 2, -5 * BIG + 2]
    found = run_op("scale", feed, {"bias": 2.0, "bias_after_scale": False})[0][0]
    assert found.tolist() == [3 * BIG, 5 * BIG, -3 * BIG]
    found = run_op("scale", {"X": np.array([0, 1, 2])}, {"scale": 2.5, "bias": 3.0, "bias_after_scale": False})[0][0]
    assert found.tolist() == [6, 8, 10]  # as in 1.8.5: of a factor only the whole part counts
    x = np.array([3**12, -(3**12), 7**7, 0, -1])
    assert run_op("pow", {"X": x}, {"factor": 3.0})[0][0].tolist() == (x**3).tolist()


@pytest.mark.parametrize("step", [1e30, float("nan"), float("-inf")])
def test_a_step_that_a_counter_cannot_hold(step):
    with pytest.raises(fluid.core.EnforceNotMet, match="int64 cannot hold"):
        run_op("increment", {"X": np.array([3])}, {"step": step})


# ---- random numbers ----

SHAPE = [1000, 100]


def sample(op, **attrs):
    return run_op(op, attrs={"shape": SHAPE, "dtype": FP32, **attrs})[0][0]


def test_uniform_covers_its_range_evenly():
    x = sample("uniform_random", min=-2.0, max=3.0)
    assert x.min() >= -2 and x.max() <= 3
    counts, _ = np.histogram(x, 10, (-2, 3))
    assert np.all(np.abs(counts - 10000) < 600)
    assert abs(np.corrcoef(x.ravel()[:-1], x.ravel()[1:])[0, 1]) < 0.02


def test_gaussian_has_its_moments():
    x = sample("gaussian_random", mean=1.5, std=2.0).astype("float64")
    assert abs(x.mean() - 1.5) < 0.03 and abs(x.std() - 2.0) < 0.03
    z = (x - 1.5) / 2
    assert abs((z**3).mean()) < 0.05 and abs((z**4).mean() - 3) < 0.15
    assert abs(np.mean(np.abs(z) < 1) - 0.6827) < 0.01


def test_truncated_gaussian_stays_within_two_deviations():
    x = sample("truncated_gaussian_random", mean=1.0, std=0.5).astype("float64")
    assert x.min() >= 0 and x.max() <= 2
    assert abs(x.mean() - 1) < 0.01 and abs(x.std() - 0.5 * 0.8796) < 0.01


def test_randint_covers_its_range_evenly():
    x = run_op("randint", attrs={"shape": SHAPE, "low": -3, "high": 5, "dtype": 3})[0][0]
    assert x.dtype == np.int64
    values, counts = np.unique(x, return_counts=True)
    assert values.tolist() == list(range(-3, 5)) and np.all(np.abs(counts - 12500) < 700)


def test_diagonal_of_uniform():
    x = run_op("uniform_random",
               attrs={"shape": [4, 4], "diag_num": 4, "diag_step": 4, "diag_val": 7.0, "dtype": FP32})[0][0]
    assert np.all(np.diag(x) == 7) and np.all(np.abs(x - np.diag(np.diag(x))) <= 1)


@pytest.mark.parametrize("op", ["uniform_random", "gaussian_random", "truncated_gaussian_random"])
def test_seeds(op):
    attrs = {"shape": [50, 3], "dtype": FP32}
    first, second = (r[0] for r in run_op(op, attrs={**attrs, "seed": 5}, times=2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, run_op(op, attrs={**attrs, "seed": 6})[0][0])
    first, second = (r[0] for r in run_op(op, attrs=attrs, times=2))
    assert not np.array_equal(first, second), "without a seed each run has numbers of its own"
    np.testing.assert_array_equal(run_op(op, attrs=attrs, seed=9)[0][0],
                                  run_op(op, attrs=attrs, seed=9)[0][0])


def test_numbers_do_not_depend_on_the_size():
    """Element i is a function of seed, variable and i, so a longer tensor starts with the shorter one."""
    for op in ("uniform_random", "gaussian_random", "truncated_gaussian_random"):
        short = run_op(op, attrs={"shape": [101], "seed": 3, "dtype": FP32})[0][0]
        long = run_op(op, attrs={"shape": [70001], "seed": 3, "dtype": FP32})[0][0]
        np.testing.assert_array_equal(short, long[:101])


# ---- dropout ----


@pytest.mark.parametrize("how", ["downgrade_in_infer", "upscale_in_train"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dropout_mask(how, dtype):
    x = np.random.RandomState(0).uniform(1, 2, (257, 31)).astype(dtype)
    attrs = {"dropout_prob": 0.3, "dropout_implementation": how}
    out, mask = run_op("dropout", {"X": x}, attrs, ("Out", "Mask"))[0]
    assert mask.dtype == np.uint8 and set(np.unique(mask)) == {0, 1}
    assert abs(mask.mean() - 0.7) < 0.03
    np.testing.assert_allclose(out, x * mask / (0.7 if how == "upscale_in_train" else 1), rtol=1e-6)


def test_dropout_seeds():
    x = np.ones((40, 7), "float32")
    fixed = run_op("dropout", {"X": x}, {"fix_seed": True, "seed": 4}, ("Out", "Mask"), times=2)
    np.testing.assert_array_equal(fixed[0][1], fixed[1][1])
    free = run_op("dropout", {"X": x}, {}, ("Out", "Mask"), times=2)
    assert not np.array_equal(free[0][1], free[1][1])


def test_dropout_gradient_uses_the_mask():
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = fluid.layers.data("x", [6], stop_gradient=False)
        out = fluid.layers.dropout(x, 0.5, dropout_implementation="upscale_in_train")
        loss = fluid.layers.mean(out)
        fluid.backward.append_backward(loss, parameter_list=["x"])
    exe = fluid.Executor(fluid.CPUPlace())
    values = np.full((8, 6), 3, "float32")
    dropped, grad = exe.run(program, feed={"x": values}, fetch_list=[out, "x@GRAD"])
    np.testing.assert_allclose(grad, dropped / 3 / 48, rtol=1e-6)


# ---- selected rows ----


def rows_program(op, tables, attrs=None, dense=None):
    """Runs `op` over variables x0, x1, ... of selected rows (and a tensor); returns the result's variable."""
    program, scope = fluid.Program(), fluid.Scope()
    block = program.global_block()
    names = []
    for i, (rows, value, height) in enumerate(tables):
        block.create_var(name=f"x{i}", shape=[height, value.shape[1]], dtype="float32", type=ROWS,
                         persistable=True)
        table = scope.var(f"x{i}").get_selected_rows()
        table.set_height(height)
        table.set_rows(rows)
        table.get_tensor().set(value, fluid.CPUPlace())
        names.append(f"x{i}")
    feed = {}
    if dense is not None:
        block.create_var(name="dense", shape=list(dense.shape), dtype="float32", is_data=True)
        feed["dense"] = dense
        names.append("dense")
    block.create_var(name="out", persistable=True)
    block.append_op(type=op, inputs={"X": names}, outputs={"Out": ["out"]}, attrs=attrs or {})
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(scope):
        exe.run(program, feed=feed)
    return scope.find_var("out")


VALUE = np.arange(6, dtype="float32").reshape(3, 2) + 1


def test_sum_of_rows_adds_rows_that_repeat():
    out = rows_program("sum", [([4, 0, 4], VALUE, 9), ([0, 7], VALUE[:2] * 10, 9)]).get_selected_rows()
    assert list(out.rows()) == [0, 4, 7] and out.height() == 9
    np.testing.assert_array_equal(np.array(out.get_tensor()), [[13, 24], [6, 8], [30, 40]])


def test_sum_of_rows_and_tensor_is_a_tensor():
    dense = np.ones((9, 2), "float32")
    out = np.array(rows_program("sum", [([4, 0, 4], VALUE, 9)], dense=dense).get_tensor())
    wanted = dense.copy()
    np.add.at(wanted, [4, 0, 4], VALUE)
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("op, attrs, factor", [("scale", {"scale": 2.5}, 2.5), ("assign", {}, 1)])
def test_rows_keep_their_places(op, attrs, factor):
    out = rows_program(op, [([4, 0, 4], VALUE, 9)], attrs).get_selected_rows()
    assert list(out.rows()) == [4, 0, 4] and out.height() == 9
    np.testing.assert_array_equal(np.array(out.get_tensor()), VALUE * factor)


def test_clips_merge_rows_first():
    out = rows_program("clip", [([4, 0, 4], VALUE, 9)], {"min": 3.5, "max": 7.0}).get_selected_rows()
    assert list(out.rows()) == [0, 4]
    np.testing.assert_array_equal(np.array(out.get_tensor()), [[3.5, 4], [6, 7]])
    out = rows_program("clip_by_norm", [([4, 0, 4], VALUE, 9)], {"max_norm": 1.0}).get_selected_rows()
    merged = np.array([[3, 4], [6, 8]], "float32")
    np.testing.assert_allclose(np.array(out.get_tensor()), merged / np.sqrt((merged**2).sum()), rtol=1e-6)


def test_rows_times_one_number():
    program, scope = fluid.Program(), fluid.Scope()
    block = program.global_block()
    block.create_var(name="x", shape=[9, 2], dtype="float32", type=ROWS, persistable=True)
    table = scope.var("x").get_selected_rows()
    table.set_height(9)
    table.set_rows([4, 0, 4])
    table.get_tensor().set(VALUE, fluid.CPUPlace())
    block.create_var(name="y", shape=[1], dtype="float32", is_data=True)
    block.create_var(name="out", persistable=True)
    block.append_op(type="elementwise_mul", inputs={"X": ["x"], "Y": ["y"]}, outputs={"Out": ["out"]},
                    attrs={})
    with fluid.scope_guard(scope):
        fluid.Executor(fluid.CPUPlace()).run(program, feed={"y": np.array([3], "float32")})
    out = scope.find_var("out").get_selected_rows()
    assert list(out.rows()) == [4, 0, 4]
    np.testing.assert_array_equal(np.array(out.get_tensor()), VALUE * 3)


def test_print_shows_and_passes_on(capfd):
    x = np.array([[1.5, -2.0]], "float32")
    out = run_op("print", {"In": x}, {"message": "look", "first_n": 2}, times=3)
    text = capfd.readouterr().out
    assert text.count("look") == 2 and "Tensor[In]" in text and "1.5,-2," in text and "float32" in text
    np.testing.assert_array_equal(out[2][0], x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_round_takes_halves_away_from_zero(dtype):
    """And the numbers next to them to where they are nearer."""
    near = np.nextafter(np.array([0.5, 1.5, 8388607.5], dtype), np.array(0, dtype))
    values = np.concatenate([[0.5, 1.5, 2.5, 0.0, 0.2, 4.0, 1e20, 8388607.5], near]).astype(dtype)
    values = np.concatenate([values, -values])
    want = np.sign(values) * np.floor(np.abs(values).astype("longdouble") + np.longdouble(0.5)).astype(dtype)
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [-1], dtype)
        (found,) = fluid.Executor(fluid.CPUPlace()).run(feed={"x": values}, fetch_list=[fluid.layers.round(x)])
    np.testing.assert_array_equal(found, want)
