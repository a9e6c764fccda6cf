"""fluid.gradients with target gradients that are fed: one of another shape than its target is an error that names both shapes."""

from __future__ import annotations

import numpy as np
import pytest

import paddle.fluid as fluid

L = fluid.layers
HALF = fluid.initializer.Constant(0.5)
IMAGES = {
    "fc": lambda x: L.fc(x, 2, param_attr=HALF, bias_attr=False),
    "fc with bias and relu": lambda x: L.fc(x, 2, act="relu"),
    "matmul": lambda x: L.matmul(x, x),
    "conv2d": lambda x: L.conv2d(x, 2, 1, param_attr=HALF, bias_attr=False),
    "pool2d": lambda x: L.pool2d(x, 2, "avg"),
    "batch_norm": L.batch_norm,
    "transpose": lambda x: L.transpose(x, [0, 3, 1, 2]),
    "concat": lambda x: L.concat([x, x], axis=1),
    "image_resize": lambda x: L.image_resize(x, out_shape=[3, 3]),
    "layer_norm": L.layer_norm,
    "cumsum": lambda x: L.cumsum(x, axis=-1),
    "pow": lambda x: L.pow(x, -1.0),
    "pow by a variable": lambda x: L.pow(x, L.fill_constant([1], "float32", 2.0)),
    "tanh": L.tanh,
    "scale": lambda x: L.scale(x, 2.0),
    "reverse": lambda x: L.reverse(x, 0),
    "stack": lambda x: L.stack([x, x], axis=1),
    "pad": lambda x: L.pad(x, [0, 0, 1, 1, 0, 0, 0, 0]),
    "reshape": lambda x: L.reshape(x, [0, 8]),
    "expand": lambda x: L.expand(x, [1, 2, 1, 1]),
    "dropout": lambda x: L.dropout(x, 0.5),
    "split": lambda x: L.split(x, 2, dim=1)[0],
    "the target itself": lambda x: x,
}


def run(build, shape, lengths=(), rows=1, train=False):
    """The gradient of build(x) at an x of 3 rows, for a target gradient of `rows` rows."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        x = fluid.data("x", [-1, *shape], "float32", lod_level=1 if lengths else 0)
        x.stop_gradient = False
        y = build(x)
        given = fluid.data("given", [-1, *y.shape[1:]], "float32")
        wanted = main.global_block().all_parameters() if train else [x]
        grads = fluid.gradients([y], wanted, target_gradients=[given])
        if train:
            fluid.optimizer.SGD(0.1).apply_gradients(list(zip(wanted, grads)))
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        array = np.linspace(0.1, 0.9, 3 * int(np.prod(shape))).astype("float32").reshape(3, *shape)
        value = fluid.create_lod_tensor(array, [list(lengths)], fluid.CPUPlace()) if lengths else array
        feed = {"x": value, "given": np.ones([rows, *(int(size) for size in y.shape[1:])], "float32")}
        return exe.run(main, feed=feed, fetch_list=[grads[0]], return_numpy=False)[0]


@pytest.mark.parametrize("rows", [1, 2, 4, 3000])
@pytest.mark.parametrize("name", IMAGES)
def test_rows_do_not_fit(name, rows):
    with pytest.raises(fluid.core.ShapeError, match=rf"\[3, .*\[{rows}, .*must be equal"):
        run(IMAGES[name], [2, 2, 2], rows=rows)


@pytest.mark.parametrize("name", IMAGES)
def test_rows_fit(name):
    assert np.array(run(IMAGES[name], [2, 2, 2], rows=3)).shape == (3, 2, 2, 2)


@pytest.mark.parametrize("rows", [1, 4])
def test_conv3d_transpose(rows):
    with pytest.raises(fluid.core.ShapeError, match="must be equal"):
        run(lambda x: L.conv3d_transpose(x, 2, filter_size=2), [2, 2, 2, 2], rows=rows)


@pytest.mark.parametrize("rows", [1, 2, 5, 3000])
@pytest.mark.parametrize("build", [lambda x: L.lod_reset(x, target_lod=[0, 1, 3]), lambda x: L.sequence_softmax(L.fc(x, 1)),
                                   lambda x: L.sequence_pool(x, "sum"), lambda x: L.sequence_conv(x, 2)],
                         ids=["lod_reset", "sequence_softmax", "sequence_pool", "sequence_conv"])
def test_sequences(build, rows):
    if rows == 2:
        rows = 4
    with pytest.raises(fluid.core.ShapeError, match="must be equal"):
        run(build, [4], lengths=(1, 2), rows=rows)


@pytest.mark.parametrize("rows", [1, 3, 3000])
def test_sequence_reshape(rows):
    with pytest.raises(fluid.core.ShapeError, match=r"\[6, 2\].*must be equal"):
        run(lambda x: L.sequence_reshape(x, 2), [4], lengths=(1, 2), rows=rows)


@pytest.mark.parametrize("rows", [1, 4])
def test_training(rows):
    """A plan joins the gradient of mul and the step of sgd."""
    with pytest.raises(fluid.core.ShapeError, match="must be equal"):
        run(lambda x: L.fc(x, 2, bias_attr=False), [4], rows=rows, train=True)
