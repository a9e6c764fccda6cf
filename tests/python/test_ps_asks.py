"""A server refuses what a trainer asks for (jobs/asks.py) and hangs up: it knows why that trainer is gone, and says so."""

import re
import signal

import pytest
from cluster import Job, until

REASON = "this server has no variable 'nothing'"


@pytest.mark.parametrize(
    "trainers, policy, asks, loops, mode",
    [
        (1, "fail", 0, 1, []),
        (1, "fail", 1, 2, ["--async"]),
        (1, "shrink", 0, 2, []),
        (1, "wait", 1, 1, []),
        (2, "fail", 1, 1, []),
        (2, "shrink", 0, 1, ["--async"]),
        (2, "shrink", 1, 2, []),
        (2, "wait", 0, 2, []),
    ],
)
def test_the_goodbye_of_a_trainer_reaches_the_server_that_refused_it(trainers, policy, asks, loops, mode):
    """At once: nobody counts as lost before FLAGS_ps_reconnect. With `wait` it is waited for, up to the deadline."""
    env = {"FLAGS_ps_on_trainer_loss": policy, "FLAGS_ps_loops": str(loops), "FLAGS_ps_reconnect": "60000"}
    with Job(2, trainers, "asks.py", env={**env, **({"FLAGS_rpc_deadline": "3000"} if policy == "wait" else {})}) as job:
        job.start_all("--asks", str(asks), *mode)
        servers, fails, others = job.processes[:2], job.processes[2], job.processes[3:]
        assert fails.end(30) == 1 and REASON in fails.output(), fails.output()
        ends = {each.end(30) for each in (*servers, *others)}
        assert ends == ({0} if policy == "shrink" and others else {1}), [each.output() for each in job.processes]
        for each in servers:
            assert re.search(f"trainer 0 .*ailed: .*{REASON}", each.output()), each.output()
            assert "without a word" not in each.output(), each.output()
            assert ("waiting for it to come back" in each.output()) == (policy == "wait"), each.output()
            assert ("has not come back" in each.output()) == (policy == "wait"), each.output()


@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
@pytest.mark.parametrize("then", ["dies", "stays"])
@pytest.mark.parametrize("policy, what",
                         [("fail", "the job ends"), ("shrink", "the others go on"), ("wait", "waiting for it to come back")])
def test_a_server_says_itself_why_it_refused_a_trainer(tmp_path, policy, what, then, mode):
    """It says no goodbye: it is killed, or has caught the error and is busy with something else."""
    env = {"FLAGS_ps_on_trainer_loss": policy, "FLAGS_ps_loops": "2" if mode else "1", "FLAGS_ps_reconnect": "300"}
    with Job(1, 1, "asks.py", env=env) as job:
        job.start_all("--then", then, "--until", str(tmp_path / "end"), *mode)
        server, trainer = job.processes
        said = re.compile(rf"trainer 0 .*has not come back since it was refused in step 4 \({REASON}[^)]*\): {what}")
        until(lambda: said.search(server.output()) is not None, told=server.output)
        assert "without a word" not in server.output(), server.output()
        if policy != "wait":
            assert server.end(30) == 1 and REASON in server.output().splitlines()[-1], server.output()
        (tmp_path / "end").touch()
        assert trainer.end(30) == (1 if then == "stays" else -signal.SIGKILL)
