"""A server that is killed and started again has what it had: with what the log goes on from, when files are damaged, removed or of
another job, on a machine with other cores. What cannot be had back is refused, and no step that was acknowledged is dropped unless
the user accepts that.

Trainers are written out by hand (test_ps_prepare.py), and initial values are drawn without a seed: what a server draws a second
time is not what it had."""

import os
import random
import re
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from cluster import Job, Process, alone
from test_ps_files import ended_by_sigterm
from test_ps_prepare import OPTIONS, Hand, last_log, records, same

UNSEEDED = [*OPTIONS, "--seed", "0"]
MODES = pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
ROUNDS = 60 if os.environ.get("PADDLE_SOAK") else 6
ACCEPTED = {"FLAGS_ps_accept_rollback": "1"}


def start(job: Job, *options: str, index: int = 0, **env: str) -> Process:
    """A server that serves."""
    server = job.start("server", index, *UNSEEDED, *options, env=env)
    server.wait_for("Server listening on")
    return server


def refused(job: Job, *options: str, index: int = 0, **env: str) -> str:
    """What a server says that does not start."""
    server = job.start("server", index, *UNSEEDED, *options, env=env)
    job.processes.remove(server)
    try:
        assert server.end(20) == 1, server.output()
        assert "Server listening on" not in server.output()
        return server.output()
    finally:
        server.close()


def killed(job: Job, server: Process) -> None:
    server.kill()
    job.processes.remove(server)
    server.close()


def train(job: Job, steps: range, id: int = 0, loops: int = 1) -> dict[str, np.ndarray]:
    """Parameters after these steps of a trainer."""
    trainer = Hand(job, id, loops).join()
    got = trainer.pull()
    for step in steps:
        trainer.push(step, 1.0)
        got = trainer.values(step)
    trainer.die()
    return got


def now(job: Job, id: int = 0, loops: int = 1) -> dict[str, np.ndarray]:
    trainer = Hand(job, id, loops).join()
    got = trainer.pull()
    trainer.die()
    return got


def log_env(folder: Path, **more: str) -> dict[str, str]:
    return {"FLAGS_ps_dir": str(folder), "FLAGS_ps_log": "write", "FLAGS_ps_on_trainer_loss": "wait",
            "FLAGS_ps_reconnect": "200", **more}


def folder_of(job: Job, root: Path, index: int = 0) -> Path:
    return root / job.endpoints[index].replace(":", "_")


def snapshots(folder: Path) -> list[int]:
    return sorted(int(p.name[-20:]) for p in folder.glob("snapshot-*"))


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


# ---- what a log goes on from ----


@MODES
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_killed_before_its_first_snapshot(tmp_path, mode, steps):
    """The values that were drawn at the first start are those that the log goes on from."""
    with Job(1, 1, env=log_env(tmp_path)) as job:
        server = start(job, *mode)
        assert snapshots(folder_of(job, tmp_path)) == [0]  # before anybody can come
        want = train(job, range(1, steps + 1))
        for _ in range(2):
            killed(job, server)
            server = start(job, *mode)
            same(now(job), want)
            assert f"taken up at step {steps}" in server.output() or not steps
        want = train(job, range(steps + 1, steps + 3))
        killed(job, server)
        start(job, *mode)
        same(now(job), want)


def test_without_a_log_nothing_is_written_before_it_serves(tmp_path):
    with Job(1, 1, env={"FLAGS_ps_dir": str(tmp_path)}) as job:
        start(job)
        assert snapshots(folder_of(job, tmp_path)) == []


@MODES
def test_snapshots_by_steps(tmp_path, mode):
    """Without a log: what a job goes on from when it is killed."""
    env = {"FLAGS_ps_dir": str(tmp_path), "FLAGS_ps_snapshot_steps": "5", "FLAGS_ps_on_trainer_loss": "wait",
           "FLAGS_ps_reconnect": "200"}
    with Job(1, 1, env=env) as job:
        server = start(job, *mode)
        trainer = Hand(job, 0, 1).join()
        for step in range(1, 13):
            trainer.push(step, 1.0)
            trainer.values(step)
            if step % 5 == 0:
                server.wait_for(f"snapshot of step {step}:")
        killed(job, server)
        assert snapshots(folder_of(job, tmp_path)) == [5, 10]
        trainer.die()
        assert "taken up at step 10" in start(job, *mode).output()


def test_a_folder_that_the_job_wrote_later_counts_once(tmp_path):
    """The script loads a model before it serves, and the job saves there: the log does not go on from that."""
    model = tmp_path / "model"

    def write_model(steps: int) -> None:
        alone("equality.py", *UNSEEDED, "--steps", str(steps), "--save", str(model))

    with Job(1, 1, env=log_env(tmp_path / "ps")) as job:
        write_model(1)
        server = start(job, "--load", str(model))
        want = train(job, range(1, 4))
        write_model(3)
        killed(job, server)
        start(job, "--load", str(model))
        same(now(job), want)


@pytest.mark.parametrize("what", ["no snapshot", "another job's", "another run's"])
def test_a_log_is_done_again_on_nothing_else(tmp_path, what):
    with Job(1, 1, env=log_env(tmp_path / "ps")) as job:
        folder, aside = folder_of(job, tmp_path / "ps"), tmp_path / "aside"
        if what != "no snapshot":
            killed(job, start(job, FLAGS_ps_dir=str(aside)))
        server = start(job)
        train(job, range(1, 3))
        killed(job, server)
        shutil.move(folder / f"snapshot-{0:020}", tmp_path / "mine")
        if what != "no snapshot":
            shutil.copytree(folder_of(job, aside) / f"snapshot-{0:020}", folder / f"snapshot-{0:020}")
        if what == "another run's":
            (folder / "job").unlink()
        says = {
            "no snapshot": "but not the snapshot that it goes on from",
            "another job's": "it was brought there from another job",
            "another run's": "goes on from another snapshot of step 0",
        }
        said = refused(job)
        assert says[what] in said and ("FLAGS_ps_fresh=1 to start anew" in said or "Bring back" in said)
        assert len(records(last_log(tmp_path / "ps", job.endpoints[0]))) > 2  # nothing was touched


@MODES
def test_no_room_for_what_the_log_goes_on_from(tmp_path, mode):
    """A disk that is full at the start is told of before anybody trains; nothing that is there disturbs the next start."""
    options = [*mode, "--model", "mlp"]
    with Job(1, 1, env=log_env(tmp_path)) as job:
        for _ in range(2):
            said = refused(job, *options, "--file-limit", "20000")  # room for empty log files, and what it says
            assert "the log has nothing to go on from: cannot" in said and "free space" in said
            assert snapshots(folder_of(job, tmp_path)) == []
        start(job, *options)
        assert len(snapshots(folder_of(job, tmp_path))) == 1


# ---- damage ----


@MODES
def test_a_flipped_bit_in_what_was_committed_is_damage(tmp_path, mode):
    """In each record of the last step, the very last one too. Nothing is lost before the user says so."""
    with Job(1, 1, env=log_env(tmp_path / "ps")) as job:
        server = start(job, *mode)
        want = train(job, range(1, 3))
        train(job, range(3, 4))
        killed(job, server)
        path = last_log(tmp_path / "ps", job.endpoints[0])
        places = [at for _, at in records(path)]
        last_step = [i for i, (kind, _) in enumerate(records(path)) if kind == 4][1] + 1
        assert len(places[last_step:]) > 1
        for at in places[last_step:]:
            for inside in (0, 40, 70, 80):  # its magic, its fields, its payload
                flip(path, at + inside)
                said = refused(job, *mode)
                assert f"offset {at} of" in said and "had been written whole" in said and "FLAGS_ps_accept_rollback=1" in said
                flip(path, at + inside)
        flip(path, places[last_step])
        server = start(job, *mode, **ACCEPTED)
        assert "goes on from step 2 without what came after it" in server.output()
        same(now(job), want)
        assert [p.name for p in folder_of(job, tmp_path / "ps").glob("old-*/log-*")]  # moved, not removed
        want = train(job, range(3, 5))
        killed(job, server)
        start(job, *mode)
        same(now(job), want)


def test_the_end_of_a_log_that_is_gone_is_missed(tmp_path):
    """As in a copy that was cut short: at the end of a record too."""
    with Job(1, 1, env=log_env(tmp_path / "ps")) as job:
        server = start(job)
        train(job, range(1, 4))
        killed(job, server)
        path = last_log(tmp_path / "ps", job.endpoints[0])
        data = path.read_bytes()
        for size in (len(data) - 1, records(path)[-1][1], records(path)[0][1], 700, 0):
            path.write_bytes(data[:size])
            assert "FLAGS_ps_accept_rollback=1" in refused(job)
        path.write_bytes(data)
        start(job).wait_for("taken up at step 3")


@pytest.mark.parametrize("loops", [1, 2])
@MODES
def test_a_damaged_snapshot_with_logs_loses_nothing(tmp_path, mode, loops):
    """The one before it and the logs since then give the same."""
    env = log_env(tmp_path / "ps", FLAGS_ps_loops=str(loops))
    with Job(1, 1, env=env) as job:
        folder = folder_of(job, tmp_path / "ps")
        server = start(job, *mode)
        train(job, range(1, 4), loops=loops)
        ended_by_sigterm(job, server)
        server = start(job, *mode)
        want = train(job, range(4, 6), loops=loops)
        killed(job, server)
        newest = snapshots(folder)[-1]
        assert newest >= 3 and len(snapshots(folder)) == 2
        shutil.copytree(folder, tmp_path / "copy")
        for name in ("data", "manifest"):
            flip(folder / f"snapshot-{newest:020}" / name, 20)
            server = start(job, *mode)
            said = server.output()
            assert f"the snapshot of step {newest} in" in said and "cannot be used" in said and "nothing is lost" in said
            same(now(job, loops=loops), want)
            killed(job, server)
            assert [p.name for p in folder.glob("old-*/snapshot-*")] == [f"snapshot-{newest:020}"]
            killed(job, start(job, *mode))
            shutil.rmtree(folder)
            shutil.copytree(tmp_path / "copy", folder)
        # Not without the logs that lead there.
        flip(folder / f"snapshot-{newest:020}" / "data", 20)
        (folder / f"log-{loops - 1}-{0:020}").unlink()
        said = refused(job, *mode)
        assert "is not in" in said and "FLAGS_ps_accept_rollback=1" in said
        server = start(job, *mode, **ACCEPTED)
        assert snapshots(folder)[-1] > newest
        killed(job, server)
        start(job, *mode)


@MODES
def test_a_damaged_snapshot_without_logs_is_refused(tmp_path, mode):
    env = {"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_on_trainer_loss": "wait", "FLAGS_ps_reconnect": "200"}
    with Job(1, 1, env=env) as job:
        folder = folder_of(job, tmp_path / "ps")
        for steps in (range(1, 3), range(3, 5)):
            server = start(job, *mode)
            want = train(job, steps)
            ended_by_sigterm(job, server)
        assert snapshots(folder) == [2, 4]
        flip(folder / f"snapshot-{4:020}" / "data", 8)
        said = refused(job, *mode)
        assert "of step 4, is damaged, and no log leads there from that of step 2" in said and "FLAGS_ps_accept_rollback=1" in said
        server = start(job, *mode, **ACCEPTED)
        server.wait_for("taken up at step 2")
        killed(job, server)
        for step in (2,):
            flip(folder / f"snapshot-{step:020}" / "data", 8)
        assert "none of the 1 snapshots in" in refused(job, *mode, **ACCEPTED)
        assert want is not None


@pytest.mark.parametrize("what", ["log-0", "log-1", "all logs", "layout"])
@MODES
def test_a_removed_log_is_missed(tmp_path, mode, what):
    with Job(1, 1, env=log_env(tmp_path / "ps", FLAGS_ps_loops="2")) as job:
        folder = folder_of(job, tmp_path / "ps")
        server = start(job, *mode)
        first = now(job, loops=2)
        train(job, range(1, 4), loops=2)
        killed(job, server)
        for path in folder.glob({"all logs": "log-*", "layout": "layout"}.get(what, f"{what}-*")):
            path.unlink()
        said = refused(job, *mode)
        assert ("is not there" if what == "layout" else "is not in") in said and "FLAGS_ps_accept_rollback=1" in said
        server = start(job, *mode, **ACCEPTED)
        if mode == [] or what in ("all logs", "layout"):
            same(now(job, loops=2), first)  # all loops go back to one step
        killed(job, server)
        start(job, *mode)


# ---- other loops, other servers, no log ----


@MODES
@pytest.mark.parametrize("before, after", [("2", "0"), ("1", "2"), ("2", "1")])
def test_another_number_of_cores_keeps_what_was_logged(tmp_path, mode, before, after):
    """How many loops there are is chosen by the cores, or by the flag: where there is a log, it decides."""
    with Job(1, 1, env=log_env(tmp_path / "ps")) as job:
        server = start(job, *mode, FLAGS_ps_loops=before)
        want = train(job, range(1, 4), loops=int(before))
        killed(job, server)
        server = start(job, *mode, FLAGS_ps_loops=after)
        same(now(job, loops=int(before)), want)
        assert ("so are this server's" in server.output()) == (after != "0")
        ended_by_sigterm(job, server)
        # What is in a snapshot is for any number of loops.
        server = start(job, *mode, FLAGS_ps_loops=after)
        loops = int(before if after == "0" else after)
        same(now(job, loops=loops), want)
        want = train(job, range(4, 6), loops=loops)
        killed(job, server)
        start(job, *mode, FLAGS_ps_loops="0")
        same(now(job, loops=loops), want)


@MODES
def test_a_log_is_kept_when_the_flag_is_gone(tmp_path, mode):
    """What it has is done again, and lies in a snapshot before the log goes."""
    with Job(1, 1, env=log_env(tmp_path / "ps")) as job:
        server = start(job, *mode)
        want = train(job, range(1, 4))
        killed(job, server)
        server = start(job, *mode, FLAGS_ps_log="")
        assert "FLAGS_ps_log is not set: what it has is done again" in server.output()
        same(now(job), want)
        killed(job, server)
        assert not list(folder_of(job, tmp_path / "ps").glob("log-*"))
        server = start(job, *mode, FLAGS_ps_log="")
        same(now(job), want)
        killed(job, server)
        server = start(job, *mode)
        want = train(job, range(4, 6))
        killed(job, server)
        start(job, *mode)
        same(now(job), want)


def test_other_servers_do_not_drop_what_was_logged(tmp_path):
    """Refused, and what the message says helps."""
    with Job(2, 1, env=log_env(tmp_path / "ps")) as job:
        servers = [start(job, index=i) for i in range(2)]
        want = train(job, range(1, 4))
        for server in servers:
            killed(job, server)
        both = list(job.endpoints)
        del job.endpoints[1:]
        said = refused(job)
        assert "has 3 steps past it in its log" in said and "FLAGS_ps_accept_rollback=1" in said
        job.endpoints[:] = both
        for server in [start(job, index=i) for i in range(2)]:
            ended_by_sigterm(job, server)
        del job.endpoints[1:]
        server = start(job)
        same(now(job), want)
        want = train(job, range(4, 6))
        killed(job, server)
        start(job)
        same(now(job), want)


def test_other_servers_go_back_when_the_user_accepts(tmp_path):
    with Job(2, 1, env=log_env(tmp_path / "ps")) as job:
        servers = [start(job, index=i) for i in range(2)]
        first = now(job)
        train(job, range(1, 4))
        for server in servers:
            killed(job, server)
        del job.endpoints[1:]
        server = start(job, **ACCEPTED)
        same(now(job), first)
        want = train(job, range(1, 3))
        killed(job, server)
        start(job)
        same(now(job), want)


def test_folders_of_before(tmp_path):
    """A log of the first version is refused with both numbers; a snapshot of it is read."""
    with Job(1, 1, env=log_env(tmp_path / "ps")) as job:
        folder = folder_of(job, tmp_path / "ps")
        server = start(job)
        train(job, range(1, 3))
        killed(job, server)
        path = last_log(tmp_path / "ps", job.endpoints[0])
        data = bytearray(path.read_bytes())
        data[8] = 1
        path.write_bytes(data)
        assert "has version 1, this program reads version 2" in refused(job)
        layout = (folder / "layout").read_text()
        (folder / "layout").write_text(layout[layout.index("mode") : layout.index("loops")] + "loop 0 x@GRAD 1\n")
        assert "of version 1, while this program reads version 2" in refused(job)


@pytest.mark.parametrize("keep", ["0", "-3"])
def test_at_least_one_snapshot_is_kept(tmp_path, keep):
    with Job(1, 1, env=log_env(tmp_path / "ps")) as job:
        assert f"FLAGS_ps_keep cannot be '{keep}': give a whole number from 1 to " in refused(job, FLAGS_ps_keep=keep)


def test_other_loops_and_a_trainer_that_is_there(tmp_path):
    """It cannot know of them, and is told what to do."""
    with Job(1, 1, env={"FLAGS_ps_dir": str(tmp_path), "FLAGS_ps_reconnect": "200", "FLAGS_rpc_deadline": "20000"}) as job:
        server = start(job, FLAGS_ps_loops="2")
        trainer = job.start("trainer", 0, *UNSEEDED, "--steps", "9", "--pause-at", "3", "--linger", str(tmp_path / "go"))
        trainer.wait_for("pauses")
        ended_by_sigterm(job, server)
        start(job, FLAGS_ps_loops="1")
        (tmp_path / "go").touch()
        assert trainer.end(40) == 1
        assert "wants loop 1 of this server, which has 1" in trainer.output()
        assert "Start the trainers again, too" in trainer.output()


@MODES
def test_everything_but_the_layout_is_gone(tmp_path, mode):
    with Job(1, 1, env=log_env(tmp_path / "ps")) as job:
        folder = folder_of(job, tmp_path / "ps")
        server = start(job, *mode)
        train(job, range(1, 4))
        killed(job, server)
        for path in [*folder.glob("log-*"), *folder.glob("snapshot-*")]:
            path.unlink() if path.is_file() else shutil.rmtree(path)
        said = refused(job, *mode)
        assert "has neither the log that its file 'layout' tells of nor the snapshot" in said and "FLAGS_ps_fresh=1" in said


# ---- other rules ----


@pytest.mark.parametrize("options, trainers", [(["--mu", "0.5"], 1), (["--decay"], 1), (["--clip", "value"], 1), ([], 2)],
                         ids=["mu", "decay", "clip", "trainers"])
@MODES
def test_a_log_is_not_done_again_by_another_rule(tmp_path, mode, options, trainers):
    """Refused, and what the message says helps; a rate that is another one is a variable, and no rule."""
    momentum = ["--optimizer", "momentum", *mode]
    with Job(1, 1, env=log_env(tmp_path / "ps")) as job:
        server = start(job, *momentum)
        want = train(job, range(1, 4))
        killed(job, server)
        job.trainers = trainers
        said = refused(job, *momentum, *options)
        assert "has 3 steps past the snapshot of step 0 that this server cannot do again: it was written for " in said
        assert "''" not in said.partition("cannot do again")[2]
        is_more = options == ["--decay"]
        assert not is_more or "it was written for a server without 'program update op 0: " in said
        assert "Start it as before and end it with SIGTERM" in said
        job.trainers = 1
        server = start(job, *momentum)
        same(now(job), want)
        ended_by_sigterm(job, server)
        job.trainers = trainers
        server = start(job, *momentum, *options)
        assert "taken up at step 3" in server.output()
        if is_more:
            train(job, range(4, 6))
            killed(job, server)
            said = refused(job, *momentum)
            assert "it was written for 'program update op 0: " in said and "which this server does not have. Start it" in said


@pytest.mark.parametrize("sigma", [0.0, 1.0])
def test_a_log_is_refused_where_steps_cannot_be_done_again(tmp_path, sigma):
    """Noise of the servers would be another one."""
    options = ["--optimizer", f"Dpsgd(0.1, 10.0, 1.0, {sigma})"]
    with Job(1, 1, "shapes.py", env=log_env(tmp_path / "ps")) as job:
        job.start_all(*options)
        server, trainer = job.processes
        if sigma:
            assert server.end(20) == 1
            assert "FLAGS_ps_log needs steps that can be done again, but op dpsgd draws random numbers" in server.output()
        else:
            job.end(30)
    with Job(1, 1, "shapes.py", env={"FLAGS_ps_dir": str(tmp_path / "other")}) as job:
        job.start_all(*options)
        job.end(30)


# ---- what trainers that have ended were told ----


@pytest.mark.parametrize("before", [0, 10])
@MODES
def test_a_job_that_ended_is_not_over_for_a_server_that_lost_its_end(tmp_path, mode, before):
    """The last snapshot could not be written, and trainers had ended well: the server does not end well with what it has."""
    options = ["--model", "mlp", *mode]
    with Job(1, 1, env={"FLAGS_ps_dir": str(tmp_path / "ps")}) as job:
        if before:
            job.start_all(*options, "--steps", str(before))
            job.end(40)
        server = job.start("server", 0, *options, "--file-limit", "50000")
        trainer = job.start("trainer", 0, *options, "--steps", "20")
        assert trainer.end(40) == 0 and server.end(20) == 1, server.output()
        again = job.start("server", 0, *options)
        assert again.end(20) == 1, again.output()
        said = f"trainer 0 of this job has ended after step {before + 20}, but of that this server has kept only step {before}"
        assert said in again.output()
        assert "FLAGS_ps_accept_rollback=1 on all servers, and start the trainers too, with that flag," in again.output()
        again = job.start("server", 0, *options, env=ACCEPTED)
        trainer = job.start("trainer", 0, *options, "--steps", "3", "--resume")
        assert trainer.end(40) == 0 and again.end(20) == 0, again.output() + trainer.output()


def test_a_server_that_was_killed_while_it_wrote_a_snapshot_can_end_there(tmp_path):
    """Its logs have begun the file of that snapshot, which is not there: the last one takes another number."""
    with Job(1, 1, env=log_env(tmp_path / "ps", FLAGS_ps_snapshot_steps="2", FLAGS_ps_keep="9")) as job:
        folder = folder_of(job, tmp_path / "ps")
        server = start(job)
        want = train(job, range(1, 3))
        wait_for_snapshot(folder, 2)
        killed(job, server)
        shutil.rmtree(folder / f"snapshot-{2:020}")
        for _ in range(2):
            ended_by_sigterm(job, start(job))
            assert snapshots(folder) == [0, 3]
        server = start(job)
        same(now(job), want)
        train(job, range(3, 5))  # cuts go on
        wait_for_snapshot(folder, 5)
        killed(job, server)


def wait_for_snapshot(folder: Path, number: int) -> None:
    end = time.monotonic() + 20
    while number not in snapshots(folder):
        assert time.monotonic() < end, snapshots(folder)
        time.sleep(0.01)


def test_snapshots_go_on_after_a_step_back(tmp_path):
    """The job has gone back behind numbers that are used: new snapshots have higher ones."""
    env = log_env(tmp_path / "ps", FLAGS_ps_snapshot_steps="2", FLAGS_ps_keep="2")
    with Job(1, 1, env=env) as job:
        folder = folder_of(job, tmp_path / "ps")
        server = start(job)
        train(job, range(1, 9))
        wait_for_snapshot(folder, 8)
        killed(job, server)
        flip(folder / f"snapshot-{8:020}" / "data", 0)
        for path in folder.glob(f"log-0-{6:020}"):
            path.unlink()
        assert "FLAGS_ps_accept_rollback=1" in refused(job)
        server = start(job, **ACCEPTED)
        assert "taken up at step 6" in server.output()
        first = snapshots(folder)[-1]
        want = train(job, range(7, 9))
        wait_for_snapshot(folder, first + 2)
        killed(job, server)
        assert "taken up at step 8" in (server := start(job)).output()
        same(now(job), want)


# ---- kill -9 ----


@pytest.mark.parametrize("policy", ["wait", "fail"])
@MODES
def test_killed_at_any_moment_of_its_life(tmp_path, record_property, mode, policy):
    """While it starts too: before and in its first snapshot, while it does the log again, while it changes to other loops, to no
    log and back, in snapshots that come with the steps. What was acknowledged is there each time."""
    rng = random.Random(f"{mode} {policy}")
    early = late = 0
    with Job(1, 1, env=log_env(tmp_path / "ps", FLAGS_ps_on_trainer_loss=policy, FLAGS_ps_reconnect="20000")) as job:
        step, want, life = 0, None, 1.0
        for turn in range(ROUNDS):
            env = {
                "FLAGS_ps_log": rng.choice(["write", "write", "fsync", ""]),
                "FLAGS_ps_loops": rng.choice(["0", "1", "2"]),
                "FLAGS_ps_snapshot_steps": rng.choice(["0", "1", "3"]),
            }
            if step or turn % 4:  # it may be killed while it starts
                server = job.start("server", 0, *UNSEEDED, *mode, env=env)
                end = time.monotonic() + rng.uniform(0.4, 1.1) * life
                while time.monotonic() < end and "Server listening on" not in server.output():
                    time.sleep(0.001)
                early += "Server listening on" not in server.output()
                killed(job, server)
            began = time.monotonic()
            server = start(job, *mode, **env)
            life = time.monotonic() - began
            loops = loops_of(folder_of(job, tmp_path / "ps"))
            if want is not None:
                same(now(job, loops=loops), want)
            if env["FLAGS_ps_log"]:
                more = rng.randrange(5)
                want = train(job, range(step + 1, step + 1 + more), loops=loops)
                step += more
                late += more > 0
                time.sleep(rng.choice([0, 0, 0.01]))  # a snapshot may be on its way
            killed(job, server)
    record_property("killed before it served", early)
    record_property("killed after steps", late)
    assert late


def loops_of(folder: Path) -> int:
    return int(re.search("\nloops ([0-9]+)\n", (folder / "layout").read_text()).group(1))


# ---- how long a log gets ----


def steps_of(text: str) -> list[int]:
    return [int(part.split(":")[0]) for part in text.split("info: snapshot of step ")[1:]]


@pytest.mark.parametrize("servers", [1, 2])
@MODES
def test_a_log_is_cut_by_its_size(tmp_path, mode, servers):
    """A snapshot comes when it has grown past FLAGS_ps_log_mb, whichever server it is, and old files go."""
    env = {"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": "write", "FLAGS_ps_log_mb": "1"}
    pace = tmp_path / "pace"
    pace.touch()
    with Job(servers, 1, env=env) as job:
        job.start_all("--model", "mlp", *mode, "--steps", "1000", "--pace", f"{pace}:5")  # 5 steps have 1 MB
        end = time.monotonic() + 30
        while min(len(steps_of(server.output())) for server in job.processes[:servers]) < 4:
            assert time.monotonic() < end, job.processes[0].output()
            time.sleep(0.02)
            with pace.open("a") as file:
                file.write("x")
        pace.write_text("x" * 200)
        job.end(30)
        for i in range(servers):
            assert len(list(folder_of(job, tmp_path / "ps", i).glob("log-0-*"))) <= 2  # since the snapshot before the last
        if not mode:
            steps = [steps_of(server.output()) for server in job.processes[:servers]]
            assert len(set(steps[0][:4]) & set(steps[-1])) >= 3  # of one step on all servers
