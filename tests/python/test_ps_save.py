"""Saving and loading in jobs with servers, distributed tables, and slices cut at run time: the files and losses of one process."""

import os
import pickle
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from cluster import JOBS, Job
from cluster import single as run_single

import paddle.fluid as fluid

single = partial(run_single, script="saving.py")


def cluster(folder: Path, *options: str, servers: int = 2, trainers: int = 2, own=None) -> list[dict]:
    """What each trainer saw. `own`: more options for trainer i."""
    folder.mkdir(exist_ok=True)
    with Job(servers, trainers, "saving.py") as job:
        for i in range(servers):
            job.start("server", i, *options)
        for i in range(trainers):
            job.start("trainer", i, *options, *(own(i) if own else []), "--out", str(folder / f"trainer-{i}.npz"))
        job.end(deadline=60)
    return [dict(np.load(folder / f"trainer-{i}.npz")) for i in range(trainers)]


def losses(trainers: list[dict]) -> np.ndarray:
    return np.mean([each["losses"] for each in trainers], axis=0)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def assert_same_files(got: Path, want: Path) -> None:
    """The same names and sizes, and nearly the same numbers."""
    mine, theirs = files(got), files(want)
    assert sorted(mine) == sorted(theirs)
    for name, data in theirs.items():
        assert len(mine[name]) == len(data), name
        if "COUNTER" in name:
            assert mine[name] == data, name
            continue
        last = [np.frombuffer(each[-4 * min(8, len(each) // 8) :], "float32") for each in (mine[name], data)]
        np.testing.assert_allclose(*last, rtol=2e-4, atol=1e-5, err_msg=name)


MODELS = [
    ("mlp", ["--optimizer", "adam", "--schedule"]),
    ("word2vec_sparse", ["--optimizer", "adagrad"]),
    ("statistics", ["--optimizer", "lamb"]),  # Lamb reads powers that it never writes
]


@pytest.mark.parametrize("model, more", MODELS, ids=lambda v: v if isinstance(v, str) else "")
def test_files_are_those_of_one_process_and_both_go_on_from_them(tmp_path, model, more):
    options = ["--model", model, *more]
    one, many = tmp_path / "one", tmp_path / "many"
    trainers = 1 if model == "statistics" else 2  # each trainer has statistics of its own
    single(tmp_path / "a.npz", *options, "--save", str(one), trainers=trainers)
    cluster(tmp_path / "b", *options, "--save", str(many), trainers=trainers)
    assert_same_files(many, one)
    rest = ["--first-step", "4", *options]
    want = single(tmp_path / "c.npz", *rest, "--load", str(one), trainers=trainers)["losses"]
    got = single(tmp_path / "d.npz", *rest, "--load", str(many), trainers=trainers)["losses"]
    np.testing.assert_allclose(got, want, rtol=1e-5)
    for source in (one, many):
        got = losses(cluster(tmp_path / "e", *rest, "--load", str(source), servers=3, trainers=trainers))
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_one_file_and_no_trainer_id(tmp_path):
    """All in one file, which both trainers write."""
    options = ["--model", "word2vec_sparse", "--optimizer", "adam", "--schedule"]
    one, many = tmp_path / "one", tmp_path / "many"
    single(tmp_path / "a.npz", *options, "--save", str(one), "--filename", "all")
    cluster(tmp_path / "b", *options, "--save", str(many), "--filename", "all", "--no-id")
    assert_same_files(many, one)
    rest = [*options, "--first-step", "4", "--filename", "all"]
    want = single(tmp_path / "c.npz", *rest, "--load", str(one))["losses"]
    got = single(tmp_path / "d.npz", *rest, "--load", str(many))["losses"]
    np.testing.assert_allclose(got, want, rtol=1e-5)
    got = losses(cluster(tmp_path / "e", *rest, "--load", str(many), "--no-id", servers=3))
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("filename", [None, "all"])
@pytest.mark.parametrize("how", ["--save-params", "--save"])
def test_every_trainer_writes_all(tmp_path, how, filename):
    """Trainers may have disks of their own, and what an earlier job left there must not be mixed with this one's."""
    out = {i: tmp_path / f"params-{i}" for i in range(2)}
    options = ["--model", "word2vec_sparse", "--optimizer", "adam", *(["--filename", filename] if filename else [])]
    single(tmp_path / "a.npz", *options, how, str(tmp_path / "one"))
    single(tmp_path / "b.npz", *options, "--seed", "8", how, str(out[1]))
    stale = files(out[1])
    cluster(tmp_path / "c", *options, own=lambda i: [how, str(out[i])])
    for folder in out.values():
        assert_same_files(folder, tmp_path / "one")
    assert files(out[0]) == files(out[1])
    assert all(files(out[1])[name] != data for name, data in stale.items() if "beta" not in name and "learning_rate" not in name)


def test_trainers_of_one_folder_load_what_they_saved(tmp_path):
    """As scripts of fluid.Trainer do: each saves its parameters, then infers from them."""
    folder = tmp_path / "model"
    options = ["--model", "word2vec_sparse", "--model-to", str(folder), "--infer"]
    single(tmp_path / "a.npz", *options, "--seed", "8")  # an earlier run
    before = files(folder)["emb"]
    want = single(tmp_path / "b.npz", "--model", "word2vec_sparse", "--model-to", str(tmp_path / "one"), "--infer")["losses"][-1]
    for each in cluster(tmp_path / "c", *options):
        np.testing.assert_allclose(each["losses"][-1], want, rtol=1e-5)
    assert files(folder)["emb"] != before


@pytest.mark.parametrize("model, filename", [("word2vec_sparse", None), ("table", None), ("table", "weights")])
def test_inference_model_needs_no_servers(tmp_path, model, filename):
    more = ["--filename", filename] if filename else []
    folder = tmp_path / "model"
    cluster(tmp_path / "a", "--model", model, *more, "--model-to", str(folder))
    want = single(tmp_path / "b.npz", "--model", model, "--steps", "5")["losses"][-1]
    sys.path.insert(0, str(JOBS))
    try:
        import saving
    finally:
        sys.path.pop(0)
    with fluid.scope_guard(fluid.Scope()), fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        exe = fluid.Executor(fluid.CPUPlace())
        program, names, outs = fluid.io.load_inference_model(str(folder), exe, params_filename=filename)
        assert not {op.type for op in program.global_block().ops} & {"distributed_lookup_table", "prefetch", "recv"}
        _, batch, _ = saving.equality.MODELS[model](None)
        rng = np.random.default_rng(7000 + 4)
        got = exe.run(program, feed=batch(rng, 32), fetch_list=outs)[0]
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("filename", [None, "all"])
def test_a_job_starts_from_parameters_trained_before(tmp_path, filename):
    """Parameters alone, with fresh states of the optimizer; servers cut their slices out of whole files."""
    options = ["--model", "word2vec_sparse", "--optimizer", "adam", *(["--filename", filename] if filename else [])]
    before = str(tmp_path / "before")
    single(tmp_path / "a.npz", *options, "--save-params", before)
    want = single(tmp_path / "b.npz", *options, "--first-step", "4", "--load-params", before)["losses"]
    with Job(3, 2, "saving.py") as job:
        rest = [*options, "--first-step", "4", "--load-params", before]
        for i in range(3):
            job.start("server", i, *rest)
        trainers = [job.start("trainer", i, *rest, "--out", str(tmp_path / f"t{i}.npz")) for i in range(2)]
        job.end(deadline=60)
        assert not any("in this trainer" in each.output() for each in trainers)
    got = np.mean([np.load(tmp_path / f"t{i}.npz")["losses"] for i in range(2)], axis=0)
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize(
    "how, said",
    [
        ("--load-params", "loaded or set in this trainer only: fc_0.w_0, fc_0.b_0, fc_1.w_0 and 1 more"),
        ("--load-vars", "not loaded in this trainer, as servers hold the values: emb"),
        ("--fluid-load", "fluid.load with the server's Program"),
    ],
)
def test_what_trainers_alone_load_does_not_last(tmp_path, how, said):
    options = ["--model", "word2vec_sparse"]
    saved = str(tmp_path / "saved" / ("m" if how == "--fluid-load" else ""))
    single(tmp_path / "a.npz", *options, "--fluid-save" if how == "--fluid-load" else "--save-params", saved)
    with Job(1, 1, "saving.py") as job:
        job.start("server", 0, *options)
        trainer = job.start("trainer", 0, *options, "--steps", "1", how, saved)
        job.end(deadline=60)
        assert said in trainer.output(), trainer.output()
        assert "Load them in the servers too" in trainer.output()


# ---- fluid.save and load ----


def arrays(prefix: Path, suffix: str) -> dict:
    with open(f"{prefix}{suffix}", "rb") as file:
        return pickle.load(file)


STATES = [
    ("mlp", ["--optimizer", "adam", "--schedule"], []),
    ("word2vec_sparse", ["--optimizer", "adagrad"], ["--state"]),
    ("table", [], []),
    ("statistics", ["--optimizer", "lamb"], []),
]


@pytest.mark.parametrize("model, more, how", STATES, ids=lambda v: v if isinstance(v, str) else "")
def test_fluid_save_has_what_lies_on_servers_and_loads_everywhere(tmp_path, model, more, how):
    """The same dicts as of one process; one process and three servers go on from either."""
    options = ["--model", model, *more]
    plain = ["--model", f"{model}_plain", *more] if model == "table" else options
    one, many = tmp_path / "one" / "m", tmp_path / "many" / "m"
    trainers = 1 if model == "statistics" else 2
    single(tmp_path / "a.npz", *plain, "--fluid-save", str(one), trainers=trainers)
    cluster(tmp_path / "b", *options, "--fluid-save", str(many), trainers=trainers)
    for suffix in (".pdparams", ".pdopt"):
        got, want = arrays(many, suffix), arrays(one, suffix)
        assert sorted(got) == sorted(want)
        for name, value in want.items():
            assert got[name].dtype == value.dtype and got[name].shape == value.shape
            assert np.linalg.norm(got[name] - value) <= 1e-5 * np.linalg.norm(value) + 1e-7, name
    assert arrays(one, ".pdopt")
    rest = ["--first-step", "4"]
    want = single(tmp_path / "c.npz", *plain, *rest, "--fluid-load", str(one), trainers=trainers)["losses"]
    got = single(tmp_path / "d.npz", *plain, *rest, "--fluid-load", str(many), *how, trainers=trainers)["losses"]
    np.testing.assert_allclose(got, want, rtol=1e-5)
    for source in (one, many):
        got = cluster(tmp_path / "e", *options, *rest, "--fluid-load", str(source), *how, servers=3, trainers=trainers)
        np.testing.assert_allclose(losses(got), want, rtol=1e-5)


def test_fluid_save_by_every_trainer(tmp_path):
    out = {i: tmp_path / f"trainer-{i}" for i in range(2)}
    cluster(tmp_path / "a", "--model", "word2vec_sparse", own=lambda i: ["--fluid-save", str(out[i] / "m")])
    for folder in out.values():
        assert sorted(os.listdir(folder)) == ["m.pdmodel", "m.pdopt", "m.pdparams"]
    first, second = (pickle.loads((out[i] / "m.pdparams").read_bytes()) for i in range(2))
    assert "emb" in first and sorted(first) == sorted(second)
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_fluid_load_of_another_model_names_the_variable(tmp_path):
    single(tmp_path / "a.npz", "--model", "mlp", "--fluid-save", str(tmp_path / "m"))
    with Job(1, 1, "saving.py") as job:
        server = job.start("server", 0, "--model", "word2vec_sparse", "--fluid-load", str(tmp_path / "m"))
        assert server.end() == 1
        assert "no value for 'emb'" in server.output() and "m.pdparams" in server.output()


# ---- evaluation while training ----


@pytest.mark.parametrize("made", ["before", "after"])
@pytest.mark.parametrize("model", ["word2vec_sparse", "table"])
def test_a_test_clone_evaluates_what_servers_hold(tmp_path, model, made):
    """Made before or after transpile."""
    plain = "table_plain" if model == "table" else model
    want = single(tmp_path / "a.npz", "--model", plain, "--evaluate", made)["losses"]
    got = losses(cluster(tmp_path / "b", "--model", model, "--evaluate", made))
    np.testing.assert_allclose(got, want, rtol=1e-5)
    assert len(want) == 8 and want[1] < want[0]


def test_a_test_clone_from_before_transpile_saves(tmp_path):
    """Parameters, an inference model and fluid.save."""

    def options(root: Path, model: str) -> list[str]:
        to = ["--save-params", str(root / "params"), "--model-to", str(root / "model"), "--fluid-save", str(root / "m")]
        return ["--model", model, "--of-clone", *to]

    one, many = tmp_path / "one", tmp_path / "many"
    single(tmp_path / "a.npz", *options(one, "word2vec_sparse"))
    cluster(tmp_path / "b", *options(many, "word2vec_sparse"))
    assert_same_files(many / "params", one / "params")
    assert sorted(files(many / "model")) == sorted(files(one / "model"))
    got, want = arrays(many / "m", ".pdparams"), arrays(one / "m", ".pdparams")
    assert sorted(got) == sorted(want)
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "model, more, names",
    [
        ("mlp", ["--optimizer", "adam", "--schedule"], "rate,fc_0.w_0_moment1_0,@LR_DECAY_COUNTER@"),
        ("word2vec_sparse", [], "learning_rate_0,emb"),
        ("table", [], "rate,table"),
    ],
)
def test_fetches_of_what_servers_hold(tmp_path, model, more, names):
    """The rate of this step, states and tables after it."""
    options = ["--optimizer", "sgd", *more, "--fetch", names]
    plain = "table_plain" if model == "table" else model
    want = single(tmp_path / "a.npz", "--model", plain, *options)["losses"]
    got = cluster(tmp_path / "b", "--model", model, *options)
    np.testing.assert_allclose(losses(got), want, rtol=2e-5, atol=1e-8)


def test_fetch_of_what_only_servers_compute(tmp_path):
    with Job(1, 1, "saving.py") as job:
        options = ["--optimizer", "adam", "--schedule"]
        job.start("server", 0, *options)
        trainer = job.start("trainer", 0, *options, "--fetch", "cast_0.tmp_0")
        assert trainer.end() == 1
        assert "which servers compute; trainers have no value of it" in trainer.output(), trainer.output()


def test_a_value_on_servers_that_an_op_reads():
    """Only lookups and fetches go to servers; others say where the value is."""
    main, startup = fluid.Program(), fluid.Program()
    for program in (main, startup):
        program.global_block().create_var(name="table", shape=[4, 2], dtype="float32", persistable=True)
    startup.global_block().append_op(type="fake_init", outputs={"Out": ["table"]}, attrs={"shape": [4, 2]})
    main.global_block().create_var(name="twice", dtype="float32")
    main.global_block().append_op(type="scale", inputs={"X": ["table"]}, outputs={"Out": ["twice"]}, attrs={"scale": 2.0})
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        exe.run(startup)
        with pytest.raises(fluid.core.InvalidArgumentError, match="values of variable 'table' lie on the servers"):
            exe.run(main, fetch_list=["twice"])


# ---- the distributed table ----


@pytest.mark.parametrize("model", ["sequence", "sequence_v2", "sequence_v2_distributed", "sequence_plain"])
def test_ids_keep_their_shape(tmp_path, model):
    """ids [batch, 4, 1] (lookup_table) and [batch, 4] (lookup_table_v2): the rows come back as [batch, 4, width]."""
    want = single(tmp_path / "a.npz", "--model", "sequence_plain", "--steps", "6", "--save", str(tmp_path / "one"))
    if model != "sequence_plain":
        alone = single(tmp_path / "b.npz", "--model", model, "--steps", "6")
        np.testing.assert_allclose(alone["losses"], want["losses"], rtol=1e-5)
    got = cluster(tmp_path / "c", "--model", model, "--steps", "6", "--model-to", str(tmp_path / "model"))
    np.testing.assert_allclose(losses(got), want["losses"], rtol=1e-5)
    with fluid.scope_guard(fluid.Scope()):
        exe = fluid.Executor(fluid.CPUPlace())
        program, names, outs = fluid.io.load_inference_model(str(tmp_path / "model"), exe)
        rows = [op for op in program.global_block().ops if op.type.startswith("lookup_table")]
        assert {op.type for op in rows} == {"lookup_table_v2" if "v2" in model else "lookup_table"}
        assert [program.global_block().var(op.output("Out")[0]).shape for op in rows] == [(-1, 4, 16), (-1, 1, 16)]


@pytest.mark.parametrize("model, servers, more", [("table", 2, []), ("padded", 3, []), ("table", 1, ["--no-id"])])
def test_table_equals_one_process(tmp_path, model, servers, more):
    want = single(tmp_path / "a.npz", "--model", f"{model}_plain", "--steps", "8")["losses"]
    got = losses(cluster(tmp_path / "b", "--model", model, "--steps", "8", *more, servers=servers))
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_table_whose_gradients_are_added(tmp_path):
    """Upstream adds the trainers' gradients of the table: with one trainer that is the mean."""
    mean = losses(cluster(tmp_path / "a", "--model", "table"))
    added = losses(cluster(tmp_path / "b", "--model", "table", "--sum-table"))
    alone = losses(cluster(tmp_path / "c", "--model", "table", trainers=1))
    alone_added = losses(cluster(tmp_path / "d", "--model", "table", "--sum-table", trainers=1))
    np.testing.assert_allclose(alone, alone_added, rtol=1e-6)
    assert mean[0] == pytest.approx(added[0]) and abs(mean[-1] - added[-1]) > 1e-3


def test_table_is_saved_by_servers_and_loaded_everywhere(tmp_path):
    parts = tmp_path / "parts"
    cluster(tmp_path / "a", "--model", "table", "--save", str(parts))
    assert sorted(os.listdir(parts / "__lookup_table__")) == ["table_0", "table_1"]
    assert not (parts / "table").exists()
    rest = ["--first-step", "4"]
    want = single(tmp_path / "b.npz", "--model", "table_plain", "--steps", "8")["losses"][4:]
    got = single(tmp_path / "c.npz", "--model", "table_plain", *rest, "--load", str(parts))["losses"]
    np.testing.assert_allclose(got, want, rtol=1e-5)
    for servers in (2, 3):
        got = losses(cluster(tmp_path / "d", "--model", "table", *rest, "--load", str(parts), servers=servers))
        np.testing.assert_allclose(got, want, rtol=1e-5)
    whole = tmp_path / "whole"
    single(tmp_path / "e.npz", "--model", "table_plain", "--save", str(whole))
    got = losses(cluster(tmp_path / "f", "--model", "table", *rest, "--load", str(whole)))
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_table_on_a_disk_that_refuses(tmp_path):
    """The trainer that asked is told what went wrong on which server."""
    with Job(2, 1, "saving.py") as job:
        options = ["--model", "table", "--save", str(tmp_path / "out")]
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "__lookup_table__").write_text("in the way")
        for i in range(2):
            job.start("server", i, *options)
        trainer = job.start("trainer", 0, *options)
        assert trainer.end() == 1
        # Both servers are asked at once and both refuse; either may be the one that is told.
        assert "__lookup_table__" in trainer.output(), trainer.output()
        assert any(f"server {each}" in trainer.output() for each in job.endpoints), trainer.output()


# ---- slices cut at run time; async ----


@pytest.mark.parametrize("model", ["mlp", "word2vec_sparse", "table"])
def test_slices_cut_at_run_time(tmp_path, model):
    """With one trainer async training is sync training."""
    options = ["--model", model, "--steps", "8"]
    want = single(tmp_path / "a.npz", *options, trainers=1)
    got = cluster(tmp_path / "b", *options, "--async", "--runtime-split", trainers=1)[0]
    np.testing.assert_allclose(got["losses"], want["losses"], rtol=1e-5)
    for name in set(got) - {"losses"}:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "more, how",
    [([], []), (["--slow-schedule"], []), ([], ["--runtime-split"])],
    ids=["plain", "schedule", "run_time_slices"],
)
def test_async_ends_near_sync(tmp_path, more, how):
    """Final losses, mean over three seeds, differ by less than 5%."""
    ends = {"sync": [], "async": []}
    for seed in ("1", "2", "3"):
        options = ["--model", "noisy", "--steps", "250", "--seed", seed, *more]
        for kind, extra in (("sync", []), ("async", ["--async", *how])):
            ends[kind].append(losses(cluster(tmp_path / "a", *options, *extra))[-100:].mean())
    assert np.mean(ends["async"]) == pytest.approx(np.mean(ends["sync"]), rel=0.05), ends
    assert np.mean(ends["sync"]) < 1.6  # it learnt: it began at 6.4


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("options", [[], ["--distributed"]], ids=["sparse", "distributed"])
def test_a_table_found_in_the_scope_is_fetched(servers, options):
    """np.array(scope.find_var(name).get_tensor()), of a table whose rows lie on servers."""
    with Job(servers, 1, script="find_table.py") as job:
        job.start_all(*options)
        job.end(30)
        assert "found" in job.processes[-1].output()


@pytest.mark.parametrize("options", [[], ["--distributed"]], ids=["sparse", "distributed"])
def test_an_id_outside_of_the_table_is_named_with_the_line_of_its_embedding(options):
    with Job(1, 1, script="find_table.py") as job:
        job.start_all("--stray", *options)
        for process in job.processes:
            process.end(30)
        said = job.processes[-1].output()
    script = (Path(__file__).parent / "jobs" / "find_table.py").read_text().splitlines()
    line = next(i for i, text in enumerate(script, 1) if "layers.embedding(" in text)
    assert "id 9 (number 1 of Ids) is outside the " in said, said
    assert f'find_table.py", line {line}, in main' in said.partition("made in")[2], said


def test_states_are_saved_while_other_trainers_train(tmp_path):
    """Async, two loops: what a loop updates is sent by that loop, so that no value changes while it is on its way."""
    with Job(1, 2, script="states.py", env={"FLAGS_ps_loops": "2", "PADDLE_PS_TRANSPORT": "tcp"}) as job:
        job.start("server", 0, "--out", str(tmp_path))
        for i in range(2):
            job.start("trainer", i, "--out", str(tmp_path))
        job.end(60)
        for p in job.processes:
            assert "not what was sent" not in p.output(), p.output()


@pytest.mark.parametrize("more, rows", [([], 4), (["--added"], 5), (["--clip"], 4), (["--added", "--clip"], 5)],
                         ids=["averaged", "added", "averaged, clip", "added, clip"])
def test_table_whose_gradients_are_added_and_a_trainer_that_leaves(more, rows):
    """One gives to the first of four steps only. What is added up is that of those who give, also where a clip of others runs
    first."""
    with Job(1, 2, "tables.py") as job:
        job.start("server", 0, *more)
        stays = job.start("trainer", 0, *more, "--steps", "4")
        job.start("trainer", 1, *more, "--steps", "1")
        job.end(60)
        assert f"ends {[float(rows)] * 20}" in stays.output(), stays.output()
