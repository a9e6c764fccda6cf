"""Clips by norms in which some servers have a part and others have not: all servers number each other alike, whoever adds."""

import signal
import struct
import time
from pathlib import Path

import numpy as np
import ps_peer as ps
import pytest
from cluster import JOBS, Job, free_ports, single
from test_ps_netns import NetJob

# w0, w1 and w2 lie on the servers 0, 1 and 2; where each is cut into two slices on 0 and 1, on 2 and 0, and on 1 and 2.
CLIPS = {
    "first two": ["--clips", "global w0 w1"],
    "first and last": ["--clips", "global w0 w2"],
    "without the first": ["--clips", "global w1 w2"],
    "one server": ["--clips", "global w1"],
    "all": ["--clips", "global w0 w1 w2"],
    "several norms": ["--clips", "global w1 w2,global w4 w5,norm w3", "--params", "6"],
    "norms that overlap on a server": ["--clips", "global w1 w2,global w3 w4", "--params", "6"],
    "slices on the first": ["--clips", "norm w1", "--wide", "2048"],
    "slices without the first": ["--clips", "norm w2", "--wide", "2048"],
    "slices, several norms": ["--clips", "norm w2,global w0 w1", "--wide", "2048"],
}


def said_within(seconds: float, process, text: str) -> bool:
    end = time.monotonic() + seconds
    while text not in process.output() and time.monotonic() < end:
        time.sleep(0.01)
    return text in process.output()


def test_trainers_go_while_a_server_waits_for_norms():
    """The other one gives none, and all trainers end: with 'fail' nobody comes back, so the deadline is not waited for."""
    env = {"FLAGS_ps_notice": "200", "FLAGS_ps_reconnect": "500", "FLAGS_rpc_deadline": "100000"}
    options = ["--model", "mlp", "--clip", "global_norm", "--steps", "1000000", "--say-at", "20"]
    with Job(2, 2, env=env) as job:
        job.start_all(*options)
        waits, stopped, *trainers = job.processes
        trainers[0].wait_for("step 20 has ended")
        end = time.monotonic() + 60
        stopped.signal(signal.SIGSTOP)
        while not said_within(1.0, waits, "for the norms of"):  # it had given those of the step already: stopped in another one
            assert time.monotonic() < end, waits.output()
            stopped.signal(signal.SIGCONT)
            said_within(0.02, waits, "for the norms of")
            stopped.signal(signal.SIGSTOP)
        for trainer in trainers:
            trainer.kill()
        assert waits.end(20) == 1
        assert "and all trainers have gone meanwhile" in waits.output(), waits.output()
        stopped.kill()


def compare(tmp_path: Path, options: list[str], trainers: int, out: Path) -> None:
    wanted = single(tmp_path / "single.npz", *options, trainers=trainers, script="norms.py")
    for i in range(trainers):
        found = dict(np.load(out / f"trainer-{i}.npz"))
        for name in wanted:
            if name != "losses":
                np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-6, err_msg=name)
    losses = np.mean([np.load(out / f"trainer-{i}.npz")["losses"] for i in range(trainers)], axis=0)
    np.testing.assert_allclose(losses, wanted["losses"], rtol=1e-5)


def run(tmp_path: Path, options: list[str], trainers: int, env: dict[str, str], servers: int = 3) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with Job(servers, trainers, script="norms.py", env={"FLAGS_rpc_deadline": "20000", **env}) as job:
        job.start_all(*options, out=out)
        job.end(60)
        for p in job.processes:
            assert "refused" not in p.output(), p.output()
    compare(tmp_path, options, trainers, out)


@pytest.mark.parametrize("clips", CLIPS)
def test_norms_over_some_servers(tmp_path, clips):
    """Two trainers: servers agree on steps as well, at the first of the job."""
    run(tmp_path, CLIPS[clips], 2, {"FLAGS_ps_on_trainer_loss": "wait"})


@pytest.mark.parametrize("policy", ["fail", "shrink"])
@pytest.mark.parametrize("clips", ["first and last", "without the first", "slices without the first"])
def test_other_policies(tmp_path, clips, policy):
    run(tmp_path, CLIPS[clips], 2, {"FLAGS_ps_on_trainer_loss": policy})


@pytest.mark.parametrize("policy", ["fail", "wait"])
def test_one_trainer(tmp_path, policy):
    run(tmp_path, CLIPS["without the first"], 1, {"FLAGS_ps_on_trainer_loss": policy})


class Spread(NetJob):
    """Three servers and their trainers, each on a machine of its own."""

    def __init__(self, trainers: int, env: dict[str, str]):
        super().__init__(2 + trainers, env)  # so many machines, and one more
        self.script = str(JOBS / "norms.py")
        self.endpoints = [f"10.77.0.{i + 1}:6174" for i in range(3)]

    def __enter__(self) -> "Spread":
        super().__enter__()
        self.trainers -= 2
        return self

    def prefix(self, role: str, index: int) -> list[str]:
        return ["ip", "netns", "exec", self.machines[1 + index + (3 if role == "trainer" else 0)]]


@pytest.mark.parametrize("policy", ["fail", "wait"])
def test_on_several_machines(tmp_path, policy):
    """A server is known by its host too, which is that of its place in the job's list."""
    options, env = CLIPS["without the first"], {"FLAGS_ps_on_trainer_loss": policy, "FLAGS_rpc_deadline": "20000"}
    with Spread(2, env) as job:
        job.start_all(*options, out=tmp_path)
        job.end(60)
    compare(tmp_path, options, 2, tmp_path)


def test_a_server_that_does_not_reach_the_one_that_adds():
    """It reaches the first server, with which it agrees on steps: the other one is named, to the log and to trainers."""
    nowhere = f"127.0.0.1:{free_ports(1)[0]}"
    env = {"FLAGS_ps_on_trainer_loss": "wait", "FLAGS_rpc_deadline": "4000", "FLAGS_ps_notice": "500"}
    with Job(3, 2, script="norms.py", env=env) as job:
        _, adds, other = job.endpoints
        options = CLIPS["without the first"]
        for i in range(3):
            job.start("server", i, *options, env={"PADDLE_PS_MAP": f"{adds}={nowhere}"} if i == 2 else {})
        trainers = [job.start("trainer", i, *options, env={"FLAGS_rpc_deadline": "60000"}) for i in range(2)]
        said = f"server {other} has not reached server {adds} (at {nowhere} by PADDLE_PS_MAP), which adds norms up, for"
        for p in (job.processes[2], *trainers):
            p.wait_for(said)
        for p in trainers:
            assert p.end(30) == 1


def test_sums_of_strangers(tmp_path):
    """Of a server that has no part in them, in another's name, of the one that adds: refused, and the clip goes on over the true
    ones."""
    options = CLIPS["without the first"]
    with Job(3, 2, script="norms.py", env={"FLAGS_ps_on_trainer_loss": "wait"}) as job:
        adds = job.start("server", 1, *options)
        adds.wait_for("Server listening on")
        for calls_as, place, servers in ((0, 0, 2), (0, 2, 2), (0, 1, 2), (1, 1, 2), (2, 2, 3), (2, 1, 2)):
            with ps.Peer(job.endpoints[1]) as peer:
                peer.greet(calls_as, role=ps.SERVER)
                meta = ps.text("any") + struct.pack("<IIId", place, servers, 1, 1e9)
                peer.send(ps.frame(ps.SUM, meta, request=1, step=1))
                assert peer.drain() == []  # hung up on
            adds.wait_for(f"refused: a SUM of 'any' of server {place}, over {servers} servers; server {calls_as} says it, and here "
                          "it is over 2")
        for i in (0, 2):
            job.start("server", i, *options)
        for i in range(2):
            job.start("trainer", i, *options, "--out", str(tmp_path / f"trainer-{i}.npz"))
        job.end(60)
    compare(tmp_path, options, 2, tmp_path)


@pytest.mark.parametrize("policy", ["fail", "wait"])
@pytest.mark.parametrize("clips", ["first and last", "without the first", "slices, several norms"])
def test_servers_are_killed(tmp_path, clips, policy):
    """Each in turn, in the middle of steps, and started again: the one that adds, one that agrees only, one that has a part."""
    each, rounds = 60, 3
    options = [*CLIPS[clips], "--steps", str(each * (rounds + 1))]
    out, pace = tmp_path / "out", tmp_path / "pace"
    out.mkdir()
    pace.touch()
    env = {"FLAGS_ps_on_trainer_loss": policy, "FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": "write",
           "FLAGS_rpc_deadline": "60000"}
    with Job(3, 2, script="norms.py", env=env) as job:
        servers = [job.start("server", i, *options) for i in range(3)]
        trainers = [job.start("trainer", i, *options, "--pace", f"{pace}:{each}",
                              "--out", str(out / f"trainer-{i}.npz")) for i in range(2)]
        for k in range(1, rounds + 1):
            for trainer in trainers:
                trainer.wait_for(f"before step {k * each}\n")
            i = k - 1
            with open(pace, "ab") as file:
                file.write(b".")
            servers[i].signal(signal.SIGKILL)  # they have just begun
            servers[i].process.wait()
            job.processes.remove(servers[i])
            servers[i].close()
            servers[i] = job.start("server", i, *options)
        job.end(90)
        for server in servers:
            assert "taken up at step" in server.output(), server.output()
    compare(tmp_path, options, 2, out)
