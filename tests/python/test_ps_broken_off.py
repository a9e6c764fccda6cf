"""Runs that fail in the middle of a step, and users who catch that and train on: no batch is mixed with another."""

import re
import signal
import time

import numpy as np
import ps_peer as ps
import pytest
from cluster import Job
from test_ps_prepare import NAMES, OPTIONS, Hand

ENV = {"FLAGS_check_nan_inf": "1", "FLAGS_ps_notice": "300"}


def results(job: Job, out) -> list[dict]:
    return [dict(np.load(out / f"trainer-{i}.npz")) for i in range(job.trainers)]


def test_a_batch_that_fails_is_followed_by_another(tmp_path):
    """Its backward pass fails when gradients of later layers were given to the network already. The result is that of a job
    without that batch."""
    found = []
    for name, options in (("smooth", []), ("stumbles", ["--fail-at", "3"])):
        out = tmp_path / name
        out.mkdir()
        with Job(2, 2, script="stumble.py", env=ENV) as job:
            for i in range(2):
                job.start("server", i, *options)
            for i in range(2):
                job.start("trainer", i, *options, "--out", str(out / f"trainer-{i}.npz"))
            job.end(30)
            assert ("caught: " in job.processes[2].output() and "made NaN or Inf" in job.processes[2].output()) == bool(options)
            found.append(results(job, out))
    for smooth, stumbles in zip(*found):
        assert sorted(smooth) == sorted(stumbles)
        for key in smooth:
            np.testing.assert_allclose(stumbles[key], smooth[key], rtol=1e-5, atol=1e-6, err_msg=key)


def test_a_batch_that_fails_after_servers_have_a_part_of_it():
    """They may have applied that part, so the next batch is refused. (Where servers refuse NaN, none gets a part before the batch
    is through.)"""
    options = ["--fail-at", "3", "--hidden", "60000"]
    with Job(1, 2, script="stumble.py", env=ENV) as job:
        server = job.start("server", 0, *options, env={"FLAGS_check_nan_inf": "0"})
        stumbles, other = (job.start("trainer", i, *options) for i in range(2))
        assert stumbles.end(30) == 1 and other.end(30) == 1 and server.end(30) == 1
        assert "caught: " in stumbles.output()
        for p in (stumbles, other, server):
            assert "servers had a part of step 4" in p.output().split("Traceback")[1]


@pytest.mark.parametrize("how, reason", [("--stray-at", "of 'table', which has"),
                                         ("--raise-at", "the first of many lines and another one")])
def test_all_read_why_a_trainer_failed(how, reason):
    """Also when a server refused what it sent, and when the reason is long."""
    with Job(2, 2, script="stumble.py", env={"FLAGS_ps_reconnect": "60000"}) as job:  # nobody is lost before that
        job.start_all(how, "3")
        *servers, fails, other = job.processes
        assert fails.end(30) == 1 and other.end(30) == 1 and [s.end(30) for s in servers] == [1, 1]
        for p in (other, *servers):
            assert re.search(f"trainer 0 .*failed: .*{reason}", p.output()), p.output()


@pytest.mark.parametrize("table", ["slices", "rows"])
def test_ctrl_c_while_rows_are_fetched(tmp_path, table):
    """The server is stopped meanwhile, so that its answer comes when the trainer has gone on, with a larger batch."""
    with Job(1, 1, script="stumble.py", env=ENV) as job:
        job.start_all("--width", "1024", "--pause-at", "2", *(["--slices"] if table == "slices" else []),
                      "--batch", "3000", "--go", str(tmp_path / "go"))
        server, trainer = job.processes
        trainer.wait_for("pauses")
        server.signal(signal.SIGSTOP)
        (tmp_path / "go").touch()
        trainer.wait_for("fetching rows has waited")
        trainer.signal(signal.SIGINT)
        trainer.wait_for("interrupted")
        server.signal(signal.SIGCONT)
        job.end(30)


def test_more_rows_than_an_answer_has(tmp_path):
    """34 MB of one server come in two answers; of two servers, in one each."""
    losses = []
    for servers, table in ((1, ["--slices"]), (1, []), (2, [])):
        with Job(servers, 1, script="stumble.py") as job:
            for i in range(servers):
                job.start("server", i, "--rows", "2200", "--width", "4096", *table)
            trainer = job.start("trainer", 0, "--rows", "2200", "--width", "4096", "--steps", "1",
                                "--batch", "2100", *table, "--out", str(tmp_path / "trainer.npz"))
            assert trainer.end(30) == 0
            losses.append(np.load(tmp_path / "trainer.npz")["losses"])
    np.testing.assert_allclose(losses, [losses[2]] * 3, rtol=1e-6)


def test_another_executor_is_closed_and_training_goes_on():
    """Closing any executor says goodbye for the process, as upstream does. It comes back with the next step."""
    with Job(2, 2, script="stumble.py") as job:
        for i in range(2):
            job.start("server", i)
        goes_on, other = job.start("trainer", 0, "--close-at", "3"), job.start("trainer", 1, "--steps", "1500")
        assert goes_on.end(30) == 0 and "closed another" in goes_on.output(), goes_on.output()
        assert "comes back after trainer 0 had ended" in job.processes[0].output()
        job.end(30)
        assert other.process.returncode == 0


@pytest.mark.parametrize("servers", [1, 2])
def test_the_only_trainer_closes_an_executor_and_trains_on(servers):
    """The servers have ended by then: it is told so at once, and does not wait for FLAGS_rpc_deadline, 180 s."""
    with Job(servers, 1, script="stumble.py") as job:
        job.start_all("--close-at", "3")
        *others, trainer = job.processes
        assert trainer.end(30) == 1 and all(server.end(30) == 0 for server in others)
        told = r"said goodbye to its servers, and trains on: .* they have ended .*fleet.stop_worker\(\) and Executor.close\(\)"
        assert re.search(f"{told}|all trainers of this job are done", trainer.output()), trainer.output()


def test_ctrl_c_while_a_name_is_asked_for(tmp_path):
    """The first run waits for a server that is stopped. The next one asks again."""
    with Job(1, 1, script="stumble.py", env=ENV) as job:
        job.start_all("--pause-at", "0", "--go", str(tmp_path / "go"))
        server, trainer = job.processes
        trainer.wait_for("pauses")
        server.signal(signal.SIGSTOP)
        (tmp_path / "go").touch()
        trainer.wait_for("asking server")
        trainer.wait_for("has waited")
        trainer.signal(signal.SIGINT)
        trainer.wait_for("interrupted")
        server.signal(signal.SIGCONT)
        job.end(30)


@pytest.mark.parametrize("policy", ["fail", "shrink", "wait", "async"])
def test_ctrl_c_in_an_exchange_and_the_trainer_ends_well(tmp_path, policy):
    """One server has its part of the step, the other is stopped and has not. Where steps are not applied as a whole the job fails,
    with the reason, or, async, goes on as without a trainer that was killed; else the step counts without it everywhere."""
    mode = ["--async"] if policy == "async" else []
    env = {"FLAGS_ps_notice": "300", **({} if mode else {"FLAGS_ps_on_trainer_loss": policy})}
    options = ["--model", "mlp", "--steps", "12", *mode]
    with Job(2, 2, env=env) as job:
        servers = [job.start("server", i, *options) for i in range(2)]
        stays = job.start("trainer", 0, *options)
        goes = job.start("trainer", 1, *options, "--pause-at", "3", "--linger", str(tmp_path / "go"), "--leave")
        goes.wait_for("pauses")
        servers[1].signal(signal.SIGSTOP)
        (tmp_path / "go").touch()
        goes.wait_for("the exchange with the servers has waited")
        goes.signal(signal.SIGINT)
        goes.wait_for("interrupted")
        servers[1].signal(signal.SIGCONT)
        assert goes.end(30) == 0
        assert re.search("says goodbye in the middle of a step: it left in step 4, of which servers have a part: .*",
                         goes.output()), goes.output()
        if policy == "fail":
            assert stays.end(30) == 1 and [server.end(30) for server in servers] == [1, 1]
            for p in (stays, *servers):
                assert re.search(r"trainer 1 .*failed: it left in step 4, of which servers have a part", p.output()), p.output()
            return
        job.end(30)
        told = [re.search(r"trainer 1 .*failed: it left in step 4", server.output()) for server in servers]
        assert any(told) if mode else not any(told), [server.output() for server in servers]


def test_the_end_of_a_process_whose_thread_is_in_a_step(tmp_path):
    """It waits for another trainer, which never comes. Python stops the thread where it is; the process ends all the same."""
    with Job(1, 2, script="daemon.py", env={"FLAGS_ps_notice": "300"}) as job:
        server, trainer = job.start("server", 0), job.start("trainer", 0, "--go", str(tmp_path / "go"))
        trainer.wait_for("the exchange with the servers has waited")
        (tmp_path / "go").touch()
        assert trainer.end(30) == 0, trainer.output()
        assert "main ends" in trainer.output()
        server.kill()


@pytest.mark.parametrize("what", ["--schedule", "--decay"])
def test_ctrl_c_at_a_server_whose_loops_run_blocks(what):
    """The interrupt belongs to the thread that runs the server's Program: the loops, which run blocks of it, leave it alone."""
    for _ in range(3):
        with Job(1, 1) as job:
            job.start_all("--model", "fit_a_line", "--optimizer", "momentum", what, "--steps", "1000000", "--say-at", "500")
            server, trainer = job.processes
            trainer.wait_for("step 500 has ended")
            server.signal(signal.SIGINT)
            assert server.end(60) != 0
            trainer.kill()


def test_a_signal_handler_that_asks_the_servers_within_a_step():
    """It can save. Another step is refused, and the first, which waits for a trainer that never comes, goes on until Ctrl-C."""
    with Job(1, 2, script="handler.py", env={"FLAGS_ps_notice": "300"}) as job:
        job.start("server", 0)
        trainer = job.start("trainer", 0)
        trainer.wait_for("the exchange with the servers has waited")
        trainer.signal(signal.SIGUSR1)
        trainer.wait_for("the handler saved ['fc_0.b_0', 'fc_0.w_0', 'learning_rate_0']")
        trainer.wait_for("the handler: this thread is in a step with the servers already")
        trainer.signal(signal.SIGINT)
        assert trainer.end(10) != 0 and "KeyboardInterrupt" in trainer.output()


def test_who_comes_again_before_all_loops_have_heard_its_goodbye():
    """It closes and trains on at once: one loop has answered the goodbye, another still has its connection. It is no other process
    with its id, and gets its place when that is gone."""
    with Job(1, 2, env={"FLAGS_ps_loops": "2"}) as job:
        server = job.start("server", 0, *OPTIONS, "--async")
        server.wait_for("Server listening on")
        other, first = (Hand(job, i, loops=2).join() for i in range(2))
        first.at[0, 0].send(ps.frame(ps.BYE, bytes([0]) + ps.text(""), request=9))
        assert first.at[0, 0].answer().type == ps.DONE
        again = Hand(job, 1, loops=2, incarnation=777)
        again.ask((0, 0), *NAMES)
        assert not again.opened((0, 0))
        first.die()
        end, is_in = time.monotonic() + 20, False
        while not is_in:  # until the server knows that the connection is gone
            assert time.monotonic() < end, server.output()
            again.ask((0, 0), *NAMES)
            is_in = again.opened((0, 0))
        again.ask((0, 1), *NAMES)
        assert again.opened((0, 1))
        assert "is just leaving the job" in server.output() and "another process" not in server.output(), server.output()
        again.leave()
        other.leave()
        assert server.end(30) == 0
