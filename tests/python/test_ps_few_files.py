"""Servers that may open few files (`ulimit -n`): shared memory only while files last, and the reason to all who do not fit."""

import socket
import threading

import numpy as np
import ps_peer as ps
import pytest
from cluster import Job
from long_way import LongWay

SMALL = ["--model", "fit_a_line", "--optimizer", "momentum"]


class Few(Job):
    """A job whose servers may open no more files than this."""

    def __init__(self, trainers, files, **more):
        super().__init__(1, trainers, **more)
        self.files = files

    def prefix(self, role, index):
        return ["prlimit", f"--nofile={self.files}:{self.files}"] if role == "server" else []


def test_a_job_that_fits_over_tcp_runs(tmp_path):
    """Twelve trainers with four files each are too many for 64; with one each they are not."""
    with Few(12, 64, env={"FLAGS_rpc_deadline": "60000"}) as job:
        job.start_all(*SMALL, "--steps", "5", out=tmp_path)
        job.end(120)
        said = job.processes[0].output()
    assert "which goes on over TCP: it takes four files, and this process may open 64 (ulimit -n)" in said, said
    assert "too low" not in said, said
    losses = [np.load(tmp_path / f"trainer-{i}.npz")["losses"] for i in range(12)]
    assert np.isfinite(losses).all()


def test_who_does_not_fit_is_told_why():
    """The server says at its start that its limit is too low; a trainer reads the same, not that a connection was reset."""
    with Few(14, 30, env={"FLAGS_rpc_deadline": "10000", "FLAGS_ps_notice": "1000"}) as job:
        server = job.start("server", 0, *SMALL, "--steps", "5")
        server.wait_for("Server listening on")
        said = server.output()
        assert "this process may open 30 files (ulimit -n), which is too low for 14 trainers" in said, said
        trainers = [job.start("trainer", i, *SMALL, "--steps", "5") for i in range(14)]
        assert all(trainer.end(120) != 0 for trainer in trainers)
        reason = "refused this process: the server has nearly all files open"
        refused = [t.output() for t in trainers if reason in t.output()]
        assert refused and "ulimit -n" in refused[0], trainers[-1].output()
        # The server ends at the deadline; who is on the way to it then is cut off, and had heard why before.
        for said in (t.output() for t in trainers):
            assert "reset by peer" not in said.partition(reason)[0], said


@pytest.mark.parametrize("way, pause", [(0, 0.003), (0.1, 0.04)], ids=["near", "far"])
def test_half_a_handshake_keeps_nobody_out(way, pause):
    """Strangers come faster than places for them get free by their age, send the begin of a HELLO and stay; the job needs a secret.
    Trainers that come then get in, also those whose handshake takes long, and the log says what is going on."""
    over = threading.Event()

    def come(endpoint):
        host, port = endpoint.rsplit(":", 1)
        stay = []
        while not over.wait(pause):
            try:
                stay.append(socket.create_connection((host, int(port)), timeout=1))
                stay[-1].send(ps.frame(ps.HELLO, ps.hello(0, has_secret=True))[:20])
            except OSError:
                pass
            if len(stay) > 60:
                stay.pop(0).close()
        for each in stay:
            each.close()

    env = {"PADDLE_PS_TRANSPORT": "tcp", "PADDLE_PS_SECRET": "0123456789abcdef0123", "FLAGS_rpc_deadline": "60000"}
    with Few(4, 128, env=env) as job, LongWay(job.endpoints[0], way) as long_way:
        server = job.start("server", 0, *SMALL, "--steps", "5")
        server.wait_for("Server listening on")
        strangers = [threading.Thread(target=come, args=(job.endpoints[0],)) for _ in range(4)]
        for each in strangers:
            each.start()
        try:
            server.wait_for("places for such clients were taken, and made room")
            for i in range(4):
                job.start("trainer", i, *SMALL, "--steps", "5", env={"PADDLE_PS_MAP": long_way.map} if way else {})
            job.end(90)
        finally:
            over.set()
            for each in strangers:
                each.join()
