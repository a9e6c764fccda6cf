"""What a server leaves in its folder when it ends, and what it takes up from there when it starts."""

import re
import signal
import time
from pathlib import Path

import numpy as np
import ps_peer as ps
import pytest
from cluster import Job, Process
from test_ps_prepare import NAMES, OPTIONS, RATE, Hand

LINE = ["--model", "fit_a_line", "--optimizer", "momentum"]


def ended_by_sigterm(job: Job, server: Process, deadline: float = 15) -> str:
    """What it said; its place in the job is free for another one."""
    server.signal(signal.SIGTERM)
    return ended(job, server, deadline)


def all_ended_by_sigterm(job: Job, servers: list[Process]) -> None:
    """They are asked at the same time."""
    for server in servers:
        server.signal(signal.SIGTERM)
    for server in servers:
        ended(job, server)


def ended(job: Job, server: Process, deadline: float = 15) -> str:
    """The same of one that was asked to end."""
    assert server.end(deadline) == 0, server.output()
    said = server.output()
    job.processes.remove(server)
    server.close()
    return said


# ---- SIGTERM when no step comes to its end ----


def test_a_whole_job_that_is_stopped_keeps_its_last_step(tmp_path):
    """Trainers are gone, in the middle of a step, when the servers are asked to end: nothing of what was acknowledged is lost."""
    options = [*LINE, "--pause-at", "7", "--linger", str(tmp_path / "never")]
    with Job(2, 2, env={"FLAGS_ps_dir": str(tmp_path / "ps")}) as job:
        job.start_all(*options)
        servers, trainers = job.processes[:2], job.processes[2:]
        for t in trainers:
            t.wait_for("pauses")
        for t in trainers:
            t.kill()
            job.processes.remove(t)
            t.close()
        began = time.monotonic()
        for s in servers:
            s.signal(signal.SIGTERM)
        for s in servers:
            assert "snapshot of step 7:" in ended(job, s)
        print(f"the servers ended {time.monotonic() - began:.1f} s after they were asked to: there is nobody to wait for")
        job.start_all(*LINE, "--steps", "3")
        for s in job.processes[:2]:
            s.wait_for("taken up at step 7")
        job.end(30)


def test_the_last_trainers_leave_while_the_server_ends(tmp_path):
    """No step comes to its end any more: the job is over, and its last snapshot is written as ever."""
    options = [*LINE, "--steps", "9", "--linger", str(tmp_path / "leave")]
    with Job(1, 2, env={"FLAGS_ps_dir": str(tmp_path / "ps")}) as job:
        job.start_all(*options)
        for t in job.processes[1:]:
            t.wait_for("all steps have ended")
        job.processes[0].signal(signal.SIGTERM)
        job.processes[0].wait_for("asked to end")
        (tmp_path / "leave").touch()
        job.end(8)
        assert "snapshot of step 9:" in job.processes[0].output()
    assert not list((tmp_path / "ps").glob("*/trainers"))


def test_a_snapshot_within_a_step(tmp_path):
    """One trainer, whose parts are applied as they come: it is gone before the step is whole. What it gave of that counts, once."""
    with Job(1, 1, env={"FLAGS_ps_dir": str(tmp_path / "ps")}) as job:
        server = job.start("server", 0, *OPTIONS)
        server.wait_for("Server listening on")
        trainer = Hand(job, 0).join()
        trainer.push(1, 1.0)
        one = trainer.values(1)
        trainer.give(2, "fc_0.w_0", 1.0)
        trainer.step = 1
        trainer.pull()
        trainer.die()
        for _ in range(2):  # the second time nobody came
            said = ended_by_sigterm(job, server)
            (manifest,) = (tmp_path / "ps").glob("*/snapshot-*/manifest")
            assert "note open0=2 " in manifest.read_text() and "note step0=1" in manifest.read_text(), said
            server = job.start("server", 0, *OPTIONS)
            server.wait_for("taken up at step 1")
            server.wait_for("Server listening on")
        again = Hand(job, 0, incarnation=77).join()
        again.push(2, 3.0)
        two = again.values(2)
        np.testing.assert_allclose(two["fc_0.w_0"], one["fc_0.w_0"] - RATE, rtol=1e-5)
        np.testing.assert_allclose(two["fc_0.b_0"], one["fc_0.b_0"] - 3 * RATE, rtol=1e-5)
        again.leave()
        job.end(20)


# ---- async: every trainer has steps of its own ----


def make_step(trainer: Hand, step: int, value: float = 1.0) -> dict[str, np.ndarray]:
    """The parameters after it."""
    trainer.push(step, value)
    ((place, peer),) = trainer.at.items()
    got = peer.answer()
    assert got.type == ps.VALUES, got.text()
    sizes = [NAMES[name] for name in trainer.units[place]]
    return dict(zip(trainer.units[place], np.split(np.frombuffer(got.payload, "float32"), np.cumsum(sizes)[:-1])))


@pytest.mark.parametrize("how", ["asked to end", "all have left"])
def test_async_what_slower_trainers_did_is_kept(tmp_path, how):
    """The last snapshot has the highest step already, and only those behind it have trained since."""
    options = [*LINE, "--async"]
    with Job(1, 2, env={"FLAGS_ps_dir": str(tmp_path / "ps")}) as job:
        server = job.start("server", 0, *options)
        server.wait_for("Server listening on")
        trainer = Hand(job, 0).join()
        for step in range(1, 6):
            make_step(trainer, step)
        assert "snapshot of step 5:" in ended_by_sigterm(job, server)
        server = job.start("server", 0, *options)
        server.wait_for("Server listening on")
        trainers = [Hand(job, i).join() for i in range(2)]
        for step in range(1, 4):
            want = make_step(trainers[1], step)
        if how == "asked to end":
            said = ended_by_sigterm(job, server)
        else:
            for trainer in trainers:
                trainer.leave()
            assert server.end(10) == 0
            said = server.output()
        assert "snapshot of step 6:" in said
        server = job.start("server", 0, *options)
        server.wait_for("Server listening on")
        assert "taken up at step 5" in server.output()
        got = [Hand(job, i).join() for i in range(2)][1].pull()
        for name, value in want.items():
            np.testing.assert_array_equal(got[name], value)
        with pytest.raises(AssertionError, match="the server has applied only step 3"):
            make_step(Hand(job, 1).join(), 5)


# ---- whose files they are ----


def old_files(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.glob("*/old-*/*"))


def begin_with_a_log(job: Job, *options: str, until: str = "Server listening on", **env: str) -> None:
    """A job that is killed as a whole after 6 steps, with a log of them, when its servers have said `until`."""
    for i in range(len(job.endpoints)):
        job.start("server", i, *options, env={"FLAGS_ps_log": "write", **env})
    for i in range(job.trainers):
        job.start("trainer", i, *options, "--pause-at", "6", "--linger", "/nowhere", env=env)
    for i, p in enumerate(job.processes):
        p.wait_for(until if i < len(job.endpoints) else "pauses")
    for p in job.processes:
        p.close()
    job.processes.clear()


def test_a_fresh_start_leaves_nothing_of_the_job_before(tmp_path):
    """Neither its log nor its snapshots, whose steps are higher; they are moved, not removed."""
    folder = tmp_path / "ps"
    env = {"FLAGS_ps_dir": str(folder), "FLAGS_ps_log": "write", "FLAGS_ps_snapshot_steps": "4", "FLAGS_ps_keep": "1"}
    with Job(1, 1, env=env) as job:
        begin_with_a_log(job, *LINE, until="snapshot of step 4:")
        job.start("server", 0, *LINE, env={"FLAGS_ps_fresh": "1"})
        job.start("trainer", 0, *LINE, "--steps", "3")
        job.end(20)
        said = job.processes[0].output()
        assert "FLAGS_ps_fresh starts anew: " in said and "were moved to" in said and "taken up" not in said
        assert {"log-0-00000000000000000004", "snapshot-00000000000000000004"} <= set(old_files(folder))
        assert [p.name for p in folder.glob("*/snapshot-*")] == ["snapshot-00000000000000000003"]
        job.processes.clear()
        again = job.start("server", 0, *LINE)
        again.wait_for("taken up at step 3")


def test_a_second_server_on_a_folder_is_refused(tmp_path):
    """Even one that is told to start anew: what the first one keeps stays where it is."""
    env = {"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_snapshot_steps": "4"}
    with Job(1, 1, env=env) as job:
        server = job.start("server", 0, *LINE)
        job.start("trainer", 0, *LINE, "--pause-at", "5", "--linger", str(tmp_path / "on"))
        server.wait_for("snapshot of step 4:")
        second = job.start("server", 0, *LINE, env={"FLAGS_ps_fresh": "1"})
        job.processes.remove(second)
        try:
            assert second.end(20) == 1
            assert f"is in use by process {server.pid}: end that server" in second.output()
        finally:
            second.close()
        assert [p.name for p in (tmp_path / "ps").glob("*/snapshot-*")] == ["snapshot-00000000000000000004"]
        (tmp_path / "on").touch()
        job.end(20)


def test_the_same_layout_goes_on_with_its_log(tmp_path):
    with Job(2, 1, env={"FLAGS_ps_dir": str(tmp_path / "ps")}) as job:
        begin_with_a_log(job, *LINE)
        for i in range(2):
            job.start("server", i, *LINE, env={"FLAGS_ps_log": "write"})
        for server in job.processes:
            server.wait_for("taken up at step 6")
        assert not old_files(tmp_path)


# ---- async: the learning rate's schedule ----


def rate_of(step: int) -> np.ndarray:
    """As the job's schedule has it."""
    return np.float32(0.02 * 0.8 ** ((step - 1) / 2))


@pytest.mark.parametrize("log", ["", "write"])
@pytest.mark.parametrize("cut", ["between pushes", "within a push"])
def test_async_a_schedule_goes_on_where_it_was(tmp_path, cut, log):
    """A trainer behind the others finds the rate that they have reached, and each step advances it once."""
    options = ["--model", "fit_a_line", "--optimizer", "sgd", "--schedule", "--async"]
    with Job(1, 2, env={"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": log}) as job:

        def start() -> tuple[Process, list[Hand], np.ndarray]:
            server = job.start("server", 0, *options)
            server.wait_for("Server listening on")
            trainers = [Hand(job, i).join() for i in range(2)]
            return server, trainers, trainers[0].pull()["fc_0.b_0"]

        def check_rate(trainer: Hand, step: int, is_of: int) -> None:
            nonlocal bias
            before, bias = bias, make_step(trainer, step)["fc_0.b_0"]
            np.testing.assert_allclose(before - bias, rate_of(is_of), rtol=1e-3)

        server, (fast, slow), bias = start()
        for step in range(1, 6):
            check_rate(fast, step, step)
        if cut == "within a push":
            fast.give(6, "fc_0.w_0", 1.0)
            fast.step = 5
            fast.pull()
        said = ended_by_sigterm(job, server)
        assert "snapshot of step 5:" in said
        server, (fast, slow), bias = start()
        check_rate(slow, 1, 6 if cut == "within a push" else 5)
        check_rate(fast, 6, 6)
        check_rate(slow, 2, 6)
        if log:
            server.kill()
            job.processes.remove(server)
            server.close()
            server, (fast, slow), bias = start()
            check_rate(slow, 3, 6)
        check_rate(fast, 7, 7)


def test_names_with_blanks(tmp_path):
    """Sliced parameters too, on the same servers and on another number."""
    options = ["--name", "my own w", "--rows", "64", "--cols", "1024", "--optimizer", "Adam(0.1)"]
    losses = []
    with Job(2, 1, "shapes.py", env={"FLAGS_ps_dir": str(tmp_path), "FLAGS_ps_log": "write"}) as job:
        for servers in (2, 2, 1):
            job.endpoints = job.endpoints[:servers]
            job.start_all(*options)
            job.end(30)
            losses.append(float(re.search(r"loss (\S+)", job.processes[-1].output()).group(1)))
            for p in job.processes:
                p.close()
            job.processes.clear()
    assert losses[0] > losses[1] > losses[2]
