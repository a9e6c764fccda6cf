"""data_generator, and the tools of fleet.utils."""

import io
import os
import shutil
import stat
import sys
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

import paddle.fluid as fluid
from paddle.distributed.fs_wrapper import BDFS, FS
from paddle.distributed.fs_wrapper import LocalFS as LocalFiles
from paddle.fluid.incubate import data_generator as dg
from paddle.fluid.incubate.fleet.base import role_maker
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.incubate.fleet.utils import fleet_barrier_util, hdfs, utils
from paddle.fluid.incubate.fleet.utils.fleet_util import FleetUtil
from paddle.fluid.incubate.fleet.utils.fs import LocalFS


def generator(base, samples, batch=None):
    class Mine(base):
        def generate_sample(self, line):
            return lambda: iter(samples if line is None else [[("words", [int(word) for word in line.split()])]])

    found = Mine()
    if batch:
        found.set_batch(batch)
    return found


@pytest.mark.parametrize("base, samples, wanted", [
    (dg.MultiSlotDataGenerator, [[("words", [1926, 8, 17]), ("label", [1])], (("words", [0.5, 3]), ("label", [0]))],
     "3 1926 8 17 1 1\n2 0.5 3 1 0\n"),
    (dg.MultiSlotDataGenerator, [None, [("x", [True])], None], "1 True\n"),
    (dg.MultiSlotDataGenerator, [[("x", [1e-07, 1e16, 123456789012345678901])]], "3 1e-07 1e+16 123456789012345678901\n"),
    (dg.MultiSlotStringDataGenerator, [[("words", ["1926", "08"]), ("label", ["1"])], [("words", []), ("label", ["x"])]],
     "2 1926 08 1 1\n0 1 x\n"),
    # Lists in Python 2, for which most public scripts were written.
    (dg.MultiSlotDataGenerator, [zip(["a", "b"], [[1], [0.5, 2]]), [("a", map(int, ["3"])), ("b", filter(None, [0, 4]))]],
     "1 1 2 0.5 2\n1 3 1 4\n"),
    (dg.MultiSlotStringDataGenerator, [zip(["a", "b"], [["1"], ["2", "3"]])], "1 1 2 2 3\n"),
])
def test_text_of_samples(capsys, base, samples, wanted):
    generator(base, samples).run_from_memory()
    assert capsys.readouterr().out == wanted


def test_from_stdin_in_batches(monkeypatch, capsys):
    """Every sample once, however many make a batch; generate_batch sees them together."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{i} {i + 1}\n" for i in range(70))))
    made = generator(dg.MultiSlotDataGenerator, [], batch=32)
    sizes = []

    def padded(samples):
        sizes.append(len(samples))
        return lambda: iter([[("words", sample[0][1] + [0])] for sample in samples])

    made.generate_batch = padded
    made.run_from_stdin()
    assert capsys.readouterr().out == "".join(f"3 {i} {i + 1} 0\n" for i in range(70)) and sizes == [32, 32, 6]
    assert made._proto_info == [("words", "uint64")]


@pytest.mark.parametrize("bad, batch, note", [
    ("1 x", 2, "This was line 3 of the input: '1 x'"),
    ("y" + "1" * 900, 32, f"This was line 3 of the input: '{'y' + '1' * 199}'... (901 characters)"),
    ("", 1, "The batch of samples ends at line 3 of the input: ''"),
    ("", 2, "The batch of samples ends at line 4 of the input: '4'"),
])
def test_the_line_that_an_exception_is_about(monkeypatch, bad, batch, note):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"1\n2\n{bad}\n4\n5\n"))
    with pytest.raises(ValueError) as raised:
        generator(dg.MultiSlotDataGenerator, [], batch=batch).run_from_stdin()
    assert raised.value.__notes__ == [note]


def test_types_of_slots():
    made = dg.MultiSlotDataGenerator()
    made._gen_str([("a", [1]), ("b", [1.5, 2])])
    assert made._proto_info == [("a", "uint64"), ("b", "float")]
    made._gen_str([("a", [2.5]), ("b", [1])])
    assert made._proto_info == [("a", "float"), ("b", "float")]


@pytest.mark.parametrize("lines, said", [
    (["text"], "must be in list or tuple type, and what generate_sample yields is 'text'"),
    ([[(1, [1])]], "name<class 'int'> must be in str type"),
    ([[("a", (1,))]], "elements<class 'tuple'> must be in list type"),
    ([[("a", [])]], "can not be empty, you need padding it"),
    ([[("a", ["x"])]], "the type of element<class 'str'> must be in int or float"),
    ([[("a", [1])], [("a", [1]), ("b", [1])]], "the complete field set of two given line are inconsistent"),
    ([[("a", [1])], [("b", [1])]], "the field name of two given line are not match: require<a>, get<b>"),
])
def test_samples_that_are_wrong(lines, said):
    made = dg.MultiSlotDataGenerator()
    with pytest.raises(ValueError, match=said):
        for line in lines:
            made._gen_str(line)


def test_a_generator_without_methods():
    with pytest.raises(NotImplementedError, match="Please rewrite this function"):
        dg.MultiSlotDataGenerator().run_from_memory()
    with pytest.raises(NotImplementedError, match="pls use MultiSlotDataGenerator"):
        generator(dg.DataGenerator, [1]).run_from_memory()
    with pytest.raises(ValueError, match="line_limit can not less than 1"):
        dg.DataGenerator()._set_line_limit(0)


# ---- files ----

HADOOP = """#!/bin/sh
# hadoop fs -D... on a folder of this machine.
echo "$@" >>"$FAKE/calls"
[ "$1" = fs ] || exit 9
shift
while [ "${1#-D}" != "$1" ]; do shift; done
command=$1; shift
case $command in
-test) exec test "$1" "$FAKE/root$2" ;;
-mkdir) [ "$1" = -p ] && shift; mkdir -p "$FAKE/root$1" ;;
-put) [ -e "$FAKE/hangs" ] && exec sleep 100
    [ -e "$FAKE/lost" ] && [ "$(cat "$FAKE/lost")" = "$1" ] && exit 1
    cp -r "$1" "$FAKE/root$2" ;;
-get) [ -e "$FAKE/lost" ] && [ "$(cat "$FAKE/lost")" = "$1" ] && exit 1
    cp -r "$FAKE/root$1" "$2" ;;
-cat) cat "$FAKE/root$1" ;;
-rm | -rmr) rm -r "$FAKE/root$1" ;;
-mv) mv "$FAKE/root$1" "$FAKE/root$2" ;;
-ls) [ -e "$FAKE/broken" ] && { rm "$FAKE/broken"; echo no luck >&2; exit 1; }
    echo "Found some items"
    for f in "$FAKE/root$1"/*; do
        [ -d "$f" ] && kind=d || kind=-
        echo "${kind}rw-r--r--   3 me group 12 2020-03-18 21:47 $1/${f##*/}"
    done ;;
-lsr) cd "$FAKE/root"; find "${1#/}" -type f | sort | while read f; do
        case $f in *late*) day=19 ;; *) day=18 ;; esac
        echo "-rw-r--r-- 3 me group 1 2020-03-$day 21:47 /$f"
    done
    echo "drwxr-xr-x - me group 0 2020-03-18 21:47 /folder" ;;
*) exit 9 ;;
esac
"""


@pytest.fixture
def client(tmp_path, monkeypatch):
    command = tmp_path / "home" / "bin" / "hadoop"
    command.parent.mkdir(parents=True)
    command.write_text(HADOOP)
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "root").mkdir()
    monkeypatch.setenv("FAKE", str(tmp_path))
    monkeypatch.setattr(hdfs, "_PAUSE_SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)
    return hdfs.HDFSClient(str(tmp_path / "home"), {"fs.default.name": "hdfs://name:54310", "hadoop.job.ugi": "me,secret"})


def test_hdfs(client, tmp_path):
    """Paths with blanks and quotes are just paths."""
    (tmp_path / "data").mkdir()
    names = ["part 0", "part'1; echo x", "part-2"]
    for name in names:
        (tmp_path / "data" / name).write_text(f"{name}\n")
    assert client.makedirs("/user/me") and client.makedirs("/user/me") and client.is_dir("/user/me")
    client.upload("/user/me", str(tmp_path / "data"))
    wanted = sorted(f"/user/me/{name}" for name in names)
    assert sorted(client.ls("/user/me")) == wanted == sorted(client.lsr("/user")) and client.ls("/nowhere") == []
    assert client.lsr("/user", excludes=[wanted[0]]) == wanted[1:]
    assert client.cat("/user/me/part 0") == "part 0" and client.cat("/user/me") == ""
    assert client.is_file(wanted[0]) and not client.is_file("/user/me") and not client.is_exist("/x")
    assert client.rename("/user/me/part-2", "/user/me/last") and not client.rename("/user/me/last", "/user/me/part 0")
    assert client.rename("/user/me/last", "/user/me/part 0", overwrite=True) and client.cat("/user/me/part 0") == "part-2"
    found = client.download("/user/me", "here", multi_processes=2)
    assert sorted(map(os.path.basename, found)) == names[:2]
    assert client.upload_dir("/models", "data/") and client.is_file("/models/data/part-2")
    assert client.upload_dir("/models", "data", overwrite=True)
    assert client.delete("/models") and client.delete("/models") and not client.is_exist("/models")
    first = (tmp_path / "calls").read_text().splitlines()[0]
    assert first.startswith("fs -Dfs.default.name=hdfs://name:54310 -Dhadoop.job.ugi=me,secret -test")
    assert hdfs.HDFSClient.split_files([1, 2, 3], 0, 2) == [1, 2]


def test_hdfs_tries_again_and_tells_no_secret(client, tmp_path, monkeypatch):
    import logging

    told = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())
    monkeypatch.setattr(hdfs._logger, "handlers", [handler])
    client.makedirs("/user")
    (tmp_path / "root" / "user" / "a").touch()
    (tmp_path / "broken").touch()
    assert client.ls("/user") == ["/user/a"]
    assert len(told) == 1 and "-ls /user ended with 1: no luck It is tried again in 0 s." in told[0] and "secret" not in told[0]
    with pytest.raises(FileNotFoundError, match="cannot be run: .* Is hadoop_home right?"):
        hdfs.HDFSClient("/nowhere", {}).ls("/")


def test_hdfs_tells_what_was_not_copied(client, tmp_path):
    """A set of files that is not whole is no answer."""
    client.makedirs("/user")
    for name in "abc":
        (tmp_path / "root" / "user" / name).write_text(name)
    (tmp_path / "lost").write_text("/user/b")
    with pytest.raises(RuntimeError, match="HDFSClient.download: 1 of 3 files could not be copied: /user/b. The log has"):
        client.download("/user", str(tmp_path / "here"), retry_times=0)
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == ["a", "c"]
    (tmp_path / "lost").write_text(str(tmp_path / "here" / "c"))
    with pytest.raises(RuntimeError, match="HDFSClient.upload: 1 of 2 files could not be copied: .*/here/c. The log has"):
        client.upload("/user", str(tmp_path / "here"), retry_times=0)
    shutil.rmtree(tmp_path / "root" / "user")
    (tmp_path / "root" / "user").write_text("no folder")
    (tmp_path / "broken").touch()
    with pytest.raises(RuntimeError, match="HDFS: '/user' cannot be listed: `hadoop fs -ls` ended with 1"):
        client._list("-ls", "/user", 0)


@pytest.fixture
def older(client, tmp_path):
    """The client of fluid.contrib."""
    return fluid.contrib.utils.HDFSClient(str(tmp_path / "home"), {"fs.default.name": "hdfs://name:54310"})


def test_hdfs_of_contrib(older, tmp_path):
    """One file in a call, and each says whether it was copied."""
    assert fluid.contrib.HDFSClient is fluid.contrib.utils.HDFSClient and isinstance(older, hdfs.HDFSClient)
    (tmp_path / "late").write_text("1\n")
    (tmp_path / "part").write_text("2\n")
    assert older.upload("/user/me", "late") and older.upload("/user/me/more", str(tmp_path / "part"))
    assert older.cat("/user/me/late") == "1" and older.is_dir("/user/me/more")
    (tmp_path / "late").write_text("3\n")
    assert not older.upload("/user/me", "late") and older.cat("/user/me/late") == "1"
    assert older.upload("/user/me", "late", overwrite=True) and older.cat("/user/me/late") == "3"
    assert older.is_file("/user/me/more/part")  # what lies beside it stays
    with pytest.raises(FileNotFoundError, match="there is no 'nowhere' here"):
        older.upload("/user/me", "nowhere")
    assert older.lsr("/user") == ["/user/me/more/part", "/user/me/late"]
    assert older.lsr("/user", sort=False) == ["/user/me/late", "/user/me/more/part"]
    assert set(older.lsr("/user", only_file=False)) == {"/user/me/late", "/user/me/more/part", "/folder"}
    assert older.download("/user/me/late", "here") and (tmp_path / "here" / "late").read_text() == "3\n"
    (tmp_path / "here" / "late").write_text("mine\n")
    assert not older.download("/user/me/late", "here") and (tmp_path / "here" / "late").read_text() == "mine\n"
    assert older.download("/user/me/late", "here", overwrite=True) and (tmp_path / "here" / "late").read_text() == "3\n"
    assert not older.download("/nowhere", "here") and older.download("/user/me", "all")
    assert (tmp_path / "all" / "me" / "more" / "part").read_text() == "2\n"
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as packed:
        packed.writestr("inside/w", "4")
    assert older.upload("/user", "model.zip") and older.download("/user/model.zip", "there", unzip=True)
    assert (tmp_path / "there" / "inside" / "w").read_text() == "4" and (tmp_path / "there" / "model.zip").exists()


def test_many_files_of_a_folder(older, tmp_path, capsys):
    """Trainers share them, none twice; folders below keep their names; a file that cannot be had is named."""
    names = [f"{folder}{number}" for folder in ("", "below/", "below/more/") for number in range(3)]
    for name in names:
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    assert fluid.contrib.multi_upload(older, "/user/train", "data", multi_processes=3) is None
    shares = [fluid.contrib.multi_download(older, "/user/train", f"here{i}", i, 2, multi_processes=2) for i in range(2)]
    assert [len(share) for share in shares] == [5, 4]
    assert sorted(path.partition("/")[2] for share in shares for path in share) == sorted(names)
    assert all(open(path).read() == path.partition("/")[2] for share in shares for path in share)
    calls = len((tmp_path / "calls").read_text().splitlines())
    assert fluid.contrib.multi_download(older, "/user/train", "here0", 0, 2) == shares[0]  # all are here
    assert "-get" not in "".join((tmp_path / "calls").read_text().splitlines()[calls:])
    (tmp_path / "data" / "0").write_text("new")
    fluid.contrib.multi_upload(older, "/user/train", "data")
    assert older.cat("/user/train/0") == "0"
    fluid.contrib.multi_upload(older, "/user/train", "data", overwrite=True)
    assert older.cat("/user/train/0") == "new" and len(older.lsr("/user/train")) == 9
    (tmp_path / "lost").write_text("/user/train/below/1")
    with pytest.raises(RuntimeError, match="1 of 9 files could not be copied: /user/train/below/1. The log has"):
        fluid.contrib.multi_download(older, "/user/train", "whole", 0, 1)
    assert not [path for path in (tmp_path / "whole").rglob("*") if ".part." in path.name]
    with pytest.raises(ValueError, match="trainer_id is 2, but it must be from 0 on and below trainers, 2"):
        fluid.contrib.multi_download(older, "/user/train", "here", 2, 2)
    with pytest.raises(TypeError, match="client must be an HDFSClient"):
        fluid.contrib.multi_upload("hadoop", "/user/train", "data")


@pytest.mark.parametrize("kind", ["local", "hdfs"])
def test_file_systems_of_checkpoints(kind, client, tmp_path, monkeypatch):
    assert issubclass(LocalFiles, FS) and issubclass(BDFS, FS)
    root = "/saved" if kind == "hdfs" else str(tmp_path / "saved")
    files = LocalFiles() if kind == "local" else BDFS("hdfs://name:54310", "me,secret", time_out=0)
    assert files.need_upload_download() == (kind == "hdfs")
    if kind == "hdfs":
        with pytest.raises(FileNotFoundError, match="BDFS runs the command `hadoop`, which is in no folder of PATH"):
            files.stat(root)
        monkeypatch.setenv("PATH", str(tmp_path / "home" / "bin"), prepend=os.pathsep)
    assert files.list_dirs(root) == [] and not files.stat(root)
    files.mkdir(f"{root}/one")
    files.mkdir(f"{root}/one")
    (tmp_path / "file").write_text("text")
    files.upload(str(tmp_path / "file"), f"{root}/two")
    assert files.list_dirs(root) == ["one"] and files.stat(f"{root}/two")
    assert files.ls_dir(root) == (["one"], ["two"]) if kind == "hdfs" else sorted(files.ls_dir(root)) == ["one", "two"]
    files.mv(f"{root}/one", f"{root}/other")
    files.download(f"{root}/two", str(tmp_path / "back"))
    assert files.list_dirs(root) == ["other"] and (tmp_path / "back").read_text() == "text"
    with pytest.raises((OSError, RuntimeError)):
        files.mv(f"{root}/nothing", f"{root}/more")
    for path in ("other", "two", "nothing"):
        files.delete(f"{root}/{path}")
        assert not files.stat(f"{root}/{path}")


def test_a_command_that_hangs_is_ended(client, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "home" / "bin"), prepend=os.pathsep)
    (tmp_path / "hangs").touch()
    (tmp_path / "file").touch()
    with pytest.raises(RuntimeError, match="`hadoop fs -put .* ended with 124; the log has what it said"):
        BDFS("hdfs://name:54310", "me,secret", time_out=300).upload("file", "/file")


def test_trainers_wait_for_each_other_by_files(client, tmp_path, monkeypatch, capsys):
    fleet.init(role_maker.UserDefinedRoleMaker(0, role_maker.Role.WORKER, 2, ["127.0.0.1:6174"]))
    for name in ("HADOOP_HOME", "FS_NAME", "FS_UGI"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="reads HADOOP_HOME, FS_NAME and FS_UGI; HADOOP_HOME, FS_NAME, FS_UGI is not set"):
        fleet_barrier_util.check_all_trainers_ready("/ready", 0)
    for name, value in (("HADOOP_HOME", str(tmp_path / "home")), ("FS_NAME", "n"), ("FS_UGI", "u")):
        monkeypatch.setenv(name, value)
    sleeps = []

    def other(seconds):
        sleeps.append(seconds)
        (tmp_path / "root" / "ready" / "ready.3.1.done").touch()

    monkeypatch.setattr(fleet_barrier_util.time, "sleep", other)
    (tmp_path / "root" / "ready").mkdir()
    (tmp_path / "root" / "ready" / "ready.2.1.done").touch()  # of another epoch
    fleet_barrier_util.check_all_trainers_ready("/ready", 3)
    assert len(sleeps) == 1
    assert capsys.readouterr().out.splitlines() == [
        "PUT ready.3.0.done ON HDFS /ready OK", "have 1 trainers need to be ready: 1", "All trainers are ready, continue training"]


def test_one_trainer_waits_for_nobody(monkeypatch, capsys):
    fleet.init(role_maker.UserDefinedRoleMaker(0, role_maker.Role.WORKER, 1, ["127.0.0.1:6174"]))
    for name in ("HADOOP_HOME", "FS_NAME", "FS_UGI"):
        monkeypatch.delenv(name, raising=False)
    fleet_barrier_util.check_all_trainers_ready("/ready", 0)
    assert capsys.readouterr().out == "All trainers are ready, continue training\n"


def test_local_fs(tmp_path):
    fs, root = LocalFS(), str(tmp_path / "a")
    fs.mkdirs(f"{root}/b")
    fs.touch(f"{root}/file")
    assert fs.ls_dir(root) == (["b"], ["file"]) and fs.list_dirs(root) == ["b"] and fs.ls_dir("/nowhere") == ([], [])
    assert fs.is_dir(f"{root}/b") and fs.is_file(f"{root}/file") and fs.is_exist(root) and not fs.need_upload_download()
    with pytest.raises(FileExistsError):
        fs.mv(f"{root}/file", f"{root}/b")
    with pytest.raises(FileNotFoundError):
        fs.mv(f"{root}/x", f"{root}/y")
    fs.mv(f"{root}/file", f"{root}/b", overwrite=True)
    fs.upload(root, f"{root}2")
    assert fs.is_file(f"{root}2/b")
    fs.delete(root)
    fs.delete(root)
    assert not fs.is_exist(root)


# ---- FleetUtil ----


def test_fleet_util(tmp_path, capsys):
    fleet.init(role_maker.UserDefinedRoleMaker(0, role_maker.Role.WORKER, 1, ["127.0.0.1:6174"]))
    util = FleetUtil(mode="transpiler")
    with pytest.raises(ValueError, match="Please choose one mode"):
        FleetUtil("other")
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        predicted = fluid.data("p", [None, 2])
        auc, _, buckets = fluid.layers.auc(predicted, fluid.data("l", [None, 1], "int64"), num_thresholds=200)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        high = np.random.RandomState(3).uniform(size=(500, 1)).astype("float32")
        label = (np.random.RandomState(4).uniform(size=(500, 1)) < high).astype("int64")
        (wanted,) = exe.run(feed={"p": np.hstack([1 - high, high]), "l": label}, fetch_list=[auc])
        names = [var.name for var in buckets[2:]]
        assert util.get_global_auc(fluid.global_scope(), *names) == pytest.approx(wanted.item(), abs=1e-6)
        util.print_global_auc(None, *names, print_prefix="day 1:")
        assert "day 1: global auc = 0." in capsys.readouterr().out
        util.set_zero(names[0])
        assert util.get_global_auc(None, *names) == 0.5 and util.get_global_auc(None, "x", "y") is None
        program = fluid.default_main_program()
    path = str(tmp_path / "__model__")
    utils.save_program(program, path)
    assert [op.type for op in utils.load_program(path).global_block().ops] == [op.type for op in program.global_block().ops]
    util.parse_program_proto(path, False, str(tmp_path))
    assert (tmp_path / "ops.log").read_text().startswith("ops:\n{'type': 'auc'")
    assert names[0] in (tmp_path / "vars_persistable.log").read_text() and (tmp_path / "vars_all.log").exists()
    assert util.program_type_trans(str(tmp_path), "__model__", False) == "__model__.pbtxt"
    assert (tmp_path / "__model__.pbtxt").exists()
    util.draw_from_program_file(path, False, str(tmp_path), "drawn")
    assert (tmp_path / "drawn.dot").exists()
    assert utils.check_pruned_program_vars(program, utils.load_program(path))
    with pytest.raises(NotImplementedError, match="FleetUtil.save_delta_model is not there yet: it belongs to pslib"):
        util.save_delta_model("x", 1, 2)


def test_programs_as_text(fresh, tmp_path):
    """What bytes say is in the text, and the other way round."""
    x, y = fluid.data("x", [None, 3], lod_level=1), fluid.data("y", [None, 1], "int64")
    with fluid.name_scope('a "quoted" \\ name\nand a line é'):
        loss = fluid.layers.mean(fluid.layers.cross_entropy(fluid.layers.fc(x, 4, act="softmax"), y))
    fluid.layers.fill_constant([2], "float32", 0.123456789)
    number, limit = (fluid.layers.fill_constant([1], "int64", value) for value in (-(2**40), 3))
    goes_on = fluid.layers.less_than(number, limit)
    with fluid.layers.While(goes_on).block():
        fluid.layers.less_than(fluid.layers.increment(number), limit, cond=goes_on)
    fluid.optimizer.Adam(1e-07).minimize(loss)
    for name, program in (("main", fluid.default_main_program()), ("startup", fluid.default_startup_program())):
        utils.save_program(program, str(tmp_path / name))
        assert utils.program_type_trans(str(tmp_path), name, False) == f"{name}.pbtxt"
        assert utils.program_type_trans(str(tmp_path), f"{name}.pbtxt", True) == f"{name}.pbtxt.bin"
        assert (tmp_path / f"{name}.pbtxt.bin").read_bytes() == (tmp_path / name).read_bytes()
    text = (tmp_path / "main.pbtxt").read_text()
    assert text.startswith("blocks {\n  idx: 0\n  parent_idx: -1\n") and "          data_type: FP32\n          dims: -1\n" in text


def test_text_of_upstream(tmp_path):
    """With what its writer has: escapes of bytes, fields in any order, angle brackets, a comment."""
    path = tmp_path / "program.pbtxt"
    path.write_text("""
# by hand
blocks {
  parent_idx: -1 idx: 0
  vars { type { type: LOD_TENSOR lod_tensor { tensor { data_type: FP32 dims: -1 dims: 2 } lod_level: 0 } } name: "a\\303\\251\\'" }
  vars < name: "b" type < type: LOD_TENSOR lod_tensor < tensor < data_type: FP32 dims: [-1, 2] > > > persistable: true >
  ops { inputs { parameter: "X" arguments: "a\\303\\251'" } outputs { parameter: "Out" arguments: "b" } type: "scale"
        attrs { name: "scale" type: FLOAT f: 2.5e-1 } }
}
version { version: 0 }
""")
    block = utils.load_program(str(path), is_text=True).global_block()
    assert block.var("aé'").shape == (-1, 2) and block.var("b").persistable and not block.var("aé'").persistable
    assert block.ops[0].type == "scale" and block.ops[0].attr("scale") == 0.25 and block.ops[0].input("X") == ["aé'"]
    for text, said in (("blocks { ops { type: 1 } }", "line 1: type is of type string, found '1'"),
                       ("blocks {\n vars { type { type: FP33 } }", "line 2: type is one of BOOL, .*found 'FP33'"),
                       ("block { }", "ProgramDesc has no field 'block'"),
                       ("blocks {", "found '' where a field or '}' should stand")):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"program.pbtxt is no text of a Program: .*{said}"):
            utils.load_program(str(path), True)


@pytest.mark.parametrize("is_text", [False, True], ids=["bytes", "text"])
def test_a_saved_model_is_tried(fresh, tmp_path, is_text):
    x, words = fluid.data("x", [None, 2, 3]), fluid.layers.data("words", [1], lod_level=1)
    whole = fluid.layers.fc([fluid.layers.reshape(x, [-1, 6]), fluid.layers.sequence_pool(words, "sum")], 2, bias_attr=False)
    half = fluid.layers.scale(whole, 0.5)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    fluid.io.save_inference_model(str(tmp_path), ["x", "words"], [half], exe)
    name = utils.program_type_trans(str(tmp_path), "__model__", False) if is_text else "__model__"
    rows = np.arange(24, dtype="float32").reshape(4, 6)
    (tmp_path / "x.txt").write_text("".join(" ".join(map(str, [*two.ravel(), 7])) + "\n" for two in rows.reshape(2, 12)))
    (tmp_path / "words.txt").write_text("1 2\n3 4\n")
    feed = SimpleNamespace(feeded_vars_names=["x", "words"], feeded_vars_dims=[(2, 3), 1],
                           feeded_vars_types=["float32", np.float32],
                           feeded_vars_filelist=[str(tmp_path / "x.txt"), str(tmp_path / "words.txt")])
    config = SimpleNamespace(batch_size=2, feed_config=feed, fetch_config=SimpleNamespace(fetch_vars_names=None),
                             dump_model_dir=str(tmp_path), dump_program_filename=name, is_text_dump_program=is_text,
                             save_params_filename=None)
    names = [var.name for var in fluid.default_main_program().all_parameters()]
    weights = [np.array(fluid.global_scope().find_var(each).get_tensor()) for each in names]
    wanted = rows @ weights[0] + np.arange(1, 5, dtype="float32")[:, None] @ weights[1]
    check = FleetUtil().check_vars_and_dump
    np.testing.assert_allclose(check(config)[0], wanted / 2, rtol=1e-5)
    config.fetch_config.fetch_vars_names = [whole.name]
    feed.feeded_vars_names, feed.feeded_vars_dims = ["words", "x"], [1, [2, 3]]
    feed.feeded_vars_filelist.reverse()
    np.testing.assert_allclose(check(config)[0], wanted, rtol=1e-5)
    feed.feeded_vars_filelist = None
    assert check(config)[0].shape == (2, 2)
    for what, value, said in (("feeded_vars_dims", [1, 6], r"'x' have shape \(2, 3\) in the Program, and \(6,\)"),
                              ("feeded_vars_filelist", [str(tmp_path / "x.txt")], "shorter"),
                              ("feeded_vars_filelist", ["/dev/null"] * 2, "no line of /dev/null has the 2 numbers")):
        with pytest.raises(ValueError, match=said):
            check(SimpleNamespace(**{**vars(config), "feed_config": SimpleNamespace(**{**vars(feed), what: value})}))
    (tmp_path / names[0]).write_bytes((tmp_path / names[1]).read_bytes())
    with pytest.raises(ValueError, match=names[0]):
        check(config)


def test_passes_of_a_day():
    util = FleetUtil(mode="transpiler")
    assert util.get_online_pass_interval("{20190720..20190729}", "{0..23}", 5, 2, False)[:2] == [["0000", "0005"], ["0010", "0015"]]
    assert util.get_online_pass_interval("20190720", "1 2", 60, 1, True) == [["01"], ["02"]]


# ---- fluid.contrib ----


def test_sums_of_a_click_model():
    """Those of 1.8.5 after each of two batches; whole numbers may be labels, too."""
    wanted = [
        [1.1421220302581787, 2.147970676422119, 2.953624963760376, 3.211028575897217, 4, 5],
        [2.223796844482422, 4.666075229644775, 6.21791934967041, 8.005400657653809, 8, 13],
    ]
    for kind in ("float32", "int64"):
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
            predicted, label = fluid.data("p", [None, 1]), fluid.data("l", [None, 1], kind)
            sums = fluid.contrib.layers.ctr_metric_bundle(predicted, label)
            assert [each.name[-1] for each in sums] == list("102345") and all(each.persistable for each in sums)
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(startup)
            random = np.random.RandomState(3)
            for size, right in zip((5, 8), wanted):
                p = random.uniform(size=(size, 1)).astype("float32")
                clicked = (random.uniform(size=(size, 1)) < p).astype(kind)
                found = exe.run(feed={"p": p, "l": clicked}, fetch_list=list(sums))
                np.testing.assert_allclose(np.concatenate(found), right, rtol=1e-6)
            with pytest.raises(ValueError, match=r"must have one shape, but input is \[-1, 2\] and label \[-1, 1\]"):
                fluid.contrib.layers.ctr_metric_bundle(fluid.data("two", [None, 2]), label)


def test_batches_are_dealt_out(monkeypatch, capsys):
    def batches():
        yield from ([i] for i in range(8))

    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "3")
    shares = []
    for number in range(3):
        monkeypatch.setenv("PADDLE_TRAINER_ID", str(number))
        share = fluid.contrib.reader.distributed_batch_reader(batches)
        shares.append(list(share()))
        assert list(share()) == shares[-1]  # each pass anew
    assert shares == [[[0], [3]], [[1], [4]], [[2], [5]]]
    assert capsys.readouterr().out.splitlines()[0] == "start data reader (trainers_num: 3, trainer_id: 0)"
    monkeypatch.setenv("PADDLE_TRAINER_ID", "3")
    with pytest.raises(ValueError, match="wrong:   PADDLE_TRAINER_ID='3': it must be below PADDLE_TRAINERS_NUM, 3"):
        fluid.contrib.distributed_batch_reader(batches)
    monkeypatch.delenv("PADDLE_TRAINERS_NUM")
    monkeypatch.delenv("PADDLE_TRAINER_ID")
    assert list(fluid.contrib.distributed_batch_reader(batches)()) == list(batches())
