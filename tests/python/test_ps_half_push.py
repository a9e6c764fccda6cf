"""A trainer is killed in the middle of a push, parts of which are in the parameters. The process that takes its place does that step
again, and no number has it twice, or not at all (jobs/wide.py: each number counts the steps)."""

import ast
import itertools
import re
import shutil
import sys
from pathlib import Path

import pytest
from cluster import JOBS, Job, Process, free_ports
from fault_proxy import FaultProxy, Faults
from test_ps_files import all_ended_by_sigterm, ended_by_sigterm

sys.path.insert(0, str(JOBS))
from wide import NAMES, ROWS, WIDTH  # noqa: E402

QUIET = Faults(cut=0, half_close=0, stall=0, delay=0)
NUMBERS = ROWS * WIDTH * len(NAMES)
ALL = 1 << 62


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


def killed_in_its_third_push(job: Job, *options: str, loops: int = 1, whole: int = 0) -> None:
    """The servers serve; each loop has half of it, or the first `whole` ones all, and of two acknowledged ones all."""
    ways, made, connections = itertools.count(), [], loops * len(job.endpoints)

    def meddler():
        way = next(ways)
        most = ALL if way % 2 or way < 2 * whole else 2.5 * NUMBERS * 4 / connections
        made.append(First(most))
        return made[-1]

    for i in range(len(job.endpoints)):
        job.start("server", i, *options)
    with FaultProxy(job.endpoints, 0, QUIET, meddler=meddler) as proxy:
        trainer = job.start("trainer", 0, *options, env={"PADDLE_PS_MAP": proxy.map, "FLAGS_ps_notice": "300"})
        trainer.wait_for("has waited 1 s")
        assert len(made) == 2 * connections and all(each.passed == int(each.most) for each in made[2 * whole :: 2])
        trainer.kill()
    job.processes.remove(trainer)


def trained_on(job: Job, *options: str) -> tuple[int, dict[float, int]]:
    """Where a new trainer went on, and the numbers in the end."""
    trainer: Process = job.start("trainer", 0, *options)
    job.end(60)
    done = re.search(r"steps done (\d+)", trainer.output())
    values = re.search(r"values (.*)", trainer.output())
    return int(done[1]), ast.literal_eval(values[1])


ASYNC = ["--async"]


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("how, log", [("lives", ""), ("lives", "write"), ("ends", ""), ("ends", "write"), ("killed", "write")])
def test_no_number_has_the_step_twice(tmp_path, servers, how, log):
    """Async. The servers live on, or end and start again with a snapshot within the push, or are killed as well and have a log."""
    with job_of(tmp_path, servers, FLAGS_ps_log=log) as job:
        killed_in_its_third_push(job, *ASYNC)
        for i, server in enumerate(list(job.processes)):
            if how == "killed":
                server.kill()
                job.processes.remove(server)
            if how == "ends":
                ended_by_sigterm(job, server)
            if how != "lives":
                job.start("server", i, *ASYNC)
        assert trained_on(job, *ASYNC) == (2, {-6.0: NUMBERS})


@pytest.mark.parametrize("servers, loops", [(1, 2), (2, 1), (3, 1)], ids=["other loops", "fewer", "more"])
def test_others_do_not_begin_with_half_of_it(tmp_path, servers, loops):
    """Async. Only those who have it can tell what is missing: they are to be started first, as the error says. Or the user goes on without."""
    with job_of(tmp_path, 3 if servers == 2 else servers if loops > 1 else 2) as job:
        killed_in_its_third_push(job, *ASYNC)
        for server in list(job.processes):
            ended_by_sigterm(job, server)
        shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-half")
        before, after = list(job.endpoints), list(job.endpoints)
        if loops == 1:
            after = [f"127.0.0.1:{port}" for port in free_ports(servers)]
        job.env["FLAGS_ps_loops"], job.endpoints = str(loops), after
        for server in [job.start("server", i, *ASYNC) for i in range(servers)]:
            assert server.end(20) == 1
            assert "have only parts of step 3 of trainer 0" in server.output() and "SIGTERM while" in server.output(), server.output()
        job.clear()
        job.env["FLAGS_ps_loops"], job.endpoints = "1", before  # as it says
        started = [job.start("server", i, *ASYNC) for i in range(len(before))]
        trainer = job.start("trainer", 0, *ASYNC, "--more", "100000")
        trainer.wait_for("did step 8")
        assert "steps done 2" in trainer.output()
        all_ended_by_sigterm(job, started)
        job.clear()
        job.env["FLAGS_ps_loops"], job.endpoints = str(loops), after
        for i in range(servers):
            job.start("server", i, *ASYNC)
        done, values = trained_on(job, *ASYNC, "--more", "3")
        assert done >= 8 and values == {-(done + 3.0): NUMBERS}
        job.clear()
        # Without the rest of it.
        shutil.rmtree(tmp_path)
        shutil.copytree(tmp_path.parent / f"{tmp_path.name}-half", tmp_path)
        for i in range(servers):
            job.start("server", i, *ASYNC, env={"FLAGS_ps_accept_rollback": "1"}).wait_for("have only parts of step 3 of trainer 0: those count")
        done, values = trained_on(job, *ASYNC)
        assert done == 3 and set(values) == {-5.0, -6.0}, (done, values)
        assert 0.2 < values[-6.0] / NUMBERS < 0.8, values


@pytest.mark.parametrize("servers, loops, whole", [(1, 1, 0), (1, 2, 0), (1, 2, 1), (2, 1, 0), (2, 1, 1), (2, 2, 1)])
@pytest.mark.parametrize("log", ["", "write"], ids=["no log", "log"])
def test_a_whole_job_is_stopped_within_a_push(tmp_path, log, servers, loops, whole):
    """Sync: what was acknowledged is there, and the step is given again. Loops and servers may be a step apart."""
    with job_of(tmp_path, servers, FLAGS_ps_log=log, FLAGS_ps_loops=str(loops), FLAGS_ps_on_trainer_loss="fail") as job:
        killed_in_its_third_push(job, loops=loops, whole=whole)
        for i, server in enumerate(list(job.processes)):
            said = ended_by_sigterm(job, server)
            assert log or "snapshot of step 2" in said or "snapshot of step 3" in said, said
            job.start("server", i)
        assert trained_on(job) == (2, {-6.0: NUMBERS})


def test_such_a_snapshot_is_of_use_to_its_server_only(tmp_path):
    """Sync: other servers, and other loops, are refused, with what to do; and that works."""
    with job_of(tmp_path, 1, FLAGS_ps_on_trainer_loss="fail") as job:
        killed_in_its_third_push(job)
        ended_by_sigterm(job, job.processes[0])
        before, job.env["FLAGS_ps_loops"] = job.endpoints, "2"
        for endpoints, text in (before, "of another number of loops"), ([f"127.0.0.1:{port}" for port in free_ports(2)], "was cut within the next step"):
            job.endpoints = endpoints
            for i in range(len(endpoints)):
                server = job.start("server", i)
                assert server.end(30) == 1 and text in server.output() and "until the step is through" in server.output().replace("when", "until"), server.output()
            job.processes.clear()
        job.endpoints, job.env["FLAGS_ps_loops"] = before, "1"
        job.start("server", 0)
        assert trained_on(job, "--steps", "4") == (2, {-4.0: NUMBERS})
        job.processes.clear()
        job.endpoints = endpoints
        for i in range(2):
            job.start("server", i)
        assert trained_on(job) == (4, {-6.0: NUMBERS})


@pytest.mark.parametrize("before, after", [("", "write"), ("write", "")], ids=["log switched on", "log switched off"])
def test_loops_apart_and_a_log_that_is_switched(tmp_path, before, after):
    """Sync: one loop has step 3 and the other not, which a log cannot begin with. What the error tells to do works."""
    with job_of(tmp_path, 1, FLAGS_ps_log=before, FLAGS_ps_loops="2", FLAGS_ps_on_trainer_loss="fail") as job:
        killed_in_its_third_push(job, loops=2, whole=1)
        ended_by_sigterm(job, job.processes[0])
        server = job.start("server", 0, env={"FLAGS_ps_log": after})
        assert server.end(30) == 1 and "within step 3, which not all loops have applied" in server.output(), server.output()
        told = "start this server with FLAGS_ps_log=write" if before else "start this server without FLAGS_ps_log"
        assert told in server.output() and "and its trainers, until the step is through" in server.output(), server.output()
        job.processes.remove(server)
        job.start("server", 0)
        assert trained_on(job, "--steps", "4") == (2, {-4.0: NUMBERS})
        job.processes.clear()
        job.env["FLAGS_ps_log"] = after
        job.start("server", 0)
        assert trained_on(job) == (4, {-6.0: NUMBERS})


@pytest.mark.parametrize("loops", [1, 2])
@pytest.mark.parametrize("rule", [[], ["--adam"]], ids=["SGD", "Adam"])
def test_a_log_begins_within_a_step(tmp_path, rule, loops):
    """Sync: all loops are in step 3 and have parts of it. The log begins there, and a server that is killed has the step once."""
    with job_of(tmp_path, 1, FLAGS_ps_loops=str(loops), FLAGS_ps_on_trainer_loss="fail") as job:
        killed_in_its_third_push(job, *rule, loops=loops)
        ended_by_sigterm(job, job.processes[0])
        job.env["FLAGS_ps_log"] = "write"
        for _ in range(2):  # within the step, and with the log's first steps
            server = job.start("server", 0, *rule)
            server.wait_for("Server listening")
            server.kill()
            job.processes.remove(server)
        server = job.start("server", 0, *rule)
        trainer = job.start("trainer", 0, *rule, "--steps", "99999")
        trainer.wait_for("did step 4")
        server.kill()
        trainer.kill()
        job.processes.clear()
        job.start("server", 0, *rule)
        done, values = trained_on(job, *rule, "--more", "1")
        assert done >= 5
        if rule:
            assert len(values) == 1 and sum(values.values()) == NUMBERS and -0.1 * (done + 1) == pytest.approx(next(iter(values)), rel=1e-3), values
        else:
            assert values == {-float(done + 1): NUMBERS}
