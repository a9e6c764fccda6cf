"""A wrong element type is refused while the program is built, by the layer's name; others are left to the ops."""

import pytest

import paddle.fluid as fluid
from paddle.fluid import layers
from paddle.fluid.layers import dtypes

RULES = dtypes.rules()
ALL = sorted((layer, argument) for layer, taken in RULES.items() for argument in taken)


@pytest.mark.parametrize("layer,argument", ALL)
def test_each_argument_of_the_table(layer, argument):
    for name in dtypes.TYPES.values():
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            value = name if argument == "dtype" else fluid.data("v", [2, 3], name)
            text = f"{layer}: {argument} is {name}, but it must be"
            try:
                getattr(layers, layer)(**{argument: value})  # other arguments are missing, which comes second
                said = ""
            except Exception as error:
                said = str(error)
            assert (text in said) == (name not in RULES[layer][argument]), said


def test_what_upstream_refuses():
    whole = fluid.data("whole", [None, 3], "int32")
    real = fluid.data("real", [None, 3], "float32")
    with pytest.raises(TypeError, match=r"^mean: x is int32, but it must be float16, float32 or float64; layers.cast changes"):
        layers.mean(whole)
    with pytest.raises(TypeError, match=r"^elu: x is int32"):
        layers.elu(whole, alpha=2.0)
    with pytest.raises(TypeError, match=r"^concat: input\[1\] is bool"):
        layers.concat([real, fluid.data("flag", [None, 3], "bool")])
    with pytest.raises(TypeError, match=r"^embedding: input is float32, but it must be int32 or int64;"):
        layers.embedding(real, [10, 3])
    with pytest.raises(TypeError, match=r"^cross_entropy: input is int32"):
        fluid.layers.loss.cross_entropy(whole, whole)
    with pytest.raises(TypeError, match=r"^fc: input is int32"):
        fluid.layers.nn.fc(input=whole, size=2)
    assert layers.mean(layers.cast(whole, "float32")).dtype == fluid.core.VarDesc.VarType.FP32


def test_a_net_in_float16_can_be_built_and_is_refused_when_it_runs():
    """As in 1.8.5, which has no kernels for it on processors either."""
    import numpy as np

    kinds = fluid.core.VarDesc.VarType
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        image = fluid.data("image", [None, 1, 8, 8], "float16")
        label = fluid.data("label", [None, 1], "int64")
        hidden = layers.pool2d(layers.conv2d(image, 2, 3, act="relu"), 2, pool_stride=2)
        hidden = layers.matmul(layers.reshape(hidden, [-1, 18]), layers.fill_constant([18, 4], "float16", 0.5))
        predict = layers.fc(layers.dropout(hidden, 0.5), 3)
        assert {each.dtype for each in (hidden, predict, *fluid.default_main_program().all_parameters())} == {kinds.FP16}
        assert predict.shape == (-1, 3)
        loss = layers.mean(layers.softmax_with_cross_entropy(predict, label))
        fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
        grads = [each.dtype for each in fluid.default_main_program().list_vars() if each.name.endswith("w_0@GRAD")]
        assert grads and set(grads) == {kinds.FP16}
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        feed = {"image": np.ones((2, 1, 8, 8), "float16"), "label": np.zeros((2, 1), "int64")}
        with pytest.raises(fluid.core.EnforceNotMet, match="float16.*op conv2d"):
            exe.run(feed=feed, fetch_list=[loss])


def test_float16_can_be_filled_moved_and_cast():
    import numpy as np

    with fluid.program_guard(fluid.Program(), fluid.Program()):
        half = layers.fill_constant([2, 3], "float16", 1.5)
        value, single = fluid.Executor().run(fetch_list=[half, layers.cast(half, "float32")])
    assert value.dtype == np.float16 and (value == 1.5).all() and single.dtype == np.float32 and (single == 1.5).all()
