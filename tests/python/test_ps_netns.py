"""Machines that vanish without a word: each process has a network namespace of its own, and cables are pulled."""

import os
import signal
import subprocess
import time

import numpy as np
import pytest
from cluster import Job

LONG = ["--model", "fit_a_line", "--optimizer", "momentum", "--steps", "1000000"]
QUICK = {"FLAGS_ps_dead_after": "3", "FLAGS_ps_reconnect": "1000", "FLAGS_ps_notice": "1000"}


def ip(*args: str) -> None:
    done = subprocess.run(["ip", *args], capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"ip {' '.join(args)}: {done.stderr.strip()}")


class NetJob(Job):
    """One server and some trainers, each on a "machine" that hangs on one switch."""

    def __init__(self, trainers: int, env: dict[str, str]):
        super().__init__(0, trainers, env=env)
        self.endpoints = ["10.77.0.1:6174"]
        self.key = f"cpd{os.getpid()}"
        self.machines: list[str] = []

    def __enter__(self) -> "NetJob":
        try:
            self._make(f"{self.key}-switch")
            ip("-n", self.machines[0], "link", "add", "br0", "type", "bridge")
            ip("-n", self.machines[0], "link", "set", "dev", "br0", "up")
            for i in range(1 + self.trainers):
                self._plug_in(i)
        except OSError as error:
            self.__exit__()
            pytest.skip(f"network namespaces cannot be made here: {error}")
        return self

    def __exit__(self, *unused) -> None:
        super().__exit__()
        for name in self.machines:
            ip("netns", "del", name)

    def _make(self, name: str) -> None:
        ip("netns", "add", name)
        self.machines.append(name)

    def _plug_in(self, i: int) -> None:
        switch, machine = self.machines[0], f"{self.key}-{i}"
        self._make(machine)
        ip("-n", machine, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{i}", "netns", switch)
        ip("-n", switch, "link", "set", "dev", f"port{i}", "master", "br0", "up")
        ip("-n", machine, "addr", "add", f"10.77.0.{i + 1}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            ip("-n", machine, "link", "set", "dev", device, "up")

    def prefix(self, role: str, index: int) -> list[str]:
        return ["ip", "netns", "exec", self.machines[1 if role == "server" else 2 + index]]

    def cable(self, machine: int, state: str) -> None:
        """Machine 0 is the server's, 1 the first trainer's."""
        ip("-n", self.machines[1 + machine], "link", "set", "dev", "eth0", state)

    def make_small(self) -> None:
        """Sockets with little room, so that bytes for a stopped process are left on the way."""
        for machine in self.machines[1:]:
            for name in ("tcp_rmem", "tcp_wmem"):
                command = ["ip", "netns", "exec", machine, "sysctl", "-qw", f"net.ipv4.{name}=4096 8192 16384"]
                subprocess.run(command, check=True)

    def start_and_run(self, *options: str) -> None:
        """All are in the middle of the job."""
        self.start_all(*options, "--say-at", "20")
        for p in self.processes[1:]:
            p.wait_for("step 20 has ended")


def named(trainer: int) -> str:
    return f"trainer {trainer} ("


def test_trainer_machine_lost_ends_the_job_by_name():
    """With the flags as they come (10 s until it is found, 5 s until the job ends), and not by the deadline of a call."""
    with NetJob(2, env={"FLAGS_rpc_deadline": "600000"}) as job:
        job.start_and_run(*LONG)
        server, first, second = job.processes
        job.cable(2, "down")
        assert server.end(120) == 1
        assert first.end(60) == 1
        for p in (server, first):
            assert "is gone without a word" in p.output() and named(1) in p.output(), p.output()
        second.wait_for("no longer answers", 60)


@pytest.mark.parametrize("is_small", [False, True])
def test_silent_trainer_machine_lost_and_the_others_go_on(is_small):
    """Nothing is on its way to it, or it has no room for what is: only the kernel's own probes can tell."""
    with NetJob(2, env=QUICK | {"FLAGS_ps_on_trainer_loss": "shrink"}) as job:
        if is_small:
            job.make_small()
        job.start_and_run("--model", "mlp" if is_small else "fit_a_line", "--steps", "300" if is_small else "2000")
        server, first, second = job.processes
        second.signal(signal.SIGSTOP)
        server.wait_for("has waited 3 s for trainer 1")
        assert "connection lost" not in server.output()
        job.cable(2, "down")
        server.wait_for("is gone without a word", 8)
        assert first.end(30) == 0
        assert server.end(10) == 0


def test_server_machine_lost_is_said():
    with NetJob(2, env=QUICK | {"FLAGS_rpc_deadline": "12000"}) as job:
        job.start_and_run(*LONG)
        server, *trainers = job.processes
        job.cable(0, "down")
        for p in trainers:
            p.wait_for(f"the machine of {job.endpoints[0]} no longer answers", 8)
        for p in trainers:
            assert p.end(20) == 1
            assert "FLAGS_rpc_deadline" in p.output()
        server.wait_for("is gone without a word", 8)
        assert server.end(5) == 1


@pytest.mark.parametrize("machine", [0, 2])
def test_cable_that_comes_back_loses_nothing(tmp_path, machine):
    options = ["--model", "mlp", "--steps", "400"]
    results = []
    for is_pulled in (False, True):
        out = tmp_path / str(is_pulled)
        out.mkdir()
        with NetJob(2, env={}) as job:
            job.start_all(*options, "--say-at", "20", out=out)
            job.processes[2].wait_for("step 20 has ended")
            if is_pulled:
                job.cable(machine, "down")
                time.sleep(3)  # this is how long it is out
                job.cable(machine, "up")
            job.end(60)
            assert all("no longer answers" not in p.output() for p in job.processes)
        results.append(dict(np.load(out / "trainer-0.npz")))
    for name in results[0]:
        np.testing.assert_allclose(results[1][name], results[0][name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("which", [0, 2])
def test_stopped_process_is_not_a_lost_machine(which):
    """Its machine answers, also while it has no room for the bytes that are on their way."""
    with NetJob(2, env=QUICK) as job:
        job.make_small()
        job.start_all("--model", "mlp", "--steps", "300", "--say-at", "20")
        stopped = job.processes[which]
        job.processes[2].wait_for("step 20 has ended")
        stopped.signal(signal.SIGSTOP)
        waits = job.processes[1 if which == 0 else 0]
        waits.wait_for("has waited 10 s", 15)
        stopped.signal(signal.SIGCONT)
        job.end(60)
        assert all("no longer answers" not in p.output() and "is back" not in p.output() for p in job.processes)
        assert all("connection lost" not in p.output() for p in job.processes)
