"""Workers of a Fleet job meet on its servers: barrier_worker, all_reduce_worker, all_gather. As processes, and as bytes."""

import functools
import operator
import struct
import sys
from pathlib import Path

import numpy as np
import ps_peer as ps
import pytest
from cluster import free_ports
from fault_proxy import FaultProxy
from test_fleet_jobs import Job as FleetJob

from paddle.fluid.incubate.fleet.base import packed, role_maker

SCRIPT = Path(__file__).parent / "jobs" / "meet_job.py"
SOON = {"FLAGS_ps_notice": "300", "FLAGS_ps_reconnect": "700"}


class Job(FleetJob):
    """Each worker has its own words."""

    def __init__(self, servers, *words, folder=None, **env):
        """`folder`: servers keep what they have there."""
        super().__init__(servers, len(words), SCRIPT, **{**SOON, **env})
        self.folder = folder
        for i in range(servers):
            self.server(i)
        for i, each in enumerate(words):
            self.worker(i, each)

    def server(self, i):
        env = {"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": str(self.ports[i])}
        if self.folder:
            env |= {"FLAGS_ps_dir": str(self.folder / f"server-{i}"), "FLAGS_ps_log": "write"}
        self.servers.insert(i, self._start(f"server-{i}", [], env))

    def worker(self, i, words):
        self.workers.insert(i, self._start(f"worker-{i}", words.split(), {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)}))

    def restart_server(self, i):
        self.servers.pop(i).close()
        self.server(i)


def said(worker, start):
    return [line for line in worker.output().splitlines() if line.startswith(start)]


def test_nobody_passes_before_all_are_there(tmp_path):
    """The last one comes late; the others say for whom they wait. Then many rounds, of which none overlaps another."""
    late, notes = tmp_path / "late", tmp_path / "notes"
    rounds = "barrier train:3 rounds:30"
    with Job(2, rounds, rounds, f"wait:{late} {rounds}", JOB_NOTES=str(notes)) as job:
        for worker in job.workers[:2]:
            worker.wait_for("for trainer 2 (has not connected yet)", 60)
            assert "the barrier 'barrier_worker' has waited" in worker.output() and "did barrier" not in worker.output()
        late.touch()
        job.end()
        lines = notes.read_text().splitlines()
        assert len(lines) == 2 * 3 * 30
        for i in range(30):
            assert lines[: lines.index(f"out {i}")].count(f"in {i}") == 3, lines


def test_all_have_the_same_numbers():
    with Job(2, "reduce gather", "reduce gather", "reduce gather") as job:
        job.end()
        found = [said(worker, "reduced ")[0] for worker in job.workers]
        assert len(set(found)) == 1
        with_nan = said(job.workers[0], "with NaN ")[0].removeprefix("with NaN ")
        assert with_nan == str(2 * [[np.nan] * 3 + [last] for last in (3.0, 0.0, 2.0)])
        total, least, most, *floats = eval(found[0].removeprefix("reduced "))
        assert (total, least, most) == ([6, 3 << 70, -3], [1, 1 << 70, -2], [3, 1 << 70, 0])
        given = [[[1e16, 1.0, -1e16, 0.1][(i + k) % 4] for k in range(4)] for i in range(3)]
        assert floats[0] == [functools.reduce(operator.add, each).hex() for each in zip(*given)]
        assert floats[1:3] == [[fn(each).hex() for each in zip(*given)] for fn in (min, max)]
        rest = iter(floats[3:])
        for dtype in ("int64", "float32", "float64"):
            arrays = [(np.arange(1000) * (i + 0.3)).astype(dtype) for i in range(3)]
            for fn in (np.add, np.minimum, np.maximum):
                assert next(rest) == functools.reduce(fn, arrays).tobytes().hex(), (dtype, fn)
        gathered = {said(worker, "gathered ")[0] for worker in job.workers}
        assert len(gathered) == 1
        for i in range(3):
            one = (f"{{'id': {i}, 'list': [1, (2, None), {{3}}], 'raw': {bytes([0, 255]) * i!r}, 'nan': [0.1, inf], "
                   f"'array': {np.arange(i)!r}, 'scalar': {np.float32(1.5)!r}}}")
            assert one in gathered.copy().pop()


def test_a_call_that_failed_in_one_worker(tmp_path):
    """Its next call is not taken for the one that the others are in: all are told. Calls that fail in all of them are none."""
    with Job(1, "bad gather", "bad gather") as job:
        job.end()
        assert len({said(worker, "gathered ")[0] for worker in job.workers}) == 1
    with Job(1, "gather go bad gather reduce", "gather go gather reduce") as job:
        for worker in job.workers:
            assert worker.end(60) == 0, worker.output()
            assert len(said(worker, "gathered ")) == 1 and len(said(worker, "reduced ")) == 1, worker.output()
            assert "all_gather: worker 0 has failed in 1 of its own calls before, and worker 1 in 0" in worker.output()


@pytest.mark.parametrize("given, output, right", [
    (np.full(3, 2**30, "int32"), np.zeros(3, "int64"), 2**31), (np.full(3, 200, "uint8"), np.zeros(3), 400),
    (np.array([True, False, True]), [0, 0, 0], [2, 0, 2]), (np.full(3, 2**30, "int32"), np.zeros(3, "int32"), OverflowError),
    (np.full(3, 0.5), np.zeros(3, "int64"), TypeError), ([0.5] * 3, np.zeros(3, "int64"), TypeError),
    ([1 << 62] * 3, np.zeros(3, "int64"), (TypeError, OverflowError)), ([1, 2, 3], np.zeros(3, "float32"), [2, 4, 6]),
])
def test_sums_fit_or_are_refused(monkeypatch, given, output, right):
    """Of two workers that give the same."""
    role = role_maker.UserDefinedRoleMaker(0, role_maker.Role.WORKER, 2, ["a:1"])
    monkeypatch.setattr(role, "_gathered", lambda what, obj: [obj, obj])
    if isinstance(right, (type, tuple)):
        with pytest.raises(right, match="all_reduce_worker: the sum"):
            role.all_reduce_worker(given, output)
        assert not np.any(output)
        return
    role.all_reduce_worker(given, output)
    assert np.array_equal(output, np.broadcast_to(right, 3))


def test_who_has_ended_is_not_waited_for(tmp_path):
    """Worker 2 has met the others once, and ends while they wait."""
    end = tmp_path / "end"
    with Job(1, "gather barrier gather", "gather barrier gather", f"gather wait:{end}") as job:
        for worker in job.workers[:2]:
            worker.wait_for("'barrier_worker' has waited", 60)
        end.touch()
        job.end()
        for worker in job.workers[:2]:
            before, after = said(worker, "gathered ")
            assert "'id': 2" in before and "'id': 1" in after and "'id': 2" not in after


@pytest.mark.parametrize("loss", ["fail", "shrink"])
def test_a_worker_is_killed(tmp_path, loss):
    never = f"gather wait:{tmp_path / 'never'}"
    with Job(2, "gather barrier gather", "gather barrier gather", never, FLAGS_ps_on_trainer_loss=loss) as job:
        job.workers[2].wait_for("did gather", 60)
        for worker in job.workers[:2]:
            worker.wait_for("'barrier_worker' has waited", 60)
        job.workers[2].kill()
        for worker in job.workers[:2]:
            status = worker.end()
            if loss == "shrink":
                assert status == 0 and "'id': 2" not in said(worker, "gathered ")[1], worker.output()
            else:
                assert status and "trainer 2 (host" in worker.output() and "is gone without a word" in worker.output()


def test_at_the_deadline_all_hear_who_is_missing():
    with Job(1, "go barrier reduce say:here", "go barrier reduce say:here", "wait:/nowhere", FLAGS_rpc_deadline="3000") as job:
        for worker in job.workers[:2]:
            worker.wait_for("did say here", 60)
            for call in ("the barrier 'barrier_worker'", "the gathering 'all_reduce_worker'"):
                assert f"{call} waited 3 s for trainer 2 (has not connected yet): given up (FLAGS_rpc_deadline" in worker.output()


def test_different_calls_are_told():
    """Two workers wait for each other, each in another meeting."""
    with Job(1, "go barrier", "go reduce", FLAGS_rpc_deadline="3000") as job:
        job.end()
        first, second = (worker.output() for worker in job.workers)
        rule = "meanwhile: all are to make the same calls in the same order"
        assert f"; trainer 1 waits in 'all_reduce_worker' {rule}" in first, first
        assert f"; trainer 0 waits in 'barrier_worker' {rule}" in second, second


def test_connections_are_cut(tmp_path):
    """Each sum counts each worker once, whenever the connections break."""
    begun = tmp_path / "begun"
    words = f"barrier wait:{begun} sums:1500 rounds:100"
    ports = free_ports(1)
    with FaultProxy([f"127.0.0.1:{ports[0]}"], seed=1, budget=0) as proxy:
        env = {"PADDLE_PS_MAP": proxy.map, "PADDLE_PS_TRANSPORT": "tcp", "JOB_NOTES": str(tmp_path / "notes")}
        with Job(0, FLAGS_ps_reconnect="60000") as job:
            job.ports, job.endpoints, job.workers_num = ports, proxy.targets, 3
            job.env |= {"PADDLE_PSERVERS_IP_PORT_LIST": proxy.targets[0], "PADDLE_TRAINERS_NUM": "3"}
            job.server(0)
            job.env |= env
            for i in range(3):
                job.worker(i, words)
            for worker in job.workers:
                worker.wait_for("did barrier", 60)
            begun.touch()
            cuts = 0
            while any(worker.process.poll() is None for worker in job.workers) and cuts < 2000:
                proxy.cut_all()
                cuts += 1
                try:
                    job.workers[0].process.wait(0.02)
                except Exception:
                    continue
            job.end()
            assert cuts > 3 and all("did rounds" in worker.output() for worker in job.workers)


def test_the_first_server_is_killed(tmp_path):
    """While two wait for the third, at a barrier and with numbers: they give again what is lost with it."""
    come, again = tmp_path / "come", tmp_path / "again"
    words = "train:2 barrier sums:3 barrier reduce"
    late = f"train:2 barrier sums:3 wait:{come} barrier wait:{again} reduce"
    with Job(2, words, words, late, folder=tmp_path, FLAGS_ps_reconnect="60000") as job:
        for name, file in (("barrier", come), ("all_reduce", again)):
            for worker in job.workers[:2]:
                worker.wait_for(f"'{name}_worker' has waited", 60)
            job.restart_server(0)
            job.servers[0].wait_for("trainer 2 (host", 60)
            file.touch()
        job.end()
        assert len({said(worker, "reduced ")[0] for worker in job.workers}) == 1


def test_a_barrier_waits_for_what_is_queued():
    """Async: the steps that a communicator has when its worker comes to the barrier are with the servers behind it."""
    with Job(2, "train:40 barrier", "barrier weight", JOB_STRATEGY="async", FLAGS_communicator_max_merge_var_num="5") as job:
        job.end()
        assert said(job.workers[1], "weight ") == ["weight -20.000"]


@pytest.mark.parametrize("strategy", ["async", "geo"])
def test_who_leaves_and_whose_last_step_is_refused_has_failed(strategy):
    """There is no batch behind it, and no stop(), which would raise: servers hear it."""
    with Job(1, "train:3 feed:nan train:1 leave", JOB_STRATEGY=strategy, JOB_CHECKS="yes") as job:
        assert job.workers[0].end(60) == 0
        assert job.servers[0].end(60) == 1
        assert "failed: its last steps did not reach the servers: trainer 0 pushes NaN" in job.servers[0].output()


# ---- as bytes: trainers that say what they like ----


class Peers:
    """Trainers of one server, by hand; `again` makes a connection anew."""

    def __init__(self, job, count):
        self.job, self.peers = job, [None] * count
        for i in range(count):
            self.again(i)

    def again(self, i, incarnation=0):
        """With an incarnation it is another process; it comes as another one again while the server has not seen the first end."""
        opened = None
        while opened is None or opened.type != ps.OPENED:
            if self.peers[i]:
                self.peers[i].socket.close()
            self.peers[i] = ps.Peer(self.job.endpoints[0])
            assert self.peers[i].greet(i, incarnation=incarnation or 100 + i).type == ps.WELCOME
            opened = self.peers[i].open()
            incarnation += incarnation > 0

    def give(self, i, name, round, given=None, request=5):
        """None: to a barrier."""
        flags = ps.BARRIER if given is None else 0
        self.peers[i].send(ps.frame(ps.MEET, ps.text(name) + struct.pack("<Q", round), given or b"", flags=flags, request=request))

    def settle(self, i):
        """The server has read what this one gave."""
        self.peers[i].send(ps.frame(ps.BEAT, request=6))
        assert self.peers[i].answer().type == ps.HERE

    def get(self, i):
        """The round and what all gave, by trainer; or the text of a refusal."""
        found = self.peers[i].answer()
        if found.type == ps.FAILED:
            return found.text()
        assert found.type == ps.MET and found.request == 5
        if not found.meta:
            return found.step, None
        (count,), at, given = struct.unpack_from("<I", found.meta), 0, {}
        for k in range(count):
            trainer, size = struct.unpack_from("<IQ", found.meta, 4 + 12 * k)
            given[trainer] = found.payload[at : at + size]
            at += size
        assert at == len(found.payload)
        return found.step, given

    def open_round(self, name, round, given=b""):
        """All give to it, and all get the same."""
        for i in range(len(self.peers)):
            self.give(i, name, round, given and given + bytes([i]))
        found = [self.get(i) for i in range(len(self.peers))]
        assert all(each == found[0] for each in found)
        return found[0]


@pytest.fixture
def served():
    """A server without workers, and two peers in their place."""
    with Job(0, FLAGS_ps_reconnect="60000") as job:
        job.ports = free_ports(1)
        job.endpoints = [f"127.0.0.1:{job.ports[0]}"]
        job.env |= {"PADDLE_PSERVERS_IP_PORT_LIST": job.endpoints[0], "PADDLE_TRAINERS_NUM": "2"}
        job.server(0)
        ps.until_listening(job.endpoints[0], 60)
        yield job, Peers(job, 2)


def test_asked_again_it_counts_once(served):
    job, peers = served
    assert peers.open_round("a", 0, b"x") == (1, {0: b"x\0", 1: b"x\1"})
    assert peers.open_round("a", 2, b"y") == (2, {0: b"y\0", 1: b"y\1"})
    # Before the round is over, and after it; 0 is the round that this process had not been answered.
    peers.give(0, "a", 3, b"lost")
    peers.again(0)
    peers.give(0, "a", 3, b"lost")
    peers.give(1, "a", 3, b"other")
    assert peers.get(0) == peers.get(1) == (3, {0: b"lost", 1: b"other"})
    for round in (3, 0):
        peers.again(1)
        peers.give(1, "a", round, b"not counted")
        assert peers.get(1) == (3, {0: b"lost", 1: b"other"})
    # What a process has given that was started again does not count: the one in its place gives anew.
    peers.give(1, "a", 4, b"of before")
    peers.again(1, 1000)
    peers.give(1, "a", 0, b"of now")
    peers.settle(1)
    peers.give(0, "a", 4, b"four")
    assert peers.get(0) == peers.get(1) == (4, {0: b"four", 1: b"of now"})
    # Another name has rounds of its own. A barrier has no bytes.
    assert peers.open_round("b", 0, None) == (1, None)


def test_who_is_behind(served):
    """A server that was started in place of another one learns the round of those who ask; so does a worker in another's place."""
    job, peers = served
    peers.give(0, "wall", 5)
    peers.give(1, "wall", 6)
    assert peers.get(0) == (5, None)
    peers.give(0, "wall", 6)
    assert peers.get(0) == peers.get(1) == (6, None)
    peers.give(1, "data", 9, b"nine")
    peers.give(0, "data", 8, b"eight")
    assert "what trainers gave to round 8 of 'data' is not here any more: this server was started again" in peers.get(0)
    peers.give(0, "data", 0, b"other")
    assert peers.get(0) == peers.get(1) == (9, {0: b"other", 1: b"nine"})
    # No round is left out: one from before is that which is open.
    peers.give(0, "data", 77, b"a")
    peers.give(1, "data", 10, b"b")
    assert peers.get(0) == peers.get(1) == (10, {0: b"a", 1: b"b"})


def test_limits(served):
    job, peers = served
    peers.give(0, "wall", 0)
    peers.give(1, "wall", 0, b"bytes")
    assert "'wall' is a barrier of others now, and a gathering of this trainer" in peers.get(1)
    for i in range(63):
        peers.give(1, f"name {i}", 0)
    peers.give(1, "one more", 0)
    assert "under 64 names already" in peers.get(1)
    peers.give(1, "wall", 0)  # the connection is as it was
    assert peers.get(0) == peers.get(1) == (1, None)
    for flags, name, size, why in ((0, "x" * 64, 0, "malformed MEET"), (0, "", 0, "malformed MEET"),
                                   (0, "x", (1 << 20) + 1, "1 MiB is the most"), (ps.BARRIER, "x", 1, "a barrier has none")):
        peers.again(1)
        peers.peers[1].send(ps.frame(ps.MEET, ps.text(name) + bytes(8), bytes(size), flags=flags, request=5))
        assert why in peers.peers[1].answer().text()
        assert peers.peers[1].drain() == []


# ---- without a job ----


def test_alone_and_without_servers():
    alone = role_maker.UserDefinedRoleMaker(0, role_maker.Role.WORKER, 1, ["a:1"])
    alone.barrier_worker()
    assert alone.all_gather({"a"}) == [{"a"}]
    with pytest.raises(ValueError, match="input has 1 elements, output 2"):
        alone.all_reduce_worker([1], [0, 0])
    nowhere = role_maker.UserDefinedCollectiveRoleMaker(0, ["a:1", "b:1"])
    for call in (nowhere.barrier_worker, nowhere.barrier_all, lambda: nowhere.all_gather(1)):
        with pytest.raises(NotImplementedError, match="workers meet at the servers of their job, and this one has none"):
            call()
    server = role_maker.UserDefinedRoleMaker(0, role_maker.Role.SERVER, 2, ["a:1"])
    server.barrier_worker()
    server.barrier_all()
    with pytest.raises(NotImplementedError, match="Call it in workers"):
        server.all_gather(1)


def test_values_come_back_as_they_were():
    for value in (None, True, -1, 1 << 80, 0.1, float("-inf"), "ä\0", b"\x00", [], (1,), {1, 2}, frozenset("a"), {(1, "a"): [None]},
                  ["float", "x"], {"dict": ["bytes", 0]}):
        found = packed.unpack(packed.pack(value))
        assert found == value and type(found) is type(value)
    array = np.arange(6, dtype="int16").reshape(2, 3)
    found = packed.unpack(packed.pack([array, np.float32(2)]))
    assert np.array_equal(found[0], array) and found[0].dtype == array.dtype and type(found[1]) is np.float32
    for value in (object(), lambda: 0, np.array([object()]), [sys]):
        with pytest.raises(TypeError, match="cannot be given to other workers; they take None, bool"):
            packed.pack(value)
