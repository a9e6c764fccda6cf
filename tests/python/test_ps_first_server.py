"""Servers that do not reach the first server of their job: who, where, why and for how long is said, and nobody else is blamed."""

import itertools
import re
import signal
import threading
import time

import pytest
from cluster import Job, free_ports
from fault_proxy import FaultProxy

# What servers have to say to each other: agree on steps, add norms up, or both.
KINDS = {
    "agree": ([], {"FLAGS_ps_on_trainer_loss": "shrink"}),
    "add": (["--clip", "global_norm"], {}),
    "both": (["--clip", "global_norm"], {"FLAGS_ps_on_trainer_loss": "wait"}),
}
SOON = {"FLAGS_rpc_deadline": "4000", "FLAGS_ps_notice": "500", "FLAGS_ps_reconnect": "1000"}
MLP = ["--model", "mlp"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_cannot_reach_the_first(kind):
    """All trainers reach both. They end with the first server's address in the message, and so do the servers."""
    options, env = KINDS[kind]
    nowhere = f"127.0.0.1:{free_ports(1)[0]}"
    with Job(2, 2, env={**SOON, **env}) as job:
        first, other = job.endpoints
        options = [*MLP, *options, "--steps", "1000000"]
        job.start("server", 0, *options)
        lost = job.start("server", 1, *options, env={"PADDLE_PS_MAP": f"{first}={nowhere}"})
        # Servers may start slowly; nobody waits for as long.
        trainers = [job.start("trainer", i, *options, env={"FLAGS_rpc_deadline": "600000"}) for i in range(2)]
        for p in (*trainers, lost):
            assert p.end(120) == 1
        said = f"server {other} has not reached the first server {first} (at {nowhere} by PADDLE_PS_MAP) for"
        assert said in lost.output() and "refused" in lost.output(), lost.output()
        for trainer in trainers:
            last = trainer.output().splitlines()[-1]
            assert f"reached the first server {first}" in last or f"for the norms of server {other}" in last, trainer.output()
            assert "Is the server running at that address" not in last
            told = [line for line in trainer.output().splitlines() if "warning: server" in line and
                    "has not reached the first server" in line]
            assert len(told) > 2 and told[0][:8] != told[-1][:8], trainer.output()  # again and again, not all at the end


@pytest.mark.parametrize("kind", KINDS)
def test_trainers_that_are_to_use_shared_memory_only(kind):
    """All processes have the setting; servers still reach each other."""
    options, env = KINDS[kind]
    with Job(2, 2, env={"PADDLE_PS_TRANSPORT": "shm", **SOON, **env}) as job:
        job.start_all(*MLP, *options, "--steps", "5")
        job.end(60)
        assert all("joined by shm" in server.output() for server in job.processes[:2])


@pytest.mark.parametrize("kind", KINDS)
def test_servers_behind_a_gateway(tmp_path, kind):
    """Addresses that no machine has: servers too find their way by PADDLE_PS_MAP. Without the secret the first would not believe
    them."""
    options, env = KINDS[kind]
    with Job(2, 2, env={**env, "PADDLE_PS_SECRET": "a secret of this job"}) as job:
        real = job.endpoints
        job.endpoints = ["198.51.100.1:7000", "198.51.100.2:7000"]
        with FaultProxy(real, seed=1, budget=0) as proxy:
            job.env["PADDLE_PS_MAP"] = ",".join(f"{name}=127.0.0.1:{port}" for name, port in zip(job.endpoints, proxy.ports))
            for i in range(2):
                job.start("server", i, *MLP, *options, env={"PADDLE_PS_BIND": real[i]})
            for i in range(2):
                job.start("trainer", i, *MLP, *options)
            job.end(60)


def test_the_way_breaks_while_training(tmp_path):
    """Trainers wait, and are told for whom; when it is back they go on."""
    with Job(2, 2, env={"FLAGS_ps_on_trainer_loss": "shrink", "FLAGS_ps_notice": "300", "FLAGS_ps_reconnect": "20000"}) as job:
        first = job.endpoints[0]
        options = [*MLP, "--steps", "100", "--pause-at", "50", "--linger", str(tmp_path / "go")]
        with FaultProxy([first], seed=1, budget=0) as proxy:
            job.start("server", 0, *options)
            other = job.start("server", 1, *options, env={"PADDLE_PS_MAP": proxy.map})
            trainers = [job.start("trainer", i, *options) for i in range(2)]
            for trainer in trainers:
                trainer.wait_for("pauses")
            proxy.close()
            (tmp_path / "go").touch()
            for p in (other, *trainers):
                p.wait_for(f"has not reached the first server {first}")
            job.processes[0].wait_for(f"server {job.endpoints[1]} has not reached the first server")
            proxy.close(False)
            job.end(60)


def test_the_first_server_comes_late():
    """Servers are started in any order, long after each other: nobody is thrown out for it."""
    with Job(2, 2, env={"FLAGS_ps_on_trainer_loss": "shrink", "FLAGS_ps_reconnect": "500", "FLAGS_ps_notice": "300"}) as job:
        other = job.start("server", 1, *MLP)
        for i in range(2):
            job.start("trainer", i, *MLP)
        other.wait_for("has not reached the first server")
        for trainer in job.processes[1:]:
            trainer.wait_for("has waited 2 s")
        job.start("server", 0, *MLP)
        job.end(60)


def wait_for_any(process, *texts: str, deadline: float = 30) -> None:
    """Waits until the process has printed one of the texts."""
    end = time.monotonic() + deadline
    while not any(text in process.output() for text in texts):
        assert time.monotonic() < end and process.process.poll() is None, process.output()
        time.sleep(0.01)


def test_the_first_server_is_silent():
    """It is stopped; the other one has the step whole, and is not blamed for it."""
    with Job(2, 2, env={"FLAGS_ps_on_trainer_loss": "shrink", "FLAGS_ps_notice": "500"}) as job:
        job.start_all(*MLP, "--steps", "1000000", "--say-at", "20")
        first, other, *trainers = job.processes
        for trainer in trainers:
            trainer.wait_for("step 20 has ended")
        first.signal(signal.SIGSTOP)
        for trainer in trainers:
            # By the other server's word, or on its own where only the answer of the first one is missing: its own, or the other
            # trainer's, whom the other server waits for.
            wait_for_any(trainer, f"for the word of the first server {job.endpoints[0]}", f"s: {job.endpoints[0]}: no answer yet\n",
                         f"which waits itself: {job.endpoints[0]}: no answer yet")
        first.signal(signal.SIGCONT)


def stop_until_named(job: Job, k: int) -> str:
    """Stops server k when trainers are past step 20, in the middle of a step that it has not agreed to: the text by which the first
    server then names it. Elsewhere only its answer is missing, and a trainer that lacks it says so by itself, or the other servers
    say it of that trainer: it goes on and is stopped again."""
    still, trainers = job.processes[k], job.processes[-2:]
    named = f"s for server {job.endpoints[k]}, which is connected"
    alone = re.compile(f"s(, which waits itself)?: {job.endpoints[k]}: no (answer yet|word for)")
    for trainer in trainers:
        trainer.wait_for("step 20 has ended")
    for _ in range(30):
        seen = [len(trainer.output()) for trainer in trainers]
        still.signal(signal.SIGSTOP)
        end, said = time.monotonic() + 30, ""
        while named not in said and not alone.search(said):
            assert time.monotonic() < end and all(t.process.poll() is None for t in trainers), said
            time.sleep(0.01)
            said = "".join(trainer.output()[n:] for trainer, n in zip(trainers, seen))
        if named in said:
            return named
        still.signal(signal.SIGCONT)
    raise AssertionError(f"never stopped in the middle of a step: {said}")


@pytest.mark.parametrize("loss", ["shrink", "wait"])
def test_another_server_stands_still(loss):
    """The first server alone knows that it is that one: it says so, to its log and to the trainers, and they go on when it does."""
    with Job(3, 2, env={"FLAGS_ps_on_trainer_loss": loss, "FLAGS_ps_notice": "300"}) as job:
        job.start_all(*MLP, "--steps", "3000", "--say-at", "20")
        first, other, still, *trainers = job.processes
        named = stop_until_named(job, 2)
        for p in (first, *trainers):
            p.wait_for(named)
        assert named not in other.output()
        still.signal(signal.SIGCONT)
        job.end(120)


@pytest.mark.parametrize("loss", ["shrink", "wait"])
def test_another_server_stands_still_past_the_deadline(loss):
    """The job ends and names it. When it goes on, nobody has done the job's work, so that it has failed as well."""
    env = {"FLAGS_ps_on_trainer_loss": loss, "FLAGS_ps_notice": "300", "FLAGS_rpc_deadline": "8000", "FLAGS_ps_reconnect": "500"}
    with Job(2, 2, env=env) as job:
        job.start_all(*MLP, "--steps", "1000000", "--say-at", "20")
        first, still, *trainers = job.processes
        named = stop_until_named(job, 1)
        for p in (first, *trainers):
            assert p.end(60) == 1
            assert re.search(f"UnavailableError: .*{re.escape(named)}", p.output()), p.output()
        still.signal(signal.SIGCONT)
        assert still.end(60) == 1, still.output()


def test_a_trainer_is_late_at_another_server_only():
    """That server knows which trainer it is; the first one does not end the job with less than that."""
    env = {"FLAGS_ps_on_trainer_loss": "wait", "FLAGS_ps_notice": "500", "FLAGS_rpc_deadline": "8000",
           "FLAGS_ps_reconnect": "60000"}
    with Job(2, 2, env=env) as job:
        options = [*MLP, "--steps", "1000000", "--say-at", "20"]
        with FaultProxy([job.endpoints[1]], seed=1, budget=0) as proxy:
            first, other = (job.start("server", i, *options) for i in range(2))
            late = job.start("trainer", 0, *options, env={"PADDLE_PS_MAP": proxy.map, "FLAGS_rpc_deadline": "60000"})
            waits = job.start("trainer", 1, *options, env={"FLAGS_rpc_deadline": "60000"})
            for trainer in (late, waits):
                trainer.wait_for("step 20 has ended")
            proxy.close()
            assert waits.end(60) == 1
        assert re.search("UnavailableError: .* waited .* for trainer 0", waits.output()), waits.output()


def test_a_trainer_that_waits_for_one_server_is_not_blamed_by_the_others():
    """The answers of one server are lost on the way to one trainer. The others wait for that trainer, and say for whom it waits."""
    held, ways = threading.Event(), itertools.count()

    def meddler():
        is_answer = next(ways) % 2  # the two directions of each connection, in turn
        return lambda data: b"" if is_answer and held.is_set() else data

    env = {"FLAGS_ps_notice": "300", "FLAGS_rpc_deadline": "6000", "PADDLE_PS_TRANSPORT": "tcp"}
    with Job(2, 2, env=env) as job:
        options = [*MLP, "--steps", "1000000", "--say-at", "20"]
        with FaultProxy([job.endpoints[1]], seed=1, budget=0, meddler=meddler) as proxy:
            first = job.start("server", 0, *options)
            # It does not know, and shall not end the job first.
            job.start("server", 1, *options, env={"FLAGS_rpc_deadline": "60000"})
            late = job.start("trainer", 0, *options, env={"PADDLE_PS_MAP": proxy.map})
            waits = job.start("trainer", 1, *options)
            for trainer in (late, waits):
                trainer.wait_for("step 20 has ended")
            held.set()
            blamed = f", which waits itself: {job.endpoints[1]}: no answer yet"
            for p in (first, waits):
                p.wait_for(blamed)
            assert waits.end(60) == 1
            assert re.search(f"UnavailableError: .* waited .* for trainer 0 .*{re.escape(blamed)}", waits.output()), waits.output()


@pytest.mark.parametrize("loss", ["shrink", "wait"])
@pytest.mark.parametrize("killed", ["second", "both"])
def test_a_server_that_was_away_when_the_trainers_ended_hears_it_from_the_first(tmp_path, loss, killed):
    """It is started again with the same command when all others have said goodbye: all servers end well. Trainers do not wait for
    it, once the first has heard them: it ends without having seen any of them."""
    env = {"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": "write", "FLAGS_ps_on_trainer_loss": loss}
    env |= {"FLAGS_ps_notice": "500", "FLAGS_rpc_deadline": "120000"}
    with Job(2, 2, "counted.py", env=env) as job:
        first, second = (job.start("server", i) for i in range(2))
        options = ["--steps", "4", "--stay", "--until", str(tmp_path / "go")]
        trainers = [job.start("trainer", i, *options) for i in range(2)]
        for trainer in trainers:
            trainer.wait_for("has trained")
        for server in (first, second) if killed == "both" else (second,):
            server.kill()
            job.processes.remove(server)
        (tmp_path / "go").touch()
        if killed == "both":
            first = job.start("server", 0)
        first.wait_for(f"all trainers have ended, and server {job.endpoints[1]} has not come to hear it")
        assert [trainer.end(60) for trainer in trainers] == [0, 0]
        assert not any("will miss it" in trainer.output() for trainer in trainers)
        second = job.start("server", 1)
        assert (first.end(60), second.end(60)) == (0, 0)
        assert "the job is done after step 4" in second.output()


def test_a_server_that_never_comes_is_waited_for_up_to_the_deadline(tmp_path):
    env = {"FLAGS_ps_on_trainer_loss": "wait", "FLAGS_ps_notice": "300", "FLAGS_rpc_deadline": "2000"}
    with Job(2, 2, "counted.py", env=env) as job:
        first, second = (job.start("server", i) for i in range(2))
        options = ["--steps", "4", "--stay", "--until", str(tmp_path / "go")]
        trainers = [job.start("trainer", i, *options) for i in range(2)]
        for trainer in trainers:
            trainer.wait_for("has trained")
        second.kill()
        job.processes.remove(second)
        (tmp_path / "go").touch()
        assert [each.end(30) for each in (*trainers, first)] == [0, 0, 0]
        assert f"server {job.endpoints[1]} has not come to hear it: ended without it" in first.output()


@pytest.mark.parametrize("loss", ["shrink", "wait"])
def test_a_server_that_is_killed_before_it_has_read_who_ended(tmp_path, loss):
    """It stands still while the trainers leave: that it was told is no news to it when it is killed and started again. The first
    server counts on nothing that it has not answered."""
    env = {"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": "write", "FLAGS_ps_on_trainer_loss": loss}
    env |= {"FLAGS_ps_notice": "500", "FLAGS_rpc_deadline": "120000", "FLAGS_ps_dead_after": "0"}
    with Job(2, 2, "counted.py", env=env) as job:
        first, second = (job.start("server", i) for i in range(2))
        options = ["--steps", "4", "--stay", "--until", str(tmp_path / "go")]
        trainers = [job.start("trainer", i, *options) for i in range(2)]
        for trainer in trainers:
            trainer.wait_for("has trained")
        second.signal(signal.SIGSTOP)
        (tmp_path / "go").touch()
        assert [trainer.end(60) for trainer in trainers] == [0, 0]
        first.wait_for(f"all trainers have ended, and server {job.endpoints[1]} has not come to hear it")
        second.kill()
        job.processes.remove(second)
        second = job.start("server", 1)
        assert (first.end(60), second.end(60)) == (0, 0)
        assert "the job is done after step 4" in second.output()
