"""Saving variables as a file each: names that lead to one file, out of the folder, over the model, or are as long as a file's may
be."""

import os
import resource

import numpy as np
import pytest
from cluster import Job

import paddle.fluid as fluid
from paddle.fluid import core


class Net:
    """Parameters of these names, one after the other, in a scope of their own."""

    def __init__(self, *names: str):
        self.main, self.startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            self.x = x = fluid.layers.data("x", [4])
            for name in names:
                x = fluid.layers.fc(x, 4, param_attr=fluid.ParamAttr(name=name), bias_attr=False)
            self.out = x
        self.exe = fluid.Executor(fluid.CPUPlace())
        with fluid.scope_guard(self.scope):
            self.exe.run(self.startup)

    def values(self) -> list:
        return [np.array(self.scope.find_var(var.name).get_tensor()) for var in self.main.all_parameters()]

    def model(self, folder: str, *files, **how):
        return fluid.io.save_inference_model(folder, ["x"], [self.out], self.exe, self.main, *files, **how)

    def checkpoint(self, folder: str, **how):
        return fluid.io.save_checkpoint(self.exe, folder, 3, 0, self.main, **how)


SAVES = {
    "save_vars": lambda net, folder: fluid.io.save_vars(net.exe, folder, net.main, vars=net.main.all_parameters()),
    "save_params": lambda net, folder: fluid.io.save_params(net.exe, folder, net.main),
    "save_persistables": lambda net, folder: fluid.io.save_persistables(net.exe, folder, net.main),
    "save_inference_model": lambda net, folder: net.model(folder),
    "save_checkpoint": lambda net, folder: net.checkpoint(folder),
    "save_checkpoint of a trainer": lambda net, folder: net.checkpoint(folder, trainer_id=0, trainer_args={"epoch_id": 1}),
}
ALL_SAVES = pytest.mark.parametrize("save", SAVES.values(), ids=SAVES)
ODD_NAMES = [
    (["w", "./w"], r"'w' and './w'.*same file '.*/w'"),
    (["a//b", "a/b"], r"'a//b' and 'a/b'.*same file '.*/a/b'"),
    (["a/../w", "w"], r"'a/../w' and 'w'.*same file '.*/w'"),
    (["a", "a/b"], r"'a' would be the file '.*/a', and 'a/b' needs a folder"),
    (["a/b/c", "./a"], r"'./a' would be the file '.*/a', and 'a/b/c' needs a folder"),
    (["a", "a/../w"], r"'a' would be the file '.*/a', and 'a/../w' needs a folder"),
    (["../w"], r"'../w' would be written to '.*/w', which is not in the folder '.*/deep/model"),
    (["a/../../w"], r"'a/../../w'.*not in the folder"),
    (["/no_such_folder/w"], r"'/no_such_folder/w'.*not in the folder"),
    (["w/"], r"'w/'.*/w/' is the path of a folder"),
    (["a/."], r"'a/.'.*/a/.' is the path of a folder"),
    (["w" * 256], r"'w+\.\.\.' has a name of 256 bytes.*255"),
    (["é" * 128], r"'é+\.\.\.' has a name of 256 bytes.*255"),
    (["a/" * 2100 + "w"], r"'a/a/.*\.\.\.'.*path of \d{4} bytes"),
]


def files(folder) -> list:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@ALL_SAVES
@pytest.mark.parametrize("names, said", ODD_NAMES, ids=lambda value: "+".join(value)[:20] if isinstance(value, list) else "")
def test_names_without_a_file_of_their_own(tmp_path, names, said, save):
    net = Net(*names)
    with fluid.scope_guard(net.scope), pytest.raises(core.InvalidArgumentError, match=said) as caught:
        save(net, str(tmp_path / "deep" / "model"))
    assert "ParamAttr" in str(caught.value) and "_generated" not in str(caught.value)
    assert files(tmp_path) == [] and not os.path.exists("/no_such_folder")


def test_what_is_said_of_one_file_for_all_fits_the_call(tmp_path):
    net = Net("w", "./w")
    with fluid.scope_guard(net.scope):
        for save, said in ((SAVES["save_params"], r"\(filename=...\)"),
                           (SAVES["save_inference_model"], r"\(params_filename=...\)")):
            with pytest.raises(core.InvalidArgumentError, match=said):
                save(net, str(tmp_path))
        with pytest.raises(core.InvalidArgumentError) as caught:
            net.checkpoint(str(tmp_path))
    assert "filename" not in str(caught.value)


@pytest.mark.parametrize("names", [names for names, _ in ODD_NAMES], ids=lambda names: "+".join(names)[:20])
def test_one_file_holds_variables_of_any_name(tmp_path, names):
    net = Net(*names)
    want = net.values()
    with fluid.scope_guard(net.scope):
        fluid.io.save_params(net.exe, str(tmp_path), net.main, "all")
        net.model(str(tmp_path / "model"), None, "all")
        net.exe.run(net.startup)
        fluid.io.load_params(net.exe, str(tmp_path), net.main, "all")
    np.testing.assert_array_equal(net.values(), want)
    assert files(tmp_path) == ["all", "model", "model/__model__", "model/all"]
    with fluid.scope_guard(net.scope):
        assert fluid.io.save_params(net.exe, None, net.main) == (tmp_path / "all").read_bytes()


@ALL_SAVES
def test_odd_names_that_have_files_of_their_own(tmp_path, save):
    """Folders, dots, and names of one start."""
    net = Net("a/b", "a/c", "ab", "a./b", "..w", "...", "x/../w", ".hidden")
    with fluid.scope_guard(net.scope):
        save(net, str(tmp_path))
    found = [name for name in files(tmp_path) if os.path.basename(name) in ("b", "c", "ab", "..w", "...", "w", ".hidden")]
    assert len(found) == 8


# ---- files of other things ----


@pytest.mark.parametrize("name", ["{}", "./{}", "{}/w"])
@pytest.mark.parametrize("file, how", [(None, {}), ("model", {}), (None, {"export_for_deployment": False})])
def test_a_variable_over_the_model(tmp_path, name, file, how):
    taken = (file or "__model__") + (".main_program" if how else "")
    net = Net("v", name.format(taken))
    with fluid.scope_guard(net.scope):
        with pytest.raises(core.InvalidArgumentError, match=f"'{name.format(taken)}'.*{taken}', which is the file of the Program"):
            net.model(str(tmp_path / "model"), file, **how)
        assert files(tmp_path) == []
        net.model(str(tmp_path / "model"), file, "params", **how)
        net.model(str(tmp_path / "alone"), file, program_only=True, **how)
    assert files(tmp_path) == ["alone", f"alone/{taken}", "model", f"model/{taken}", "model/params"]


@pytest.mark.parametrize("given", [("one", "one"), (None, "__model__"), ("one", "sub/one")])
def test_the_parameters_over_the_model(tmp_path, given):
    net = Net("w")
    with fluid.scope_guard(net.scope):
        with pytest.raises(core.InvalidArgumentError,
                           match=f"params_filename is '{os.path.basename(given[1])}'.*the Program.*another"):
            net.model(str(tmp_path / "model"), *given)
        assert files(tmp_path) == []
        net.model(str(tmp_path / "model"), *given, program_only=True)
    assert files(tmp_path) == ["model", f"model/{os.path.basename(given[1])}"]


@pytest.mark.parametrize("how", [{}, {"trainer_id": 0, "trainer_args": {"epoch_id": 1}}], ids=["v0.13", "v0.14"])
@pytest.mark.parametrize("name", ["_SUCCESS", "a/../_SUCCESS", "_SUCCESS/w"])
def test_a_variable_over_the_mark_of_a_checkpoint(tmp_path, name, how):
    net = Net(name)
    with fluid.scope_guard(net.scope):
        with pytest.raises(core.InvalidArgumentError, match=f"'{name}'.*_SUCCESS', which is the mark"):
            net.checkpoint(str(tmp_path), **how)
        assert files(tmp_path) == []
        with pytest.raises(core.InvalidArgumentError, match="which is the mark"):
            fluid.io.save_persist_vars_without_grad(net.exe, str(tmp_path / "one"), net.main)
        assert files(tmp_path) == []


def test_a_variable_in_place_of_the_mark_of_another_layout(tmp_path):
    net = Net("__model__/_SUCCESS")
    with fluid.scope_guard(net.scope), pytest.raises(core.InvalidArgumentError, match="which is the mark"):
        net.checkpoint(str(tmp_path))
    assert files(tmp_path) == []


@pytest.mark.parametrize("how", [{}, {"trainer_id": 0, "trainer_args": {"epoch_id": 1}}], ids=["v0.13", "v0.14"])
@pytest.mark.parametrize("name", ["__model__", "__model__/w", "trainer_0/epoch_id"])
def test_checkpoints_of_variables_named_like_their_folders(tmp_path, name, how):
    net = Net(name)
    want = net.values()
    with fluid.scope_guard(net.scope):
        net.checkpoint(str(tmp_path), **how)
        net.exe.run(net.startup)
        assert not np.array_equal(net.values(), want)
        fluid.io.load_checkpoint(net.exe, str(tmp_path), main_program=net.main)
    np.testing.assert_array_equal(net.values(), want)


@pytest.mark.parametrize("name", ["_SUCCESS", "a/b", "..", ""])
def test_trainer_args_that_are_no_files_of_their_own(tmp_path, name):
    net = Net("w")
    with fluid.scope_guard(net.scope), pytest.raises(ValueError, match=f"trainer_args.*'{name}'"):
        net.checkpoint(str(tmp_path), trainer_id=0, trainer_args={"epoch_id": 1, name: 2})
    assert files(tmp_path) == []


# ---- long names ----


@ALL_SAVES
@pytest.mark.parametrize("name", ["w" * 255, "w" * 240, "é" * 127 + "w", "w" + "é" * 127, "a" * 255 + "/" + "b" * 255], ids=len)
def test_names_as_long_as_files_may_have(tmp_path, name, save):
    net = Net(name, "v")
    want = net.values()
    with fluid.scope_guard(net.scope):
        save(net, str(tmp_path))
        (found,) = [str(path.parent) for path in tmp_path.rglob("v")]
        assert sorted(set(files(tmp_path)) & {"v", name}) in ([name, "v"], ["v", name], [])
        net.exe.run(net.startup)
        fluid.io.load_params(net.exe, found, net.main)
    np.testing.assert_array_equal(net.values(), want)
    assert not [name for name in files(tmp_path) if ".tmp." in name or name.endswith(".part")]


def test_long_names_of_other_files(tmp_path):
    net, long = Net("w"), "m" * 255
    with fluid.scope_guard(net.scope):
        net.model(str(tmp_path / "model"), long, "p" * 255)
        program, *_ = fluid.io.load_inference_model(str(tmp_path / "model"), net.exe, long, "p" * 255)
        fluid.save(net.main, str(tmp_path / ("s" * 246)))
    assert files(tmp_path / "model") == [long, "p" * 255] and program.global_block().has_var("w")
    assert sorted(map(len, os.listdir(tmp_path))) == [5, 252, 254, 255]


# ---- jobs with servers ----


@pytest.mark.parametrize(
    "names, said", [(["w", "./w"], "same file"), (["../w"], "not in the folder"),
                    (["w", "__lookup_table__/w"], "parts of the table")]
)
@pytest.mark.parametrize("save", ["save_persistables", "save_checkpoint", "save_checkpoint of a trainer"])
def test_trainers_refuse_before_they_ask_servers(tmp_path, save, names, said):
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        word = fluid.layers.data("word", [1], dtype="int64")
        x = fluid.layers.embedding(word, [10, 4], is_sparse=True, is_distributed=True, param_attr=fluid.ParamAttr(name="table"))
        for name in names:
            x = fluid.layers.fc(x, 4, param_attr=fluid.ParamAttr(name=name), bias_attr=False)
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(x))
    t = fluid.DistributeTranspiler()
    t.transpile(0, program=main, startup_program=startup, pservers="127.0.0.1:1,127.0.0.1:2", trainers=1)
    net = Net()
    net.main = t.get_trainer_program(wait_port=False)
    with fluid.scope_guard(net.scope), pytest.raises(core.InvalidArgumentError, match=said):
        SAVES[save](net, str(tmp_path / "out"))
    assert files(tmp_path) == []


# ---- a disk that is full ----


@pytest.mark.parametrize("filename", ["all", None])
def test_a_full_disk_in_one_process(tmp_path, filename):
    net = Net("w", "v")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, before[1]))
    try:
        with fluid.scope_guard(net.scope), pytest.raises(core.FileError) as caught:
            fluid.io.save_params(net.exe, str(tmp_path), net.main, filename)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert str(tmp_path / (filename or "w")) in str(caught.value) and "X=" in str(caught.value)
    assert files(tmp_path) == []


@pytest.mark.parametrize("model, name, room", [("word2vec_sparse", "emb", 20000), ("table", "table", 100000)])
@pytest.mark.parametrize("how", ["--save", "--save-params"])
def test_a_full_disk_of_a_trainer_names_what_was_to_be_saved(tmp_path, model, name, room, how):
    """What lies on servers is put together for the one file; the message has the names that it is saved under."""
    with Job(2, 1, "saving.py") as job:
        options = ["--model", model, how, str(tmp_path / "out"), "--filename", "all"]
        for i in range(2):
            job.start("server", i, *options)
        trainer = job.start("trainer", 0, *options)
        resource.prlimit(trainer.pid, resource.RLIMIT_FSIZE, (room, room))
        assert trainer.end() == 1
        said = trainer.output()
    assert str(tmp_path / "out" / "all") in said and "File too large" in said, said
    assert f"(variable '{name}')" in said and "_generated" not in said and "(slice" not in said and "(part" not in said, said
    assert files(tmp_path / "out") == []
