"""`paddle table`: tables that jobs saved are looked at, written as one portable file, brought together, loaded again by servers."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cluster import JOBS, Job

from paddle.tables import command

sys.path.insert(0, str(JOBS))
from hashed import ROWS, WIDTH  # noqa: E402

PADDLE = str(Path(sys.executable).with_name("paddle"))
STATES = {"adam": ["moment1_0", "moment2_0"], "rmsprop": ["mean_grad_0", "mean_square_0", "momentum_0"],
          "adadelta": ["_avg_squared_grad_0", "_avg_squared_update_0"]}
FORMATS = ["safetensors", "npz", "numpy", "text"]


def paddle(*words, status: int = 0) -> str:
    """What it says, on either output."""
    done = subprocess.run([PADDLE, "table", *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def run(servers: int, *options: str, env: dict | None = None) -> np.ndarray:
    """The table as the trainer sees it at the end."""
    with Job(servers, 1, "hashed.py", env) as job:
        job.start_all(*options)
        job.end(60)
        said = "".join(job.clear())
    return np.array(json.loads(re.search(r"^ends (.*)$", said, re.MULTILINE)[1]), np.float32)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with a model and the snapshots of the same step, and the table."""
    folder = tmp_path_factory.mktemp("saved")
    table = run(2, "--rule", "adagrad", "--steps", "8", "--save", str(folder / "model"), env={"FLAGS_ps_dir": str(folder / "ps")})
    return folder, table


def read_safetensors(path: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """By the format's own description: a length, a JSON text, arrays one behind the other without holes."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8 : 8 + length])
    about, body, end, arrays = head.pop("__metadata__", {}), data[8 + length :], 0, {}
    assert (8 + length) % 8 == 0
    for name, each in head.items():
        first, last = each["data_offsets"]
        assert first == end
        end = last
        dtype = {"F32": "<f4", "I64": "<i8"}[each["dtype"]]
        arrays[name] = np.frombuffer(body[first:last], dtype).reshape(each["shape"])
    assert end == len(body)
    return about, arrays


def read(path: Path, format: str) -> dict[str, np.ndarray]:
    """As people read it who have no paddle."""
    if format == "safetensors":
        return read_safetensors(path)[1]
    if format == "text":
        cells = [line.split("\t") for line in path.read_text().splitlines() if not line.startswith("#")]
        columns = [np.array([[np.float32(x) for x in row[i].split()] for row in cells]) for i in (1, 2)]
        return {"keys": np.array([int(row[0]) for row in cells]), "values": columns[0], "moment_0": columns[1]}
    found = dict(np.load(path)) if format == "npz" else {each.stem: np.load(each, mmap_mode="r") for each in path.glob("*.npy")}
    assert found.pop("table") == "emb" and found.pop("height") == ROWS
    return found


@pytest.mark.parametrize("format", FORMATS)
def test_export_and_back(saved, tmp_path, format):
    """What is in the file is what the job had; from any format comes the same file again."""
    folder, table = saved
    out = tmp_path / "table"
    said = paddle("export", folder / "model", "--output", out, "--format", format)
    found = read(out, format)
    assert sorted(found) == ["keys", "moment_0", "values"] and f"{len(found['keys'])} rows" in said
    assert (np.diff(found["keys"]) > 0).all() and len(found["keys"]) > ROWS // 2
    np.testing.assert_array_equal(found["values"], table[found["keys"]])
    assert (found["moment_0"] > 0).all()
    paddle("export", out, "--output", tmp_path / "again.safetensors")
    paddle("export", folder / "model", "--output", tmp_path / "want.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "want.safetensors").read_bytes()


def test_the_package_of_the_format_reads_it(saved, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    paddle("export", saved[0] / "model", "--output", tmp_path / "t.safetensors")
    found, (_, want) = safetensors.load_file(tmp_path / "t.safetensors"), read_safetensors(tmp_path / "t.safetensors")
    assert sorted(found) == sorted(want)
    for name, each in want.items():
        np.testing.assert_array_equal(found[name], each)


def test_servers_go_on_from_an_exported_table(saved, tmp_path):
    """As from the model itself, states too, on any number of servers."""
    folder, _ = saved
    options = ("--rule", "adagrad", "--steps", "3", "--load")
    want = run(1, *options, str(folder / "model"))
    paddle("export", folder / "model", "--output", tmp_path / "t.npz")
    shutil.copytree(folder / "model", tmp_path / "model")
    said = paddle("export", tmp_path / "t.npz", "--format", "parts", "--parts", "3", "--output", tmp_path / "model", status=1)
    assert "--overwrite" in said
    paddle("export", tmp_path / "t.npz", "--format", "parts", "--parts", "3", "--output", tmp_path / "model", "--overwrite")
    assert len(list((tmp_path / "model" / "__lookup_table__").iterdir())) == 6
    for servers in (1, 3):
        np.testing.assert_array_equal(run(servers, *options, str(tmp_path / "model")), want)


@pytest.mark.parametrize("rule", STATES)
def test_snapshots_have_the_same_table(tmp_path, rule):
    """Each state under its own name."""
    run(2, "--rule", rule, "--steps", "5", "--save", str(tmp_path / "model"), env={"FLAGS_ps_dir": str(tmp_path / "ps")})
    paddle("export", tmp_path / "model", "--output", tmp_path / "model.safetensors")
    said = paddle("export", tmp_path / "ps", "--output", tmp_path / "ps.safetensors", "--height", ROWS)
    assert "as of step 5" in said
    (_, want), (_, found) = (read_safetensors(tmp_path / f"{name}.safetensors") for name in ("model", "ps"))
    assert sorted(want) == sorted(found) == sorted(["keys", "values", *STATES[rule]])
    for name, each in want.items():
        np.testing.assert_array_equal(found[name], each, name)


def test_a_server_is_missing_among_snapshots(saved, tmp_path):
    shutil.copytree(saved[0] / "ps", tmp_path / "ps")
    shutil.rmtree(sorted((tmp_path / "ps").iterdir())[0])
    assert "are not in" in paddle("inspect", tmp_path / "ps")


def test_inspect(saved):
    folder, table = saved
    about, = json.loads(paddle("inspect", folder / "model", "--json", "--rows", "2"))
    keys = np.unique(np.concatenate([np.frombuffer((folder / "model" / "__lookup_table__" / f"emb_{i}").read_bytes(), "<i8",
                                                   about["rows"] // 2 - 5, 12) for i in (0, 1)]))
    assert set(keys.tolist()) <= set(range(ROWS)) and (about["width"], about["states"], about["parts"]) == (WIDTH, ["moment_0"], 2)
    assert about["bytes"] == about["rows"] * (8 + 2 * 4 * WIDTH) and about["height"] == ROWS
    assert len(about["shown"]) == 2 and about["notes"] == []
    for each in about["shown"]:
        np.testing.assert_array_equal(np.float32(each["values"]), table[each["id"]])
    one = about["shown"][1]["id"]
    said = paddle("inspect", folder / "model", "--id", hex(one))
    assert said.splitlines()[1].startswith(f"  {one}: {table[one][0]!s} ") and "moment_0" in said
    text = paddle("inspect", folder / "model")
    assert f"table emb: {about['rows']} rows of {WIDTH} numbers (float32), moment_0" in text
    assert f"{about['columns']['values']['norm_mean']:.5g}" in text


def test_inspect_counts_right(tmp_path):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(1000, 5)).astype(np.float32)
    np.savez(tmp_path / "t.npz", keys=rng.permutation(1000) * 2**50, values=values)
    about, = json.loads(paddle("inspect", tmp_path / "t.npz", "--json"))
    found, norms = about["columns"]["values"], np.linalg.norm(values.astype(np.float64), axis=1)
    assert (about["rows"], about["id_min"], about["id_max"]) == (1000, 0, 999 * 2**50)
    np.testing.assert_allclose([found[key] for key in ("mean", "std", "min", "max", "norm_mean", "norm_min", "norm_max")],
                               [values.mean(), values.std(), values.min(), values.max(), norms.mean(), norms.min(), norms.max()],
                               rtol=1e-4, atol=1e-6)
    far = values.astype(np.float64) + 1e6  # numbers that are close to one another and far from 0
    np.savez(tmp_path / "t.npz", keys=np.arange(1000), values=far)
    about, = json.loads(paddle("inspect", tmp_path / "t.npz", "--json"))
    np.testing.assert_allclose(about["columns"]["values"]["std"], far.std(), rtol=1e-9)
    np.savez(tmp_path / "t.npz", keys=np.arange(3000), values=np.full((3000, 700), 0.1))  # several blocks of one number
    assert json.loads(paddle("inspect", tmp_path / "t.npz", "--json"))[0]["columns"]["values"]["std"] < 1e-16
    values[7, 2] = np.nan
    np.savez(tmp_path / "t.npz", keys=np.arange(1000), values=values)
    assert "1 numbers that are not finite" in paddle("inspect", tmp_path / "t.npz")


@pytest.mark.parametrize("dtype, becomes", [("<f2", "<f4"), (">f2", "<f4"), (">f4", "<f4"), (">f8", "<f8")])
@pytest.mark.parametrize("format", ["npz", "numpy"])
def test_other_element_types(tmp_path, dtype, becomes, format):
    """The same numbers, as a table has them."""
    arrays = {"keys": np.array([3, 2**40], ">i8"), "values": np.array([[1, 2.5], [-0.1, 1e4]], dtype)}
    path = tmp_path / "t.npz"
    if format == "npz":
        np.savez(path, **arrays)
    else:
        path = tmp_path / "t"
        path.mkdir()
        for name, each in arrays.items():
            np.save(path / f"{name}.npy", each)
    assert f"({np.dtype(becomes).name})" in paddle("inspect", path)
    paddle("export", path, "--output", tmp_path / "out.npz")
    found = np.load(tmp_path / "out.npz")
    assert found["values"].dtype.str == becomes and found["keys"].dtype.str == "<i8"
    np.testing.assert_array_equal(found["values"], arrays["values"].astype(becomes))
    np.testing.assert_array_equal(found["keys"], arrays["keys"])
    paddle("export", path, "--format", "parts", "--output", tmp_path / "model")
    assert f"({np.dtype(becomes).name})" in paddle("inspect", tmp_path / "model")


@pytest.mark.parametrize("dtype", ["i4", "f16", "c8", "U3"])
def test_element_types_that_no_table_has(tmp_path, dtype):
    np.savez(tmp_path / "t.npz", keys=np.arange(2), values=np.zeros((2, 2), dtype))
    said = paddle("export", tmp_path / "t.npz", "--output", tmp_path / "out.npz", status=1)
    assert f"is {np.dtype(dtype)}; the numbers of a table are float16" in said and "Traceback" not in said


def test_merge(tmp_path):
    """Rows of one id: an error, the first one, their sum or their mean. Rows that stand once keep their bits."""
    one, two = (np.arange(4), np.float32([[0.1], [2], [3], [4]])), (np.array([9, 1, 3]), np.float32([[7], [10], [1]]))
    for name, (keys, values) in ("one", one), ("two", two):
        np.savez(tmp_path / f"{name}.npz", keys=keys, values=values)
    paths = tmp_path / "one.npz", tmp_path / "two.npz"
    said = paddle("merge", *paths, "--output", tmp_path / "m.npz", status=1)
    assert "2 rows stand twice, as of the ids 1, 3 " in said and str(paths[1]) in said and "--on-duplicate" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.npz", "two.npz"]
    for how, want in {"first": [2, 4], "sum": [12, 5], "mean": [6, 2.5]}.items():
        paddle("merge", *paths, "--on-duplicate", how, "--output", tmp_path / f"{how}.npz")
        found = np.load(tmp_path / f"{how}.npz")
        assert found["keys"].tolist() == [0, 1, 2, 3, 9]
        np.testing.assert_array_equal(found["values"][:, 0], np.float32([0.1, want[0], 3, want[1], 7]))


def test_memory_changes_nothing(tmp_path):
    """A table that is sorted in many ranges gives the same file as one that fits; ids of several tables stand twice."""
    rng = np.random.default_rng(5)
    for i in range(2):
        keys = rng.choice(2**62, 60000, replace=False)
        keys[:500] = np.arange(500) ** 5 * 70001
        np.savez(tmp_path / f"{i}.npz", keys=keys, values=rng.normal(size=(60000, 8)).astype(np.float32),
                 moment_0=rng.normal(size=(60000, 8)).astype(np.float32))
    paths = [tmp_path / f"{i}.npz" for i in range(2)]
    for memory in ("1M", "1G"):
        said = paddle("merge", *paths, "--on-duplicate", "mean", "--memory", memory, "--output", tmp_path / f"{memory}.safetensors")
        assert "119,500 rows" in said and "500 that stood twice" in said
    assert (tmp_path / "1M.safetensors").read_bytes() == (tmp_path / "1G.safetensors").read_bytes()
    _, found = read_safetensors(tmp_path / "1M.safetensors")
    tables = [np.load(path) for path in paths]
    keys = np.concatenate([each["keys"] for each in tables])
    np.testing.assert_array_equal(found["keys"], np.unique(keys))
    sums = np.zeros((len(found["keys"]), 8))
    np.add.at(sums, np.searchsorted(found["keys"], keys), np.concatenate([each["moment_0"] for each in tables]))
    counts = np.bincount(np.searchsorted(found["keys"], keys))
    np.testing.assert_allclose(found["moment_0"], sums / counts[:, None], rtol=1e-6)


def test_states_that_were_saved_at_another_moment(saved, tmp_path):
    """Rows in another order, and more of them: each state goes to its own row. A row without a state is an error."""
    part = tmp_path / "model" / "__lookup_table__" / "emb_moment_0_0"
    shutil.copytree(saved[0] / "model", tmp_path / "model")
    paddle("export", tmp_path / "model", "--output", tmp_path / "want.safetensors")
    data = part.read_bytes()
    (n,) = struct.unpack_from("<Q", data, 4)
    ids, at = np.frombuffer(data, "<i8", n, 12), len(data) - 24 - n * 4 * WIDTH
    values = np.frombuffer(data, "<f4", n * WIDTH, at).reshape(n, WIDTH)
    order = np.random.default_rng(1).permutation(n)
    part.write_bytes(data[:12] + ids[order].tobytes() + data[12 + 8 * n : at] + values[order].tobytes() + data[-24:])
    paddle("export", tmp_path / "model", "--output", tmp_path / "found.safetensors")
    assert (tmp_path / "want.safetensors").read_bytes() == (tmp_path / "found.safetensors").read_bytes()
    other = ids.copy()
    other[0] = 59 if ids[0] != 59 and 59 not in ids else 10**6
    part.write_bytes(data[:12] + other.tobytes() + data[12 + 8 * n :])
    said = paddle("export", tmp_path / "model", "--output", tmp_path / "x.npz", status=1)
    assert f"has no row {ids[0]}" in said and not (tmp_path / "x.npz").exists()
    paddle("export", tmp_path / "model", "--output", tmp_path / "x.npz", "--nostates")


def test_a_whole_table_of_one_process(tmp_path):
    from paddle import fluid

    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        fluid.layers.create_parameter([6, 2], "float32", name="emb")
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        fluid.io.save_params(exe, str(tmp_path / "model"), main)
        want = np.array(fluid.global_scope().find_var("emb").get_tensor())
    paddle("export", tmp_path / "model", "--table", "emb", "--output", tmp_path / "t.npz")
    found = np.load(tmp_path / "t.npz")
    np.testing.assert_array_equal(found["values"], want)
    assert found["keys"].tolist() == list(range(6)) and found["height"] == 6


def test_damaged_files(saved, tmp_path, capfd):
    paddle("export", saved[0] / "model", "--output", tmp_path / "t.safetensors")
    paddle("export", saved[0] / "model", "--output", tmp_path / "t.npz")
    part = (saved[0] / "model" / "__lookup_table__" / "emb_0").read_bytes()
    for name, data in {"t.safetensors": (tmp_path / "t.safetensors").read_bytes(), "t.npz": (tmp_path / "t.npz").read_bytes(),
                       "emb_0": part}.items():
        for end in (0, 5, 11, 40, 150, len(data) - 30):
            (tmp_path / name).write_bytes(data[:end])
            status, said = inspected(tmp_path / name, capfd)
            assert status == 1 and str(tmp_path / name) in said and "Traceback" not in said, (name, end, said)


def inspected(path: Path, capfd, work: str = "inspect", **others: str) -> tuple[int, str]:
    """The status and what was said, without a process of its own."""
    settings = dict.fromkeys(("table", "id", "name", "format", "on_duplicate"), "")
    settings |= {"json": "0", "states": "1", "rows": "0", "overwrite": "1", "height": "0", "memory": "1000000"} | others
    status = command.main([*(f"{key}={value}" for key, value in settings.items()), "--", work, str(path)])
    return status, "".join(capfd.readouterr())


def flipped(data: bytes, bit: int) -> bytes:
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


@pytest.mark.parametrize("file, n", [("data", 80), ("manifest", 80)])
def test_a_flipped_bit_of_a_snapshot(saved, tmp_path, capfd, file, n):
    """Wherever it is, nothing is told or written, and the file and the bytes are named."""
    shutil.copytree(saved[0] / "ps", tmp_path / "ps")
    snapshot = max((tmp_path / "ps").glob("*/snapshot-*"))
    assert inspected(tmp_path / "ps", capfd)[0] == 0
    data = (snapshot / file).read_bytes()
    rng = np.random.default_rng(11)
    for bit in {0, len(data) * 8 - 1, *rng.integers(len(data) * 8, size=n).tolist()}:
        (snapshot / file).write_bytes(flipped(data, bit))
        status, said = inspected(tmp_path / "ps", capfd, "export", output=str(tmp_path / "t.npz"))
        assert status == 1 and not (tmp_path / "t.npz").exists(), (bit, said)
        assert f"'{snapshot / file}'" in said and f"move '{snapshot}' elsewhere" in said, (bit, said)
        if file == "data":
            first, end = map(int, re.search(r"at its bytes (\d+) to (\d+)", said).groups())
            assert first <= bit // 8 < end
    (snapshot / file).write_bytes(data[:-1])
    assert inspected(tmp_path / "ps", capfd)[0] == 1
    (snapshot / file).write_bytes(data)
    assert inspected(tmp_path / "ps", capfd)[0] == 0


def test_a_flipped_bit_of_an_npz_file(tmp_path, capfd):
    """Either it is refused, or it says nothing of the rows."""
    keys, values = np.arange(5, dtype="<i8"), np.linspace(0, 1, 10, dtype="<f4").reshape(5, 2)
    np.savez(tmp_path / "t.npz", keys=keys, values=values, moment_0=values, table="emb", height=7)
    data = (tmp_path / "t.npz").read_bytes()
    refused = 0
    for bit in np.random.default_rng(12).permutation(len(data) * 8)[:300].tolist():
        (tmp_path / "t.npz").write_bytes(flipped(data, bit))
        status, said = inspected(tmp_path / "t.npz", capfd, "export", output=str(tmp_path / "out.safetensors"))
        refused += status
        if status:
            assert str(tmp_path / "t.npz") in said, (bit, said)
            continue
        about, found = read_safetensors(tmp_path / "out.safetensors")
        assert about["table"] == "emb" and about["height"] == "7", bit
        for name, want in {"keys": keys, "values": values, "moment_0": values}.items():
            np.testing.assert_array_equal(found[name], want, str(bit))
    assert refused > 150


def safetensors(path: Path, head: dict, data: bytes) -> Path:
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_files_from_elsewhere(tmp_path):
    """Nothing of a file that does not fit together is passed over, and none leads out of the folder."""
    keys = {"dtype": "I64", "shape": [2], "data_offsets": [0, 16]}
    values = {"dtype": "F32", "shape": [2, 1], "data_offsets": [16, 24]}
    data = np.array([3, 5], "<i8").tobytes() + np.array([1, 2], "<f4").tobytes()
    assert "rows" in paddle("inspect", safetensors(tmp_path / "t.safetensors", {"keys": keys, "values": values}, data))
    for changes, said in (
        ({"values": {"data_offsets": [12, 20]}}, "lies in another one"),
        ({"values": {"data_offsets": [16, 20]}}, "lies from 16 to 20"),
        ({"values": {"shape": [-1, -2]}}, "of shape [-1, -2]"),
        ({"keys": {"data_offsets": [-16, 0]}}, "lies from -16 to 0"),
        ({"moment_0": {"dtype": "BF16", "shape": [2, 1], "data_offsets": [24, 28]}}, "has the type BF16"),
        ({"moment_0": {"dtype": "F32", "shape": [2, 1], "data_offsets": [24, 32]}}, "is cut short"),
    ):
        head = {"keys": dict(keys), "values": dict(values)}
        for name, change in changes.items():
            head.setdefault(name, {}).update(change)
        assert said in paddle("inspect", safetensors(tmp_path / "t.safetensors", head, data), status=1)
    path = tmp_path / "t.npz"
    ids, rows = np.array([3, 5], "<i8"), np.array([[1.0], [2.0]], "<f4")
    np.savez(path, keys=ids, values=rows, table="../../escaped")
    said = paddle("export", path, "--format", "parts", "--output", tmp_path / "a" / "b", status=1)
    assert "is no name of a file" in said and not list(tmp_path.glob("escaped*"))
    for bad in (-3, 2**63 - 1):
        np.savez(path, keys=np.array([3, bad], "<i8"), values=rows, table="emb")
        assert f"has the id {bad}" in paddle("export", path, "--format", "parts", "--output", tmp_path / "c", status=1)
    np.savez(path, keys=ids, values=rows, table="emb")
    data = path.read_bytes()
    at = data.index(rows.tobytes())
    path.write_bytes(data[:at] + b"\0\0\0\1" + data[at + 4:])
    assert "checksum" in paddle("inspect", path, status=1)


@pytest.mark.parametrize("words, said", [
    ([], "say what: inspect, export or merge"),
    (["inspekt", "x"], "Did you mean 'inspect'?"),
    (["inspect"], "the PATH is missing"),
    (["export", "x"], "say where to write"),
    (["inspect", "x", "--output", "y"], "inspect writes nothing"),
    (["export", "x", "--output", "y", "--format", "npy"], "--format takes safetensors, npz, numpy, text or parts"),
    (["export", "x", "--outptu", "y"], "Did you mean '--output'?"),
])
def test_misused(words, said):
    assert said in paddle(*words, status=2)


@pytest.mark.parametrize("words, said", [
    (["inspect", "{model}/nowhere"], "does not exist"),
    (["inspect", "{model}", "--table", "emp"], "Did you mean 'emb'? It has: emb"),
    (["inspect", "{model}", "--id", "10000"], "has no row of the id 10000"),
    (["inspect", "{model}", "--id", "x"], "found 'x'"),
    (["export", "{model}", "{model}", "--output", "{tmp}/x"], "merge"),
    (["merge", "{model}", "--output", "{tmp}/x"], "two PATHs"),
    (["export", "{model}", "--output", "{tmp}"], "is a folder"),
    (["export", "{model}", "--output", "{tmp}/a/b/x"], "does not exist"),
    (["export", "{model}", "--output", "{tmp}/x", "--height", "5"], "ids are below 5"),
    (["inspect", "{tmp}"], "there is no table in"),
])
def test_errors(saved, tmp_path, words, said):
    told = paddle(*(word.format(model=saved[0] / "model", tmp=tmp_path) for word in words), status=1)
    assert said in told and "Traceback" not in told, told
    assert not list(tmp_path.iterdir())
