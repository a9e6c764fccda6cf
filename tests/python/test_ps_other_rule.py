"""A job has ended, its script gets another optimizer or schedule, and it goes on from its snapshots: parameters are those of the job, states
that it did not have start anew, and servers name them (jobs/wide.py: each step gives 1 to every number)."""

import pytest
from cluster import free_ports
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
