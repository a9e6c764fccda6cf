"""Nobody waits in silence or for ever, and who is told to wait for whom is told right."""

import signal
import time

import pytest
from cluster import Job

LONG = ["--steps", "1000000"]


def test_the_deadline_names_the_one_that_is_late():
    """A trainer stands still: all others end, and say that it was waited for; nobody blames the server."""
    with Job(1, 2, env={"FLAGS_rpc_deadline": "2000", "FLAGS_ps_notice": "500"}) as job:
        job.start_all(*LONG, "--say-at", "20")
        server, waits, late = job.processes
        late.wait_for("step 20 has ended")
        late.signal(signal.SIGSTOP)
        assert waits.end(20) == 1 and server.end(5) == 1
        for p in (waits, server):
            said = p.output().splitlines()[-1]
            assert "waited 2 s for trainer 1" in said and "FLAGS_rpc_deadline" in said, p.output()


def test_a_server_says_for_whom_it_waits():
    """No step is begun: nobody has come, or those who came are gone."""
    env = {"FLAGS_ps_wait_trainers": "2", "FLAGS_ps_notice": "500"}
    with Job(1, 2, env=env) as job:
        server = job.start("server", 0)
        assert server.end(20) == 1
        text = server.output()
        who = "trainer 0 (has not connected yet), trainer 1 (has not connected yet)"
        assert f" s for {who}; it gives up after 2 s (FLAGS_ps_wait_trainers)" in text
        assert "FLAGS_ps_wait_trainers" in text.splitlines()[-1]


@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_a_trainer_never_comes(mode):
    """The other one has ended before the first step (sync) or after its last (async)."""
    env = {"FLAGS_ps_wait_trainers": "1", "FLAGS_ps_notice": "300"}
    with Job(1, 2, env=env) as job:
        server = job.start("server", 0, *mode)
        assert job.start("trainer", 0, *mode, "--steps", "5" if mode else "0").end(20) == 0
        assert server.end(20) == 1
        said = server.output().splitlines()[-1]
        assert "trainer 1 (has not connected yet)" in said and "trainer 0" not in said, server.output()


@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_a_server_that_holds_nothing_is_in_the_job_too(tmp_path, mode):
    """Trainers are slow to begin their first step; nobody takes them for missing, and the server ends with them."""
    env = {"FLAGS_ps_wait_trainers": "1", "FLAGS_ps_notice": "200"}
    options = [*mode, "--no-slices", "--pause-at", "0", "--linger", str(tmp_path / "go")]  # fit_a_line: two parameters
    with Job(3, 2, env=env) as job:
        job.start_all(*options)
        for p in job.processes[3:]:
            p.wait_for("pauses")
        end = time.monotonic() + 2  # twice the flag
        while time.monotonic() < end:
            assert all(p.process.poll() is None for p in job.processes), [p.output() for p in job.processes]
            time.sleep(0.05)
        (tmp_path / "go").touch()
        job.end(20)
        assert not any("has waited" in p.output() for p in job.processes[:3]
                       if "trainer 0 (host" in p.output().split("has waited")[0])


def test_all_missing_servers_are_named():
    with Job(3, 1, env={"FLAGS_rpc_deadline": "1500", "FLAGS_ps_notice": "500"}) as job:
        there, *missing = job.endpoints
        options = ["--model", "mlp"]
        job.start("server", 0, *options).wait_for("listening")
        trainer = job.start("trainer", 0, *options)
        assert trainer.end(20) == 1
        notices = [line for line in trainer.output().splitlines() if "has waited" in line]
        for text in (*notices, trainer.output().splitlines()[-1]):
            assert all(f"connection to {endpoint} refused" in text for endpoint in missing), trainer.output()
            assert there not in text, trainer.output()
        assert notices


def test_another_number_of_trainers_is_refused():
    with Job(1, 2) as job:
        job.start("server", 0).wait_for("listening")
        trainer = job.start("trainer", 0, "--trainers", "3")
        assert trainer.end(20) == 1
        assert "started for 3 trainers, the server for 2" in trainer.output()


def test_rpc_retry_times_is_honoured():
    """0: an exchange whose connection breaks is not tried again; the error says so, and nobody waits for the server's return."""
    with Job(1, 1, env={"FLAGS_rpc_retry_times": "0", "FLAGS_rpc_deadline": "600000"}) as job:
        job.start_all(*LONG, "--say-at", "20")
        server, trainer = job.processes
        trainer.wait_for("step 20 has ended")
        server.kill()
        assert trainer.end(60) == 1
        assert "FLAGS_rpc_retry_times is 0" in trainer.output()


@pytest.mark.parametrize("role", ["server", "trainer"])
def test_a_deadline_must_be_a_time(role):
    with Job(1, 1, env={"FLAGS_rpc_deadline": "0"}) as job:
        process = job.start(role, 0)
        assert process.end(20) == 1
        assert "FLAGS_rpc_deadline cannot be '0': give a whole number from 1 to " in process.output()


def test_what_a_trainer_says_of_a_server_that_is_not_there():
    """Each line names the address once beside what is tried, and asks one question."""
    with Job(1, 1, env={"FLAGS_ps_notice": "300", "FLAGS_rpc_deadline": "1200"}) as job:
        trainer = job.start("trainer", 0, *LONG)
        assert trainer.end(20) == 1
        said = [line for line in trainer.output().splitlines() if "connecting to server" in line]
        tried = f"connecting to server {job.endpoints[0]}"
        assert len(said) >= 2
        assert f"{tried} has waited 0 s: connection to {job.endpoints[0]} refused: is the server running?" in said[0]
        assert (f"{tried}: not done after 1 s (connection to {job.endpoints[0]} refused: is the server running?). "
                "FLAGS_rpc_deadline") in said[-1]


@pytest.mark.parametrize("server_stays", [True, False])
def test_what_a_second_process_with_the_same_id_is_told(server_stays):
    """It tries again and again; the logs tell it once, and the error has the reason, also when the server is gone then."""
    with Job(1, 2) as job:
        server = job.start("server", 0, *LONG)
        first = job.start("trainer", 0, *LONG)
        server.wait_for(f"pid {first.pid}")
        second = job.start("trainer", 0, *LONG, env={"FLAGS_rpc_deadline": "3000", "FLAGS_ps_notice": "500"})
        second.wait_for("give each trainer its own id")
        if not server_stays:
            server.kill()
        assert second.end(30) == 1
        text = second.output()
        assert "connected to" not in text and text.count("has waited") <= 6, text
        last = text.splitlines()[-1]
        assert "give each trainer its own id" in last and ("is the server running" in last) != server_stays, last
        assert server.output().count("comes with the same id") == 1, server.output()


def test_the_last_line_of_a_server():
    with Job(1, 2) as job:
        job.start_all("--steps", "5")
        job.end(30)
        assert job.processes[0].output().splitlines()[-1].endswith("the job is done after step 5: all trainers have ended, and so "
                                                                   "does this server")
    with Job(1, 2) as job:
        job.start_all(*LONG, "--say-at", "5")
        server, trainer = job.processes[:2]
        trainer.wait_for("step 5 has ended")
        trainer.signal(signal.SIGINT)
        assert server.end(20) == 1
        assert server.output().splitlines()[-1].endswith("failed: KeyboardInterrupt"), server.output()


@pytest.mark.parametrize("returns", ["goes on", "started again"])
def test_a_trainer_is_done_and_the_server_is_silent(tmp_path, returns):
    """It is late, not lost: trainers wait for it, and say so, also when it is killed then; one that comes back hears it and
    ends."""
    env = {"FLAGS_ps_notice": "300", "FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": "write"}
    with Job(1, 2, env=env) as job:
        options = ["--model", "fit_a_line", "--optimizer", "momentum", "--steps", "5", "--linger", str(tmp_path / "go")]
        server = job.start("server", 0, *options)
        trainers = [job.start("trainer", i, *options) for i in range(2)]
        for trainer in trainers:
            trainer.wait_for("all steps have ended")
        server.signal(signal.SIGSTOP)
        (tmp_path / "go").touch()
        for trainer in trainers:
            trainer.wait_for("this trainer is done; saying goodbye to the servers has waited 2 s")
        if returns == "goes on":
            server.signal(signal.SIGCONT)
        else:
            server.kill()
            job.processes.remove(server)
            job.start("server", 0, *options)
        job.end(60)


def test_a_server_that_is_gone_is_no_fault_of_an_op():
    """The error names the server; the op that happened to ask it, and the line of transpile(), say nothing to a user."""
    with Job(2, 2, env={"FLAGS_rpc_deadline": "2000"}) as job:
        job.start_all(*LONG, "--say-at", "20")
        job.processes[2].wait_for("step 20 has ended")
        job.processes[1].kill()
        trainers = job.processes[2:]
        assert [each.end(30) for each in trainers] == [1, 1]
        for each in trainers:
            said = each.output().splitlines()[-1]
            assert job.endpoints[1] in said and "[op" not in each.output(), each.output()


@pytest.mark.parametrize("mode", [[], ["--async"]], ids=["sync", "async"])
def test_without_an_id_one_that_is_started_again_at_once_waits_for_its_place(tmp_path, mode):
    """The process that it stands for was killed a moment ago, and might have come back by itself until then."""
    go, waits = tmp_path / "go", {"FLAGS_ps_on_trainer_loss": "wait", "FLAGS_ps_reconnect": "3000"}
    with Job(1, 2, "frozen.py", env=waits) as job:
        options = [*mode, "--until", str(go), "--id=-1"]
        job.start_all(*options)
        lost = job.processes[2]
        for trainer in job.processes[1:]:
            trainer.wait_for("pauses")
        lost.kill()
        job.processes.remove(lost)
        job.start("trainer", 1, *options)
        go.touch()
        job.end(60)
