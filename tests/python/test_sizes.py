"""Sizes that only running can tell: shapes computed by other ops, or fed as data."""
import numpy as np
import pytest

import paddle.fluid as fluid


def test_shapes_given_as_data_may_change_from_run_to_run():
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        x = fluid.layers.data("x", [-1, 3], append_batch_size=False)
        n = fluid.layers.data("n", [2], dtype="int32", append_batch_size=False)
        like = fluid.layers.fill_constant(fluid.layers.shape(x), "float32", 2.0)
        made = fluid.layers.fill_constant(n, "float32", 1.0)
        folded = fluid.layers.reshape(x, shape=n)
        summed = fluid.layers.reduce_sum(folded * 2.0, dim=0)
        exe = fluid.Executor(fluid.CPUPlace())
        for rows, shape in ((2, (3, 2)), (2, (6, 1)), (4, (3, 4)), (4, (1, 12)), (2, (3, 2))):
            value = np.arange(rows * 3, dtype="float32").reshape(rows, 3)
            got = exe.run(feed={"x": value, "n": np.array(shape, "int32")}, fetch_list=[like, made, folded, summed])
            assert [v.shape for v in got] == [(rows, 3), shape, shape, shape[1:]]
            np.testing.assert_array_equal(got[3], 2 * value.reshape(shape).sum(0))


def test_sizes_whose_product_is_past_what_numbers_hold():
    """274177 * 67280421310721 is 2^64 + 1."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        made = fluid.layers.fill_constant([274177, 67280421310721], "float32", 1.0)
        total = fluid.layers.reduce_sum(made, dim=1)
        with pytest.raises(fluid.core.EnforceNotMet, match=r"would have shape \[274177, 67280421310721\], which is more than any memory holds"):
            fluid.Executor(fluid.CPUPlace()).run(fetch_list=[total])
