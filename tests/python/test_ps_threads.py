"""Trainers with several threads: every run is a step of its own, and nothing of it is lost or mixed with another's."""

import signal

import numpy as np
import pytest
from cluster import Job

START = 4096


def check(outs, share: float = 1) -> None:
    """What the last trainer to end got from the servers is what all have fed."""
    found = [dict(np.load(out)) for out in outs]
    fed, looked_up = sum(f["fed"] for f in found) * share, sum(f["looked_up"] for f in found) * share
    last = min(found, key=lambda f: f["w"][0])
    assert last["w"] == [-fed]
    np.testing.assert_array_equal(last["wide"], np.full_like(last["wide"], -fed))
    np.testing.assert_allclose(last["table"][:, 0], START - looked_up, rtol=1e-5)


@pytest.mark.parametrize("options", [[], ["--is-async"], ["--wide", "60000"], ["--stumble"],
                                     ["--is-async", "--stumble"], ["--shared"], ["--is-async", "--shared", "--stumble"]],
                         ids=" ".join)
@pytest.mark.parametrize("transport", ["tcp", "auto"])
def test_every_run_counts_once(tmp_path, options, transport):
    """Batches that fail, and are caught, count nowhere."""
    env = {"PADDLE_PS_TRANSPORT": transport, "FLAGS_check_nan_inf": str(int("--stumble" in options))}
    with Job(2, 1, script="threads.py", env=env) as job:
        job.start_all(*options, out=tmp_path)
        job.end(60)
    check([tmp_path / "trainer-0.npz"])


def test_two_trainers_with_threads(tmp_path):
    """Sync: a step is one run of each, and averages the two."""
    with Job(1, 2, script="threads.py") as job:
        job.start_all("--threads", "3", out=tmp_path)
        job.end(60)
    check([tmp_path / f"trainer-{i}.npz" for i in range(2)], share=0.5)


def test_a_signal_handler_saves_in_the_middle_of_steps(tmp_path):
    """With another executor: it disturbs none."""
    with Job(1, 1, script="threads.py") as job:
        job.start_all("--how", "signals", "--layers", "6", out=tmp_path)
        job.end(90)
    check([tmp_path / "trainer-0.npz"])


def test_an_executor_is_closed_while_a_thread_trains(tmp_path):
    """That says goodbye for the process: not in the middle of a step. The thread comes back with its next one."""
    with Job(1, 2, script="threads.py") as job:
        options = ["--is-async", "--wide", "60000"]
        job.start("server", 0, *options)
        stays = job.start("trainer", 1, *options, "--how", "stay", "--go", str(tmp_path / "go"))
        closes = job.start("trainer", 0, *options, "--how", "close", "--threads", "2", "--runs", "300",
                           "--out", str(tmp_path / "trainer-0.npz"))
        assert closes.end(60) == 0, closes.output()
        (tmp_path / "go").touch()
        assert stays.end(30) == 0, stays.output()
        job.end(30)
    check([tmp_path / "trainer-0.npz"])


def test_children_of_a_trainer_with_threads(tmp_path):
    with Job(1, 1, script="threads.py") as job:
        job.start_all("--how", "fork", "--runs", "200", out=tmp_path)
        job.end(60)
    check([tmp_path / "trainer-0.npz"])


def test_ctrl_c_while_threads_wait_for_a_server_that_stands_still(tmp_path):
    with Job(1, 1, script="threads.py", env={"FLAGS_ps_notice": "300", "FLAGS_rpc_deadline": "600000"}) as job:
        job.start_all("--how", "interrupt", "--threads", "1", "--go", str(tmp_path / "go"), out=tmp_path)
        server, trainer = job.processes
        trainer.wait_for("ready")
        server.signal(signal.SIGSTOP)
        (tmp_path / "go").touch()
        trainer.wait_for("fetching rows has waited")
        trainer.signal(signal.SIGINT)
        trainer.wait_for("interrupted", 60)  # while the server stands still
        server.signal(signal.SIGCONT)
        job.end(30)
    check([tmp_path / "trainer-0.npz"])


def test_a_program_that_does_not_end_its_step():
    """Its gradients would go into the next run's step, or be lost."""
    with Job(1, 1, script="threads.py") as job:
        job.start_all("--how", "open")
        job.end(30)
        assert job.processes[1].output().count("does not end its step") == 2, job.processes[1].output()


@pytest.mark.parametrize("how", ["raise", "sleep", "run"])
def test_one_thread_fails_while_another_waits_in_a_step(how):
    """The process ends soon, and servers are told why: the step is broken off. Ctrl-C where it says nothing else."""
    with Job(1, 2, script="left.py", env={"FLAGS_ps_notice": "300"}) as job:
        server = job.start("server", 0)
        trainer = job.start("trainer", 0, "--how", how)
        trainer.wait_for("has waited 1 s")
        if how != "raise":
            trainer.signal(signal.SIGINT)
        assert trainer.end(15) != 0  # FLAGS_rpc_deadline is 180 s
        assert server.end(15) == 1
        said = "ValueError: this is why" if how == "raise" else "KeyboardInterrupt"
        assert f"failed: {said}" in server.output(), server.output()
