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
    with pytest.raises(TypeError, match=r"^embedding: input is float32, but it must be int64;"):
        layers.embedding(real, [10, 3])
    with pytest.raises(TypeError, match=r"^cross_entropy: input is int32"):
        fluid.layers.loss.cross_entropy(whole, whole)
    with pytest.raises(TypeError, match=r"^fc: input is int32"):
        fluid.layers.nn.fc(input=whole, size=2)
    assert layers.mean(layers.cast(whole, "float32")).dtype == fluid.core.VarDesc.VarType.FP32
