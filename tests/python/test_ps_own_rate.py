"""A rate that the script computes from variables of its own (jobs/own_rate.py). Servers compute and keep them; trainers compute
them as well, for what else reads them, and get what they are by now with the startup Program."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from cluster import Job, alone

KINDS = ["halves", "counts", "counter", "switches"]
SAID = "servers do not keep what trainers alone hold"


def one(out: Path, *options: str) -> str:
    out.mkdir()
    return alone("own_rate.py", "--out", str(out), *options)


def steps_of(said: str) -> list[str]:
    return re.findall(r"^step .*", said, re.MULTILINE)


def assert_same(got: Path, want: Path) -> None:
    for name in ("saved.pdparams", "saved.pdopt"):
        mine, theirs = (pickle.loads((folder / name).read_bytes()) for folder in (got, want))
        assert sorted(mine) == sorted(theirs), name
        for key, value in theirs.items():
            np.testing.assert_array_equal(mine[key], value, err_msg=key)
    mine, theirs = ({path.name: path.read_bytes() for path in (folder / "persistables").iterdir()} for folder in (got, want))
    assert sorted(mine) == sorted(theirs)
    assert not [name for name in theirs if mine[name] != theirs[name]]


@pytest.mark.parametrize("servers, mode", [(1, []), (2, []), (3, []), (2, ["--async"])], ids=["1", "2", "3", "2 async"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_trainer_saves_it(tmp_path, kind, servers, mode):
    options = ["--kind", kind, "--out", str(tmp_path / "job")]
    (tmp_path / "job").mkdir()
    with Job(servers, 1, "own_rate.py") as job:
        job.start_all(*options, *mode)
        job.end(60)
        said = steps_of(job.processes[-1].output())
    assert said == steps_of(one(tmp_path / "one", "--kind", kind))
    assert_same(tmp_path / "job", tmp_path / "one")


@pytest.mark.parametrize("options", [[], ["--in-loss"], ["--async"]], ids=["", "in the loss", "async"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_is_started_again(tmp_path, kind, options):
    """All are killed after three steps: what trainers fetch, compute with and save is what one process has, and nothing is warned
    of."""
    options = ["--kind", kind, *options]
    (tmp_path / "job").mkdir()
    with Job(2, 1, "own_rate.py", env={"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": "write"}) as job:
        job.start_all(*options, "--steps", "3", "--stay")
        job.processes[-1].wait_for("stays")
        first = job.clear()[-1]
        job.start_all(*options, "--out", str(tmp_path / "job"))
        job.end(60)
        second = job.processes[-1].output()
    assert SAID not in second, second
    assert steps_of(first) + steps_of(second) == steps_of(one(tmp_path / "one", *options))
    assert_same(tmp_path / "job", tmp_path / "one")


def test_what_trainers_alone_hold_is_still_named(tmp_path):
    with Job(1, 1, "own_rate.py", env={"FLAGS_ps_dir": str(tmp_path), "FLAGS_ps_log": "write"}) as job:
        job.start_all("--kind", "counts", "--average", "--steps", "3", "--stay")
        job.processes[-1].wait_for("stays")
        job.clear()
        job.start_all("--kind", "counts", "--average", "--steps", "4", "--stay")
        job.processes[-1].wait_for("stays")
        (said,) = [line for line in job.processes[-1].output().splitlines() if SAID in line]
        assert "ema" in said and "count " not in said and "count," not in said, said


def test_a_trainer_that_is_started_again(tmp_path):
    """The other one waits in the middle of the job."""
    options = ["--kind", "counts", "--in-loss", "--out", str(tmp_path)]
    env = {"FLAGS_ps_on_trainer_loss": "wait", "FLAGS_ps_reconnect": "500", "FLAGS_rpc_deadline": "60000"}
    with Job(2, 2, "own_rate.py", env=env) as job:
        for i in range(2):
            job.start("server", i, *options)
        goes = job.start("trainer", 0, *options, "--steps", "3", "--stay")
        other = job.start("trainer", 1, *options)
        goes.wait_for("stays")
        first = goes.output()
        job.processes.remove(goes)
        goes.close()
        again = job.start("trainer", 0, *options)
        job.end(60)
        assert SAID not in again.output(), again.output()
        assert steps_of(first) + steps_of(again.output()) == steps_of(other.output()) == [f"step {i}: {i + 1.0}" for i in range(6)]
