"""A job whose servers' folders change places, or that goes on with other servers, has what it had; or it is refused, with what to do.

The rows of a distributed table count the updates (jobs/counted.py): the same name and shape on all servers, and other rows on each."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from cluster import JOBS, Job, Process, free_ports
from test_ps_recovery import MODES, folder_of, snapshots

sys.path.insert(0, str(JOBS))
from counted import counts  # noqa: E402

LOGS = pytest.mark.parametrize("log", ["", "write"], ids=["no log", "log"])


def env_of(root: Path, log: str = "", **more: str) -> dict[str, str]:
    return {"FLAGS_ps_dir": str(root), "FLAGS_ps_log": log, "FLAGS_ps_snapshot_seconds": "0", **more}


def job_of(root: Path, servers: int, trainers: int = 1, log: str = "", **env: str) -> Job:
    return Job(servers, trainers, "counted.py", env_of(root, log, **env))


def clear(job: Job) -> list[str]:
    """What each process said; the places are free for others."""
    said = [p.output() for p in job.processes]
    for p in job.processes:
        p.close()
    job.processes.clear()
    return said


def run(job: Job, *options: str, steps: int) -> list[str]:
    job.start_all(*options, "--steps", str(steps))
    job.end(40)
    return clear(job)


def refused(job: Job, *options: str, **env: str) -> list[str]:
    """What the servers say, none of which starts."""
    servers = [job.start("server", i, *options, env=env) for i in range(len(job.endpoints))]
    for server in servers:
        assert server.end(30) == 1, server.output()
    return clear(job)


def table(job: Job, root: Path, name: str = "table") -> np.ndarray:
    """The whole table, from the newest snapshot of each server."""
    whole = {}
    for i in range(len(job.endpoints)):
        folder = folder_of(job, root, i)
        snapshot = folder / f"snapshot-{snapshots(folder)[-1]:020}"
        line = next(line for line in (snapshot / "manifest").read_text().splitlines() if line.startswith(f"var name={name} "))
        of = dict(word.split("=") for word in line.split()[1:])
        rows = np.fromfile(snapshot / "data", of["dtype"], int(of["dims"].split("x")[0]), offset=int(of["offset"]))
        whole.update(zip(range(int(of["first_row"]), int(of["whole_rows"]), int(of["row_step"])), rows))
    assert sorted(whole) == list(range(50))
    return np.array([whole[row] for row in sorted(whole)])


def exchange(a: Path, b: Path) -> None:
    a.rename(a.parent / "x")
    b.rename(a)
    (a.parent / "x").rename(b)


# ---- as many servers ----


@LOGS
@MODES
def test_folders_that_were_exchanged_are_refused(tmp_path, mode, log):
    with job_of(tmp_path, 2, log=log) as job:
        run(job, *mode, steps=6)
        folders = [folder_of(job, tmp_path, i) for i in range(2)]
        exchange(*folders)
        for i, said in enumerate(refused(job, *mode, FLAGS_ps_accept_rollback="1")):
            assert f"'{folders[i]}' was written by server {job.endpoints[1 - i]}, number {2 - i} of 2" in said
            assert f"Give that folder to server number {2 - i}, which is {job.endpoints[1 - i]}" in said
        exchange(*folders)
        run(job, *mode, steps=9)
        np.testing.assert_array_equal(table(job, tmp_path), counts({0: 9}))


def half_done(job: Job, tmp_path: Path, *options: str) -> None:
    """Two steps, and all processes are killed: a log has them, and no snapshot."""
    for i in range(len(job.endpoints)):
        job.start("server", i, *options)
    job.start("trainer", 0, *options, "--pause-at", "2", "--until", str(tmp_path / "never")).wait_for("pauses")
    clear(job)


@MODES
def test_a_job_moves_to_other_ports_with_its_folders_and_logs(tmp_path, mode):
    """In the same order: each server has what the one in its place had, with what is only in the log."""
    root = tmp_path / "ps"
    with job_of(root, 2, log="write") as job:
        half_done(job, tmp_path, *mode)
        before = [folder_of(job, root, i) for i in range(2)]
        job.endpoints[:] = [f"127.0.0.1:{port}" for port in free_ports(2)]
        for i in range(2):
            before[i].rename(folder_of(job, root, 1 - i))
        for i, said in enumerate(refused(job, *mode)):
            assert f"number {2 - i} of 2, but this is server {job.endpoints[i]}, number {i + 1}" in said
        exchange(*[folder_of(job, root, i) for i in range(2)])
        assert "steps done 2" in run(job, *mode, steps=5)[-1]
        np.testing.assert_array_equal(table(job, root), counts({0: 5}))
        half = [folder_of(job, root, 1), root / "127.0.0.1_1"]  # and one of them once more
        half[0].rename(half[1])
        job.endpoints[1] = f"127.0.0.1:{free_ports(1)[0]}"
        half[1].rename(folder_of(job, root, 1))
        assert "steps done 5" in run(job, *mode, steps=7)[-1]
        np.testing.assert_array_equal(table(job, root), counts({0: 7}))
