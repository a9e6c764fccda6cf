"""A job goes on by a script that has its parameters lie otherwise on the same servers, or where a server has nothing to train: its
numbers are those of one server that did the same (jobs/laid.py), or it is refused and what the error says helps."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from cluster import Job, Process, free_ports
from test_ps_files import all_ended_by_sigterm
from test_ps_moved import LOGS
from test_ps_recovery import MODES, folder_of, snapshots


def job_of(root: Path, servers: int = 2, **env: str) -> Job:
    return Job(servers, 1, "laid.py", {"FLAGS_ps_dir": str(root), "FLAGS_ps_snapshot_seconds": "0", **env})


def run(job: Job, out: Path, *options: str, steps: int, done: int | None = None) -> dict[str, np.ndarray]:
    """All of it, up to so many steps; `done` is where it went on. The parameters at its end."""
    servers(job, *options)
    trainer = job.start("trainer", 0, *options, "--steps", str(steps), "--out", str(out))
    job.end(60)
    if done is not None:
        assert int(re.search(r"steps done (\d+)", trainer.output())[1]) == done, trainer.output()
    job.clear()
    return dict(np.load(out))


def servers(job: Job, *options: str) -> list[Process]:
    return [job.start("server", i, *options) for i in range(len(job.endpoints))]


def stopped_before(job: Job, step: int, tmp_path: Path, *options: str) -> list[Process]:
    """The servers, whose trainer was killed before it did this step."""
    started = servers(job, *options)
    trainer = job.start("trainer", 0, *options, "--steps", "99", "--pause-at", str(step), "--until", str(tmp_path / "never"))
    trainer.wait_for("pauses")
    trainer.kill()
    job.processes.remove(trainer)
    return started


def refused(job: Job, *options: str) -> str:
    """By all servers; what they say."""
    for server in servers(job, *options):
        assert server.end(30) == 1, server.output()
    return "\n".join(job.clear())


def of_one_server(tmp_path: Path, *runs: tuple[list[str], int], **env: str) -> dict[str, np.ndarray]:
    values: dict[str, np.ndarray] = {}
    with job_of(tmp_path / "one", 1, **env) as job:
        for options, steps in runs:
            values = run(job, tmp_path / "one.npz", *options, steps=steps)
    return values


def assert_same(got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> None:
    assert got.keys() == want.keys()
    for name in want:
        np.testing.assert_array_equal(got[name], want[name], name)


# ---- a server that has nothing to train ----

SMALL = ["--small"]


@LOGS
@MODES
@pytest.mark.parametrize("turns", [(2, 1), (2, 2, 3, 3, 2, 1)], ids=["fewer", "to and fro"])
def test_a_server_that_trains_nothing_lacks_no_step(tmp_path, turns, mode, log):
    """The job ends well each time, and goes on with another number of servers; also back to those that it had."""
    pool = [f"127.0.0.1:{port}" for port in free_ports(3)]
    for i, n in enumerate(turns):
        with job_of(tmp_path / "ps", n, FLAGS_ps_log=log) as job:
            job.endpoints = pool[3 - n :]
            got = run(job, tmp_path / "got.npz", *SMALL, *mode, steps=3 * i + 3, done=3 * i)
    assert_same(got, of_one_server(tmp_path, ([*SMALL, *mode], 3 * len(turns))))


@LOGS
@pytest.mark.parametrize("n", [1, 3])
def test_it_is_killed_with_the_others(tmp_path, n, log):
    """Async. The other one has a snapshot, and this one had no step to make one of."""
    options = [*SMALL, "--async"]
    with job_of(tmp_path / "ps", FLAGS_ps_log=log) as job:
        started = stopped_before(job, 3, tmp_path, *options)
        hollow = next(i for i in range(2) if "has nothing to update" in started[i].output())
        started[1 - hollow].signal(15)
        assert started[1 - hollow].end(30) == 0
        job.clear()  # killed
        job.endpoints = [f"127.0.0.1:{port}" for port in free_ports(n)]
        got = run(job, tmp_path / "got.npz", *options, steps=7, done=3)
    assert_same(got, of_one_server(tmp_path, (options, 7)))


@LOGS
def test_a_start_with_more_servers_by_mistake_costs_nothing(tmp_path, log):
    """Async, no step is done by them. With a log they say what they took up, and the former ones go on from there or are told what
    to do."""
    options = [*SMALL, "--async"]
    pool = [f"127.0.0.1:{port}" for port in free_ports(3)]
    with job_of(tmp_path / "ps", FLAGS_ps_log=log) as job:
        job.endpoints = pool[:2]
        run(job, tmp_path / "got.npz", *options, steps=3)
        job.endpoints = pool
        for server in servers(job, *options):
            server.wait_for("Server listening on")
        job.clear()
        job.endpoints = pool[:2]
        got = run(job, tmp_path / "got.npz", *options, steps=7, done=3)
        got = run(job, tmp_path / "got.npz", *options, steps=9, done=7)
    assert_same(got, of_one_server(tmp_path, (options, 9)))


def test_nothing_was_trained_at_all(tmp_path):
    """Async, no log: the one server that has a snapshot keeps nobody from a start with others."""
    options = [*SMALL, "--async"]
    with job_of(tmp_path / "ps") as job:
        for server in servers(job, *options):
            server.wait_for("Server listening on")
        job.clear()
        job.endpoints = [job.endpoints[0], *(f"127.0.0.1:{port}" for port in free_ports(2))]
        got = run(job, tmp_path / "got.npz", *options, steps=4, done=0)
    assert_same(got, of_one_server(tmp_path, (options, 4)))


# ---- the same servers, which hold other rows ----

CHANGES = {
    "min_block_size": ([], ["--block", "100000"]),
    "slice_var_up": (["--whole"], []),
    "freeze": ([], ["--frozen"]),
    "unfreeze": (["--frozen"], []),
    "to lars": (["--rule", "momentum"], ["--rule", "lars"]),
    "from lars": (["--rule", "lars"], ["--rule", "momentum"]),
    "with momentum": (["--rule", "momentum"], ["--rule", "momentum", "--whole"]),
}
BLOCKS = ["--block", "100000"]


@pytest.mark.parametrize("mode, log", [([], ""), (["--async"], "write")], ids=["sync, no log", "async, log"])
@pytest.mark.parametrize("change", CHANGES)
def test_it_goes_on_and_back(tmp_path, change, mode, log):
    before, after = CHANGES[change]
    env = {"FLAGS_ps_accept_anew": "1"} if "lars" in change else {}
    runs = [([*before, *mode], 3), ([*after, *mode], 5), ([*after, *mode], 6), ([*before, *mode], 8)]
    with job_of(tmp_path / "ps", FLAGS_ps_log=log, **env) as job:
        for i, (options, steps) in enumerate(runs):
            got = run(job, tmp_path / "got.npz", *options, steps=steps, done=runs[i - 1][1] if i else 0)
    assert_same(got, of_one_server(tmp_path, *runs, **env))


def test_another_optimizer_needs_the_users_word(tmp_path):
    with job_of(tmp_path / "ps") as job:
        want = run(job, tmp_path / "got.npz", "--rule", "momentum", steps=3)
        said = refused(job, "--rule", "lars")
        assert "FLAGS_ps_accept_anew=1" in said and "FLAGS_ps_fresh" not in said, said
        assert_same(run(job, tmp_path / "got.npz", "--rule", "momentum", steps=3, done=3), want)


@LOGS
@pytest.mark.parametrize("late", [0, 1])
def test_one_server_has_begun_by_the_new_script(tmp_path, late, log):
    """It is killed before another one starts. The new script goes on; so does the one of before, at once or when it was done what
    the error says."""
    with job_of(tmp_path / "ps", FLAGS_ps_log=log) as job:
        run(job, tmp_path / "got.npz", steps=3)
        for goes_on in BLOCKS, []:
            shutil.copytree(tmp_path / "ps", tmp_path / "kept")
            job.start("server", 1 - late, *BLOCKS).wait_for("Server listening on")
            job.clear()
            if log and not goes_on:
                said = refused(job)
                assert "Start those servers once more, without trainers, and end them with SIGTERM" in said, said
                assert "the script of before" in said, said
                started = servers(job, *BLOCKS)
                for server in started:
                    server.wait_for("Server listening on")
                all_ended_by_sigterm(job, started)
            got = run(job, tmp_path / "got.npz", *goes_on, steps=5, done=3)
            assert_same(got, of_one_server(tmp_path, ([], 5)))
            for folder in "ps", "one":
                shutil.rmtree(tmp_path / folder)
            (tmp_path / "kept").rename(tmp_path / "ps")


@LOGS
@MODES
def test_all_are_killed_within_the_first_steps_by_the_new_script(tmp_path, mode, log):
    """Server 0 has a snapshot of the new script, where it is the only one that is kept, and server 1 none: it has what all had
    before."""
    with job_of(tmp_path / "ps", FLAGS_ps_log=log, FLAGS_ps_keep="1") as job:
        run(job, tmp_path / "got.npz", *mode, steps=3)
        before = snapshots(folder_of(job, tmp_path / "ps", 1))
        stopped_before(job, 4, tmp_path, *mode, *BLOCKS)
        if not log:
            job.processes[0].signal(15)
            assert job.processes[0].end(30) == 0
        job.clear()  # killed
        if not log:
            assert snapshots(folder_of(job, tmp_path / "ps", 1)) == before
        got = run(job, tmp_path / "got.npz", *mode, *BLOCKS, steps=7)
        assert_same(got, of_one_server(tmp_path, (mode, 7)))
        got = run(job, tmp_path / "got.npz", *mode, steps=9, done=7)
        shutil.rmtree(tmp_path / "one")
        assert_same(got, of_one_server(tmp_path, (mode, 9)))


def test_the_first_snapshots_by_the_new_script_are_steps_apart(tmp_path):
    """Trainers refuse that. What the error tells to do works."""
    with job_of(tmp_path / "ps", FLAGS_ps_snapshot_steps="1", FLAGS_ps_keep="9") as job:
        run(job, tmp_path / "got.npz", steps=3)
        run(job, tmp_path / "got.npz", *BLOCKS, steps=6, done=3)
        folders = [folder_of(job, tmp_path / "ps", i) for i in range(2)]
        assert snapshots(folders[1]) == [1, 2, 3, 4, 5, 6]
        for number in 4, 5, 6:
            shutil.rmtree(folders[1] / f"snapshot-{number:020d}")
        job.start_all(*BLOCKS, "--steps", "7")
        trainer = job.processes[-1]
        assert trainer.end(30) == 1, trainer.output()
        assert f"server {job.endpoints[1]} is at step 3, server {job.endpoints[0]} at step 6" in trainer.output(), trainer.output()
        newest = re.search("To go on from step 3, .* newer than (snapshot-[0-9]+) out of the folders", trainer.output())[1]
        job.clear()
        for folder in folders:
            for path in folder.glob("snapshot-*"):
                if path.name > newest:
                    shutil.rmtree(path)
        got = run(job, tmp_path / "got.npz", *BLOCKS, steps=7, done=3)
    assert_same(got, of_one_server(tmp_path, ([], 7)))


@MODES
def test_a_log_comes_first(tmp_path, mode):
    """It is of use to the servers as they were. What the error tells to do works."""
    with job_of(tmp_path / "ps", FLAGS_ps_log="write") as job:
        stopped_before(job, 3, tmp_path, *mode)
        job.clear()
        said = refused(job, *mode, *BLOCKS)
        assert "has 3 steps past it in its log" in said and "Start those servers once more, without trainers" in said, said
        started = servers(job, *mode)
        for server in started:
            server.wait_for("Server listening on")
        all_ended_by_sigterm(job, started)
        got = run(job, tmp_path / "got.npz", *mode, *BLOCKS, steps=6, done=3)
    assert_same(got, of_one_server(tmp_path, (mode, 6)))


def test_servers_that_are_a_step_apart(tmp_path):
    """One of them lacks a step, which the other rows have. What the error tells to do works."""
    with job_of(tmp_path / "ps", FLAGS_ps_snapshot_steps="1", FLAGS_ps_keep="9") as job:
        run(job, tmp_path / "got.npz", steps=4)
        folder = folder_of(job, tmp_path / "ps", 1)
        shutil.rmtree(folder / f"snapshot-{snapshots(folder)[-1]:020d}")
        said = refused(job, *BLOCKS)
        assert "there are newer ones" in said and "start their trainers too" in said, said
        run(job, tmp_path / "got.npz", steps=5, done=3)  # with the step that one of them lacks
        got = run(job, tmp_path / "got.npz", *BLOCKS, steps=7, done=5)
    assert_same(got, of_one_server(tmp_path, ([], 7)))


def test_a_folder_that_is_not_there(tmp_path):
    """Other rows are needed than those that a server has itself: all folders are."""
    with job_of(tmp_path / "ps") as job:
        run(job, tmp_path / "got.npz", steps=3)
        folder_of(job, tmp_path / "ps", 1).rename(tmp_path / "away")
        server = job.start("server", 0, *BLOCKS)
        assert server.end(30) == 1 and "Bring all of them there" in server.output(), server.output()
        job.clear()
        (tmp_path / "away").rename(folder_of(job, tmp_path / "ps", 1))
        got = run(job, tmp_path / "got.npz", *BLOCKS, steps=6, done=3)
    assert_same(got, of_one_server(tmp_path, ([], 6)))


def test_other_ports_and_another_layout_at_once(tmp_path):
    with job_of(tmp_path / "ps") as job:
        run(job, tmp_path / "got.npz", steps=3)
        job.endpoints = [job.endpoints[0], f"127.0.0.1:{free_ports(1)[0]}"]
        got = run(job, tmp_path / "got.npz", *BLOCKS, steps=6, done=3)
    assert_same(got, of_one_server(tmp_path, ([], 6)))


def test_snapshots_that_do_not_tell_where_parameters_lay(tmp_path):
    """Of an older version. What the error tells to do works."""
    with job_of(tmp_path / "ps") as job:
        run(job, tmp_path / "got.npz", steps=3)
        pool = list(job.endpoints)
        for i in range(2):
            forget_placing(folder_of(job, tmp_path / "ps", i))
        server = job.start("server", 0, *BLOCKS)
        assert server.end(30) == 1 and "start it once with another number of servers" in server.output(), server.output()
        job.clear()
        job.endpoints = [f"127.0.0.1:{port}" for port in free_ports(1)]
        run(job, tmp_path / "got.npz", *BLOCKS, steps=5, done=3)
        job.endpoints = pool
        got = run(job, tmp_path / "got.npz", *BLOCKS, steps=6, done=5)
    assert_same(got, of_one_server(tmp_path, ([], 6)))


def forget_placing(folder: Path) -> None:
    manifest = folder / f"snapshot-{snapshots(folder)[-1]:020d}" / "manifest"
    text = re.sub(r"note placing=.*\n", "", manifest.read_text())
    head = text[: text.rindex("crc32c=") + len("crc32c=")]
    manifest.write_text(f"{head}{crc32c(head.encode()):08x}\n")


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
