"""Bytes that no trainer of ours sends, to servers of a job that runs: refused and logged, and the job does not notice."""

import os
import random
import struct
import threading
import time
from pathlib import Path

import numpy as np
import ps_peer as ps
import pytest
from cluster import Job
from crowd import FAR, mutate, one_stranger

MESSAGES = 10000 if os.environ.get("PADDLE_SOAK") else 400
STEPS = {"fit_a_line": 3000, "mlp": 300, "word2vec_sparse": 200}
SHAPES = {
    "fit_a_line": {"fc_0.w_0": (13, 1), "fc_0.b_0": (1,)},
    "mlp": {"fc_0.w_0": (784, 64), "fc_1.w_0": (64, 64), "fc_2.w_0": (64, 10)},
    "word2vec_sparse": {"emb": (1200, 16), "fc_0.w_0": (64, 48), "fc_1.w_0": (48, 1200)},
}
FLOAT, TENSOR, SELECTED_ROWS = 5, 7, 8


def options_of(model: str) -> list[str]:
    return ["--model", model, "--optimizer", "momentum", "--steps", str(STEPS[model])]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Results of jobs that nobody disturbs, by model."""
    known = {}

    def run(model: str) -> dict:
        if model not in known:
            out = tmp_path_factory.mktemp(model)
            with Job(1, 2) as job:
                job.start_all(*options_of(model), out=out)
                job.end(30)
            known[model] = dict(np.load(out / "trainer-0.npz"))
        return known[model]

    return run


def check_same(want: dict, out) -> None:
    got = dict(np.load(out / "trainer-0.npz"))
    assert sorted(got) == sorted(want)
    for key in want:
        np.testing.assert_allclose(got[key], want[key], rtol=1e-6, atol=1e-7, err_msg=key)


@pytest.mark.parametrize("model, secret", [("fit_a_line", ""), ("mlp", "of the job"), ("word2vec_sparse", "")])
def test_strangers_change_nothing(tmp_path, undisturbed, record_property, model, secret):
    """From before the first trainer comes until the last steps; with a secret, from those who know it too. (The place of one
    that has ended is free: without a secret anybody may take it.)"""
    want = undisturbed(model)
    pace = tmp_path / "pace"
    pace.touch()
    rng = random.Random(model)
    env = {"PADDLE_PS_SECRET": secret} if secret else {}
    with Job(1, 2, env=env) as job:
        server = job.start("server", 0, *options_of(model))
        server.wait_for("Server listening on")
        for _ in range(MESSAGES // 4):
            one_stranger(rng, job.endpoints[0], rng.choice([b"", secret.encode()]), False)
        portions = 20
        paced = ["--pace", f"{pace}:{STEPS[model] // portions}"]
        for i in range(2):
            job.start("trainer", i, *options_of(model), *paced, "--out", str(tmp_path / f"trainer-{i}.npz"))
        server.wait_for("trainer 0 (host")
        server.wait_for("trainer 1 (host")
        for done in range(1, portions):
            for _ in range(MESSAGES // portions):
                one_stranger(rng, job.endpoints[0], rng.choice([b"", secret.encode()]), True)
            pace.write_bytes(b"1" * done)
        job.end(30)
        assert "refused" in server.output() and "was not accepted" in server.output()
    record_property("strangers before the trainers came", MESSAGES // 4)
    record_property("strangers while they trained", MESSAGES // portions * (portions - 1))
    check_same(want, tmp_path)


# ---- what a trainer of the job may send ----


class Member:
    """A trainer of the job with bad manners, which comes back each time it is thrown out."""

    def __init__(self, endpoint: str, id: int, model: str, seed: int):
        self.endpoint, self.id, self.shapes = endpoint, id, SHAPES[model]
        self.rng = random.Random(seed)
        self.incarnation = self.rng.getrandbits(62) | 1
        self.peer: ps.Peer | None = None
        self.refusals = 0

    def entries(self) -> list[bytes]:
        table = "emb" if "emb" in self.shapes else None
        pushes = [ps.name(f"{n}@GRAD", kind=SELECTED_ROWS if n == table else TENSOR, dtype=FLOAT, dims=d)
                  for n, d in self.shapes.items()]
        return pushes + [ps.name(n, is_pull=True) for n in self.shapes]

    def join(self) -> None:
        self.peer = ps.Peer(self.endpoint)
        welcome = self.peer.greet(self.id, incarnation=self.incarnation)
        assert welcome.type == ps.WELCOME, welcome.text()
        opened = self.peer.open(*self.entries())
        assert opened.type == ps.OPENED, opened.text()
        n = len(self.shapes)
        self.all = list(struct.unpack_from(f"<{2 * n}I", opened.meta, 20))
        self.units, self.values = self.all[:n], self.all[n:]

    def good(self) -> bytes:
        """A message as it should be, but for a step that is not to come soon, or rows that are not there."""
        rng = self.rng
        i = rng.randrange(len(self.units))
        shape = list(self.shapes.values())[i]
        size = 4 * int(np.prod(shape))
        row = 4 * int(np.prod(shape[1:]))
        is_rows = list(self.shapes)[i] == "emb"
        k = rng.randint(1, 30)
        dense, rows = (self.units[i], 0, 0), (self.units[i], 0, k)
        ids = np.random.default_rng(k).integers(0, shape[0], k).tobytes()
        far_ids = struct.pack(f"<{k}q", *[rng.choice([-1, shape[0], FAR, -FAR, 0]) for _ in range(k - 1)], -1)
        pushed = (ps.frame(ps.PUSH, ps.parts(rows), ids + bytes(k * row), step=1) if is_rows
                  else ps.frame(ps.PUSH, ps.parts(dense), bytes(size), step=1))
        return rng.choice(
            [
                lambda: ps.frame(ps.OPEN, ps.opening(*self.entries()), request=2),
                lambda: ps.frame(ps.PULL, ps.numbers(self.values), request=3),
                lambda: ps.frame(ps.PULL, ps.numbers(self.values * 4), request=3),
                lambda: ps.frame(ps.ROWS, struct.pack("<IQ", self.values[i], k), ids, request=4),
                lambda: ps.frame(ps.ROWS, struct.pack("<IQ", self.values[i], k), far_ids, request=4),
                lambda: ps.frame(ps.PUSH, ps.parts(rows), far_ids + bytes(k * row), step=1),
                lambda: pushed,
                lambda: pushed * 2,
                lambda: ps.frame(ps.PUSH, ps.parts(wishes=self.values), flags=ps.END, step=rng.choice([0, 2, FAR]), request=5),
                lambda: ps.frame(ps.PUSH, ps.parts(dense, dense, dense), bytes(3 * size), step=1),
                lambda: ps.frame(ps.PUSH, ps.parts(rows, (self.units[i], 0, 5000)), bytes((k + 5000) * (8 + row)), step=1),
                lambda: ps.frame(ps.BEAT, ps.text("still here")),
            ]
        )()

    def bad(self) -> bytes:
        rng = self.rng
        far = rng.choice([7, 1000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
        step = rng.choice([0, 1, 1, 1, 2, 1000, FAR, 0xFFFFFFFFFFFFFFFF])
        return rng.choice(
            [
                lambda: mutate(rng, self.good()),
                lambda: mutate(rng, self.good()),
                lambda: self.good()[: -rng.randint(1, 40)],
                lambda: ps.frame(ps.PUSH, ps.parts((far, 0, 0)), bytes(52), step=step),
                lambda: ps.frame(ps.PUSH, ps.parts((0, far, 0)), bytes(52), step=step),
                lambda: ps.frame(ps.PUSH, ps.parts((0, 0, rng.choice([1, FAR, 0xFFFFFFFFFFFFFFFF]))), bytes(52), step=step),
                lambda: ps.frame(ps.PUSH, ps.parts(*[(0, 0, 0)] * 1000), bytes(rng.randrange(5000)), step=step),
                lambda: ps.frame(ps.PUSH, ps.parts(wishes=[far]), flags=ps.END, step=step),
                lambda: ps.frame(ps.PUSH, struct.pack("<I", far), flags=rng.randrange(65536), step=step),
                lambda: ps.frame(ps.PULL, ps.numbers([far])),
                lambda: ps.frame(ps.PULL, ps.numbers(self.values * 5000)),
                lambda: ps.frame(ps.ROWS, struct.pack("<IQ", far, 1), bytes(8)),
                lambda: ps.frame(ps.ROWS, struct.pack("<IQ", self.values[0], FAR), bytes(8)),
                lambda: ps.frame(ps.OPEN, ps.opening(ps.name(""))),
                lambda: ps.frame(ps.OPEN, ps.opening(ps.name("", is_pull=True))),
                lambda: ps.frame(ps.OPEN,
                                 ps.opening(ps.name("fc_0.w_0@GRAD", kind=TENSOR, dtype=rng.randrange(256), dims=(FAR, FAR, 4)))),
                lambda: ps.frame(ps.OPEN, ps.opening(ps.name("fc_0.w_0@GRAD", kind=rng.randrange(256), dims=(-1,)))),
                lambda: ps.frame(ps.OPEN, struct.pack("<I", far) + b"".join(self.entries())),
                lambda: ps.frame(rng.choice([0, 5, 15, 23, 24, 32, 40, 65535]), rng.randbytes(20)),
                lambda: ps.frame(rng.randrange(16, 22), rng.randbytes(rng.randint(0, 100)), rng.randbytes(rng.randint(0, 100)),
                                 step=step, flags=rng.randrange(4)),
                lambda: ps.frame(ps.SAVE, rng.randbytes(rng.randint(0, 30))),
                lambda: ps.frame(ps.BEAT, ps.text("x"), bytes(1000)),
                lambda: ps.frame(ps.MEET, ps.text("x" * rng.choice([0, 1, 63, 64, 5000])) + struct.pack("<Q", step),
                                 bytes(rng.choice([0, 9, (1 << 20) + 1])), flags=rng.randrange(4), request=5),
                lambda: ps.head(ps.MEET, meta=11, payload=FAR) + ps.text("x") + bytes(8),
                lambda: ps.frame(ps.MEET, rng.randbytes(rng.randint(0, 30)), rng.randbytes(rng.randint(0, 100))),
                lambda: ps.head(ps.PUSH, meta=20, payload=FAR, step=1) + ps.parts((0, 0, 0)) + bytes(30),
                lambda: ps.head(ps.OPEN, meta=4 << 20) + bytes(3000),
            ]
        )()

    def misbehave(self, messages: int) -> None:
        for _ in range(messages):
            if not self.peer:
                self.join()
            said = self.bad() if self.rng.random() < 0.7 else self.good()
            went = self.peer.send(said)
            # Thrown out, or does the server wait for the rest of a message? Either way nobody waits for ever.
            self.peer.socket.settimeout(0.002)
            try:
                while went and self.peer.answer().type != ps.FAILED:
                    pass
                self.refusals += 1
            except (TimeoutError, BlockingIOError):
                if self.rng.random() < 0.5:
                    continue
            except ps.Gone:
                self.refusals += 1
            self.peer.socket.close()
            self.peer = None

    def leave(self) -> None:
        """Says goodbye, goes on talking, and is not heard."""
        if self.peer:
            self.peer.socket.close()
        self.join()
        self.peer.send(ps.frame(ps.BYE, b"\0" + ps.text(""), request=9))
        while (got := self.peer.answer()).type != ps.DONE:
            assert got.type != ps.FAILED, got.text()
        after = self.rng.choice([ps.parts((self.units[0], 0, 0)), ps.parts(wishes=self.values)])
        self.peer.send(ps.frame(ps.PUSH, after, flags=ps.END, step=1, request=10))
        assert "after the trainer said goodbye" in self.peer.answer().text()
        self.peer.socket.close()


@pytest.mark.parametrize("model", sorted(SHAPES))
def test_a_trainer_may_send_anything(tmp_path, undisturbed, record_property, model):
    """Wrong units, parts, rows, values, steps, mutated messages: refused. What it gave goes with it when it leaves."""
    want = undisturbed(model)
    with Job(1, 3, env={"FLAGS_ps_on_trainer_loss": "shrink", "FLAGS_ps_reconnect": "60000"}) as job:
        server = job.start("server", 0, *options_of(model))
        server.wait_for("Server listening on")
        before = ps.memory(server.pid)
        member = Member(job.endpoints[0], 2, model, 11)
        member.misbehave(MESSAGES)
        assert member.refusals > MESSAGES // 10
        member.leave()
        grown = ps.memory(server.pid) - before
        # Trainers 0 and 1 have the batches that they have in a job of two.
        for i in range(2):
            job.start("trainer", i, *options_of(model), "--shards", "2", "--out", str(tmp_path / f"trainer-{i}.npz"))
        job.end(30)
        assert "refused" in server.output()
    record_property("messages", MESSAGES)
    record_property("refused", member.refusals)
    record_property("server grew by KiB", grown)
    check_same(want, tmp_path)
    assert grown < 24 * 1024, f"{grown} KiB"


def test_an_answer_goes_out_while_a_push_comes_in():
    """Half a message of an old step is in when the trainer's own step is applied: its other half goes where the first one went."""
    with Job(1, 2) as job:
        server = job.start("server", 0, *options_of("fit_a_line"))
        server.wait_for("Server listening on")
        members = [Member(job.endpoints[0], i, "fit_a_line", i) for i in range(2)]
        for member in members:
            member.join()
        sizes = [4 * int(np.prod(shape)) for shape in SHAPES["fit_a_line"].values()]

        def push(member: Member, step: int) -> None:
            units = [(unit, 0, 0) for unit in member.units]
            member.peer.send(ps.frame(ps.PUSH, ps.parts(*units, wishes=member.values), bytes(sum(sizes)), flags=ps.END, step=step,
                                      request=step))

        for member in members:
            push(member, 1)
        assert [member.peer.answer().type for member in members] == [ps.VALUES] * 2
        first, second = members
        push(first, 2)
        old = ps.frame(ps.PUSH, ps.parts((first.units[0], 0, 0)), struct.pack("<f", 1e6) * (sizes[0] // 4), step=1)
        first.peer.send(old[: -sizes[0] + 8])
        ps.until_read(job.endpoints[0])
        push(second, 2)
        want = [member.peer.answer().payload for member in members]
        assert want[0] == want[1]
        first.peer.send(old[-sizes[0] + 8 :] + ps.frame(ps.PULL, ps.numbers(first.values), request=3))
        assert first.peer.answer().payload == want[0]
        for member in members:
            member.peer.send(ps.frame(ps.BYE, b"\0" + ps.text(""), request=9))
            assert member.peer.answer().type == ps.DONE
        job.end(30)


# ---- memory, numbers, impostors ----


def test_nothing_is_allocated_that_was_only_announced():
    with Job(1, 2) as job:
        server = job.start("server", 0, *options_of("fit_a_line"))
        server.wait_for("Server listening on")
        ps.Peer(job.endpoints[0]).greet(0)
        before = ps.memory(server.pid)
        peers = []
        for i in range(40):
            for data in (
                ps.head(ps.HELLO, meta=4 << 20),
                ps.head(ps.HELLO, meta=4096) + bytes(100),
                ps.head(ps.PUSH, payload=FAR),
            ):
                peers.append(ps.Peer(job.endpoints[0]))
                peers[-1].send(data)
            for data in (
                ps.head(ps.OPEN, meta=4 << 20),
                ps.head(ps.OPEN, meta=4 << 20) + struct.pack("<I", 0xFFFFFFFF),
                ps.head(ps.PUSH, meta=20, payload=FAR, step=1) + ps.parts((0, 0, 0)),
                ps.head(ps.ROWS, meta=12, payload=FAR) + struct.pack("<IQ", 0, FAR >> 3),
                ps.head(ps.BEAT, payload=200 << 20),
                ps.head(ps.STATUS, payload=200 << 20),
            ):
                peers.append(ps.Peer(job.endpoints[0]))
                peers[-1].greet(i % 2, role=rng_role(i))
                peers[-1].send(data)
        ps.until_read(job.endpoints[0])
        grown = ps.memory(server.pid) - before
        for peer in peers:
            peer.socket.close()
        assert grown < 360 * 24, f"{grown} KiB for {len(peers)} connections"
        assert server.process.poll() is None


def rng_role(i: int) -> int:
    return (ps.TRAINER, ps.TRAINER, ps.TOOL, ps.SERVER)[i % 4]


def test_idle_connections(tmp_path, undisturbed):
    """500 of them, in every state of the handshake, for as long as the job runs."""
    want = undisturbed("mlp")
    with Job(1, 2) as job:
        server = job.start("server", 0, *options_of("mlp"))
        server.wait_for("Server listening on")
        had = ps.threads(server.pid)
        peers = []
        for i in range(500):
            peers.append(ps.Peer(job.endpoints[0]))
            if i % 3 == 1:
                peers[-1].send(ps.head(ps.HELLO)[:20])
            if i % 3 == 2:
                peers[-1].greet(i % 2)
        for i in range(2):
            job.start("trainer", i, *options_of("mlp"), "--out", str(tmp_path / f"trainer-{i}.npz"))
        server.wait_for("trainer 1 (host")
        assert ps.threads(server.pid) <= had + 2
        job.end(30)
        for peer in peers:
            peer.socket.close()
    check_same(want, tmp_path)


def test_a_second_process_with_the_same_id(tmp_path, undisturbed):
    """The trainer that is there stays; the other is told who has its place, and so is the log."""
    want = undisturbed("fit_a_line")
    with Job(1, 2) as job:
        options = options_of("fit_a_line")
        server = job.start("server", 0, *options)
        first = job.start("trainer", 1, *options, "--out", str(tmp_path / "trainer-1.npz"))
        server.wait_for("trainer 1 (host")
        second = job.start("trainer", 1, *options, env={"FLAGS_rpc_deadline": "1500", "FLAGS_ps_notice": "300"})
        job.processes.remove(second)
        try:
            server.wait_for("comes with the same id")
            assert second.end(30) == 1
            assert f"pid {first.pid}" in second.output(), second.output()
        finally:
            second.close()
        # Only now, so that the job cannot be over before the second one comes.
        job.start("trainer", 0, *options, "--out", str(tmp_path / "trainer-0.npz"))
        job.end(30)
    check_same(want, tmp_path)


def test_a_second_process_learns_that_the_job_is_over():
    """It was refused while the first was there; now there is no server."""
    options = options_of("fit_a_line")
    with Job(1, 1) as job:
        server, first = job.start("server", 0, *options), job.start("trainer", 0, *options, "--steps", "999999")
        server.wait_for("trainer 0 (host")
        second = job.start("trainer", 0, *options, env={"FLAGS_rpc_deadline": "5000"})
        server.wait_for("comes with the same id")
        server.kill()
        first.kill()
        assert second.end(30) == 1
        said = second.output().splitlines()[-1]
        assert "refused: is the server running?" in said and "before that, it refused this process: trainer 0" in said, said


def test_a_second_process_does_not_follow_the_first():
    """It came while the first was there; that one's end does not let it in: its work is done."""
    with Job(1, 2) as job:
        server = job.start("server", 0, *options_of("fit_a_line"))
        server.wait_for("Server listening on")
        first = Member(job.endpoints[0], 1, "fit_a_line", 1)
        first.join()
        with ps.Peer(job.endpoints[0]) as second:
            second.greet(1, incarnation=77)
            assert "comes with the same id" in second.open().text()
        first.leave()
        with ps.Peer(job.endpoints[0]) as second:
            second.greet(1, incarnation=77)
            assert "has ended its work" in second.open().text()
        with ps.Peer(job.endpoints[0]) as third:
            third.greet(1, incarnation=78)
            assert third.open().type == ps.OPENED


def test_few_bytes_that_ask_for_much():
    """A row number has 8 bytes, the row of this parameter 256: an answer has 32 MiB at most."""
    with Job(1, 1) as job:
        server = job.start("server", 0, "--model", "mlp")
        server.wait_for("Server listening on")
        most = (32 << 20) // 256
        before = ps.memory(server.pid)
        for rows in (most, most + 1, 2_000_000):
            with ps.Peer(job.endpoints[0]) as peer:
                peer.greet(0, incarnation=77)
                opened = peer.open(ps.name("fc_0.w_0", is_pull=True))
                value = opened.meta[20:24]  # behind two steps and how many numbers there are
                peer.send(ps.frame(ps.ROWS, value + struct.pack("<Q", rows), bytes(8 * rows), request=2))
                if rows == most:
                    assert peer.announced() == (ps.VALUES, 32 << 20)
                else:
                    got = peer.answer()
                    assert got.type == ps.FAILED and f"{rows} rows of 'fc_0.w_0' are asked for at once" in got.text()
                    assert "32 MiB at most" in got.text() and str(most) in got.text()
        assert ps.memory(server.pid) - before < 120 * 1024


def lone_member(job: Job) -> tuple:
    """The server of a job of one, a member of it, and the server's memory by then."""
    server = job.start("server", 0, "--model", "mlp")
    server.wait_for("Server listening on")
    member = Member(job.endpoints[0], 0, "mlp", 1)
    member.join()
    return server, member, ps.memory(server.pid)


@pytest.mark.parametrize("kind", [ps.BEAT, ps.PULL, ps.ROWS, ps.MEET, 300], ids=["beat", "pull", "rows", "meet", "unknown"])
def test_a_payload_that_nobody_expects_is_not_kept(kind):
    """Many bytes that do come are dropped as they come."""
    with Job(1, 1) as job:
        server, member, before = lone_member(job)
        member.peer.socket.settimeout(10)
        meta = struct.pack("<IQ", member.values[0], 6 << 20) if kind == ps.ROWS else b""
        member.peer.send(ps.frame(kind, meta, bytes(48 << 20), request=1))
        assert member.peer.answer().type == ps.FAILED
        assert ps.memory(server.pid) - before < 4 * 1024


def test_who_does_not_read_is_hung_up_on():
    """Answers that nobody reads do not pile up."""
    with Job(1, 1) as job:
        server, member, before = lone_member(job)
        asked = ps.frame(ps.PULL, ps.numbers(member.values), request=1) * 100
        member.peer.socket.settimeout(10)
        for _ in range(1000):
            if not member.peer.send(asked):
                break
        server.wait_for("answers were not read", 10)
        assert ps.memory(server.pid) - before < 24 * 1024


def test_many_threads_of_noise_at_once(tmp_path, undisturbed):
    """While trainers train: the last step waits for the end of the noise. (The place of one that has ended is free: without a
    secret anybody may take it.)"""
    want = undisturbed("fit_a_line")
    quiet = tmp_path / "quiet"
    quiet.touch()
    with Job(1, 2) as job:
        job.start_all(*options_of("fit_a_line"), "--pace", f"{quiet}:{STEPS['fit_a_line'] - 1}", out=tmp_path)
        server = job.processes[0]
        server.wait_for("trainer 0 (host")
        server.wait_for("trainer 1 (host")
        troubles = []

        def noise(seed: int) -> None:
            rng = random.Random(seed)
            try:
                for _ in range(MESSAGES // 8):
                    one_stranger(rng, job.endpoints[0], b"", True)
            except (ConnectionError, AssertionError) as error:
                troubles.append(error)

        workers = [threading.Thread(target=noise, args=(i,)) for i in range(8)]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        assert not troubles
        quiet.write_bytes(b"1")
        job.end(30)
    check_same(want, tmp_path)


# ---- ids ----


def test_handshakes_take_no_ids(tmp_path):
    """Only an OPEN takes an id: strangers that are welcomed, and stay, keep nobody out, not even trainers without an id."""
    with Job(1, 2, "saving.py") as job:
        options = ["--model", "mlp", "--steps", "4"]
        server = job.start("server", 0, *options)
        server.wait_for("Server listening on")
        peers = [ps.Peer(job.endpoints[0]) for _ in range(60)]
        for i, peer in enumerate(peers):
            assert peer.greet((-1, 0, 1)[i % 3]).type == ps.WELCOME
        for i in range(2):
            job.start("trainer", i, *options, "--no-id")
        job.end(30)
        for peer in peers:
            peer.socket.close()
        assert "trainer 0 (host" in server.output() and "trainer 1 (host" in server.output()


def test_who_never_opens_is_hung_up_on():
    with Job(1, 1, env={"FLAGS_ps_reconnect": "300"}) as job:
        server = job.start("server", 0, *options_of("fit_a_line"))
        server.wait_for("Server listening on")
        with ps.Peer(job.endpoints[0]) as peer:
            assert peer.greet(0).type == ps.WELCOME
            said = peer.drain()
        assert said and said[-1].type == ps.FAILED and "no OPEN came" in said[-1].text()


def test_a_third_trainer_without_an_id_is_told():
    with Job(1, 2) as job:
        server = job.start("server", 0, *options_of("fit_a_line"))
        server.wait_for("Server listening on")
        peers = [ps.Peer(job.endpoints[0]) for _ in range(3)]
        for peer in peers:
            assert peer.greet(-1).type == ps.WELCOME
        answers = [peer.open() for peer in peers]
        assert [a.type for a in answers] == [ps.OPENED, ps.OPENED, ps.FAILED]
        assert "all 2 trainers of this job have come already: another job's trainer" in answers[2].text()
        for peer in peers:
            peer.socket.close()


def test_without_an_id_a_place_that_is_lost_is_had_when_its_time_is_over():
    """Until then the answer is the one after which trainers try again."""
    with Job(1, 2, env={"FLAGS_ps_reconnect": "1500", "FLAGS_ps_on_trainer_loss": "wait"}) as job:
        server = job.start("server", 0, *options_of("fit_a_line"))
        server.wait_for("Server listening on")
        with ps.Peer(job.endpoints[0]) as stays:
            peers = [stays, ps.Peer(job.endpoints[0])]
            for peer in peers:
                assert peer.greet(-1).type == ps.WELCOME and peer.open().type == ps.OPENED
            peers[1].socket.close()
            said, end = [], time.monotonic() + 30
            while not said or said[-1].type != ps.OPENED:
                assert time.monotonic() < end, said
                with ps.Peer(job.endpoints[0]) as again:
                    assert again.greet(-1).type == ps.WELCOME
                    said.append(again.open())
        refused = [answer for answer in said if answer.type == ps.FAILED][-1]  # the first may come before the server knows
        assert refused.meta[:4] == struct.pack("<I", 7), said
        assert "its place is free when it has not come back after 1.5 s (FLAGS_ps_reconnect)" in refused.text()


# ---- what may be read and written ----


def test_only_what_is_for_trainers_is_read():
    """A variable of the scope that the server's Program does not keep is none of a trainer's business; nor is a gradient."""
    with Job(1, 1, "hidden.py") as job:
        server = job.start("server", 0, *options_of("fit_a_line"))
        server.wait_for("Server listening on")
        for asked, expected in (("hidden", "is not for trainers"), ("fc_0.w_0@GRAD", "no variable"), ("no such", "no variable")):
            with ps.Peer(job.endpoints[0]) as peer:
                peer.greet(0)
                got = peer.open(ps.name(asked, is_pull=True))
                assert got.type == ps.FAILED and (expected in got.text() or "is not for trainers" in got.text()), got
        with ps.Peer(job.endpoints[0]) as peer:
            peer.greet(0)
            assert peer.open(*[ps.name(n, is_pull=True) for n in ("fc_0.w_0", "learning_rate_0")]).type == ps.OPENED


class Saver(Member):
    """A trainer over TCP that asks for files."""

    def __init__(self, endpoint: str, secret: bytes = b""):
        super().__init__(endpoint, 0, "fit_a_line", 3)
        self.peer = ps.Peer(endpoint)
        assert self.peer.greet(0, secret, incarnation=self.incarnation).type == ps.WELCOME
        opened = self.peer.open(*self.entries())
        self.number = struct.unpack_from("<4I", opened.meta, 20)[2]

    def save(self, folder: Path | str) -> str:
        """Empty when it worked."""
        for flags in (0, ps.PLACE):
            self.peer.send(ps.frame(ps.SAVE, struct.pack("<IIIQ", self.number, 5, 6, 1) + ps.text(str(folder)),
                                    flags=flags, request=4))
            got = self.peer.answer()
            assert got.type in (ps.DONE, ps.FAILED)
            if got.type == ps.FAILED:
                return got.text()
        return ""


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The server's working folder, with links in it, and a folder beside it."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside / "real", outside):
        folder.mkdir(parents=True)
    (inside / "out").symlink_to(outside)
    (inside / "in").symlink_to(inside / "real")
    (inside / "nowhere").symlink_to(outside / "new")
    monkeypatch.chdir(inside)
    return inside, outside


def check_confined(saver: Saver, inside: Path, outside: Path, flag: str) -> None:
    for folder, file in (("a/b", "a/b"), (inside / "c", "c"), ("in/d", "real/d"), (".", "."), ("", ".")):
        assert saver.save(folder) == ""
        assert (inside / file / "fc_0.w_0_5").stat().st_size > 13 * 4
    for folder in (outside, outside / "new", "out", "out/deep", "/", "/no-such-folder/x", f"{inside}-2"):
        assert flag in saver.save(folder), folder
    for folder in ("../outside", "a/../../outside", f"{inside}/../outside", ".."):
        assert "'..'" in saver.save(folder), folder
    assert "link" in saver.save("nowhere")
    (inside / "real" / "fc_0.w_0_5").symlink_to(outside / "target")  # replaced, not followed
    assert saver.save("real") == "" and not (inside / "real" / "fc_0.w_0_5").is_symlink()
    assert list(outside.iterdir()) == []


def test_strangers_save_below_the_working_folder(places, tmp_path):
    inside, outside = places
    kept = tmp_path / "kept"
    with Job(1, 1, env={"FLAGS_ps_dir": str(kept)}) as job:
        server = job.start("server", 0, *options_of("fit_a_line"))
        server.wait_for("Server listening on")
        saver = Saver(job.endpoints[0])
        check_confined(saver, inside, outside, "FLAGS_ps_save_root")
        assert saver.save(kept / "tables") == "" and (kept / "tables" / "fc_0.w_0_5").exists()
        assert "FLAGS_ps_save_root" in server.output()  # logged too


def test_save_root_holds_for_everybody(places):
    inside, outside = places
    env = {"FLAGS_ps_save_root": str(inside), "PADDLE_PS_SECRET": "of the job"}
    with Job(1, 1, env=env) as job:
        job.start("server", 0, *options_of("fit_a_line")).wait_for("Server listening on")
        check_confined(Saver(job.endpoints[0], b"of the job"), inside, outside, "FLAGS_ps_save_root")


def test_who_knows_the_secret_saves_anywhere(places):
    _, outside = places
    with Job(1, 1, env={"PADDLE_PS_SECRET": "of the job"}) as job:
        job.start("server", 0, *options_of("fit_a_line")).wait_for("Server listening on")
        saver = Saver(job.endpoints[0], b"of the job")
        assert saver.save(outside / "new") == "" and saver.save("../outside") == ""
        assert sorted(p.name for p in outside.rglob("fc_0.w_0_5")) == ["fc_0.w_0_5"] * 2


def test_links_that_lie_in_wait_are_not_followed(places):
    """Not even for who may save anywhere: neither at the name of the file, nor at one that it might be written under first."""
    _, outside = places
    victim = outside / "victim"
    victim.write_text("as it was")
    with Job(1, 1, env={"PADDLE_PS_SECRET": "of the job"}) as job:
        server = job.start("server", 0, *options_of("fit_a_line"))
        server.wait_for("Server listening on")
        for name in ("fc_0.w_0_5", f"fc_0.w_0_5.tmp.{server.pid}", "fc_0.w_0_5.tmp"):
            (outside / name).symlink_to(victim)
        assert Saver(job.endpoints[0], b"of the job").save(outside) == ""
    assert victim.read_text() == "as it was"
    assert not (outside / "fc_0.w_0_5").is_symlink() and (outside / "fc_0.w_0_5").stat().st_size > 13 * 4


# ---- sums over servers ----
