"""A job whose servers' folders change places, or that goes on with other servers, has what it had; or it is refused, with what to
do.

The rows of a distributed table count the updates (jobs/counted.py): the same name and shape on all servers, and other rows on
each."""

import shutil
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from cluster import JOBS, Job, free_ports
from test_ps_files import all_ended_by_sigterm, ended, ended_by_sigterm
from test_ps_recovery import MODES, folder_of, snapshots

sys.path.insert(0, str(JOBS))
from counted import counts  # noqa: E402

LOGS = pytest.mark.parametrize("log", ["", "write"], ids=["no log", "log"])


def env_of(root: Path, log: str = "", **more: str) -> dict[str, str]:
    return {"FLAGS_ps_dir": str(root), "FLAGS_ps_log": log, "FLAGS_ps_snapshot_seconds": "0", **more}


def job_of(root: Path, servers: int, trainers: int = 1, log: str = "", **env: str) -> Job:
    return Job(servers, trainers, "counted.py", env_of(root, log, **env))


def run(job: Job, *options: str, steps: int, **env: str) -> list[str]:
    for role, n in ("server", len(job.endpoints)), ("trainer", job.trainers):
        for i in range(n):
            job.start(role, i, *options, *(["--steps", str(steps)] if role == "trainer" else []), env=env)
    job.end(40)
    return job.clear()


def refused(job: Job, *options: str, **env: str) -> list[str]:
    """What the servers say, none of which starts."""
    servers = [job.start("server", i, *options, env=env) for i in range(len(job.endpoints))]
    for server in servers:
        assert server.end(30) == 1, server.output()
    return job.clear()


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
    job.clear()


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


def at(job: Job, pool: list[str], *which: int) -> None:
    job.endpoints[:] = [pool[i] for i in which]


@pytest.mark.parametrize(
    "turns",
    [[(0, 1), (2, 3), (0, 1)], [(0, 1), (0, 2), (0, 1), (3, 1), (0, 2)], [(0,), (1,), (0,), (1,)],
     [(0, 1), (2, 3), (0, 4), (2, 3)]],
    ids=["both", "one", "alone", "mixed"],
)
@LOGS
@MODES
def test_back_at_former_servers_it_has_what_the_others_left(tmp_path, mode, log, turns):
    """As many servers each time, below one root: no old snapshot is taken for a new one, though it is of these servers."""
    pool = [f"127.0.0.1:{port}" for port in free_ports(5)]
    with job_of(tmp_path, len(turns[0]), log=log) as job:
        for k, turn in enumerate(turns):
            at(job, pool, *turn)
            assert f"steps done {3 * k}\n" in run(job, *mode, steps=3 * k + 3)[-1]
            np.testing.assert_array_equal(table(job, tmp_path), counts({0: 3 * k + 3}))


@LOGS
@MODES
def test_a_move_of_one_step_and_back(tmp_path, mode, log):
    """One step apart is what trainers bring together: it must not be an old folder."""
    pool = [f"127.0.0.1:{port}" for port in free_ports(3)]
    with job_of(tmp_path, 2, log=log) as job:
        for turn, steps in ((0, 1), 4), ((0, 2), 5), ((0, 1), 6):
            at(job, pool, *turn)
            assert f"steps done {max(steps - 1, 4) if steps > 4 else 0}\n" in run(job, *mode, steps=steps)[-1]
            np.testing.assert_array_equal(table(job, tmp_path), counts({0: steps}))


@MODES
def test_copies_of_folders_have_gone_on_and_the_old_ones_are_not_taken(tmp_path, mode):
    """Killed with a log, moved by copying the folders, and back at the old ones, which have a log still."""
    root, pool = tmp_path / "ps", [f"127.0.0.1:{port}" for port in free_ports(4)]
    with job_of(root, 2, log="write") as job:
        at(job, pool, 0, 1)
        half_done(job, tmp_path, *mode)
        before = [folder_of(job, root, i) for i in range(2)]
        at(job, pool, 2, 3)
        for i in range(2):
            shutil.copytree(before[i], folder_of(job, root, i))
        assert "steps done 2\n" in run(job, *mode, steps=5)[-1]
        at(job, pool, 0, 1)
        assert "steps done 5\n" in run(job, *mode, steps=7)[-1]
        np.testing.assert_array_equal(table(job, root), counts({0: 7}))


@pytest.mark.parametrize("how", ["killed", "ended"])
@LOGS
@MODES
def test_servers_of_a_wrong_name_do_no_harm(tmp_path, mode, log, how):
    """Started with one other endpoint by mistake and ended at once, without a step: the job goes on where it was."""
    pool = [f"127.0.0.1:{port}" for port in free_ports(3)]
    with job_of(tmp_path, 2, log=log) as job:
        at(job, pool, 0, 1)
        run(job, *mode, steps=4)
        at(job, pool, 0, 2)
        servers = [job.start("server", i, *mode) for i in range(2)]
        for server in servers:
            server.wait_for("Server listening on")
        for server in servers if how == "ended" else []:
            ended_by_sigterm(job, server)
        job.clear()
        at(job, pool, 0, 1)
        assert "steps done 4\n" in run(job, *mode, steps=7)[-1]
        np.testing.assert_array_equal(table(job, tmp_path), counts({0: 7}))


# ---- another number of servers ----


def set_servers(job: Job, n: int, *, keep: int = 99) -> None:
    """The first of them as before."""
    kept = job.endpoints[:keep][:n]
    job.endpoints[:] = kept + [f"127.0.0.1:{port}" for port in free_ports(n - len(kept))]


def uneven(job: Job, tmp_path: Path) -> None:
    """An async job of two servers that ends well, and whose servers have snapshots of other numbers."""
    servers = [job.start("server", i, "--async") for i in range(2)]
    trainers = [
        job.start("trainer", i, "--async", "--steps", str(steps), "--pause-at", str(pause), "--until", str(tmp_path / f"go{i}"))
        for i, (steps, pause) in enumerate([(20, 19), (10, 5)])
    ]
    for trainer in trainers:
        trainer.wait_for("pauses")
    (tmp_path / "go0").touch()
    assert trainers[0].end(30) == 0
    servers[0].signal(signal.SIGTERM)
    ended(job, servers[0])
    job.start("server", 0, "--async").wait_for("Server listening on")
    (tmp_path / "go1").touch()
    job.end(40)
    job.clear()


@LOGS
def test_async_snapshots_of_other_numbers_make_a_whole(tmp_path, log):
    """Each server counts for itself: the newest of each is what there is."""
    root = tmp_path / "ps"
    with job_of(root, 2, 2, log) as job:
        uneven(job, tmp_path)
        assert len({snapshots(folder_of(job, root, i))[-1] for i in range(2)}) == 2
        np.testing.assert_array_equal(table(job, root), counts({0: 20, 1: 10}))
        for n, steps in (3, 21), (1, 22), (2, 23):
            set_servers(job, n)
            said = run(job, "--async", steps=steps)
            assert f"steps done {steps - 1}" in said[n]
            np.testing.assert_array_equal(table(job, root), counts({0: steps, 1: steps}))


def test_async_logs_are_refused_and_the_advice_helps(tmp_path):
    root = tmp_path / "ps"
    with job_of(root, 2, log="write") as job:
        half_done(job, tmp_path, "--async")
        before = list(job.endpoints)
        set_servers(job, 3)
        for said in refused(job, "--async"):
            assert "Start those servers once more, without trainers, and end them with SIGTERM" in said
            assert "has 2 steps past it in its log" in said
        after, job.endpoints[:] = list(job.endpoints), before
        for server in [job.start("server", i, "--async") for i in range(2)]:
            server.wait_for("Server listening on")
            ended_by_sigterm(job, server)
        job.endpoints[:] = after
        assert "steps done 2" in run(job, "--async", steps=5)[-1]
        np.testing.assert_array_equal(table(job, root), counts({0: 5}))


def without_the_last_step(job: Job, tmp_path: Path, lacking: int) -> None:
    """An async job of two servers has ended within its third step, which one of them lacks."""
    root = tmp_path / "ps"
    for steps in 2, 3:
        run(job, "--async", steps=steps)
        if steps == 2:
            shutil.copytree(folder_of(job, root, lacking), tmp_path / "before")
    shutil.rmtree(folder_of(job, root, lacking))
    shutil.copytree(tmp_path / "before", folder_of(job, root, lacking))


@pytest.mark.parametrize("n, lacking", [(1, 0), (3, 1)])
@LOGS
def test_async_a_step_that_one_server_lacks(tmp_path, log, n, lacking):
    """Others do not begin with half of it. Its trainer gives it again to the former ones, which end while it trains, as it says."""
    root = tmp_path / "ps"
    with job_of(root, 2, log=log) as job:
        without_the_last_step(job, tmp_path, lacking)
        before = list(job.endpoints)
        set_servers(job, n, keep=0)
        for said in refused(job, "--async"):
            assert "have only parts of step 3 of trainer 0" in said
            assert "end the servers with SIGTERM while the trainers train" in said
        after, job.endpoints[:] = list(job.endpoints), before
        servers = [job.start("server", i, "--async") for i in range(2)]
        trainer = job.start("trainer", 0, "--async", "--steps", "9", "--pause-at", "7", "--until", str(tmp_path / "never"))
        trainer.wait_for("pauses")
        assert "steps done 2" in trainer.output()
        all_ended_by_sigterm(job, servers)
        job.clear()
        job.endpoints[:] = after
        assert "steps done 7\n" in run(job, "--async", steps=9)[-1]
        np.testing.assert_array_equal(table(job, root), counts({0: 9}))


@LOGS
def test_async_servers_that_are_ended_while_trainers_train_have_whole_steps(tmp_path, log):
    """Each trainer's step is on both servers, in their snapshots: others go on from there, again and again."""
    root = tmp_path / "ps"
    with job_of(root, 2, 2, log) as job:
        for n in 2, 3, 1, 2, 3:
            set_servers(job, n, keep=0)
            servers = [job.start("server", i, "--async") for i in range(len(job.endpoints))]
            trainers = [job.start("trainer", i, "--async", "--steps", "1000000") for i in range(2)]
            for trainer in trainers:
                trainer.wait_for("trains")
            all_ended_by_sigterm(job, servers)
            job.clear()
        steps = {i: int(said.split("steps done ")[1].split()[0]) for i, said in enumerate(run(job, "--async", steps=0)[-2:])}
        assert min(steps.values()) > 0
        np.testing.assert_array_equal(table(job, root), counts(steps))


@MODES
def test_a_folder_of_before_the_job_went_on_with_others(tmp_path, mode):
    """The second server's folder has snapshots by the same two servers, but the job has gone on without it since."""
    with job_of(tmp_path, 2) as job:
        run(job, *mode, steps=4)
        both = list(job.endpoints)
        old = tmp_path.parent / f"{tmp_path.name}-old"
        shutil.copytree(folder_of(job, tmp_path, 1), old)
        del job.endpoints[1:]
        run(job, *mode, steps=6)
        job.endpoints[:] = both
        assert "steps done 6" in run(job, *mode, steps=8)[-1]
        np.testing.assert_array_equal(table(job, tmp_path), counts({0: 8}))
        assert "steps done 8" in run(job, *mode, steps=12)[-1]
        np.testing.assert_array_equal(table(job, tmp_path), counts({0: 12}))
        # An old copy of it, when nothing is left of what it should have gone on from.
        for name in snapshots(folder_of(job, tmp_path, 0))[:-1]:
            shutil.rmtree(folder_of(job, tmp_path, 0) / f"snapshot-{name:020}")
        shutil.rmtree(folder_of(job, tmp_path, 1))
        shutil.copytree(old, folder_of(job, tmp_path, 1))
        server = job.start("server", 1, *mode)
        assert server.end(20) == 1 and "is of before the job went on with other servers" in server.output()
        job.clear()
        job.start("server", 1, *mode, env={"FLAGS_ps_accept_rollback": "1"}).wait_for("taken up at step 4")


def damage(folder: Path) -> None:
    path = folder / f"snapshot-{snapshots(folder)[-1]:020}" / "data"
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])


@pytest.mark.parametrize("what", ["damaged", "gone"])
@MODES
def test_newer_snapshots_are_not_passed_over_in_silence(tmp_path, mode, what):
    """That not all servers have, or that are damaged: other servers do not go back behind them, unless the user says so."""
    with job_of(tmp_path, 2) as job:
        run(job, *mode, steps=4)
        first = table(job, tmp_path)
        run(job, *mode, steps=6)
        last = folder_of(job, tmp_path, 1)
        if what == "damaged":
            damage(last)
        else:
            shutil.rmtree(last / f"snapshot-{snapshots(last)[-1]:020}")
        set_servers(job, 3)
        for said in refused(job, *mode):
            assert "FLAGS_ps_accept_rollback=1" in said
            lacks = "have only parts of step 6 of trainer 0" if mode else "has no snapshot of step 6"
            assert "they were damaged" in said if what == "damaged" else lacks in said
        said = run(job, *mode, steps=8, FLAGS_ps_accept_rollback="1")
        assert f"steps done {6 if mode else 4}" in said[-1]
        got = table(job, tmp_path)
        if not mode:
            np.testing.assert_array_equal(got, counts({0: 8}))
        else:  # what the damaged one had is gone, and nothing else
            np.testing.assert_array_equal(got[::2], counts({0: 8})[::2])
            np.testing.assert_array_equal(got[1::2], (first + counts({0: 8}) - counts({0: 6}))[1::2])
        assert "steps done 8" in run(job, *mode, steps=9)[-1]


def test_another_shape_is_refused_on_other_servers_too(tmp_path):
    with job_of(tmp_path, 2) as job:
        run(job, steps=3)
        set_servers(job, 3)
        for rows in "51", "49":
            for said in refused(job, "--rows", rows):
                assert f"have 'table' as float32 [50, 1], the Program as float32 [{rows}, 1]" in said


def test_a_server_that_runs_keeps_what_it_has(tmp_path):
    """Another job below the same root does not begin with it; when that server has ended, a job that is moved does."""
    root = tmp_path / "ps"
    with job_of(root, 1) as job, job_of(root, 1) as other:
        run(job, steps=3)
        server = job.start("server", 0)
        server.wait_for("Server listening on")
        said = refused(other)[0]
        assert f"server {job.endpoints[0]} below '{root}', which runs (process {server.process.pid})" in said
        assert "FLAGS_ps_dir" in said
        ended_by_sigterm(job, server)
        said = run(other, steps=5)
        assert f"taken up at step 3 from other servers' folders in {root}" in said[0]
        np.testing.assert_array_equal(table(other, root), counts({0: 5}))
