"""Connections that are cut at any byte, delayed, stalled and half closed: every step counts once, and jobs end in time."""

import os
import re
import time

import numpy as np
import pytest
from cluster import Job
from crowd import CLOSED, NOBODY, OPEN, Crowd, doors
from fault_proxy import FaultProxy, Faults

ROUNDS = 75 if os.environ.get("PADDLE_SOAK") else 5
DEADLINE = 60
JOBS_TO_RUN = {
    "fit_a_line": (["--model", "fit_a_line", "--optimizer", "momentum", "--steps", "1500"], 20000),
    "mlp": (["--model", "mlp", "--optimizer", "adam", "--steps", "60"], 1000000),
    "word2vec_sparse": (["--model", "word2vec_sparse", "--optimizer", "adagrad", "--steps", "60"], 600000),
}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the same job gets without faults: the trainers' results."""
    known = {}

    def run(which: str) -> list[dict]:
        if which not in known:
            out = tmp_path_factory.mktemp(which)
            with Job(2, 2) as job:
                job.start_all(*JOBS_TO_RUN[which][0], out=out)
                job.end(DEADLINE)
            known[which] = [dict(np.load(out / f"trainer-{i}.npz")) for i in range(2)]
        return known[which]

    return run


def check_equal(out, want: list[dict]) -> None:
    for i in range(2):
        got = dict(np.load(out / f"trainer-{i}.npz"))
        assert sorted(got) == sorted(want[i])
        for name in got:
            np.testing.assert_allclose(got[name], want[i][name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("round", range(ROUNDS))
@pytest.mark.parametrize("log", ["", "write"])
def test_exactly_once_across_broken_connections(tmp_path, undisturbed, record_property, round, log):
    which = sorted(JOBS_TO_RUN)[round % len(JOBS_TO_RUN)]
    who = [NOBODY, OPEN, CLOSED][(round // 3 + bool(log)) % 3]
    options, mean = JOBS_TO_RUN[which]
    env = {"PADDLE_PS_TRANSPORT": "tcp", "FLAGS_ps_reconnect": "20000", "FLAGS_rpc_deadline": str(DEADLINE * 1000)}
    if log:
        env |= {"FLAGS_ps_dir": str(tmp_path / "ps"), "FLAGS_ps_log": log, "FLAGS_ps_snapshot_steps": "40"}
    faults = Faults(mean_bytes=mean)
    with (
        Job(2, 2, env=env | doors(who)) as job,
        FaultProxy(job.endpoints, seed=100 * round + bool(log), faults=faults, budget=25) as proxy,
        Crowd(who, job.endpoints, round) as crowd,
    ):
        for i in range(2):
            job.start("server", i, *options)
        for i in range(2):
            job.start("trainer", i, *options, "--out", str(tmp_path / f"trainer-{i}.npz"), env={"PADDLE_PS_MAP": proxy.map})
        job.end(DEADLINE)
        for kind, count in proxy.done.items():
            record_property(kind, count)
        record_property("strangers", crowd.came)
        assert proxy.done["cut"] + proxy.done["half_close"] + proxy.done["stall"] > 3, proxy.done
    check_equal(tmp_path, undisturbed(which))


def test_async_through_faults(tmp_path):
    """Nothing to compare with, but it ends, and well."""
    env = {"PADDLE_PS_TRANSPORT": "tcp", "FLAGS_ps_reconnect": "20000"}
    options = ["--model", "fit_a_line", "--async", "--steps", "800"]
    with Job(2, 2, env=env) as job, FaultProxy(job.endpoints, seed=5, faults=Faults(mean_bytes=20000), budget=25) as proxy:
        for i in range(2):
            job.start("server", i, *options)
        for i in range(2):
            job.start("trainer", i, *options, "--out", str(tmp_path / f"trainer-{i}.npz"), env={"PADDLE_PS_MAP": proxy.map})
        job.end(DEADLINE)
    losses = [np.load(tmp_path / f"trainer-{i}.npz")["losses"] for i in range(2)]
    began = max(np.mean(each[:50]) for each in losses)  # one may come when the other has trained already
    for each in losses:
        assert np.mean(each[-50:]) < began / 4


def test_connections_break_while_a_trainer_is_busy(tmp_path):
    """One reads data, or evaluates, for longer than a lost trainer has to come back: its connections are made again meanwhile."""
    env = {"PADDLE_PS_TRANSPORT": "tcp", "FLAGS_ps_reconnect": "1500"}
    options = ["--model", "fit_a_line", "--steps", "200", "--linger", str(tmp_path / "enough")]
    with Job(2, 2, env=env) as job, FaultProxy(job.endpoints, seed=1, budget=0) as proxy:
        servers = [job.start("server", i, *options) for i in range(2)]
        job.start("trainer", 0, *options, env={"PADDLE_PS_MAP": proxy.map})
        busy = job.start("trainer", 1, *options, "--pause-at", "100", env={"PADDLE_PS_MAP": proxy.map})
        busy.wait_for("pauses")
        for round in range(2, 5):
            proxy.cut_all()
            for server in servers:
                end = time.monotonic() + 20
                while len(re.findall(r"trainer 1 \(.*(?:joined|is back)", server.output())) < round:
                    assert server.process.poll() is None and time.monotonic() < end, server.output()
                    time.sleep(0.01)
        (tmp_path / "enough").touch()
        job.end(DEADLINE)


def test_faults_in_the_handshake(tmp_path, undisturbed):
    """Most connections do not even open; in the end one does."""
    options, _ = JOBS_TO_RUN["fit_a_line"]
    env = {"PADDLE_PS_TRANSPORT": "tcp", "FLAGS_ps_reconnect": "20000", "PADDLE_PS_SECRET": "of the job"}
    faults = Faults(cut=0.5, half_close=0.3, mean_bytes=150)
    with Job(2, 2, env=env) as job, FaultProxy(job.endpoints, seed=8, faults=faults, budget=30) as proxy:
        for i in range(2):
            job.start("server", i, *options)
        for i in range(2):
            job.start("trainer", i, *options, "--out", str(tmp_path / f"trainer-{i}.npz"), env={"PADDLE_PS_MAP": proxy.map})
        job.end(DEADLINE)
    check_equal(tmp_path, undisturbed("fit_a_line"))


def test_a_server_binds_another_address_than_its_name():
    """The name in the Program is that of a gateway: the server says what to set, and then the job runs."""
    options = ["--model", "fit_a_line", "--steps", "20"]
    with Job(1, 2) as job:
        real = job.endpoints[0]
        job.endpoints = ["198.51.100.1:7000"]
        lost = job.start("server", 0, *options)
        assert lost.end(20) == 1
        assert "198.51.100.1:7000: this machine does not have that address. PADDLE_PS_BIND" in lost.output(), lost.output()
        wrong = job.start("server", 0, *options, env={"PADDLE_PS_BIND": "203.0.113.2"})
        assert wrong.end(20) == 1, wrong.output()
        assert "(PADDLE_PS_BIND is 203.0.113.2): this machine does not have" in wrong.output(), wrong.output()
        job.processes.clear()
        job.start("server", 0, *options, env={"PADDLE_PS_BIND": real})
        for i in range(2):
            job.start("trainer", i, *options, env={"PADDLE_PS_MAP": f"198.51.100.1:7000={real}"})
        job.end(30)
        for p in (lost, wrong):
            p.close()
