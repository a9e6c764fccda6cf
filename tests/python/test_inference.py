"""Predictors: configs, PaddleTensors, zero-copy tensors, clones in threads, and models that are not right."""

import struct
import threading

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import core

X = np.random.RandomState(3).rand(2, 4).astype("float32")
IDS = np.array([[1], [2], [3]], "int64")
LOD = [[0, 1, 3]]


class Model:
    """An inference model with dense and sequence inputs, in a folder and in two files; and its answers."""

    def __init__(self, folder):
        self.folder, self.files = str(folder / "separate"), str(folder / "combined")
        main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(scope):
            x = fluid.layers.data("x", [4])
            ids = fluid.layers.data("ids", [1], dtype="int64", lod_level=1)
            emb = fluid.layers.embedding(ids, size=[10, 3])
            hidden = fluid.layers.fc([x, fluid.layers.sequence_pool(emb, "sum")], 5, act="relu")
            predict = fluid.layers.fc(hidden, 2, act="softmax")
            targets = [predict, fluid.layers.argmax(predict, axis=1), emb]
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(startup)
            feeds = ["x", "ids"]
            self.names = fluid.io.save_inference_model(self.folder, feeds, targets, exe, main)
            fluid.io.save_inference_model(
                self.files, feeds, targets, exe, main, model_filename="model", params_filename="params"
            )
            sequences = fluid.create_lod_tensor(IDS, [[1, 2]], fluid.CPUPlace())
            fetched = exe.run(
                main, feed={"x": X, "ids": sequences}, fetch_list=[*targets, hidden], return_numpy=False
            )
            *self.answers, self.hidden = map(np.array, fetched)
            self.hidden_name = hidden.name


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return Model(tmp_path_factory.mktemp("model"))


def inputs() -> list:
    return [core.PaddleTensor(X, "x"), core.PaddleTensor(data=IDS, name="ids", lod=LOD)]


def check(model, outputs: list) -> None:
    assert [out.name for out in outputs] == model.names
    kinds = [core.PaddleDType.FLOAT32, core.PaddleDType.INT64, core.PaddleDType.FLOAT32]
    assert [out.dtype for out in outputs] == kinds
    assert [out.lod for out in outputs] == [[], [], LOD]
    for out, answer in zip(outputs, model.answers):
        assert out.shape == list(answer.shape)
        np.testing.assert_allclose(out.as_ndarray(), answer, rtol=1e-6)


def native(model, **fields):
    config = core.NativeConfig()
    config.model_dir = model.folder
    for name, value in fields.items():
        setattr(config, name, value)
    return config


def test_run_from_a_folder_and_from_files(model):
    predictor = core.create_paddle_predictor(core.AnalysisConfig(model.folder))
    assert isinstance(predictor, core.AnalysisPredictor)
    assert predictor.get_input_names() == ["x", "ids"]
    assert predictor.get_output_names() == model.names
    assert predictor.get_input_tensor_shape() == {"x": [-1, 4], "ids": [-1, 1]}
    check(model, predictor.run(inputs()))

    files = core.AnalysisConfig(f"{model.files}/model", f"{model.files}/params")
    outputs = core.create_paddle_predictor(files).run(inputs())
    np.testing.assert_allclose(outputs[0].as_ndarray(), model.answers[0], rtol=1e-6)


def test_files_of_two_folders_and_bytes(model, tmp_path):
    with open(f"{model.files}/model", "rb") as file:
        program = file.read()
    with open(f"{model.files}/params", "rb") as file:
        params = file.read()
    (tmp_path / "elsewhere").write_bytes(params)
    apart = core.AnalysisConfig(f"{model.files}/model", str(tmp_path / "elsewhere"))
    memory = core.AnalysisConfig()
    memory.set_model_buffer(program, len(program), params, len(params))
    assert memory.model_from_memory() and not apart.model_from_memory()
    for config in (apart, memory):
        out = core.create_paddle_predictor(config).run(inputs())[0]
        np.testing.assert_allclose(out.as_ndarray(), model.answers[0], rtol=1e-6)


def test_native_config(model):
    predictor = core.create_paddle_predictor(native(model))
    assert isinstance(predictor, core.NativePaddlePredictor)
    check(model, predictor.run(inputs()))
    by_name = core.create_paddle_predictor(native(model, specify_input_name=True))
    check(model, by_name.run(inputs()[::-1]))
    with pytest.raises(AttributeError, match="no field 'model_path'"):
        native(model, model_path="m")
    with pytest.raises(RuntimeError, match="no GPU"):
        core.create_paddle_predictor(native(model, use_gpu=True))


def test_inputs_by_name(model):
    config = core.AnalysisConfig(model.folder)
    config.switch_specify_input_names(True)
    predictor = core.create_paddle_predictor(config)
    config.switch_specify_input_names(False)  # the predictor has its own copy
    check(model, predictor.run(inputs()[::-1]))
    with pytest.raises(core.InvalidArgumentError, match="'y'.*x, ids"):
        predictor.run([core.PaddleTensor(X, "y"), inputs()[1]])


def test_config_tells_what_was_set():
    config = core.AnalysisConfig("folder")
    assert (config.model_dir(), config.prog_file(), config.params_file()) == ("folder", "", "")
    assert not config.use_gpu() and config.ir_optim() and config.use_feed_fetch_ops_enabled()
    assert config.cpu_math_library_num_threads() == 1 and not config.specify_input_name()
    config.switch_ir_optim(False)
    config.switch_use_feed_fetch_ops(False)
    config.switch_specify_input_names()
    config.set_cpu_math_library_num_threads(2)
    config.enable_mkldnn()
    config.enable_memory_optim()
    config.disable_glog_info()
    config.disable_gpu()
    config.set_model("model", "params")
    config.delete_pass("fc_fuse_pass")
    twin = core.AnalysisConfig(config)
    for each in (config, twin):
        assert (each.prog_file(), each.params_file()) == ("model", "params")
        assert not each.ir_optim() and not each.use_feed_fetch_ops_enabled() and each.specify_input_name()
        assert each.cpu_math_library_num_threads() == 2 and each.glog_info_disabled()
        assert each.mkldnn_enabled() == core.is_compiled_with_mkldnn()
    assert config.to_native_config().param_file == "params"
    assert str(core.AnalysisConfig.Precision.Int8) == "Precision.Int8"


def test_config_refuses_other_devices():
    config = core.AnalysisConfig("folder")
    with pytest.raises(RuntimeError, match="enable_use_gpu was asked for.*no GPU"):
        config.enable_use_gpu(100, 0)
    with pytest.raises(RuntimeError, match="TensorRT"):
        config.enable_tensorrt_engine(workspace_size=1 << 20)
    with pytest.raises(NotImplementedError, match="int8"):
        config.enable_quantizer()
    with pytest.raises(TypeError, match="3 arguments"):
        core.AnalysisConfig("a", "b", "c")


def test_zero_copy(model):
    config = core.AnalysisConfig(model.folder)
    config.switch_use_feed_fetch_ops(False)
    predictor = core.create_paddle_predictor(config)
    x, ids = predictor.get_input_tensor("x"), predictor.get_input_tensor("ids")
    out = predictor.get_output_tensor(model.names[0])
    hidden = predictor.get_output_tensor(model.hidden_name)
    with pytest.raises(core.InvalidArgumentError, match="ids"):
        x.copy_from_cpu(X)
        predictor.zero_copy_run()
    with pytest.raises(core.NotFoundError, match="zero_copy_run first"):
        out.copy_to_cpu()
    ids.reshape([3, 1])
    ids.copy_from_cpu(IDS)
    ids.set_lod(LOD)
    assert (x.shape(), ids.lod(), ids.type()) == ([2, 4], LOD, core.PaddleDType.INT64)
    assert predictor.zero_copy_run() is True
    np.testing.assert_allclose(out.copy_to_cpu(), model.answers[0], rtol=1e-6)
    np.testing.assert_allclose(hidden.copy_to_cpu(), model.hidden, rtol=1e-6)
    assert (out.shape(), out.lod(), out.type()) == ([2, 2], [], core.PaddleDType.FLOAT32)
    assert predictor.get_output_tensor(model.names[2]).lod() == LOD
    # The tensors stay valid: other values, double ones too, and another number of rows.
    x.copy_from_cpu(X[::-1].astype("float64")[:1])
    ids.copy_from_cpu(IDS[:1].astype("int32"))
    ids.set_lod([[0, 1]])
    predictor.zero_copy_run()
    assert out.shape() == [1, 2]
    assert np.abs(out.copy_to_cpu() - model.answers[0][:1]).max() > 1e-6


def test_zero_copy_mistakes(model):
    predictor = core.create_paddle_predictor(core.AnalysisConfig(model.folder))
    with pytest.raises(core.NotFoundError, match="no input 'y'.*x, ids"):
        predictor.get_input_tensor("y")
    with pytest.raises(core.NotFoundError, match="no variable 'y'"):
        predictor.get_output_tensor("y")
    out = predictor.get_output_tensor(model.names[0])
    with pytest.raises(core.InvalidArgumentError, match="is an output"):
        out.copy_from_cpu(X)
    with pytest.raises(core.InvalidArgumentError, match="is an output"):
        out.reshape([1])


def test_clones_run_in_threads(model):
    first = core.create_paddle_predictor(core.AnalysisConfig(model.folder))
    found = {}

    def work(number: int, predictor) -> None:
        found[number] = [predictor.run(inputs()) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(i, p)) for i, p in enumerate([first, first.clone()])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for outputs in [*found[0], *found[1]]:
        check(model, outputs)


def test_predictors_do_not_touch_the_global_scope(model):
    with fluid.scope_guard(fluid.Scope()):
        core.create_paddle_predictor(core.AnalysisConfig(model.folder)).run(inputs())
        assert fluid.global_scope().local_var_names() == []


def test_save_optim_model(model, tmp_path):
    predictor = core.create_paddle_predictor(core.AnalysisConfig(model.folder))
    predictor.SaveOptimModel(str(tmp_path / "saved"))
    again = core.AnalysisConfig(str(tmp_path / "saved" / "model"), str(tmp_path / "saved" / "params"))
    check(model, core.create_paddle_predictor(again).run(inputs()))
    assert predictor.get_serialized_program() == (tmp_path / "saved" / "model").read_bytes()


def test_wrong_inputs(model):
    predictor = core.create_paddle_predictor(core.AnalysisConfig(model.folder))
    with pytest.raises(core.InvalidArgumentError, match="2 inputs .*but 1"):
        predictor.run(inputs()[:1])
    with pytest.raises(TypeError, match="PaddleTensors"):
        predictor.run([X, IDS])
    wrong = inputs()
    wrong[0].shape = [3, 4]
    with pytest.raises(core.ShapeError, match="48 bytes.*32 bytes"):
        predictor.run(wrong)
    with pytest.raises(core.EnforceNotMet, match="x"):
        predictor.run([core.PaddleTensor(np.ones((2, 5), "float32")), inputs()[1]])
    check(model, predictor.run(inputs()))


def test_wrong_models(tmp_path):
    with pytest.raises(core.InvalidArgumentError, match="names no model"):
        core.create_paddle_predictor(core.AnalysisConfig())
    with pytest.raises(ValueError, match="no folder"):
        core.create_paddle_predictor(core.AnalysisConfig(str(tmp_path / "none")))
    with pytest.raises(core.FileError, match="model"):
        core.create_paddle_predictor(core.AnalysisConfig(str(tmp_path / "model"), str(tmp_path / "params")))
    (tmp_path / "__model__").write_bytes(b"no model")
    with pytest.raises(core.FormatError, match="__model__"):
        core.create_paddle_predictor(core.AnalysisConfig(str(tmp_path)))
    with pytest.raises(TypeError, match="AnalysisConfig"):
        core.create_paddle_predictor(str(tmp_path))


def test_other_types_of_outputs(tmp_path):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        x = fluid.layers.data("x", [2], dtype="float64")
        exe = fluid.Executor(fluid.CPUPlace())
        fluid.io.save_inference_model(str(tmp_path), ["x"], [fluid.layers.scale(x, 2.0)], exe, main)
    predictor = core.create_paddle_predictor(core.AnalysisConfig(str(tmp_path)))
    predictor.get_input_tensor("x").copy_from_cpu(np.ones((1, 2), "float32"))
    predictor.zero_copy_run()
    out = predictor.get_output_tensor(predictor.get_output_names()[0])
    np.testing.assert_array_equal(out.copy_to_cpu(), [[2.0, 2.0]])
    with pytest.raises(core.UnsupportedError, match="float64"):
        out.type()


def test_buffers():
    assert core.PaddleBuf(3).length() == 3 and not core.PaddleBuf(3).empty() and core.PaddleBuf(0).empty()
    buf = core.PaddleBuf([1, 2.5])
    assert (buf.float_data(), buf.length()) == ([1.0, 2.5], 8)
    buf.reset(np.array([[1], [2]], "int64"))
    assert buf.int64_data() == buf.tolist("int64") == [1, 2]
    buf.resize(8)
    assert buf.int64_data() == [1]
    assert core.PaddleBuf(np.array([3, 4], "int32")).int32_data() == [3, 4]
    with pytest.raises(ValueError, match="float16"):
        buf.tolist("float16")
    with pytest.raises(TypeError, match="<U1"):
        core.PaddleBuf(np.array(["a"]))


def test_tensors():
    tensor = core.PaddleTensor()
    assert (tensor.name, tensor.shape, tensor.lod, tensor.data.length()) == ("", [], [], 0)
    tensor.data, tensor.shape, tensor.dtype = core.PaddleBuf(IDS), [3, 1], core.PaddleDType.INT64
    np.testing.assert_array_equal(tensor.as_ndarray(), IDS)
    with pytest.raises(AttributeError):
        tensor.shapes = [3]
    assert core.PaddleTensor(np.ones(2)).dtype == core.PaddleDType.FLOAT32
    assert core.PaddleTensor(np.ones(2, "bool")).dtype == core.PaddleDType.INT32
    array = np.zeros(2, "float32")
    shared, copied = core.PaddleTensor(array, copy=False), core.PaddleTensor(array)
    array[:] = 1
    assert shared.as_ndarray().tolist() == [1, 1] and copied.as_ndarray().tolist() == [0, 0]
    assert str(core.PaddleDType.FLOAT32) == "PaddleDType.FLOAT32" and int(core.PaddleDType.INT32) == 2
    assert core.paddle_dtype_size(core.PaddleDType.INT64) == 8


def test_tensor_to_bytes():
    data = core.paddle_tensor_to_bytes(core.PaddleTensor(IDS, "ids", LOD))
    wanted = struct.pack("<IQ3sQQ3QQ2iiQ3q", 0, 3, b"ids", 1, 24, 0, 1, 3, 2, 3, 1, 1, 24, 1, 2, 3)
    assert data == wanted


def test_compiled_program_with_predictor(model):
    exe = fluid.Executor(fluid.CPUPlace())
    compiled = fluid.CompiledProgram(fluid.Program())._with_inference_optimize(native(model))
    check(model, exe.run(compiled, feed=inputs()))
    with pytest.raises(ValueError, match="set up before"):
        compiled._with_inference_optimize(native(model))
    with pytest.raises(TypeError, match="NativeConfig"):
        fluid.CompiledProgram(fluid.Program())._with_inference_optimize("m")


@pytest.mark.parametrize("for_test", [False, True])
def test_the_inference_transpiler_of_old_scripts(tmp_path, for_test):
    """As v0.14's image classification uses it: on a clone of what load_inference_model gave, and then saved again."""
    from paddle.fluid.inference_transpiler import InferenceTranspiler

    assert fluid.InferenceTranspiler is InferenceTranspiler is fluid.transpiler.InferenceTranspiler
    place = fluid.CPUPlace()
    exe = fluid.Executor(place)
    image = np.random.RandomState(3).rand(4, 2, 5, 5).astype("float32")
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        x = fluid.layers.data("x", [2, 5, 5])
        y = fluid.layers.dropout(fluid.layers.batch_norm(fluid.layers.conv2d(x, 3, 3)), 0.5)
        exe.run(fluid.default_startup_program())
        exe.run(feed={"x": image}, fetch_list=[y])
        expected, = exe.run(fluid.default_main_program().clone(for_test=True), feed={"x": image}, fetch_list=[y])
        program = fluid.default_main_program().clone(for_test=for_test)
        fluid.InferenceTranspiler().transpile(program, place)
        for _ in range(2):
            np.testing.assert_array_equal(exe.run(program, feed={"x": image}, fetch_list=[y])[0], expected)
        fluid.io.save_inference_model(str(tmp_path), ["x"], [program.global_block().var(y.name)], exe, program)
    with fluid.scope_guard(fluid.Scope()):
        loaded, _, fetches = fluid.io.load_inference_model(str(tmp_path), exe)
        transpiled = loaded.clone()
        fluid.InferenceTranspiler().transpile(transpiled, place, fluid.global_scope())
        for each in (loaded, transpiled):
            np.testing.assert_array_equal(exe.run(each, feed={"x": image}, fetch_list=fetches)[0], expected)
    with pytest.raises(TypeError, match="program must be a Program, not 'x'"):
        fluid.InferenceTranspiler().transpile("x", place)
