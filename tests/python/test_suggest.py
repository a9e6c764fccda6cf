"""Slips in names: the error says what was meant, and which layer lacks its op."""

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import core, layers, optimizer

pytestmark = pytest.mark.usefixtures("fresh")


def x():
    return layers.data("x", shape=[4])


@pytest.mark.parametrize("call, text", [
    (lambda: optimizer.Adam(beta_1=0.9), "AdamOptimizer has no argument 'beta_1'. Did you mean 'beta1'?"),
    (lambda: optimizer.Adam(lr=0.1), "AdamOptimizer has no argument 'lr'. Did you mean 'learning_rate'?"),
    (lambda: optimizer.SGD(lr=0.1), "SGDOptimizer has no argument 'lr'. Did you mean 'learning_rate'?"),
    (lambda: optimizer.Momentum(0.1, 0.9, weight_decay=1), "Did you mean 'regularization'?"),
    (lambda: layers.fc(x(), size=3, activation="relu"), "fc has no argument 'activation'. Did you mean 'act'?"),
    (lambda: layers.fc(x(), units=3), "fc has no argument 'units'. Did you mean 'size'?"),
    (lambda: layers.reduce_sum(x(), axis=1), "reduce_sum has no argument 'axis'. Did you mean 'dim'?"),
    (lambda: layers.dropout(x(), p=0.5), "dropout has no argument 'p'. Did you mean 'dropout_prob'?"),
    (lambda: layers.relu(x(), inplace_everything=1), "relu has no argument 'inplace_everything'. It takes x, name."),
    (lambda: layers.While(conditon=x()), "While has no argument 'conditon'. Did you mean 'cond'?"),
    (lambda: fluid.ParamAttr(initialiser=None), "ParamAttr has no argument 'initialiser'. Did you mean 'initializer'?"),
    (lambda: fluid.initializer.Normal(mean=0), "Did you mean 'loc'?"),
    (lambda: fluid.nets.simple_img_conv_pool(x(), filters=3), "Did you mean 'num_filters'?"),
    (lambda: fluid.io.save_params(None, dir_name="a"), "Did you mean 'dirname'?"),
    (lambda: fluid.data("x", [1], dtyp="int64"), "data has no argument 'dtyp'. Did you mean 'dtype'?"),
    (lambda: fluid.DataFeeder(feeds=[], place=None), "Did you mean 'feed_list'?"),
    (lambda: fluid.DistributeTranspiler().transpile(0, pserver="a:1"), "Did you mean 'pservers'?"),
    (lambda: fluid.Executor().run(fetch_lst=[]), "run() has no argument 'fetch_lst'. It takes program, feed, fetch_list"),
])
def test_wrong_argument(call, text):
    with pytest.raises(TypeError) as caught:
        call()
    assert text in str(caught.value)


def test_data_stays_a_function_when_its_module_is_imported():
    import paddle.fluid.data
    from paddle.fluid.data import data

    assert fluid.data is data is paddle.fluid.data


def test_old_arguments_and_other_type_errors_stay_as_they_are():
    assert layers.fc(x(), size=3, use_mkldnn=True).shape == (-1, 3)
    with pytest.raises(TypeError,
                       match="fc needs 'size'. It takes input, size, num_flatten_dims, param_attr, bias_attr, act, name.$"):
        layers.fc(x(), use_mkldnn=True)
    with pytest.raises(TypeError, match="fc: input must be a Variable"):
        layers.fc(3, size=3)


@pytest.mark.parametrize("act, text", [
    ("rellu", "fc: there is no activation 'rellu'. Did you mean 'relu'?"),
    ("softmx", "Did you mean 'softmax'?"),
    ("linear", "fc: there is no activation 'linear'. Leave act out for none."),
    ("qqqqqq", "fc: there is no activation 'qqqqqq'. There are abs, acos"),
    ({"type": "tahn"}, "Did you mean 'tanh'?"),
])
def test_wrong_activation(act, text):
    data = x()
    with pytest.raises(ValueError) as caught:
        layers.fc(data, size=3, act=act)
    assert text in str(caught.value)
    assert not fluid.default_main_program().all_parameters(), "nothing was added to the Program"


@pytest.mark.parametrize("call, layer, op", [
    (lambda: layers.dynamic_gru(layers.fc(x(), 9), size=3), "fluid.layers.dynamic_gru", "gru"),
    (lambda: layers.dynamic_lstm(layers.fc(x(), 8), size=8), "fluid.layers.dynamic_lstm", "lstm"),
    (lambda: layers.spectral_norm(layers.create_parameter([3, 4], "float32")), "fluid.layers.spectral_norm",
     "spectral_norm"),
])
def test_layer_without_its_op(call, layer, op):
    if op in core.get_all_op_names():
        pytest.skip(f"the engine has the op {op}")
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value).startswith(f"{layer} is not there yet: it needs the op '{op}', which this package has not. ")
    assert str(caught.value).endswith("docs/MISSING.md lists such layers.")


def test_op_without_a_layer():
    block = fluid.default_main_program().global_block()
    with pytest.raises(ValueError, match="There is no op 'rellu' in this package. Did you mean 'relu'?"):
        block.append_op(type="rellu", inputs={}, outputs={})


def test_fetches_and_feeds():
    data = x()
    loss = layers.mean(data)
    exe = fluid.Executor()
    array = np.ones((2, 4), "float32")
    with pytest.raises(core.NotFoundError, match="fetch 'mean_0.tmp_1': the Program has no such variable; "
                                                 "is 'mean_0.tmp_0' meant?"):
        exe.run(feed={"x": array}, fetch_list=["mean_0.tmp_1"])
    with pytest.raises(core.NotFoundError, match="feed 'mena_0.tmp_0': .* it declares the data x; "
                                                 "is 'mean_0.tmp_0' meant?"):
        exe.run(feed={"mena_0.tmp_0": array}, fetch_list=[loss])
    with pytest.raises(core.NotFoundError, match="no such variable; it declares the data x$"):
        exe.run(feed={"something_else": array}, fetch_list=[loss])
    with pytest.raises(ValueError, match="Block 0 has no variable 'mean_0.tmp'. Did you mean 'mean_0.tmp_0'?"):
        fluid.default_main_program().global_block().var("mean_0.tmp")


# ---- other mistakes: the error says what was found and what to do ----


def test_a_fetch_that_is_near_to_no_variable():
    run_ = fluid.Executor().run
    value = {"x": np.ones((2, 4), "float32")}
    y = layers.fc(x(), 1)
    run_(fluid.default_startup_program())
    with pytest.raises(core.NotFoundError,
                       match="fetch 'accuracy': the Program has no such variable; give the Variable that its layer"):
        run_(feed=value, fetch_list=["accuracy"])
    with pytest.raises(core.NotFoundError, match=f"no such variable; is '{y.name}' meant"):
        run_(feed=value, fetch_list=[y.name + "s"])


def test_a_flag_that_is_not_there():
    with pytest.raises(ValueError, match="There is no flag 'FLAGS_check_nan_inff'. Did you mean 'FLAGS_check_nan_inf'\\?$"):
        fluid.set_flags({"FLAGS_check_nan_inff": 1})
    with pytest.raises(ValueError, match="There is no flag 'FLAGS_qqq'. docs/FLAGS.md lists them.$"):
        fluid.get_flags("FLAGS_qqq")


def test_a_feed_of_another_shape_is_named_before_the_op_that_it_does_not_fit():
    y = layers.fc(x(), 1)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    with pytest.raises(core.EnforceNotMet,
                       match=r"^feed 'x': the Program declares shape \[-1, 4\], found \[3\]; X must have 2 dimensions"):
        exe.run(feed={"x": [1, 2, 3]}, fetch_list=[y])
    with pytest.raises(core.EnforceNotMet,
                       match=r"^feed 'x': the Program declares shape \[-1, 4\], found \[2, 3\]; X \[2, 3\] has 3"):
        exe.run(feed={"x": np.ones((2, 3), "float32")}, fetch_list=[y])


def test_a_feed_of_texts_and_one_of_sequences():
    y = layers.scale(x(), 2.0)
    with pytest.raises(core.InvalidArgumentError, match=r"could not convert string to float: 'a'\. Feed numbers\.$"):
        fluid.Executor().run(feed={"x": [["a"] * 4]}, fetch_list=[y])
    with pytest.raises(core.InvalidArgumentError, match=r"inhomogeneous.*\. Sequences of different lengths go into a LoDTensor"):
        fluid.Executor().run(feed={"x": [[1, 2], [3]]}, fetch_list=[y])


def test_a_variable_is_no_number():
    loss = layers.mean(x())
    for kind in (float, int, complex):
        with pytest.raises(TypeError, match=f"{kind.__name__}\\(\\) cannot take the Variable '{loss.name}'. .* fetch it with"):
            kind(loss)
    with pytest.raises(RuntimeError, match="item\\(\\) belongs to dygraph.* fetch it with"):
        loss.item()


def test_a_condition_in_python_is_warned_of(recwarn):
    loss = layers.mean(x())
    assert loss and not recwarn.list  # `if bias:` asks whether there is one
    with pytest.warns(UserWarning, match="counts as true here, whatever it will hold.*fluid.layers.cond") as found:
        assert loss > 0.5
    assert found[0].filename == __file__


def example_of(layer, names):
    """Runs the example of a layer's docstring; returns the names that it binds."""
    lines = [line.strip()[4:] for line in layer.__doc__.splitlines() if line.strip().startswith(">>> ")]
    exec("\n".join(lines), names)
    return names


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


@pytest.mark.parametrize("name", ["gru_unit", "lstm_unit"])
def test_a_cell_made_of_other_layers(name):
    """One step is no loop: the error leads to an example, which is the formula of the op and has gradients."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        first = [fluid.data(each, [None, 4]) for each in "abc"]
        with pytest.raises(ValueError,
                           match=rf"{name} is not there yet: .* The example in help\(fluid.layers.{name}\) is the same cell"):
            layers.gru_unit(layers.fc(first[0], 12), first[1], 12) if name == "gru_unit" else layers.lstm_unit(*first)
    names = example_of(getattr(layers, name), {"fluid": fluid})
    fluid.optimizer.SGD(0.0).minimize(layers.mean(names["hidden"]))
    exe, scope, random = fluid.Executor(), fluid.Scope(), np.random.RandomState(0)
    exe.run(fluid.default_startup_program(), scope=scope)
    main = fluid.default_main_program()
    feed = {var.name: random.randn(5, var.shape[1]).astype("float32") for var in main.global_block().vars.values() if var.is_data}
    gradients = [param.name + "@GRAD" for param in main.all_parameters()]
    found, *grown = exe.run(feed=feed, fetch_list=[names["hidden"], *gradients], scope=scope)
    x, hidden = feed["x"], feed["hidden"]
    w, b = ([np.array(scope.find_var(param.name).get_tensor()) for param in main.all_parameters()
             if f".{kind}_" in param.name] for kind in "wb")
    if name == "gru_unit":
        gates = sigmoid(x[:, :16] + hidden @ w[0] + b[0])
        new = np.tanh(x[:, 16:] + (gates[:, 8:] * hidden) @ w[1] + b[1])
        wanted = gates[:, :8] * new + (1 - gates[:, :8]) * hidden
    else:
        i, f, o, g = np.split(np.concatenate([x, hidden], 1) @ w[0] + b[0], 4, axis=1)
        wanted = sigmoid(o) * np.tanh(sigmoid(f + 1) * feed["cell"] + sigmoid(i) * np.tanh(g))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    assert all(np.abs(gradient).max() > 0 for gradient in grown)
