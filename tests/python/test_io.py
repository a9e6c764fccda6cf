"""Saving and loading: variables, inference models, fluid.save and load, and files that are damaged."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.fluid import core


class Net:
    """Two fc layers trained one step with Adam, in Programs and a scope of their own."""

    def __init__(self, train: bool = True):
        self.main, self.startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            self.x = fluid.layers.data(name="x", shape=[4], dtype="float32")
            self.y = fluid.layers.data(name="y", shape=[1], dtype="float32")
            self.predict = fluid.layers.fc(fluid.layers.fc(self.x, 3, act="relu"), 1)
            self.loss = fluid.layers.mean(fluid.layers.square_error_cost(self.predict, self.y))
            fluid.optimizer.Adam(0.01).minimize(self.loss)
        self.exe = fluid.Executor(fluid.CPUPlace())
        self.value = np.random.RandomState(1).rand(6, 4).astype("float32")
        if train:
            with fluid.scope_guard(self.scope):
                self.exe.run(self.startup)
                feed = {"x": self.value, "y": self.value[:, :1]}
                self.exe.run(self.main, feed=feed, fetch_list=[self.loss])

    def values(self) -> dict:
        return {
            name: np.array(self.scope.find_var(name).get_tensor())
            for name in (var.name for var in fluid.io.get_program_persistable_vars(self.main))
        }

    def answers(self):
        test = self.main.clone(for_test=True)._prune([self.predict])
        return self.exe.run(test, feed={"x": self.value}, fetch_list=[self.predict.name], scope=self.scope)[0]

    def same_as(self, other) -> bool:
        mine, theirs = self.values(), other.values()
        return mine.keys() == theirs.keys() and all(np.array_equal(mine[name], theirs[name]) for name in mine)


@pytest.fixture
def net():
    return Net()


@pytest.fixture
def fresh():
    return Net(train=False)


@pytest.mark.parametrize("filename", [None, "all"])
def test_persistables(net, fresh, tmp_path, filename):
    with fluid.scope_guard(net.scope):
        fluid.io.save_persistables(net.exe, str(tmp_path / "model"), net.main, filename)
    names = sorted(os.listdir(tmp_path / "model"))
    assert names == ([filename] if filename else sorted(net.values()))
    with fluid.scope_guard(fresh.scope):
        fluid.io.load_persistables(fresh.exe, str(tmp_path / "model"), fresh.main, filename)
    assert fresh.same_as(net) and np.array_equal(fresh.answers(), net.answers())


def test_params_and_chosen_vars(net, fresh, tmp_path):
    folder = str(tmp_path)
    with fluid.scope_guard(net.scope):
        fluid.io.save_params(net.exe, folder, net.main)
        assert sorted(os.listdir(folder)) == ["fc_0.b_0", "fc_0.w_0", "fc_1.b_0", "fc_1.w_0"]
        fluid.io.save_vars(net.exe, folder, net.main, vars=["learning_rate_0"])
        fluid.io.save_vars(
            net.exe, folder, net.main, predicate=lambda var: "moment1" in var.name, filename="moments"
        )
    with fluid.scope_guard(fresh.scope):
        fluid.io.load_params(fresh.exe, folder, fresh.main)
        assert np.array_equal(
            np.array(fresh.scope.find_var("fc_0.w_0").get_tensor()), net.values()["fc_0.w_0"]
        )
    assert fresh.scope.find_var("fc_0.w_0_moment1_0") is None
    value = fluid.io.get_parameter_value_by_name
    with fluid.scope_guard(net.scope):
        assert np.array_equal(value("fc_0.w_0", net.exe, net.main), net.values()["fc_0.w_0"])


def test_in_memory(net, fresh):
    with fluid.scope_guard(net.scope):
        data = fluid.io.save_persistables(net.exe, None, net.main)
    with fluid.scope_guard(fresh.scope):
        fluid.io.load_persistables(fresh.exe, None, fresh.main, filename=data)
    assert fresh.same_as(net)
    with fluid.scope_guard(fresh.scope), pytest.raises(core.EnforceNotMet):
        fluid.io.load_persistables(fresh.exe, None, fresh.main, filename=data[:-1])


@pytest.mark.parametrize("files", [(None, None), ("model", "params")])
def test_inference_model(net, tmp_path, files):
    folder = str(tmp_path / "model")
    before = len(net.main.global_block().ops)
    with fluid.scope_guard(net.scope):
        names = fluid.io.save_inference_model(folder, ["x"], [net.predict], net.exe, net.main, *files)
    assert len(net.main.global_block().ops) == before
    assert len(names) == 1 and names[0].startswith("save_infer_model/scale_0")
    scope = fluid.Scope()
    with fluid.scope_guard(scope):
        program, feeds, fetches = fluid.io.load_inference_model(folder, net.exe, *files)
        assert feeds == ["x"] and [var.name for var in fetches] == names
        types = [op.type for op in program.global_block().ops]
        assert types[0] == "feed" and types[-1] == "fetch" and "adam" not in types
        (found,) = net.exe.run(program, feed={"x": net.value}, fetch_list=fetches)
        with pytest.raises(core.EnforceNotMet, match="'x'"):
            net.exe.run(program, fetch_list=fetches)
    assert np.array_equal(found, net.answers())


def test_save_and_load(net, fresh, tmp_path):
    path = str(tmp_path / "deep" / "net")
    with fluid.scope_guard(net.scope):
        fluid.save(net.main, path)
    assert sorted(os.listdir(tmp_path / "deep")) == ["net.pdmodel", "net.pdopt", "net.pdparams"]
    with fluid.scope_guard(fresh.scope):
        fluid.load(fresh.main, path, fresh.exe)
    assert fresh.same_as(net)
    state = fluid.load_program_state(path)
    assert state.keys() == net.values().keys()
    other = Net()
    with fluid.scope_guard(other.scope):
        fluid.set_program_state(other.main, state)
    assert other.same_as(net)
    # numpy of that time must find its own names in the file
    assert b"numpy._core" not in (tmp_path / "deep" / "net.pdparams").read_bytes()


def test_load_older_files(net, fresh, tmp_path):
    with fluid.scope_guard(net.scope):
        fluid.io.save_persistables(net.exe, str(tmp_path / "many"), net.main)
        fluid.io.save_persistables(net.exe, str(tmp_path), net.main, "one")
    with fluid.scope_guard(fresh.scope):
        fluid.load(fresh.main, str(tmp_path / "many"), fresh.exe)
    assert fresh.same_as(net)
    again = Net(train=False)
    with fluid.scope_guard(again.scope):
        chosen = fluid.io.get_program_persistable_vars(again.main)
        fluid.load(again.main, str(tmp_path / "one"), again.exe, var_list=chosen)
        with pytest.raises(ValueError, match="var_list"):
            fluid.load(again.main, str(tmp_path / "one"), again.exe)
    assert again.same_as(net)
    assert fluid.load_program_state(str(tmp_path / "many")).keys() == net.values().keys()


# ---- what goes wrong ----


def test_nothing_to_load(fresh, tmp_path):
    with fluid.scope_guard(fresh.scope):
        with pytest.raises(OSError, match="fc_0.w_0"):
            fluid.io.load_params(fresh.exe, str(tmp_path), fresh.main)
        with pytest.raises(ValueError, match="nowhere"):
            fluid.io.load_inference_model(str(tmp_path / "nowhere"), fresh.exe)
        with pytest.raises(OSError, match="__model__"):
            fluid.io.load_inference_model(str(tmp_path), fresh.exe)
        with pytest.raises(OSError, match="net"):
            fluid.load(fresh.main, str(tmp_path / "net"))
        with pytest.raises(OSError, match="net"):
            fluid.load_program_state(str(tmp_path / "net"))


def test_what_is_there_instead(fresh, tmp_path, monkeypatch):
    (tmp_path / "models" / "epoch_1").mkdir(parents=True)
    (tmp_path / "models" / "epoch_1" / "state.pdparams").touch()
    here, whole = f"the working directory '{tmp_path}'", f"{tmp_path}/models"
    monkeypatch.chdir(tmp_path)
    said = {
        "models/epoch_1/net": f"'models/epoch_1' in {here} has 'state.pdparams'.",
        "models/epoch_0/state": f"'models' in {here} has 'epoch_1'. Did you mean 'epoch_1'?",
        "model/state": f"T{here[1:]} has 'models'. Did you mean 'models'?",
        f"{whole}/epoch_0/state": f"'{whole}' has 'epoch_1'. Did you mean 'epoch_1'?",
    }
    for path, words in said.items():
        for load in (lambda p: fluid.load(fresh.main, p), fluid.load_program_state):
            with pytest.raises(OSError) as raised:
                load(path)
            assert str(raised.value) == f"There is neither '{path}.pdparams' nor '{path}'. {words}"


@pytest.mark.parametrize("state", [False, True], ids=["fluid.load", "set_program_state"])
@pytest.mark.parametrize("batches", [(0, 0), (0, 2), (2, 0), (2, 2)])
def test_counters_before_and_after_their_first_batch(tmp_path, batches, state):
    """Those of auc(slide_steps=0) have one number more until then, as in 1.8.5. Shapes of parameters and states are compared."""
    main, startup, exe, path = fluid.Program(), fluid.Program(), fluid.Executor(fluid.CPUPlace()), str(tmp_path / "m")
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, y = fluid.layers.data("x", [4]), fluid.layers.data("y", [1], dtype="int64")
        predict = fluid.layers.fc(x, 2, act="softmax")
        area, _, counters = fluid.layers.auc(predict, y, slide_steps=0)
        fluid.optimizer.Adam(0.1).minimize(fluid.layers.mean(fluid.layers.cross_entropy(predict, y)))
    feed = {"x": np.random.RandomState(1).rand(6, 4).astype("float32"), "y": np.arange(6).reshape(6, 1) % 2}

    def value(name: str):
        return np.array(fluid.global_scope().find_var(name).get_tensor())

    def begin(batches: int):
        exe.run(startup)
        for _ in range(batches):
            exe.run(main, feed=feed, fetch_list=[area])

    with fluid.scope_guard(fluid.Scope()):
        begin(batches[0])
        fluid.save(main, path)
        saved = {var.name: value(var.name) for var in counters}
        assert saved[counters[0].name].shape == ((1, 4096) if batches[0] else (4097,))
        wanted = exe.run(main, feed=feed, fetch_list=[area])[0]
    with fluid.scope_guard(fluid.Scope()):
        begin(batches[1])
        if state:
            fluid.set_program_state(main, fluid.load_program_state(path))
        else:
            fluid.load(main, path)
        assert all(np.array_equal(value(name), whole) for name, whole in saved.items())
        assert exe.run(main, feed=feed, fetch_list=[area])[0] == wanted
        moment = next(var.name for var in main.list_vars() if "moment1" in var.name)
        whole = fluid.load_program_state(path)
        whole[moment] = whole[moment][:1]
        with pytest.raises(core.ShapeError, match=moment):
            fluid.set_program_state(main, whole)
        with open(path + ".pdopt", "wb") as file:
            pickle.dump(whole, file, protocol=2)
        with pytest.raises(core.ShapeError, match=moment):
            fluid.load(main, path)


def test_values_that_are_not_there(fresh, tmp_path):
    with fluid.scope_guard(fresh.scope):
        with pytest.raises(core.EnforceNotMet, match="fc_0"):
            fluid.io.save_params(fresh.exe, str(tmp_path), fresh.main)
        with pytest.raises(core.EnforceNotMet, match="fc_0"):
            fluid.save(fresh.main, str(tmp_path / "net"))


def test_unwritable_folder(net, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with fluid.scope_guard(net.scope):
        for save in (
            lambda folder: fluid.io.save_params(net.exe, folder, net.main),
            lambda folder: fluid.io.save_params(net.exe, folder, net.main, "all"),
            lambda folder: fluid.io.save_inference_model(folder, ["x"], [net.predict], net.exe, net.main),
            lambda folder: fluid.save(net.main, folder + "/net"),
        ):
            with pytest.raises(OSError, match="file"):
                save(str(tmp_path / "file" / "model"))
    assert net.answers().shape == (6, 1)


@pytest.mark.parametrize("filename", [None, "all"])
@pytest.mark.parametrize("damage", ["truncated", "empty", "foreign", "version", "longer"])
def test_damaged_parameter_files(net, tmp_path, filename, damage):
    folder = str(tmp_path)
    with fluid.scope_guard(net.scope):
        fluid.io.save_params(net.exe, folder, net.main, filename)
        before = net.answers()
        path = os.path.join(folder, filename or "fc_0.w_0")
        with open(path, "rb") as file:
            data = file.read()
        damaged = {
            "truncated": data[:-3],
            "empty": b"",
            "foreign": b"\x89PNG\r\n" + data,
            "version": b"\x07\x00\x00\x00" + data[4:],
            "longer": data + b"more",
        }[damage]
        with open(path, "wb") as file:
            file.write(damaged)
        if damage == "longer" and filename is None:
            return  # what follows the tensor is not read
        with pytest.raises(core.EnforceNotMet, match=os.path.basename(path)):
            fluid.io.load_params(net.exe, folder, net.main, filename)
    assert net.answers().shape == before.shape


@pytest.mark.parametrize("damage", ["truncated", "empty", "foreign"])
def test_damaged_models(net, tmp_path, damage):
    folder = str(tmp_path)
    with fluid.scope_guard(net.scope):
        fluid.io.save_inference_model(folder, ["x"], [net.predict], net.exe, net.main)
        path = os.path.join(folder, "__model__")
        with open(path, "rb") as file:
            data = file.read()
        with open(path, "wb") as file:
            file.write(
                {"truncated": data[: len(data) // 2], "empty": b"", "foreign": b"\x89PNG" + data}[damage]
            )
        with pytest.raises(core.EnforceNotMet, match="__model__"):
            fluid.io.load_inference_model(folder, net.exe)


def test_wrong_shapes(net, tmp_path):
    folder = str(tmp_path)
    with fluid.scope_guard(net.scope):
        fluid.io.save_params(net.exe, folder, net.main)
        fluid.save(net.main, folder + "/net")
    other, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(other, startup), fluid.unique_name.guard():
        fluid.layers.fc(fluid.layers.data("x", [5], dtype="float32"), 3)
    with fluid.scope_guard(fluid.Scope()):
        with pytest.raises(core.EnforceNotMet, match=r"\[4, 3\], the variable has shape \[5, 3\].*fc_0.w_0"):
            fluid.io.load_params(net.exe, folder, other)
        with pytest.raises(core.EnforceNotMet, match=r"fc_0.w_0.*\(5, 3\).*\(4, 3\)"):
            fluid.load(other, folder + "/net")


def test_pickles_hold_arrays_only(net, tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    (tmp_path / "net.pdparams").write_bytes(pickle.dumps({"fc_0.w_0": Trap()}))
    with pytest.raises(core.EnforceNotMet, match="mkdir"):
        fluid.load_program_state(str(tmp_path / "net"))
    assert not (tmp_path / "sprung").exists()
    (tmp_path / "net.pdparams").write_bytes(b"no pickle")
    with pytest.raises(core.EnforceNotMet, match="net.pdparams"):
        fluid.load_program_state(str(tmp_path / "net"))


def test_wrong_arguments(net, tmp_path):
    with pytest.raises(ValueError, match="feeded_var_names"):
        fluid.io.save_inference_model(str(tmp_path), [net.x], [net.predict], net.exe, net.main)
    with pytest.raises(ValueError, match="target_vars"):
        fluid.io.save_inference_model(str(tmp_path), ["x"], ["predict"], net.exe, net.main)
    with pytest.raises(ValueError, match="feeded_var_names has 'nobody', which the Program has not. It declares the data x, y."):
        fluid.io.save_inference_model(str(tmp_path), ["nobody"], [net.predict], net.exe, net.main)
    with pytest.raises(TypeError, match="main_program"):
        fluid.io.save_params(net.exe, str(tmp_path), "main")
    with pytest.raises(TypeError, match="vars"):
        fluid.io.save_vars(net.exe, str(tmp_path), net.main, vars=[3])


def test_several_writers_of_one_file(tmp_path):
    """Each file is written aside under a name of its own: threads, and processes of several machines with one number."""
    programs = []
    for i in range(4):
        programs.append(fluid.Program())
        with fluid.program_guard(programs[i], fluid.Program()):
            x = fluid.layers.fill_constant([1 << 18], "float32", i)
            programs[i].global_block().append_op("save", {"X": [x]}, {}, {"file_path": str(tmp_path / "tensor")})

    def write(i):
        exe = fluid.Executor(fluid.CPUPlace())
        for _ in range(20):
            exe.run(programs[i], scope=fluid.Scope())
            fluid.io._write(str(tmp_path / "bytes"), bytes([i]) * (1 << 20))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert sorted(os.listdir(tmp_path)) == ["bytes", "tensor"]
    assert len(set((tmp_path / "bytes").read_bytes())) == 1
    assert len(set(np.frombuffer((tmp_path / "tensor").read_bytes()[-(1 << 20) :], "float32"))) == 1


@pytest.mark.parametrize("filename", [None, "all"], ids=["files", "one file"])
def test_what_is_loaded_is_compared_with_what_is_declared(tmp_path, filename):
    """Not with what happens to be in the scope: a memory of the last batch has any number of rows."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()):
        bank = fluid.layers.create_global_var([2, 3], 1.0, "float32", persistable=True, name="bank")
        fluid.layers.assign(fluid.data("x", [-1, 3], "float32"), output=bank)
        exe, tensor = fluid.Executor(fluid.CPUPlace()), lambda: fluid.global_scope().find_var("bank").get_tensor()
        exe.run(fluid.default_startup_program())
        exe.run(feed={"x": np.ones((7, 3), "float32")})
        fluid.io.save_persistables(exe, str(tmp_path), filename=filename)
        exe.run(fluid.default_startup_program())
        fluid.io.load_persistables(exe, str(tmp_path), filename=filename)
        assert np.array(tensor()).shape == (7, 3)
        tensor().set(np.zeros((2, 3), "float64"), fluid.CPUPlace())
        fluid.io.load_persistables(exe, str(tmp_path), filename=filename)
        assert np.array(tensor()).dtype == np.float32
        tensor().set(np.zeros((7, 4), "float32"), fluid.CPUPlace())
        fluid.io.save_persistables(exe, str(tmp_path), filename=filename)
        with pytest.raises(fluid.core.EnforceNotMet, match=r"the file holds shape \[7, 4\], the variable has shape \[-1, 3\]"):
            fluid.io.load_persistables(exe, str(tmp_path), filename=filename)


def test_variables_without_elements(tmp_path):
    """In the one file of fluid.save, as old pickles have them, too."""
    main = fluid.Program()
    main.global_block().create_var(name="none", shape=[0, 4], dtype="float32", persistable=True)
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        fluid.global_scope().var("none").get_tensor().set(np.zeros((0, 4), "float32"), fluid.CPUPlace())
        fluid.save(main, str(tmp_path / "m"))
        fluid.load(main, str(tmp_path / "m"), exe)
        assert np.array(fluid.global_scope().find_var("none").get_tensor()).shape == (0, 4)
    assert fluid.io.load_program_state(str(tmp_path / "m"))["none"].shape == (0, 4)


@pytest.mark.parametrize("bad", [b"xx\xffx", b"xx\xc3x", b"\xed\xa0\x80x", b"xxx\xc3", b"\xf4\x90\x80\x80"])
def test_names_of_a_model_file_that_are_no_text(bad):
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        fluid.layers.relu(fluid.data("xxxx", [None, 2], "float32"))
    whole = main.desc.serialize_to_string()
    with pytest.raises(fluid.core.FormatError, match="a name that is no UTF-8 at its byte"):
        fluid.Program.parse_from_string(whole.replace(b"xxxx", bad))
    again = fluid.Program.parse_from_string(whole.replace(b"xxxx", "äö".encode()))
    assert again.global_block().ops[0].input("X") == ["äö"]
