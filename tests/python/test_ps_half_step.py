"""A whole job is ended when one server has a step that another one lacks. Started again, it has the parameters of a job that was
not disturbed: trainers give that step once more, to the server that lacks it (jobs/counted.py: the rows count the updates)."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from cluster import Job
from test_ps_files import ended_by_sigterm
from test_ps_moved import counts, job_of, run, table
from test_ps_recovery import MODES, folder_of


def stopped_at(job: Job, steps: int, tmp_path: Path, *options: str, is_killed: bool) -> None:
    """All processes have ended after so many steps, with a log; or the servers when asked to."""
    servers = [job.start("server", i, *options) for i in range(len(job.endpoints))]
    words = [*options, "--pause-at", str(steps), "--until", str(tmp_path / "never")]
    trainers = [job.start("trainer", i, *words, "--steps", "99") for i in range(job.trainers)]
    for trainer in trainers:
        trainer.wait_for("pauses")
    for trainer in trainers:
        trainer.kill()
    for server in servers if not is_killed else []:
        ended_by_sigterm(job, server)
    job.clear()


@pytest.mark.parametrize("trainers, lacking", [(1, 0), (2, 1)])
@pytest.mark.parametrize("policy", ["", "wait"], ids=["default", "wait"])
@pytest.mark.parametrize("log", ["", "write"], ids=["no log", "log"])
@MODES
def test_a_step_that_one_server_lacks_is_given_again(tmp_path, mode, log, policy, lacking, trainers):
    root = tmp_path / "ps"
    env = {"FLAGS_ps_on_trainer_loss": policy} if policy else {}
    with job_of(root, 2, trainers, log, **env) as job:
        stopped_at(job, 3, tmp_path, *mode, is_killed=bool(log))
        shutil.copytree(folder_of(job, root, lacking), tmp_path / "before")
        stopped_at(job, 4, tmp_path, *mode, is_killed=bool(log))
        shutil.rmtree(folder_of(job, root, lacking))
        shutil.copytree(tmp_path / "before", folder_of(job, root, lacking))
        said = run(job, *mode, steps=8)
        assert all("steps done 3" in text and "repeats step 4" in text for text in said[2:]), said[2:]
        want = counts(dict.fromkeys(range(trainers), 8))
        np.testing.assert_array_equal(table(job, root), want if mode else want / trainers)
