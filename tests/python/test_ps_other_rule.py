"""A job has ended, its script gets another optimizer or schedule, and it goes on from its snapshots: parameters are those of the
job, states that it did not have start anew, and servers name them (jobs/wide.py: each step gives 1 to every number)."""

import shutil
from pathlib import Path

import pytest
from cluster import Job, free_ports, until
from test_ps_files import ended_by_sigterm
from test_ps_half_push import NUMBERS, job_of, trained_on, with_rule
from test_ps_moved import LOGS
from test_ps_recovery import MODES

RULES = pytest.mark.parametrize(
    "before, after, anew, value",
    [
        ("sgd", "momentum", "velocity", -3 - (1 + 1.5 + 1.75 + 1.875)),
        ("sgd", "schedule", "'@LR_DECAY_COUNTER@'", -3 - (1 + 1 + 1 + 0.5)),
        ("schedule", "sgd", "'learning_rate_0'", -7),
        ("adam", "momentum", "velocity", -0.3 - (1 + 1.5 + 1.75 + 1.875)),
        ("momentum", "adam", "beta1_pow_acc", -(1 + 1.5 + 1.75) - 0.4),
        # Both call a state of theirs `moment`.
        ("adamax", "adagrad", "moment", -0.3 - (1 + 2**-0.5 + 3**-0.5 + 0.5)),
    ],
)


@LOGS
@MODES
@RULES
def test_it_goes_on(tmp_path, mode, log, before, after, anew, value):
    goes_on(tmp_path, 2, mode, log, before, after, anew, value)


@RULES
def test_other_servers_go_on(tmp_path, before, after, anew, value):
    goes_on(tmp_path, 3, [], "", before, after, anew, value)


def goes_on(tmp_path, servers, mode, log, before, after, anew, value):
    with job_of(tmp_path, 2, FLAGS_ps_log=log) as job:
        for i in range(2):
            job.start("server", i, *mode, *with_rule(before))
        assert trained_on(job, *mode, *with_rule(before), "--steps", "3")[0] == 0
        job.clear()
        if servers != 2:
            job.endpoints = [f"127.0.0.1:{port}" for port in free_ports(servers)]
        server = job.start("server", 0, *mode, *with_rule(after))
        assert server.end(30) == 1 and "FLAGS_ps_accept_anew=1" in server.output(), server.output()
        assert "FLAGS_ps_fresh" not in server.output(), server.output()
        job.processes.clear()
        job.env["FLAGS_ps_accept_anew"] = "1"
        started = [job.start("server", i, *mode, *with_rule(after)) for i in range(servers)]
        done, values = trained_on(job, *mode, *with_rule(after), "--steps", "7")
        for server in started:
            assert "goes on with another optimizer or schedule" in server.output() and anew in server.output(), server.output()
        assert done == 3 and sum(values.values()) == NUMBERS and [*values] == pytest.approx([value], rel=1e-4), (done, values)
        job.clear()
        started = [job.start("server", i, *mode, *with_rule(after)) for i in range(servers)]
        assert trained_on(job, *mode, *with_rule(after), "--steps", "8")[0] == 7
        assert not any("another optimizer or schedule" in server.output() for server in started)


@pytest.mark.parametrize("before, after", [("sgd", "momentum"), ("sgd", "schedule")])
def test_a_log_comes_first(tmp_path, before, after):
    """Its steps are done again by their own rule. What the error tells to do works."""
    with job_of(tmp_path, 1, FLAGS_ps_log="write") as job:
        server = job.start("server", 0, *with_rule(before))
        trainer = job.start("trainer", 0, *with_rule(before), "--steps", "99999")
        trainer.wait_for("did step 4")
        server.kill()
        trainer.kill()
        job.processes.clear()
        job.env["FLAGS_ps_accept_anew"] = "1"
        server = job.start("server", 0, *with_rule(after))
        assert server.end(30) == 1 and "Start it as before and end it with SIGTERM" in server.output(), server.output()
        assert "FLAGS_ps_fresh" not in server.output(), server.output()
        job.processes.clear()
        as_before = job.start("server", 0, *with_rule(before))
        as_before.wait_for("Server listening on")
        ended_by_sigterm(job, as_before)
        server = job.start("server", 0, *with_rule(after))
        done, _ = trained_on(job, *with_rule(after), "--steps", "99")
        assert done >= 4 and "goes on with another optimizer or schedule" in server.output(), server.output()


@LOGS
def test_a_start_by_mistake_costs_nothing(tmp_path, log):
    """The other optimizer keeps less, so nothing would be missing; the job's own finds its states as they were."""
    with job_of(tmp_path, 1, FLAGS_ps_log=log) as job:
        job.start("server", 0, *with_rule("momentum"))
        assert trained_on(job, *with_rule("momentum"), "--steps", "3")[0] == 0
        job.clear()
        server = job.start("server", 0, *with_rule("sgd"))
        assert server.end(30) == 1 and "was trained by momentum , and this server has sgd ." in server.output(), server.output()
        job.processes.clear()
        job.start("server", 0, *with_rule("momentum"))
        done, values = trained_on(job, *with_rule("momentum"), "--steps", "4")
        assert done == 3 and [*values] == [-(1 + 1.5 + 1.75 + 1.875)], values


def a_step_apart(job: Job, *options: str) -> None:
    """The whole job is killed; server 1 has a snapshot of one step more than server 0."""
    job.env |= {"FLAGS_ps_snapshot_steps": "1", "FLAGS_ps_keep": "9"}
    job.start_all(*options, "--steps", "99999")
    until(lambda: all(len(snapshots(job, i)) >= 3 for i in range(2)), 60)
    for process in job.processes:
        process.kill()
    job.processes.clear()
    del job.env["FLAGS_ps_snapshot_steps"]
    last = min(snapshots(job, i)[-1] for i in range(2))
    for i in range(2):
        for number in snapshots(job, i):
            if number > last - 1 + i:
                shutil.rmtree(folder(job, i) / f"snapshot-{number:020d}")


def folder(job: Job, server: int) -> Path:
    return Path(job.env["FLAGS_ps_dir"]) / job.endpoints[server].replace(":", "_")


def snapshots(job: Job, server: int) -> list[int]:
    return sorted(int(path.name.partition("-")[2]) for path in folder(job, server).glob("snapshot-" + "[0-9]" * 20))


CHANGES = [(["--rule", "momentum, other mu"], []), (["--rate", "0.5"], []), ([], ["--async"])]


@pytest.mark.parametrize("change, mode", CHANGES, ids=["rule", "rate", "mode"])
def test_no_step_is_done_by_two_rules(tmp_path, change, mode):
    """Snapshots are whole, and a step apart: the server that lacks the step would do it by the new rule. What the error says
    works."""
    before = with_rule("momentum")
    with job_of(tmp_path, 2) as job:
        a_step_apart(job, *before)
        for _ in range(2):  # a start in vain changes nothing
            job.start_all(*before, *change, *mode)
            trainer = job.processes[-1]
            assert trainer.end(60) == 1, trainer.output()
            assert "lacks step" in trainer.output(), trainer.output()
            assert "start the servers as they were" in trainer.output(), trainer.output()
            for server in job.processes[:2]:
                server.end(30)
            job.processes.clear()
        job.start_all(*before, "--more", "1")
        job.end(60)
        job.clear()
        job.start_all(*before, *change, *mode, "--more", "1")
        job.end(60)
