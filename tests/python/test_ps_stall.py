"""Something on the way swallows what one side sends, and answers for it: the one who waits finds out and makes the connection
anew."""

import itertools
import signal
import threading

import numpy as np
import pytest
from cluster import Job
from fault_proxy import FaultProxy, Faults
from long_way import LongWay

OPTIONS = ["--model", "fit_a_line", "--optimizer", "momentum", "--steps", "200"]
QUIET = Faults(cut=0, half_close=0, stall=0, delay=0)
ENV = {"PADDLE_PS_TRANSPORT": "tcp", "FLAGS_ps_dead_after": "2", "FLAGS_rpc_deadline": "60000", "FLAGS_ps_loops": "1"}
REPLACED = "it takes the other one's place"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    with Job(1, 2, env=ENV) as job:
        job.start_all(*OPTIONS, out=out)
        job.end(60)
    return dict(np.load(out / "trainer-0.npz"))


@pytest.mark.parametrize("secret", ["", "known to these processes only"], ids=["open", "secret"])
@pytest.mark.parametrize("way", [0, 1], ids=["to the server", "to the trainer"])
def test_a_connection_that_swallows_is_made_anew(tmp_path, undisturbed, way, secret):
    """The first one, from its 3000th byte in one direction on; trainer 1 has another way."""
    numbers, env = itertools.count(), ENV | ({"PADDLE_PS_SECRET": secret} if secret else {})

    def meddler():
        number, passed = next(numbers), 0

        def through(data: bytes) -> bytes:
            nonlocal passed
            passed += len(data)
            return b"" if number == way and passed > 3000 else data

        return through

    with Job(1, 2, env=env) as job, FaultProxy(job.endpoints, 0, QUIET, meddler=meddler) as proxy:
        server = job.start("server", 0, *OPTIONS)
        server.wait_for("Server listening on")
        trainer = job.start("trainer", 0, *OPTIONS, "--out", str(tmp_path / "trainer.npz"), env={"PADDLE_PS_MAP": proxy.map})
        job.start("trainer", 1, *OPTIONS)
        job.end(60)
        assert trainer.output().count(REPLACED) == 1, trainer.output()
    got = dict(np.load(tmp_path / "trainer.npz"))
    for key, value in undisturbed.items():
        np.testing.assert_allclose(got[key], value, rtol=1e-5, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("way", [0, 1], ids=["to the first", "from the first"])
@pytest.mark.parametrize("kind", ["agree", "add"])
def test_a_connection_between_servers_that_swallows_is_made_anew(kind, way):
    """Trainers have other ways. Steps are agreed on there, or norms are added up."""
    numbers, held = itertools.count(), threading.Event()

    def meddler():
        number = next(numbers)
        return lambda data: b"" if number == way and held.is_set() else data

    env = ENV | ({"FLAGS_ps_on_trainer_loss": "shrink"} if kind == "agree" else {})
    options = [*OPTIONS[:4], "--steps", "3000", "--say-at", "20", *(["--clip", "global_norm"] if kind == "add" else [])]
    with Job(2, 2, env=env) as job, FaultProxy(job.endpoints[:1], 0, QUIET, meddler=meddler) as proxy:
        job.start("server", 0, *options)
        other = job.start("server", 1, *options, env={"PADDLE_PS_MAP": proxy.map})
        trainers = [job.start("trainer", i, *options) for i in range(2)]
        trainers[0].wait_for("step 20 has ended")
        held.set()
        job.end(60)
        assert other.output().count(REPLACED) == 1, other.output()


def test_a_stopped_server_keeps_its_connections():
    """It answers nobody, old or new: that is no stall."""
    with Job(1, 1, env=ENV | {"FLAGS_ps_notice": "500"}) as job:
        server = job.start("server", 0, *OPTIONS)
        trainer = job.start("trainer", 0, *OPTIONS, "--say-at", "20", "--steps", "4000")
        trainer.wait_for("step 20 has ended")
        server.signal(signal.SIGSTOP)
        trainer.wait_for("has waited 6 s")
        server.signal(signal.SIGCONT)
        job.end(60)
        assert REPLACED not in trainer.output()


@pytest.mark.parametrize("secret", ["", "known to these processes only"], ids=["open", "secret"])
def test_a_slow_way_is_no_stall(secret):
    """A record of 128 KiB takes longer than FLAGS_ps_dead_after; its bytes come all the while."""
    env = ENV | {"FLAGS_ps_dead_after": "1"} | ({"PADDLE_PS_SECRET": secret} if secret else {})
    with Job(1, 1, "slow.py", env=env) as job, LongWay(job.endpoints[0], 0, rate=50_000) as way:
        job.start("server", 0)
        trainer = job.start("trainer", 0, env={"PADDLE_PS_MAP": way.map})
        job.end(60)
        assert "values [-1.0]" in trainer.output() and REPLACED not in trainer.output(), trainer.output()
