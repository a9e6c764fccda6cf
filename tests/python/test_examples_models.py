"""The click-through models of the examples: each learns, alone and on servers; what they save and read; their made-up clicks."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cluster import Process, free_ports

import paddle.fluid as fluid

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
TRAIN = EXAMPLES / "ctr_dnn" / "train.py"
SOAK = bool(os.environ.get("PADDLE_SOAK"))
SMALL = ["--samples=16000", "--test_samples=4000", "--rows=20001", "--batch_size=100", "--every=20"]
RATE = {"ctr_dnn/train.py": 0.003, "wide_deep.py": 0.05, "deepfm.py": 0.004, "dcn.py": 0.003}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder of made-up clicks, which the first test that wants them has made."""
    return tmp_path_factory.mktemp("clicks") / "data"


def ended(folder, script, *words, deadline=200, given=""):
    return subprocess.run([sys.executable, "-u", str(script), *map(str, words)], cwd=folder, text=True, capture_output=True,
                          input=given, timeout=deadline, env={**os.environ, "OMP_NUM_THREADS": "1"})


def run(folder, script, *words, deadline=200):
    done = ended(folder, EXAMPLES / script, *words, deadline=deadline)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def auc(said):
    """Of the last test."""
    return float(re.findall(r"^pass \d+: test AUC.* ([\d.]+)$", said, re.MULTILINE)[-1])


# ---- alone ----


@pytest.mark.parametrize("script", RATE)
def test_models_learn(tmp_path, data, script):
    """A constant prediction has an AUC of 0.5."""
    said = run(tmp_path, script, *SMALL, "--data", data, "--rate", RATE[script])
    assert auc(said) > 0.66, said
    losses = [float(text) for text in re.findall(r"loss: ([\d.]+)", said)]
    assert len(losses) == 8 and losses[-1] < losses[0], said


def test_attention_learns(tmp_path):
    said = run(tmp_path, "din.py", "--samples=20000", "--test_samples=4000", "--goods=200", "--batch_size=100", "--rate=0.01")
    assert auc(said) > 0.75, said


def test_skip_gram_learns(tmp_path):
    said = run(tmp_path, "skip_gram.py", "--samples=60000", "--words=1000", "--batch_size=500", "--every=10", "--save=out")
    assert auc(said) > 0.85, said
    losses = [float(text) for text in re.findall(r"loss: ([\d.]+)", said)]
    assert losses[-1] < 0.6 * losses[0], said
    assert (tmp_path / "out" / "params" / "vectors").exists()


def test_what_was_saved_is_used_and_trained_on(tmp_path, data):
    words = [*SMALL, "--data", data, "--rate=0.003"]
    first = run(tmp_path, "ctr_dnn/train.py", *words, "--save", tmp_path / "out")
    used = run(tmp_path, "ctr_dnn/infer.py", "--model", "out/model", "--files", data / "test" / "part-*")
    assert float(re.search(r"AUC ([\d.]+) over 8 files", used)[1]) == auc(first)
    again = run(tmp_path, "ctr_dnn/train.py", *words, "--passes=0", "--load=out/params", "--save=same")
    assert "test AUC" not in again
    for path in (tmp_path / "out" / "params").iterdir():
        assert path.read_bytes() == (tmp_path / "same" / "params" / path.name).read_bytes(), path.name


def test_data_of_other_settings_is_refused(tmp_path, data):
    run(tmp_path, "ctr_dnn/train.py", *SMALL, "--data", data, "--passes=0")
    done = ended(tmp_path, TRAIN, *SMALL, "--data", data, "--seed=2")
    assert done.returncode == 1 and "was made with --seed=1, and now --seed=2 is wanted" in done.stderr
    assert "Traceback" not in done.stderr


def test_examples_in_one_folder(tmp_path):
    """One after the other, without options that keep their data apart."""
    for script in ("dcn.py", "din.py", "skip_gram.py"):
        run(tmp_path, script, "--samples=800", "--test_samples=800", "--passes=0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "pairs", "visits"]


# ---- Criteo's files ----


def criteo_line(label, number):
    """Empty fields, a negative count, and a token that tells the label."""
    tokens = "\t".join(f"{number * 31 + slot:08x}" for slot in range(24))
    return f"{label}\t1\t\t-1" + "\t5" * 10 + f"\t{tokens}\t\t{label:08x}\n"


def test_files_of_criteo(tmp_path):
    """Read through a pipe; the last slot tells the label, so that the test is easy."""
    rng = np.random.RandomState(1)
    for name, count in (("day_0", 600), ("day_1", 600), ("test_0", 200)):
        lines = [criteo_line(label, i) for i, label in enumerate(rng.randint(0, 2, count))]
        (tmp_path / name).write_text("".join(lines))
    said = run(tmp_path, "ctr_dnn/train.py", "--criteo=day_*", "--criteo_test=test_*", "--rows=1001", "--batch_size=50",
               "--passes=2", "--rate=0.003")
    assert auc(said) > 0.95, said
    done = ended(tmp_path, EXAMPLES / "ctr_dnn" / "reader.py", "--rows", 1001, given=criteo_line(1, 7))
    fields = done.stdout.split()
    assert done.returncode == 0 and fields[0] == "13" and len(fields) == 14 + 2 * 26 + 2 and fields[-2:] == ["1", "1"]
    np.testing.assert_allclose([float(each) for each in fields[1:5]], [np.log1p(1), 0, 0, np.log1p(5)], rtol=1e-6)
    assert all(1 <= int(each) < 1001 for each in fields[15:-2:2])


def test_a_line_that_is_not_criteos(tmp_path):
    (tmp_path / "day_0").write_text(criteo_line(1, 1) + "1\t2\t3\n")
    done = ended(tmp_path, TRAIN, "--criteo=day_0")
    assert done.returncode != 0 and "a line of Criteo has 40 fields separated by tabs, found 3: '1\\t2\\t3\\n'" in done.stderr


# ---- on servers ----


class Job:
    """Two servers and two workers, as the guide has them; `with` kills what is left."""

    def __init__(self, *words, script=TRAIN, **env):
        self.ports = free_ports(2)
        self.endpoints = [f"127.0.0.1:{port}" for port in self.ports]
        self.command = [sys.executable, "-u", str(script), "--is_cloud=1", *map(str, words)]
        self.env = {"PADDLE_PSERVERS_IP_PORT_LIST": ",".join(self.endpoints), "PADDLE_TRAINERS_NUM": "2", **env}
        self.servers, self.workers = [], []

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        for process in self.servers + self.workers:
            process.close()

    def start_servers(self):
        for i, port in enumerate(self.ports):
            env = {"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": str(port)}
            self.servers.append(Process(f"server-{i}", self.command, self.env | env))

    def start_workers(self):
        for i in range(2):
            env = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)}
            self.workers.append(Process(f"worker-{i}", self.command, self.env | env))

    def end(self, deadline=120):
        for process in self.workers + self.servers:
            assert process.end(deadline) == 0, "\n".join(f"--- {p.name}\n{p.output()}" for p in self.workers + self.servers)
        return self.workers[0].output()

    def run(self, deadline=120):
        self.start_servers()
        self.start_workers()
        return self.end(deadline)


def parameters(folder):
    """Those of a folder that --save has filled."""
    found = {}
    scope = fluid.Scope()
    with fluid.scope_guard(scope), fluid.program_guard(fluid.Program(), fluid.Program()):
        block, exe = fluid.default_main_program().global_block(), fluid.Executor(fluid.CPUPlace())
        shapes = {"SparseFeatFactors": [20001, 10], "fc_0.w_0": [273, 400], "fc_1.w_0": [400, 400], "fc_3.w_0": [400, 2],
                  "fc_3.b_0": [2]}
        for name, shape in shapes.items():
            block.create_var(name=name, shape=shape, dtype="float32", persistable=True)
        fluid.io.load_persistables(exe, str(folder / "params"))
        for name in shapes:
            found[name] = np.array(scope.find_var(name).get_tensor())
    return found


@pytest.mark.parametrize("servers_first", [True, False])
def test_the_guides_job_is_one_process(tmp_path, data, servers_first):
    """`python -u train.py --is_cloud=1` by the guide's variables, in either order, with its lines; and the numbers of one process
    whose batches are those of both workers joined."""
    words = ["--rows=20001", "--every=1", "--rate=0.0001"]
    run(tmp_path, "ctr_dnn/train.py", *SMALL, "--data", data, "--passes=0")
    lines = [path.read_bytes().splitlines(keepends=True)[:200] for path in sorted((data / "train").iterdir())[:2]]
    for name, files in (("two", lines), ("one", [[line for at in (0, 100) for each in lines for line in each[at : at + 100]]])):
        for part, content in enumerate(files):
            (tmp_path / name / "train").mkdir(parents=True, exist_ok=True)
            (tmp_path / name / "train" / f"part-{part}").write_bytes(b"".join(content))
        (tmp_path / name / "test").symlink_to(data / "test")
    alone = run(tmp_path, "ctr_dnn/train.py", *words, "--data=one", "--batch_size=200", "--save", tmp_path / "alone")
    run(tmp_path, "ctr_dnn/train.py", *words, "--data=one", "--passes=0", "--save", tmp_path / "start")
    with Job(*words, f"--data={tmp_path / 'two'}", "--batch_size=100", f"--save={tmp_path / 'job'}") as job:
        if servers_first:
            job.start_servers()
            for server, endpoint in zip(job.servers, job.endpoints):
                server.wait_for(f"Server listening on {endpoint} selected port: {endpoint.rpartition(':')[2]}")
            job.start_workers()
        else:
            job.start_workers()
            for worker in job.workers:
                worker.wait_for(f"server not ready, wait 3 sec to retry...\nnot ready endpoints:{job.endpoints}\n", 60)
            job.start_servers()
        said = job.end()
        for i, worker in enumerate(job.workers):
            assert "Communicator start" in worker.output() and f"init rpc client with trainer_id {i}\n" in worker.output()
            assert ("server not ready" in worker.output()) != servers_first
        assert "test AUC" not in job.workers[1].output()
    found, wanted, start = (parameters(tmp_path / name) for name in ("job", "alone", "start"))
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-5, err_msg=name)
        assert np.abs(wanted[name] - start[name]).max() > 1e-4, name
    assert auc(said) == pytest.approx(auc(alone), abs=2e-4)


@pytest.mark.parametrize("script, words", [
    ("ctr_dnn/train.py", ["--strategy=async"]),
    ("ctr_dnn/train.py", ["--strategy=half_async"]),
    ("ctr_dnn/train.py", ["--strategy=geo", "--geo_steps=20"]),
])
def test_jobs_that_are_not_sync_learn(tmp_path, data, script, words):
    with Job(*SMALL, "--data", data, "--rate=0.003", "--passes=2", *words, script=EXAMPLES / script) as job:
        said = job.run()
        assert auc(said) > 0.62, said


def test_skip_gram_on_servers(tmp_path):
    with Job("--data", tmp_path / "text", "--samples=60000", "--words=1000", "--batch_size=250", "--strategy=async", "--save",
             tmp_path / "out", script=EXAMPLES / "skip_gram.py") as job:
        assert auc(job.run()) > 0.8
    assert (tmp_path / "out" / "params" / "vectors").exists()


@pytest.mark.skipif(not SOAK, reason="an hour: PADDLE_SOAK=1")
@pytest.mark.parametrize("strategy, within", [("async", 0.003), ("half_async", 0.003), ("geo", 0.01)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_job_ends_where_one_process_does(tmp_path, strategy, within, seed):
    """AUC of the saved model, which is what the servers have, over 200,000 samples that nobody trained on."""
    words = ["--samples=1600000", "--test_samples=200000", "--rows=100001", "--batch_size=250", "--every=1000", f"--seed={seed}",
             f"--data={tmp_path / 'data'}"]
    run(tmp_path, "ctr_dnn/train.py", *words, "--save=alone", deadline=3600)
    with Job(*words, f"--strategy={strategy}", f"--save={tmp_path / 'job'}") as job:
        job.run(3600)
    alone, job = (float(re.search(r"AUC ([\d.]+)", run(tmp_path, "ctr_dnn/infer.py", "--model", tmp_path / name / "model"))[1])
                  for name in ("alone", "job"))
    assert alone > 0.83 and alone - job < within, f"alone {alone}, {strategy} {job}"


# ---- the clicks that are made up ----


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES / "ctr_dnn"))
    import generate
    import multislot

    yield generate, multislot
    for name in ("generate", "multislot"):
        sys.modules.pop(name)


def test_lines_are_what_python_would_write(modules):
    _, multislot = modules
    rng = np.random.RandomState(1)
    floats = rng.uniform(0, 1000, (50, 3)) * rng.choice([0, 1e-3, 1], (50, 3))
    ids = rng.choice([0, 1, 10, 99, 1000000, 2**31 - 1], (50, 40))
    lengths = rng.randint(1, 41, 50)
    lines = multislot.Lines()
    lines.floats(floats)
    lines.ids(ids, lengths)
    lines.ids(ids[:, :1] * 2**20)
    wanted = ""
    for real, whole, length in zip(floats, ids, lengths):
        wanted += "3 " + " ".join(f"{value:.4f}" for value in real) + f" {length} " + " ".join(map(str, whole[:length]))
        wanted += f" 1 {whole[0] * 2**20}\n"
    assert lines.text().decode() == wanted


def test_made_up_clicks(modules):
    """The same for the same seed, skewed, and as hard as the text says."""
    generate, _ = modules
    first, again, other = ([np.concatenate(each) for each in zip(*generate.batches(20000, 5001, seed))] for seed in (1, 1, 2))
    for a, b in zip(first, again):
        np.testing.assert_array_equal(a, b)
    dense, ids, label = first
    assert (ids != other[1]).any() and dense.min() == 0 and 1 <= ids.min() and ids.max() <= 5000
    assert 0.2 < label.mean() < 0.3
    counts = np.bincount(ids[:, 20])
    assert counts.max() > 50 * np.median(counts[counts > 0])
    hidden, rng = generate.Hidden(), np.random.RandomState(3)
    dense, tokens, label = generate.draw(rng, 50000, hidden)
    order = np.argsort(hidden.probability(dense, tokens))
    rank = np.empty(len(order))
    rank[order] = np.arange(len(order))
    clicks = label.sum()
    best = (rank[label == 1].sum() - clicks * (clicks - 1) / 2) / clicks / (len(label) - clicks)
    assert best == pytest.approx(0.88, abs=0.01)
