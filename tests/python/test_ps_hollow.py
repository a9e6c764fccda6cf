"""Sizes of nothing: parameters without rows or columns, tables with fewer rows than servers, jobs without parameters."""

import sys
from pathlib import Path

import pytest
from cluster import JOBS, Job, alone

sys.path.insert(0, str(JOBS))
from hollow import KINDS  # noqa: E402

WITH_PARAMETERS = [kind for kind in KINDS if kind != "no parameters"]
MODES = {
    "plain": ([], {}),
    "engine": (["--decay"], {}),  # optimize blocks that run through the engine
    "agreed": ([], {"FLAGS_ps_on_trainer_loss": "shrink"}),
    "loops": ([], {"FLAGS_ps_loops": "3"}),
    "tcp": ([], {"PADDLE_PS_TRANSPORT": "tcp"}),
}


def losses(text: str) -> list[float]:
    line = next(line for line in text.splitlines() if line.startswith("losses"))
    return [float(word) for word in line.split()[1:]]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("kind", WITH_PARAMETERS)
@pytest.mark.parametrize("servers, trainers", [(1, 2), (3, 1)])
def test_as_in_one_process(tmp_path, kind, optimizer, servers, trainers):
    """Losses and all files, states of the optimizer too."""
    if "distributed" in kind and optimizer != "SGD":
        pytest.skip("a distributed table has plain SGD")
    more, env = list(MODES.values())[(KINDS.index(kind) + 2 * (optimizer == "Adam") + servers) % len(MODES)]
    want = losses(alone("hollow.py", "--kind", kind, "--optimizer", optimizer, "--out", str(tmp_path / "one"), *more))
    with Job(servers, trainers, script="hollow.py", env=env) as job:
        job.start_all("--kind", kind, "--optimizer", optimizer, "--out", str(tmp_path / "job"), *more)
        job.end(60)
        for trainer in job.processes[servers:]:
            assert losses(trainer.output()) == pytest.approx(want, rel=1e-5, abs=1e-5)
    one, many = files(tmp_path / "one"), files(tmp_path / "job")
    if "distributed" not in kind:
        assert {name: len(data) for name, data in one.items()} == {name: len(data) for name, data in many.items()}
        assert not [name for name in one if "pow_acc" in name and one[name] != many[name]]


@pytest.mark.parametrize("kind", WITH_PARAMETERS)
def test_async(kind):
    with Job(2, 2, script="hollow.py") as job:
        job.start_all("--kind", kind, "--async")
        job.end(60)


@pytest.mark.parametrize("kind", WITH_PARAMETERS)
def test_snapshots_and_logs(tmp_path, kind):
    """Each run goes on from the files of the one before."""
    env = {"FLAGS_ps_dir": str(tmp_path), "FLAGS_ps_log": "write", "FLAGS_ps_snapshot_steps": "3"}
    endpoints = None
    for run in range(3):
        with Job(2, 1, script="hollow.py", env=env) as job:
            job.endpoints = endpoints = endpoints or job.endpoints
            job.start_all("--kind", kind, "--optimizer", "SGD")
            job.end(60)
            assert all((f"taken up at step {4 * run}" in p.output()) == bool(run)
                       for p in job.processes[:2]), [p.output() for p in job.processes]


@pytest.mark.parametrize("kind", WITH_PARAMETERS)
def test_a_snapshot_on_another_number_of_servers(tmp_path, kind):
    env = {"FLAGS_ps_dir": str(tmp_path)}
    for run, servers in enumerate((3, 1, 2)):
        with Job(servers, 1, script="hollow.py", env=env) as job:
            job.start_all("--kind", kind)
            job.end(60)
            assert all(f"taken up at step {4 * run}" in p.output() for p in job.processes[:servers]
                       if run), [p.output() for p in job.processes]


def test_no_parameters():
    """Nothing to train: transpile says so, in all processes."""
    with Job(1, 1, script="hollow.py") as job:
        job.start_all("--kind", "no parameters")
        for process in job.processes:
            assert process.end(30) == 1
            assert "has no optimizer op" in process.output().splitlines()[-1], process.output()
