"""A trainer is killed in the middle of a push, parts of which are in the parameters. The process that takes its place does that
step again, and no number has it twice, or not at all (jobs/wide.py: each number counts the steps)."""

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
from test_ps_recovery import folder_of

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


def job_of(root: Path, servers: int, trainers: int = 1, **env: str) -> Job:
    settings = {"FLAGS_ps_dir": str(root), "FLAGS_ps_snapshot_seconds": "0",
                "FLAGS_ps_on_trainer_loss": "wait", "FLAGS_ps_loops": "1"}
    return Job(servers, trainers, "wide.py", settings | {"PADDLE_PS_TRANSPORT": "tcp", "FLAGS_ps_dead_after": "0"} | env)


def killed_in_its_third_push(job: Job, *options: str, loops: int = 1, whole: int = 0, id: int = 0) -> None:
    """The servers serve; each loop has half of it, or the first `whole` ones all, and of two acknowledged ones all."""
    ways, made, connections = itertools.count(), [], loops * len(job.endpoints)

    def meddler():
        way = next(ways)
        most = ALL if way % 2 or way < 2 * whole else 2.5 * NUMBERS * 4 / connections
        made.append(First(most))
        return made[-1]

    servers = [job.start("server", i, *options) for i in range(len(job.endpoints))]
    for server in servers:
        server.wait_for("Server listening on")
    with FaultProxy(job.endpoints, 0, QUIET, meddler=meddler) as proxy:
        trainer = job.start("trainer", id, *options, env={"PADDLE_PS_MAP": proxy.map, "FLAGS_ps_notice": "300"})
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


@pytest.mark.parametrize("how", ["lives", "killed"])
@pytest.mark.parametrize("servers, loops, whole", [(1, 1, 0), (1, 2, 0), (1, 2, 1), (2, 1, 0), (2, 1, 1)])
def test_a_script_that_does_not_ask_what_is_done(tmp_path, servers, loops, whole, how):
    """Async. Its first batch is another one than that of the push that was broken off, and counts in all numbers, as do all behind
    it."""
    with job_of(tmp_path, servers, FLAGS_ps_log="write", FLAGS_ps_loops=str(loops)) as job:
        killed_in_its_third_push(job, *ASYNC, loops=loops, whole=whole)
        for i, server in enumerate(list(job.processes)):
            if how == "killed":
                server.kill()
                job.processes.remove(server)
                job.start("server", i, *ASYNC)
        trainer = job.start("trainer", 0, *ASYNC, "--anew", "--steps", "4")
        job.end(60)
        values = ast.literal_eval(re.search(r"values (.*)", trainer.output())[1])
        if how == "killed" and not whole:  # a log is done again up to the last whole push
            assert values == {-6.0: NUMBERS}, values
        else:
            assert set(values) == {-6.0, -7.0} and 0.2 < values[-7.0] / NUMBERS < 0.8, values
            assert "begins behind step 3" in trainer.output() and "steps_done()" in trainer.output(), trainer.output()


@pytest.mark.parametrize("old", [0, 1])
def test_an_older_folder_of_a_server_with_a_log(tmp_path, old):
    """Async. It lacks more than the push that was under way, which nobody gives again where the script does not ask what is done:
    refused, unless the user accepts that. One that asks gives all of it again."""
    with job_of(tmp_path, 2, FLAGS_ps_log="write") as job:
        folder = folder_of(job, tmp_path, old)
        for begun in (True, False):
            servers = [job.start("server", i, *ASYNC) for i in range(2)]
            trainer = job.start("trainer", 0, *ASYNC, "--more", "100000")
            trainer.wait_for("did step 6" if begun else "did step 14")
            for process in (trainer, *servers):
                process.kill()
            job.processes.clear()
            if begun:
                shutil.copytree(folder, tmp_path.parent / f"{tmp_path.name}-old")
        shutil.rmtree(folder)
        shutil.copytree(tmp_path.parent / f"{tmp_path.name}-old", folder)
        for i in range(2):
            job.start("server", i, *ASYNC)
        trainer = job.start("trainer", 0, *ASYNC, "--anew", "--steps", "4")
        assert trainer.end(40) == 1
        said = trainer.output()
        assert f"server {job.endpoints[old]} has step" in said and f"and server {job.endpoints[1 - old]} step" in said, said
        assert "it has a log, and lost what it had acknowledged" in said and "FLAGS_ps_accept_rollback=1" in said, said
        for server in job.processes[:2]:
            server.kill()
        job.processes.clear()
        for i in range(2):
            job.start("server", i, *ASYNC)
        done, values = trained_on(job, *ASYNC, "--more", "12")
        assert done < 14 and len(values) == 1, (done, values)


@pytest.mark.parametrize("servers, loops", [(1, 2), (2, 1), (3, 1)], ids=["other loops", "fewer", "more"])
def test_others_do_not_begin_with_half_of_it(tmp_path, servers, loops):
    """Async. Only those who have it can tell what is missing: they are to be started first, as the error says. Or the user goes on
    without."""
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
            assert "have only parts of step 3 of trainer 0" in server.output(), server.output()
            assert "SIGTERM while" in server.output(), server.output()
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
            job.start("server", i, *ASYNC,
                      env={"FLAGS_ps_accept_rollback": "1"}).wait_for("have only parts of step 3 of trainer 0: those count")
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
        others = [f"127.0.0.1:{port}" for port in free_ports(2)]
        for endpoints, text in (before, "of another number of loops"), (others, "was cut within the next step"):
            job.endpoints = endpoints
            for i in range(len(endpoints)):
                server = job.start("server", i)
                assert server.end(30) == 1, server.output()
                assert text in server.output(), server.output()
                assert "until the step is through" in server.output().replace("when", "until"), server.output()
            job.processes.clear()
        job.endpoints, job.env["FLAGS_ps_loops"] = before, "1"
        job.start("server", 0)
        assert trained_on(job, "--steps", "4") == (2, {-4.0: NUMBERS})
        job.processes.clear()
        job.endpoints = endpoints
        for i in range(2):
            job.start("server", i)
        assert trained_on(job) == (4, {-6.0: NUMBERS})


def refused(job: Job, text: str, *options: str) -> None:
    server = job.start("server", 0, *options)
    assert server.end(30) == 1 and text in server.output() and "until the step is through" in server.output(), server.output()
    assert "FLAGS_ps_fresh" not in server.output(), server.output()
    job.processes.remove(server)


@pytest.mark.parametrize("mode", [[], ASYNC], ids=["sync", "async"])
def test_it_is_not_taken_up_with_another_rate(tmp_path, mode):
    """Parts of the step had the former one. As the error says, the step is brought to its end first."""
    with job_of(tmp_path, 1, FLAGS_ps_on_trainer_loss="fail") as job:
        killed_in_its_third_push(job, *mode)
        ended_by_sigterm(job, job.processes[0])
        refused(job, "is 0.5 in this Program, and was 1 in the snapshot of step 2", *mode, "--rate", "0.5")
        job.start("server", 0, *mode)
        assert trained_on(job, *mode, "--steps", "3") == (2, {-3.0: NUMBERS})
        job.clear()
        job.start("server", 0, *mode, "--rate", "0.5")
        assert trained_on(job, *mode, "--rate", "0.5", "--steps", "5") == (3, {-4.0: NUMBERS})


def with_rule(rule: str) -> list[str]:
    return ["--rule", rule]


@pytest.mark.parametrize("mode", [[], ASYNC], ids=["sync", "async"])
@pytest.mark.parametrize(
    "before, after, told",
    [
        ("momentum", "momentum, other mu", "mu=0.5"),
        ("adam", "adam, other beta", "beta1=0.9"),
        ("sgd", "momentum", "sgd()"),
        ("momentum", "sgd", "momentum("),
        ("sgd", "decay", "this server has"),
        ("sgd", "clip", "this server has"),
        ("sgd", "schedule", "this server has"),
        ("schedule", "sgd", "this server has"),
        ("schedule", "other schedule", "0.5"),
    ],
)
def test_it_is_not_taken_up_with_another_rule(tmp_path, mode, before, after, told):
    """Parts of the step were done by the former one. The error names it, and what it says works."""
    with job_of(tmp_path, 1, FLAGS_ps_on_trainer_loss="fail") as job:
        killed_in_its_third_push(job, *mode, *with_rule(before))
        ended_by_sigterm(job, job.processes[0])
        refused(job, told, *mode, *with_rule(after))
        job.start("server", 0, *mode, *with_rule(before))
        done, values = trained_on(job, *mode, *with_rule(before), "--steps", "3")
        assert done == 2 and sum(values.values()) == NUMBERS and len(values) == 1, values


@pytest.mark.parametrize("loops", ["1", "2"])
@pytest.mark.parametrize("before, after", [([], ASYNC), (ASYNC, [])], ids=["sync", "async"])
def test_it_is_not_taken_up_in_the_other_mode(tmp_path, before, after, loops):
    with job_of(tmp_path, 1, FLAGS_ps_on_trainer_loss="fail") as job:
        killed_in_its_third_push(job, *before)
        ended_by_sigterm(job, job.processes[0])
        job.env["FLAGS_ps_loops"] = loops
        refused(job, "was written in", *after)
        job.env["FLAGS_ps_loops"] = "1"
        job.start("server", 0, *before)
        assert trained_on(job, *before, "--steps", "3") == (2, {-3.0: NUMBERS})
        job.clear()
        job.start("server", 0, *after)
        assert trained_on(job, *after, "--steps", "5") == (3, {-5.0: NUMBERS})


def test_another_trainer_comes_to_it(tmp_path):
    """Async: a push is of one trainer, whoever else is there."""
    with job_of(tmp_path, 1) as job:
        killed_in_its_third_push(job, *ASYNC)
        ended_by_sigterm(job, job.processes[0])
        job.trainers = 2
        job.start("server", 0, *ASYNC)
        job.start("trainer", 1, *ASYNC, "--steps", "3")
        assert trained_on(job, *ASYNC, "--steps", "3")[0] == 2
        job.clear()
        job.start("server", 0, *ASYNC)
        job.start("trainer", 1, *ASYNC, "--steps", "3")
        assert trained_on(job, *ASYNC, "--steps", "3") == (3, {-6.0: NUMBERS})


def test_it_is_not_taken_up_by_another_number_of_trainers(tmp_path):
    """Sync: parts of the step are averaged over the former ones."""
    with job_of(tmp_path, 1, FLAGS_ps_on_trainer_loss="fail") as job:
        killed_in_its_third_push(job)
        ended_by_sigterm(job, job.processes[0])
        job.trainers = 2
        refused(job, "was cut within step 3, parts of which are averaged over 1 trainers, and this job has 2")
        job.trainers = 1
        job.start("server", 0)
        assert trained_on(job, "--steps", "3") == (2, {-3.0: NUMBERS})


def test_the_push_of_a_trainer_that_the_job_has_no_more(tmp_path):
    """Async."""
    with job_of(tmp_path, 1, 2) as job:
        killed_in_its_third_push(job, *ASYNC, id=1)
        ended_by_sigterm(job, job.processes[0])
        job.trainers = 1
        refused(job, "has only parts of step 3 of trainer 1, and this job has 1 trainers", *ASYNC)
        job.trainers = 2
        job.start("server", 0, *ASYNC)
        job.start("trainer", 1, *ASYNC, "--steps", "3")
        assert trained_on(job, *ASYNC, "--steps", "3")[0] == 0
        job.clear()
        job.trainers = 1
        job.start("server", 0, *ASYNC)
        assert trained_on(job, *ASYNC, "--steps", "4") == (3, {-7.0: NUMBERS})


@pytest.mark.parametrize("mode", [[], ASYNC], ids=["sync", "async"])
def test_a_log_that_goes_on_from_half_a_push(tmp_path, mode):
    """The server is started again with a log, and killed after the step."""
    with job_of(tmp_path, 1, FLAGS_ps_on_trainer_loss="fail") as job:
        killed_in_its_third_push(job, *mode)
        ended_by_sigterm(job, job.processes[0])
        job.env["FLAGS_ps_log"] = "write"
        job.start("server", 0, *mode)
        job.start("trainer", 0, *mode, "--more", "100000").wait_for("did step 4")
        for process in job.processes:
            process.kill()
        job.clear()
        job.start("server", 0, *mode)
        done, values = trained_on(job, *mode, "--more", "1")
        assert done >= 5 and values == {-(done + 1.0): NUMBERS}, (done, values)


def test_a_log_does_not_begin_where_loops_are_a_step_apart(tmp_path):
    """Refused with what to do; and that works."""
    with job_of(tmp_path, 1, FLAGS_ps_loops="2", FLAGS_ps_on_trainer_loss="fail") as job:
        killed_in_its_third_push(job, loops=2, whole=1)
        ended_by_sigterm(job, job.processes[0])
        job.env["FLAGS_ps_log"] = "write"
        refused(job, "ends within step 3, which not all loops have applied: start this server without FLAGS_ps_log once more, and "
                     "its trainers")
        del job.env["FLAGS_ps_log"]
        job.start("server", 0)
        assert trained_on(job, "--steps", "3") == (2, {-3.0: NUMBERS})
        job.clear()
        job.env["FLAGS_ps_log"] = "write"
        job.start("server", 0)
        assert trained_on(job) == (3, {-6.0: NUMBERS})


@pytest.mark.parametrize("loops, whole", [(1, 0), (2, 0), (2, 1)])
def test_a_job_that_ends_with_that_step_has_it(tmp_path, loops, whole):
    """Its number is that of the snapshot within it, where a loop had it already: there is a new one all the same."""
    with job_of(tmp_path, 1, FLAGS_ps_loops=str(loops), FLAGS_ps_on_trainer_loss="fail") as job:
        killed_in_its_third_push(job, loops=loops, whole=whole)
        ended_by_sigterm(job, job.processes[0])
        job.start("server", 0)
        assert trained_on(job, "--steps", "3") == (2, {-3.0: NUMBERS})
        job.clear()
        job.start("server", 0)
        assert trained_on(job) == (3, {-6.0: NUMBERS})


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
@pytest.mark.parametrize("rule", [[], ["--rule", "adam"]], ids=["SGD", "Adam"])
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
            assert len(values) == 1, values
            assert sum(values.values()) == NUMBERS, values
            assert -0.1 * (done + 1) == pytest.approx(next(iter(values)), rel=1e-3), values
        else:
            assert values == {-float(done + 1): NUMBERS}
