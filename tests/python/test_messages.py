"""Slips of users: the error names what was asked, what was found and what to do, in the words of the script."""

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid
from paddle.fluid import layers


@pytest.fixture(autouse=True)
def fresh():
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        yield


def told(call, *texts):
    """What the error of a call says; it holds all these texts."""
    with pytest.raises(Exception) as caught:
        call()
    for text in texts:
        assert text in str(caught.value), caught.value
    return caught.value


def image(*dims):
    return layers.data("image", list(dims))


@pytest.mark.parametrize("call, text", [
    (lambda: layers.data("z", [3], dtype="flaot32"), "'flaot32' is no type of tensor elements. Did you mean 'float32'?"),
    (lambda: fluid.data("z", [3], "zzz"), "'zzz' is no type of tensor elements. Use one of bool, int16"),
    (lambda: layers.cast(layers.data("x", [1]), "flot32"), "'flot32' is no type of tensor elements. Did you mean 'float32'?"),
    (lambda: layers.data("z", shape=["13"]), "data: shape must hold integers or None, but '13' was given."),
    (lambda: fluid.data("z", shape=[None, 1.5]), "data: shape must hold integers or None, but 1.5 was given."),
    (lambda: layers.conv2d(image(1, 4, 9), 8, 7), "The height of Input [-1, 1, 4, 9] is 4, too small for Filter [8, 1, 7, 7]"),
    (lambda: layers.conv2d(image(1, 9, 4), 8, 7), "The width of Input [-1, 1, 9, 4] is 4, too small"),
    (lambda: layers.conv3d(image(1, 2, 9, 9), 8, 7), "The depth of Input [-1, 1, 2, 9, 9] is 2, too small"),
    (lambda: layers.pool2d(image(1, 9, 2), 5), "The width of X [-1, 1, 9, 2] is 2, too small for windows of 5 with this padding."),
    (lambda: layers.conv2d_transpose(image(1, 1, 1), 2, filter_size=1, padding=[1, 0]), "The height of Input [-1, 1, 1, 1] gives no output"),
])
def test_types_and_sizes(call, text):
    told(call, text)
