"""Async: a trainer is killed in the middle of a push, parts of which are in the parameters. The process that takes its place does that
step again, and no number has it twice (jobs/wide.py: each number counts the steps)."""

import ast
import itertools
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest
from cluster import JOBS, Job, Process, free_ports
from fault_proxy import FaultProxy, Faults
from test_ps_files import ended, ended_by_sigterm

sys.path.insert(0, str(JOBS))
from wide import ROWS, WIDTH  # noqa: E402

QUIET = Faults(cut=0, half_close=0, stall=0, delay=0)
BYTES = ROWS * WIDTH * 4  # of a push


class First:
    """Lets the first bytes through, and swallows the others."""

    def __init__(self, most: float) -> None:
        self.most, self.passed = most, 0

    def __call__(self, data: bytes) -> bytes:
        data = data[: max(int(self.most) - self.passed, 0)]
        self.passed += len(data)
        return data


def job_of(root: Path, servers: int, **env: str) -> Job:
    settings = {"FLAGS_ps_dir": str(root), "FLAGS_ps_snapshot_seconds": "0", "FLAGS_ps_on_trainer_loss": "wait", "FLAGS_ps_loops": "1"}
    return Job(servers, 1, "wide.py", settings | {"PADDLE_PS_TRANSPORT": "tcp", "FLAGS_ps_dead_after": "0"} | env)


def killed_in_its_third_push(job: Job) -> None:
    """The servers serve; each has half of it, of two acknowledged ones all."""
    ways, made = itertools.count(), []

    def meddler():
        most = 2.5 * BYTES / len(job.endpoints) if next(ways) % 2 == 0 else 1 << 62
        made.append(First(most))
        return made[-1]

    for i in range(len(job.endpoints)):
        job.start("server", i)
    with FaultProxy(job.endpoints, 0, QUIET, meddler=meddler) as proxy:
        trainer = job.start("trainer", 0, env={"PADDLE_PS_MAP": proxy.map, "FLAGS_ps_notice": "300"})
        trainer.wait_for("has waited 1 s")
        assert [each.passed == int(each.most) for each in made[::2]] == [True] * len(job.endpoints)
        trainer.kill()
    job.processes.remove(trainer)


def trained_on(job: Job, *options: str) -> tuple[int, dict[float, int]]:
    """Where a new trainer went on, and the numbers in the end."""
    trainer: Process = job.start("trainer", 0, *options)
    job.end(60)
    done = re.search(r"steps done (\d+)", trainer.output())
    values = re.search(r"values (.*)", trainer.output())
    return int(done[1]), ast.literal_eval(values[1])


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("log", ["", "write"], ids=["no log", "log"])
@pytest.mark.parametrize("how", ["lives", "ends", "killed"])
def test_no_number_has_the_step_twice(tmp_path, servers, log, how):
    """The servers live on, or end and start again with a snapshot within the push, or are killed as well and have a log."""
    if how == "killed" and not log:
        pytest.skip("nothing is left of it")
    with job_of(tmp_path, servers, FLAGS_ps_log=log) as job:
        killed_in_its_third_push(job)
        for i, server in enumerate(list(job.processes)):
            if how == "killed":
                server.kill()
                job.processes.remove(server)
            if how == "ends":
                ended_by_sigterm(job, server)
            if how != "lives":
                job.start("server", i)
        assert trained_on(job) == (2, {-6.0: ROWS * WIDTH})


@pytest.mark.parametrize("servers, loops", [(1, 2), (2, 1), (3, 1)], ids=["other loops", "fewer", "more"])
def test_others_do_not_begin_with_half_of_it(tmp_path, servers, loops):
    """Only those who have it can tell what is missing: they are to be started first, as the error says. Or the user goes on without."""
    with job_of(tmp_path, 3 if servers == 2 else servers if loops > 1 else 2) as job:
        killed_in_its_third_push(job)
        for server in list(job.processes):
            ended_by_sigterm(job, server)
        shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-half")
        before, after = list(job.endpoints), list(job.endpoints)
        if loops == 1:
            after = [f"127.0.0.1:{port}" for port in free_ports(servers)]
        job.env["FLAGS_ps_loops"], job.endpoints = str(loops), after
        for server in [job.start("server", i) for i in range(servers)]:
            assert server.end(20) == 1
            assert "have only parts of step 3 of trainer 0" in server.output() and "SIGTERM while" in server.output(), server.output()
        job.clear()
        job.env["FLAGS_ps_loops"], job.endpoints = "1", before  # as it says
        started = [job.start("server", i) for i in range(len(before))]
        trainer = job.start("trainer", 0, "--more", "100000")
        trainer.wait_for("did step 8")
        assert "steps done 2" in trainer.output()
        for server in started:
            server.signal(signal.SIGTERM)
        for server in started:
            ended(job, server)
        job.clear()
        job.env["FLAGS_ps_loops"], job.endpoints = str(loops), after
        for i in range(servers):
            job.start("server", i)
        done, values = trained_on(job, "--more", "3")
        assert done >= 8 and values == {-(done + 3.0): ROWS * WIDTH}
        job.clear()
        # Without the rest of it.
        shutil.rmtree(tmp_path)
        shutil.copytree(tmp_path.parent / f"{tmp_path.name}-half", tmp_path)
        for i in range(servers):
            job.start("server", i, env={"FLAGS_ps_accept_rollback": "1"}).wait_for("have only parts of step 3 of trainer 0: those count")
        done, values = trained_on(job)
        assert done == 3 and set(values) == {-5.0, -6.0}, (done, values)
        assert 0.2 < values[-6.0] / (ROWS * WIDTH) < 0.8, values
