"""Data sets of files that are not on this machine (fsspec, hadoop), and of Parquet files."""

import gzip
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_data_files import ROWS, Net, fresh, printed  # noqa: F401 (a fixture)

import paddle.fluid as fluid

HADOOP = """#!/bin/sh
# A hadoop that knows a folder: fs [-Dname=value ...] -cat|-ls PATH
shift
while [ "${1#-D}" != "$1" ]; do echo "$1" >> "$STORE/options"; shift; done
path="$STORE/${2#hdfs:/}"
case $1 in
-cat) cat "$path" ;;
-ls)
    echo "Found some items"
    for each in $path; do [ -e "$each" ] && echo "-rw-r--r-- 1 me us 5 2020-01-01 10:00 hdfs:/${each#$STORE/}"; done ;;
esac
"""


@pytest.fixture
def hadoop(tmp_path, monkeypatch):
    store = tmp_path / "store"
    (tmp_path / "home" / "bin").mkdir(parents=True)
    command = tmp_path / "home" / "bin" / "hadoop"
    command.write_text(HADOOP)
    command.chmod(0o755)
    store.mkdir()
    monkeypatch.setenv("HADOOP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STORE", str(store))
    return store


def losses(net, dataset, capfd):
    net.exe.train_from_dataset(dataset=dataset, fetch_list=[net.loss], fetch_info=["loss"], print_period=1)
    return printed(capfd)


def fed(net):
    """What the same batches give that are fed by hand; from the start values of `net`."""
    return [float(f"{loss:.6g}") for loss in net.run_fed()]


def both(net, dataset, capfd):
    start = {name: np.array(fluid.global_scope().find_var(name).get_tensor()) for name in ("table", "w", "fc_0.b_0")}
    found = losses(net, dataset, capfd)
    for name, value in start.items():
        fluid.global_scope().find_var(name).get_tensor().set(value, fluid.CPUPlace())
    return found, fed(net)


@pytest.mark.parametrize("pipe", ["cat", "zcat"])
def test_hdfs(tmp_path, hadoop, capfd, pipe):
    net = Net(tmp_path)
    data = Path(net.paths[0]).read_bytes()
    (hadoop / "part-0").write_bytes(gzip.compress(data) if pipe == "zcat" else data)
    dataset = net.dataset()
    dataset.set_pipe_command(pipe)
    dataset.set_hdfs_config("hdfs://name:9000", "me,secret")
    dataset.set_filelist(["hdfs:/part-*"])
    found, wanted = both(net, dataset, capfd)
    assert found == wanted
    assert "-Dfs.default.name=hdfs://name:9000\n-Dhadoop.job.ugi=me,secret\n" in (hadoop / "options").read_text()
    dataset.set_filelist(["afs:/nothing/at/all"])
    with pytest.raises(Exception, match="could not be read|ended with status") as error:
        net.exe.train_from_dataset(dataset=dataset)
    assert "No such file" in str(error.value) and "secret" not in str(error.value)
    dataset.set_filelist(["hdfs:/none-*"])
    with pytest.raises(ValueError, match="no file is like 'hdfs:/none-"):
        net.exe.train_from_dataset(dataset=dataset)
    dataset.set_download_cmd(f"sed -n 1,9p {net.paths[0]} #")
    dataset.set_pipe_command("cat")
    assert len(losses(net, dataset, capfd)) == 2


def test_a_pipe_command_that_fails_behind_hdfs(tmp_path, hadoop):
    net = Net(tmp_path)
    (hadoop / "part").write_bytes(Path(net.paths[0]).read_bytes())
    dataset = net.dataset()
    dataset.set_pipe_command("cat; echo a bad day >&2; exit 3")
    dataset.set_filelist(["hdfs:/part"])
    with pytest.raises(Exception, match="data file 'hdfs:/part' could not be read.*status 3.*a bad day"):
        net.exe.train_from_dataset(dataset=dataset)


def test_without_hadoop(tmp_path, monkeypatch):
    monkeypatch.delenv("HADOOP_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    net = Net(tmp_path)
    dataset = net.dataset()
    dataset.set_filelist(["afs:/x/part-*"])
    told = "'afs:/x/part-.' is listed by 'hadoop', which cannot be run.*HADOOP_HOME.*set_download_cmd"
    with pytest.raises(FileNotFoundError, match=told):
        net.exe.train_from_dataset(dataset=dataset)


def test_urls(tmp_path, capfd):
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: pip install 'cpaddle[data]'")
    memory = fsspec.filesystem("memory")
    net = Net(tmp_path)
    data = Path(net.paths[0]).read_bytes()
    half = data.index(b"\n", len(data) // 2) + 1
    memory.pipe({"/urls/part-0": data[:half], "/urls/part-1": data[half:]})
    dataset = net.dataset()
    dataset.set_filelist(["memory://urls/part-*"])
    found, wanted = both(net, dataset, capfd)
    assert found == wanted
    loaded = net.dataset("InMemoryDataset", threads=2)
    loaded.set_filelist(["memory://urls/part-*", net.paths[0]])
    for _ in range(2):
        loaded.load_into_memory()
    loaded.preload_into_memory()
    loaded.wait_preload_done()
    assert loaded.get_memory_data_size() == 6 * ROWS
    dataset.set_filelist(["memory://urls/part-7"])
    with pytest.raises(Exception, match="part-7"):
        net.exe.train_from_dataset(dataset=dataset)
    dataset.set_filelist(["nosuch://x/y"])
    with pytest.raises(ValueError, match="nosuch"):
        net.exe.train_from_dataset(dataset=dataset)


def test_a_url_that_breaks_in_the_middle(tmp_path, capfd):
    """The run ends with what the file system said, also behind a pipe command."""
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: pip install 'cpaddle[data]'")
    net = Net(tmp_path)

    class Broken(io.BytesIO):
        def read(self, n=-1):
            if self.tell():
                raise OSError("the line went dead")
            return super().read(100)

    class Store(fsspec.AbstractFileSystem):
        protocol = "broken"

        def info(self, path, **unused):
            return {"name": path, "size": 1000, "type": "file"}

        def _open(self, path, mode="rb", **unused):
            return Broken(Path(net.paths[0]).read_bytes())

    fsspec.register_implementation("broken", Store, clobber=True)
    dataset = net.dataset()
    dataset.set_filelist(["broken://part"])
    for pipe in ("cat", "cat -u"):
        dataset.set_pipe_command(pipe)
        with pytest.raises(Exception, match="broken://part' could not be read: .*the line went dead"):
            net.exe.train_from_dataset(dataset=dataset)


def test_parquet(tmp_path, capfd):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'cpaddle[data]'")
    from pyarrow import parquet

    net = Net(tmp_path)
    table = pyarrow.table({
        "label": pyarrow.array([float(each[2]) for each in net.samples], pyarrow.float64()),
        "dense": pyarrow.FixedSizeListArray.from_arrays(np.concatenate([each[1] for each in net.samples]), 3),
        "other": ["x"] * ROWS,
        "words": pyarrow.array([each[0].tolist() for each in net.samples], pyarrow.list_(pyarrow.int32()))})
    parquet.write_table(table, tmp_path / "part.parquet", row_group_size=20)
    dataset = net.dataset()
    dataset.set_filelist([str(tmp_path / "*.parquet")])
    found, wanted = both(net, dataset, capfd)
    assert found == wanted
    parquet.write_table(table.drop(["dense"]), tmp_path / "part.parquet")
    with pytest.raises(Exception, match="the Parquet file has no column 'dense'.*it has label, other, words"):
        net.exe.train_from_dataset(dataset=dataset)
    parquet.write_table(table.set_column(3, "words", [["x"] * ROWS]), tmp_path / "part.parquet")
    with pytest.raises(Exception, match="column 'words' of the Parquet file is of type string; its variable takes whole numbers"):
        net.exe.train_from_dataset(dataset=dataset)


def test_parquet_values(tmp_path):
    """Nulls, empty lists, bools, large ids, line ids."""
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'cpaddle[data]'")
    from pyarrow import parquet

    ids, flag = fluid.data("ids", [None, 1], "int64", lod_level=1), fluid.data("flag", [None, 1], "float32")
    table = pyarrow.table({"ids": pyarrow.array([[2**64 - 1, 0], [], None, [7]], pyarrow.list_(pyarrow.uint64())),
                           "flag": [True, None, False, True], "ins_id": ["a", "b", "c", "d"]})
    parquet.write_table(table, tmp_path / "part.pq")
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_use_var([ids, flag])
    dataset.parse_ins_id = True
    from paddle.fluid import dataset_files

    text = b"".join(dataset_files.parquet_lines(str(tmp_path / "part.pq"), dataset)).decode()
    assert text.splitlines() == ["1 a 2 18446744073709551615 0 1 1", "1 b 1 0 1 0", "1 c 1 0 1 0", "1 d 1 7 1 1"]


@pytest.mark.parametrize("package, path", [("fsspec", "s3://bucket/part-*"), ("fsspec", "hdfs:/part-0"),
                                           ("pyarrow", "{}/x.parquet")])
def test_a_package_that_is_not_there(tmp_path, package, path):
    code = ("import sys; sys.modules[sys.argv[1]] = None\n"
            "import paddle.fluid as fluid\n"
            "d = fluid.DatasetFactory().create_dataset()\n"
            "d.set_use_var([fluid.data('x', [None, 1], 'int64')])\n"
            "d.set_filelist([sys.argv[2]])\n"
            "fluid.Executor().train_from_dataset(dataset=d)")
    done = subprocess.run([sys.executable, "-c", code, package, path.format(tmp_path)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PATH": "/usr/bin:/bin", "HADOOP_HOME": ""})
    assert done.returncode == 1 and f"needs the package {package}, which is not installed" in done.stderr
    assert f"pip install {package}, or pip install 'cpaddle[data]'" in done.stderr
    assert ("without the command hadoop, which is not there, a data set needs" in done.stderr) == path.startswith("hdfs:")
