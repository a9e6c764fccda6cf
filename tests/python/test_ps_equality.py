"""Sync training on n servers x m trainers, and async training of one trainer, gives what one process gives with the joined
batch."""

import itertools
import os

import numpy as np
import pytest
from cluster import Job, single
from ps_peer import memory

SMALL = [
    ("1x1", "fit_a_line", "sgd", []),
    ("1x2", "fit_a_line", "sgd", []),
    ("2x2", "names", "sgd", []),  # names that look like those of gradients on their way
    ("2x2", "gradients", "momentum", []),
    ("2x2", "mlp", "adam", []),
    ("2x2", "mlp", "momentum", ["--decay", "--schedule"]),
    ("2x2", "word2vec_sparse", "adagrad", []),
    ("2x2", "factors", "sgd", []),
    ("2x2", "turns", "adam", []),  # steps without rows of some slices
    ("3x1", "turns", "momentum", ["--decay"]),
    ("3x2", "turns", "lazy_adam", ["--clip", "value"]),
    ("2x1", "turns", "adam", ["--async"]),
    ("2x2", "turns64", "adam", []),
    ("2x1", "gaps", "adamax", []),  # steps without any rows
    ("2x1", "gaps", "adam", []),
    ("2x1", "gaps", "adamax", ["--async"]),
    ("3x2", "word2vec", "sgd", ["--schedule"]),
    ("2x2", "mlp", "sgd", ["--clip", "value"]),
    ("2x2", "mlp", "sgd", ["--clip", "norm"]),
    ("2x2", "mlp", "adam", ["--clip", "global_norm"]),
    ("2x2", "mlp", "sgd", ["--no-slices"]),
    ("3x2", "fit_a_line", "sgd", ["--no-slices"]),  # two parameters: one server has none
    ("1x1", "mlp", "adam", ["--async", "--schedule"]),  # of one trainer, whose steps come one after the other
    ("2x1", "mlp", "momentum", ["--async", "--decay", "--schedule"]),
    ("2x1", "word2vec_sparse", "adagrad", ["--async", "--decay", "--schedule"]),
    ("1x2", "fit_a_line", "momentum", ["--places", "2"]),  # on several places of each trainer
    ("2x2", "mlp", "adam", ["--places", "2", "--clip", "global_norm"]),
    ("2x2", "word2vec_sparse", "sgd", ["--places", "2"]),
    ("2x2", "factors", "sgd", ["--places", "4"]),
]
WHOLE = [
    (shape, model, optimizer, [*more, *slices])
    for shape, model, optimizer, more, slices in itertools.product(
        ["1x1", "1x2", "2x2", "3x2"],
        ["fit_a_line", "mlp", "word2vec", "word2vec_sparse"],
        ["sgd", "momentum", "adam", "adagrad"],
        [[], ["--decay"], ["--clip", "value"], ["--clip", "norm"], ["--clip", "global_norm"], ["--schedule"]],
        [[], ["--no-slices"]],
    )
]
WHOLE += [
    (shape, "turns", optimizer, more)
    for shape, optimizer, more in itertools.product(
        ["1x1", "2x2", "3x2"],
        ["sgd", "momentum", "adam", "lazy_adam", "adagrad"],
        [[], ["--decay"], ["--clip", "value"], ["--clip", "norm"], ["--clip", "global_norm"], ["--schedule"]],
    )
]
CASES = WHOLE if os.environ.get("PADDLE_SOAK") else SMALL


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """What one process gives: run once for all layouts of the same model with the same joined batch."""
    known = {}

    def run(trainers: int, options: list[str]) -> dict:
        key = (trainers, *options)
        if key not in known:
            known[key] = single(tmp_path_factory.mktemp("one") / "single.npz", *options, trainers=trainers)
        return known[key]

    return run


def whole(name: str, trainer: dict, servers: list[dict]) -> np.ndarray:
    """A parameter as the trainer has it, else put together from the servers' slices."""
    if name in trainer:
        return trainer[name]
    held = {key: value for server in servers for key, value in server.items()}
    if name in held:
        return held[name]
    slices = [held[f"{name}.block{k}"] for k in range(len(held)) if f"{name}.block{k}" in held]
    return np.concatenate(slices)


def distance(got: np.ndarray, want: np.ndarray) -> float:
    """In norm, compared with what it should be."""
    return float(np.linalg.norm(got - want) / max(1e-12, np.linalg.norm(want)))


@pytest.mark.parametrize("shape, model, optimizer, more", CASES,
                         ids=lambda v: v if isinstance(v, str) else "_".join(v).replace("--", "") or "plain")
def test_equals_one_process(tmp_path, one_process, record_property, shape, model, optimizer, more):
    servers, trainers = map(int, shape.split("x"))
    options = ["--model", model, "--optimizer", optimizer, *more]
    want = one_process(trainers, [word for word in options if word not in ("--no-slices", "--async")])  # those are of the servers
    with Job(servers, trainers) as job:
        job.start_all(*options, out=tmp_path)
        job.end(deadline=60)
    got = [dict(np.load(tmp_path / f"trainer-{i}.npz")) for i in range(trainers)]
    held = [dict(np.load(tmp_path / f"server-{i}.npz")) for i in range(servers)]
    losses = np.mean([g["losses"] for g in got], axis=0)
    distances = {name: distance(whole(name, got[0], held), want[name]) for name in want if name != "losses"}
    record_property("losses differ by", f"{distance(losses, want['losses']):.1e}")
    record_property("parameters by", f"{max(distances.values()):.1e}")
    np.testing.assert_allclose(losses, want["losses"], rtol=1e-5, atol=1e-6)
    assert max(distances.values()) < 1e-5, distances


@pytest.mark.parametrize("model", ["mlp", "word2vec_sparse"])
@pytest.mark.parametrize("flag", ["FLAGS_fuse_ops=0", "FLAGS_check_nan_inf=1", "FLAGS_share_memory=0"])
def test_op_by_op(tmp_path, one_process, flag, model):
    """Flags by which the trainers' Programs run as they are written, and messages leave one by one; parameters lie in slices."""
    options = ["--model", model, "--optimizer", "momentum"]
    want = one_process(2, options)
    with Job(2, 2, env=dict([flag.split("=")])) as job:
        job.start_all(*options, out=tmp_path)
        job.end(deadline=60)
    got = [dict(np.load(tmp_path / f"trainer-{i}.npz")) for i in range(2)]
    np.testing.assert_allclose(np.mean([g["losses"] for g in got], axis=0), want["losses"], rtol=1e-5, atol=1e-6)


def test_frozen_parameters_are_the_same_everywhere(tmp_path):
    """Without a seed each process draws its own numbers; what is drawn once and never trained comes from a server,
    and outlives the job in its snapshot."""

    def run() -> list[str]:
        with Job(2, 2, "frozen.py", env={"FLAGS_ps_dir": str(tmp_path)}) as job:
            job.start_all()
            job.end()
            return [line for p in job.processes for line in p.output().splitlines() if line.startswith("frozen")]

    first, second = run(), run()
    assert len(first) == len(second) == 2
    assert len(set(first)) == 1, "the trainers start differently"
    assert len({line.split()[1] for line in first + second}) == 1, "the second job starts from the first one's snapshot"


def test_async_with_tables_only(tmp_path):
    """No parameter comes back with a step, and the step ends all the same."""
    with Job(2, 2) as job:
        job.start_all("--model", "factors", "--async", "--steps", "300", out=tmp_path)
        job.end(deadline=60)
    losses = np.array([np.load(tmp_path / f"trainer-{i}.npz")["losses"] for i in range(2)])
    begin = losses[:, :20].mean(1).max()  # one that starts late finds the work of the other
    assert (losses[:, -20:].mean(1) < 0.7 * begin).all(), losses


@pytest.mark.parametrize("model", ["fit_a_line", "mlp", "word2vec_sparse"])
def test_memory(tmp_path, record_property, model):
    """No process of a job needs 60 MiB beside its parameters, here less than one."""
    with Job(2, 2) as job:
        job.start_all("--model", model, "--steps", "50", "--linger", str(tmp_path / "enough"))
        for process in job.processes[2:]:
            process.wait_for("all steps have ended")
        peaks = {process.name: memory(process.pid) // 1024 for process in job.processes}
        (tmp_path / "enough").touch()
        job.end(deadline=60)
    record_property("MiB", max(peaks.values()))
    assert max(peaks.values()) < 60, peaks


@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_a_trainer_goes_on_after_steps_without_rows(tmp_path, one_process, mode):
    """Killed between two steps, it knows how many all servers have, also those that got nothing in some of them."""
    options = ["--model", "gaps", "--optimizer", "adamax", "--steps", "12"]
    want = one_process(1, options)
    with Job(3, 1, env={"FLAGS_ps_on_trainer_loss": "wait"}) as job:
        for i in range(3):
            job.start("server", i, *options, *mode, "--out", str(tmp_path / f"server-{i}.npz"))
        first = job.start("trainer", 0, *options, *mode, "--pause-at", "8", "--linger", str(tmp_path / "never"))
        first.wait_for("pauses")
        first.kill()
        job.processes.remove(first)
        first.close()
        again = job.start("trainer", 0, *options, *mode, "--resume", "--out", str(tmp_path / "trainer-0.npz"))
        job.end(deadline=60)
        assert "steps done: 8" in again.output(), again.output()
    got, held = dict(np.load(tmp_path / "trainer-0.npz")), [dict(np.load(tmp_path / f"server-{i}.npz")) for i in range(3)]
    for name in want:
        if name != "losses":
            assert distance(whole(name, got, held), want[name]) < 1e-5, name
