"""The servers of a job are those of one job: a folder that is lost, or another job's, is found before anything is trained with
it."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from cluster import Job
from test_ps_recovery import MODES, folder_of, killed, start

LINE = ["--model", "mlp", "--seed", "0"]
TOLD = ["FLAGS_ps_dir", "FLAGS_ps_fresh=1", "FLAGS_ps_accept_rollback=1"]


def env_of(root: Path, **more: str) -> dict[str, str]:
    return {"FLAGS_ps_dir": str(root), "FLAGS_ps_log": "write", **more}


def run(job: Job, *options: str, steps: int = 4, **env: str) -> list[str]:
    """A whole run, to its end; what each process said."""
    for i in range(len(job.endpoints)):
        job.start("server", i, *LINE, *options, env=env)
    job.start("trainer", 0, *LINE, *options, "--steps", str(steps), env=env)
    job.end(40)
    return job.clear()


def refused_by_trainer(job: Job, *options: str, **env: str) -> str:
    for i in range(len(job.endpoints)):
        job.start("server", i, *LINE, *options, env=env)
    trainer = job.start("trainer", 0, *LINE, *options, env=env)
    assert trainer.end(40) == 1, trainer.output()
    return job.clear()[-1]


def ids(job: Job, root: Path) -> list[str]:
    return [re.search("id ([0-9a-f]{16})\n", (folder_of(job, root, i) / "job").read_text()).group(1)
            for i in range(len(job.endpoints))]


@pytest.mark.parametrize("log", ["write", ""])
@pytest.mark.parametrize("lost", [0, 1])
@MODES
def test_a_lost_folder_is_refused(tmp_path, mode, lost, log):
    """By name, with what to do, by a job that is started again as a whole; and what was trained stays as it is."""
    with Job(2, 1, env=env_of(tmp_path, FLAGS_ps_log=log)) as job:
        run(job, *mode)
        assert len(set(ids(job, tmp_path))) == 1
        shutil.move(folder_of(job, tmp_path, lost), tmp_path.parent / f"{tmp_path.name}-lost")
        for _ in range(2):
            said = refused_by_trainer(job, *mode)
            assert (f"server {job.endpoints[lost]} has nothing of a job that server {job.endpoints[1 - lost]} has run "
                    "up to step 4") in said
            assert all(word in said for word in TOLD)
        shutil.rmtree(folder_of(job, tmp_path, lost))
        shutil.move(tmp_path.parent / f"{tmp_path.name}-lost", folder_of(job, tmp_path, lost))
        assert "taken up at step 4" in run(job, *mode, steps=6)[lost]


def test_killed_before_the_first_snapshot_of_one_server(tmp_path):
    """Without a log that server has nothing. Its folder is the right one, and no other will help; what the message says does."""
    linger = tmp_path / "on"
    with Job(2, 1, env=env_of(tmp_path / "ps", FLAGS_ps_log="")) as job:
        servers = [start(job, *LINE, "--async", index=i, FLAGS_ps_snapshot_steps="2" if i == 0 else "0") for i in range(2)]
        trainer = job.start("trainer", 0, *LINE, "--async", "--pause-at", "3", "--linger", str(linger), "--steps", "4")
        trainer.wait_for("pauses")
        servers[0].wait_for("snapshot of step")
        for each in (trainer, *servers):
            killed(job, each)
        assert not list(folder_of(job, tmp_path / "ps", 1).glob("snapshot-*"))
        said = refused_by_trainer(job, *LINE, "--async")
        assert f"server {job.endpoints[1]} was killed before its first snapshot, and had no log" in said
        assert f"that server {job.endpoints[0]} has run up to step" in said and "is empty, lost" not in said
        assert all(word in said for word in ("FLAGS_ps_fresh=1", "FLAGS_ps_accept_rollback=1", "FLAGS_ps_log=write"))
        run(job, "--async", FLAGS_ps_accept_rollback="1")
        shutil.rmtree(tmp_path / "ps")


@MODES
def test_the_user_accepts_that_a_folder_is_lost(tmp_path, mode):
    with Job(2, 1, env=env_of(tmp_path)) as job:
        run(job, *mode)
        shutil.rmtree(folder_of(job, tmp_path, 1))
        for _ in range(2):  # the servers stay as many steps apart
            run(job, *mode, FLAGS_ps_accept_rollback="1")
            assert len(set(ids(job, tmp_path))) == 1


@MODES
def test_a_folder_of_another_job_is_refused(tmp_path, mode):
    """It has the same endpoint, variables and steps."""
    with Job(2, 1) as job:
        for name in ("one", "two"):
            run(job, *mode, **env_of(tmp_path / name))
        one, two = ids(job, tmp_path / "one"), ids(job, tmp_path / "two")
        assert one[0] == one[1] != two[0] == two[1]
        shutil.rmtree(folder_of(job, tmp_path / "one", 1))
        shutil.copytree(folder_of(job, tmp_path / "two", 1), folder_of(job, tmp_path / "one", 1))
        said = refused_by_trainer(job, *mode, **env_of(tmp_path / "one"), FLAGS_ps_accept_rollback="1")
        assert f"is of job {one[0]}" in said or f"of job {one[0]}:" in said
        assert two[0] in said and "the folder of another job" in said


def test_a_fresh_start_is_a_new_job(tmp_path):
    with Job(2, 1, env=env_of(tmp_path)) as job:
        run(job)
        before = ids(job, tmp_path)
        run(job, FLAGS_ps_fresh="1")
        after = ids(job, tmp_path)
        assert before[0] == before[1] != after[0] == after[1]
        # On one server only: it is another job than the other one's.
        for i in range(2):
            job.start("server", i, *LINE, env={"FLAGS_ps_fresh": str(i)})
        trainer = job.start("trainer", 0, *LINE)
        assert trainer.end(40) == 1
        assert f"server {job.endpoints[1]} has nothing of a job" in trainer.output()


@pytest.mark.parametrize("keeps", [True, False])
def test_a_server_that_is_killed_before_the_first_step(tmp_path, keeps):
    """Nothing was trained: whatever it draws again is fine."""
    linger = tmp_path / "on"
    with Job(2, 1, env=env_of(tmp_path / "ps") if keeps else {}) as job:
        for i in range(2):
            start(job, *LINE, index=i)
        trainer = job.start("trainer", 0, *LINE, "--pause-at", "0", "--linger", str(linger), "--steps", "3")
        trainer.wait_for("pauses")
        for i in (0, 1):
            killed(job, job.processes[0])
            start(job, *LINE, index=i)
        linger.touch()
        job.end(40)


@MODES
def test_a_trainer_that_is_there_finds_it_too(tmp_path, mode):
    """A server comes back without its folder while the job runs. Nor is it taken for the one that it was when all are started
    again."""
    linger = tmp_path / "on"
    with Job(2, 1, env=env_of(tmp_path / "ps")) as job:
        for i in range(2):
            start(job, *LINE, *mode, index=i)
        trainer = job.start("trainer", 0, *LINE, *mode, "--pause-at", "1", "--linger", str(linger), "--steps", "3")
        trainer.wait_for("pauses")
        killed(job, job.processes[1])
        shutil.rmtree(folder_of(job, tmp_path / "ps", 1))
        start(job, *LINE, *mode, index=1)
        linger.touch()
        assert trainer.end(30) == 1
        assert (f"server {job.endpoints[1]} has nothing of a job that this trainer has "
                "run up to step") in trainer.output(), trainer.output()
        job.clear()
        assert f"server {job.endpoints[1]} has nothing of a job that server {job.endpoints[0]}" in refused_by_trainer(job, *mode)


def test_a_damaged_file_of_the_job_is_refused(tmp_path):
    """A folder that is damaged says so by itself."""
    with Job(1, 1, env=env_of(tmp_path)) as job:
        run(job)
        path = folder_of(job, tmp_path) / "job"
        text = path.read_text()
        for wrong in ("", text[:20], text.replace("id ", "id f"), text.replace("1\n", "2\n", 1),
                      np.random.default_rng(1).bytes(60).decode("latin1")):
            path.write_text(wrong)
            server = job.start("server", 0, *LINE)
            assert server.end(20) == 1
            assert "does not tell which job the folder is of" in server.output()
            job.clear()
        path.write_text(text)
        assert "taken up at step 4" in run(job, steps=5)[0]
