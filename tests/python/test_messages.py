"""Slips of users: the error names what was asked, what was found and what to do, in the words of the script."""

import numpy as np
import pytest

import paddle
import paddle.fluid as fluid
from paddle.fluid import layers, shown

pytestmark = pytest.mark.usefixtures("fresh")


def told(call, *texts):
    """What the error of a call says; it holds all these texts."""
    with pytest.raises(Exception) as caught:
        call()
    for text in texts:
        assert text in str(caught.value), caught.value
    return caught.value


def image(*dims):
    return layers.data("image", list(dims))


def test_sentences_end_once():
    """Where the text of an error is joined with what to do."""
    assert [shown.sentence(text) for text in ("so", "so.", "so?", "so!")] == ["so.", "so.", "so?", "so!"]
    x = layers.data("x", [1])
    loader = fluid.io.DataLoader.from_generator([x], capacity=2)

    def asks():
        raise ValueError("is it a file?")
        yield

    loader.set_batch_generator(asks, places=fluid.CPUPlace())
    assert str(told(lambda: list(loader()), "raised ValueError: is it a file?")).endswith("is it a file?")


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
    (lambda: layers.conv2d_transpose(image(1, 1, 1), 2, filter_size=1, padding=[1, 0]),
     "The height of Input [-1, 1, 1, 1] gives no output"),
])
def test_types_and_sizes(call, text):
    told(call, text)


def generator():
    yield 1


READER = "takes a reader, a function that gives samples, but found a generator. Give the function itself, without () behind it."


@pytest.mark.parametrize("call, text", [
    (lambda: paddle.batch(generator(), 4), "paddle.batch " + READER),
    (lambda: paddle.reader.shuffle(generator(), 4), "paddle.reader.shuffle " + READER),
    (lambda: paddle.reader.buffered(generator(), 4), "paddle.reader.buffered " + READER),
    (lambda: paddle.reader.cache(generator()), "paddle.reader.cache " + READER),
    (lambda: paddle.reader.firstn(generator(), 1), "paddle.reader.firstn " + READER),
    (lambda: paddle.reader.chain(generator, generator()), "paddle.reader.chain " + READER),
    (lambda: paddle.reader.compose(generator, generator()), "paddle.reader.compose " + READER),
    (lambda: paddle.reader.map_readers(abs, generator()), "paddle.reader.map_readers " + READER),
    (lambda: paddle.reader.xmap_readers(abs, generator(), 1, 1), "paddle.reader.xmap_readers " + READER),
])
def test_a_reader_that_was_called_already(call, text):
    told(call, text)


@pytest.mark.parametrize("call, text", [
    (lambda: fluid.optimizer.SGD(), "SGDOptimizer needs 'learning_rate'. It takes learning_rate, parameter_list, regularization"),
    (lambda: fluid.optimizer.Momentum(0.1), "MomentumOptimizer needs 'momentum'. It takes learning_rate, momentum"),
    (lambda: fluid.io.save_params("dir"), "save_params needs 'dirname'. It takes executor, dirname"),
    (lambda: layers.fc(layers.data("x", [1])), "fc needs 'size'. It takes input, size"),
    (lambda: fluid.regularizer.L2Decay("1e-4"), "L2Decay: regularization_coeff must be a number, found '1e-4'."),
    (lambda: layers.exponential_decay(0.1, 0, 0.9), "exponential_decay: decay_steps is 0, but the rate is divided by it."),
    (lambda: layers.natural_exp_decay(0.1, 0, 0.9), "natural_exp_decay: decay_steps is 0"),
    (lambda: layers.inverse_time_decay(0.1, 0, 0.9), "inverse_time_decay: decay_steps is 0"),
    (lambda: layers.polynomial_decay(0.1, 0), "polynomial_decay: decay_steps is 0"),
    (lambda: layers.cosine_decay(0.1, 10, 0), "cosine_decay: epochs is 0"),
    (lambda: layers.noam_decay(512, 0), "noam_decay: warmup_steps is 0"),
    (lambda: layers.linear_lr_warmup(0.1, 0, 0.0, 0.1), "linear_lr_warmup: warmup_steps is 0"),
])
def test_arguments(call, text):
    told(call, text)


def test_a_missing_argument_of_a_call_inside_is_not_the_users():
    from paddle.fluid import suggest

    def inner(a):
        return a

    def outer(x):
        return inner()
    assert "inner() missing 1 required" in str(told(lambda: suggest.helpful(outer)(1)))


def test_a_parameter_by_a_wrong_name():
    loss = layers.mean(layers.fc(layers.data("x", [3]), 1))
    told(lambda: fluid.optimizer.SGD(0.1).minimize(loss, parameter_list=["fc_0.w"]),
         "parameter_list names 'fc_0.w', which is no variable of "
         "the Program. Did you mean 'fc_0.w_0'?")


def test_places_that_are_no_number(monkeypatch):
    monkeypatch.setenv("CPU_NUM", "two")
    told(fluid.cpu_places, "CPU_NUM in the environment must be a number of places, found 'two'.")


def test_one_stop_after_what_a_generator_raised():
    x, y = layers.data("x", [1]), layers.data("y", [1])
    loader = fluid.io.DataLoader.from_generator([x, y], capacity=4)
    loader.set_batch_generator(lambda: iter([(np.ones((1, 1), "float32"),)]), places=fluid.CPUPlace())
    assert str(told(lambda: list(loader()), "the generator gave 1 fields for 2 variables")).endswith("x, y.")


def test_an_array_of_another_shape_than_its_parameter():
    array = fluid.initializer.NumpyArrayInitializer(np.ones((3, 13), "float32"))
    with pytest.warns(UserWarning, match=r"the array has shape \[3, 13\], but fc_0.w_0 was made with \[13, 3\]"):
        layers.fc(layers.data("x", [13]), 3, param_attr=fluid.ParamAttr(initializer=array))


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A model in the folder `m`, its variables in one file."""
    monkeypatch.chdir(tmp_path)
    out = layers.fc(layers.data("x", [3]), 1)
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model("m", ["x"], [out], exe, params_filename="params")
    return exe, out


def test_files_that_are_not_there(saved):
    exe, out = saved
    one_file = "Where one file holds all variables, give its name: filename=..., in load_inference_model params_filename=..."
    told(lambda: fluid.io.load_inference_model("m", exe),
         "'m' has no file 'fc_0.w_0' and 1 others; it has '__model__', 'params'. " + one_file)
    told(lambda: fluid.io.load_params(exe, "m"), "'m' has no file 'fc_0.", one_file)
    told(lambda: fluid.io.load_params(exe, "m", filename="parms"), "'m' has no file 'parms'; it has '__model__', 'params'.")
    told(lambda: fluid.io.load_inference_model("m", exe, "model", "params"),
         "'m' has no model 'model'; it has '__model__', 'params'.",
         "model_filename=...")
    told(lambda: fluid.io.load_persistables(exe, "nowhere"), "There is no folder 'nowhere' to load from.")
    fluid.io.save_params(exe, "each")
    layers.fc(out, 1)
    assert "filename" not in str(told(lambda: fluid.io.load_params(exe, "each"), "'each' has no file 'fc_1.",
                                      "and 1 others; it has 'fc_0.b_0', 'fc_0.w_0'."))
    assert len(fluid.io.load_inference_model("m", exe, params_filename="params")) == 3


def test_arguments_of_io_in_another_order(saved):
    exe, out = saved
    order = "dirname must be the path of a folder, found Executor(CPUPlace()) of type Executor. The order is "
    told(lambda: fluid.io.load_inference_model(exe, "m"), order + "dirname, executor.")
    told(lambda: fluid.io.save_inference_model(exe, "m", ["x"], [out]), order + "dirname, feeded_var_names, target_vars, executor.")
    for call in (fluid.io.save_params, fluid.io.save_persistables, fluid.io.save_vars, fluid.io.load_params,
                 fluid.io.load_persistables):
        told(lambda call=call: call("m", exe), order + "executor, dirname.")
    told(lambda: fluid.io.load_params("m", "m"),
         "executor must be an Executor, found 'm' of type str. The order is executor, dirname.")


def test_endpoints_that_are_parted_in_another_way():
    told(lambda: fluid.DistributeTranspiler().transpile(0, pservers="127.0.0.1:6174;127.0.0.1:6175", trainers=1),
         "pservers has the endpoint '127.0.0.1:6174;127.0.0.1:6175'; it must be HOST:PORT", "with commas between several.")
