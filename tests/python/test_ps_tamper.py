"""Bytes that are changed on their way: found before they count, the connection is made anew, and the job ends as if nothing had
been.

Without a secret that is damage (a broken switch); with one it is also somebody who sits in between, knows the protocol, and changes
gradients, repeats, shortens and invents records."""

import itertools
import random
import struct

import numpy as np
import ps_peer as ps
import pytest
from cluster import Job
from fault_proxy import FaultProxy, Faults
from ps_seal import Seal, length_in, with_check

OPTIONS = ["--model", "mlp", "--optimizer", "momentum", "--steps", "60"]
QUIET = Faults(cut=0, half_close=0, stall=0, delay=0)
SECRET = "known to these processes only"
HEAD = 48


class Meddler:
    """Sees one direction of a connection as its messages and records, and spoils some of them."""

    def __init__(self, ways: list, rng: random.Random, seal: int, left: list[int], mean: float):
        self.ways, self.rng, self.seal, self.left, self.mean = ways, rng, seal, left, mean
        self.buffer, self.is_open, self.last = b"", False, b""

    def __call__(self, data: bytes) -> bytes:
        self.buffer += data
        out = []
        while (size := self._size()) and len(self.buffer) >= size:
            whole, self.buffer = self.buffer[:size], self.buffer[size:]
            if not self.is_open:
                self.is_open = struct.unpack_from("<H", whole, 6)[0] in (ps.PROOF, ps.WELCOME)
                out.append(whole)
                continue
            if self.left[0] and self.rng.random() < 1 / self.mean:
                self.left[0] -= 1
                whole = self.rng.choice(self.ways)(self, whole)
            self.last = whole or self.last
            out.append(whole)
        return b"".join(out)

    def _size(self) -> int:
        if not self.is_open:
            return HEAD + sum(struct.unpack_from("<IQ", self.buffer, 12)) if len(self.buffer) >= HEAD else 0
        return 4 + self.seal + length_in(self.buffer) if len(self.buffer) >= 4 else 0


def flip(self, record: bytes) -> bytes:
    """A bit of the data."""
    at = self.rng.randrange(4 + self.seal, len(record))
    return record[:at] + bytes([record[at] ^ 1 << self.rng.randrange(8)]) + record[at + 1 :]


def flip_seal(self, record: bytes) -> bytes:
    at = 4 + self.rng.randrange(self.seal)
    return record[:at] + bytes([record[at] ^ 1 << self.rng.randrange(8)]) + record[at + 1 :]


def zero_end(self, record: bytes) -> bytes:
    """The last bytes: those of a gradient."""
    n = min(40, len(record) - 4 - self.seal)
    return record[:-n] + bytes(n) if any(record[-n:]) else flip(self, record)


def shorten(self, record: bytes) -> bytes:
    """Its last bytes are gone, and its length says so."""
    size = len(record) - 4 - self.seal
    n = self.rng.randint(1, max(1, size - 1))
    return with_check(max(1, size - n)) + record[4 : 4 + self.seal + max(1, size - n)]


def twice(self, record: bytes) -> bytes:
    return record + record


def again(self, record: bytes) -> bytes:
    """An older one in its place."""
    return self.last if self.last and self.last != record else record + record


def invent(self, record: bytes) -> bytes:
    """A goodbye that the trainer did not say, with the seal of somebody who has no key."""
    bye = ps.frame(ps.BYE, b"\1" + ps.text("invented"))
    return with_check(len(bye)) + self.rng.randbytes(self.seal) + bye + record


def invent_with_checksum(self, record: bytes) -> bytes:
    bye = ps.frame(ps.BYE, b"\0" + ps.text(""))
    return (Seal().records(bye) if self.seal == 4 else with_check(len(bye)) + Seal(bytes(32)).next(bye) + bye) + record


def flip_length(self, record: bytes) -> bytes:
    """The receiver must not wait for as many bytes as it says now."""
    at = self.rng.randrange(4)
    return record[:at] + bytes([record[at] ^ 1 << self.rng.randrange(8)]) + record[at + 1 :]


DAMAGE = [flip, flip, flip_seal, flip_length, flip_length, zero_end, shorten, twice]
ATTACK = [*DAMAGE, again, invent, invent_with_checksum]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    with Job(2, 2) as job:
        job.start_all(*OPTIONS, out=out)
        job.end(60)
    return dict(np.load(out / "trainer-0.npz"))


@pytest.mark.parametrize("secret", ["", SECRET], ids=["damage", "an attacker"])
@pytest.mark.parametrize("seed", range(3))
def test_changed_bytes_do_not_count(tmp_path, undisturbed, record_property, secret, seed):
    rng, left = random.Random(seed), [12]
    env = {"PADDLE_PS_TRANSPORT": "tcp", "FLAGS_ps_reconnect": "20000"} | ({"PADDLE_PS_SECRET": secret} if secret else {})

    def meddler():
        return Meddler(ATTACK if secret else DAMAGE, rng, 16 if secret else 4, left, 20)

    with Job(2, 2, env=env) as job, FaultProxy(job.endpoints, seed, QUIET, meddler=meddler) as proxy:
        for i in range(2):
            job.start("server", i, *OPTIONS)
        for i in range(2):
            job.start("trainer", i, *OPTIONS, "--out", str(tmp_path / f"trainer-{i}.npz"), env={"PADDLE_PS_MAP": proxy.map})
        job.end(60)
        found = sum(p.output().count("are not what was sent") for p in job.processes)
    assert left[0] == 0
    assert found >= 6  # what is spoilt while a connection ends for another is not seen
    record_property("spoilt records that were found", found)
    got = dict(np.load(tmp_path / "trainer-0.npz"))
    for key, value in undisturbed.items():
        np.testing.assert_allclose(got[key], value, rtol=1e-5, atol=1e-6, err_msg=key)


SMALL = ["--model", "fit_a_line", "--optimizer", "momentum", "--steps", "200"]


class Greeting:
    """One direction of a connection: spoils a message of its handshake, or lets that through and a few records behind it."""

    def __init__(self, rng: random.Random, number: int, seal: int, is_quiet: bool):
        self.rng, self.seal, self.is_quiet = rng, seal, is_quiet
        connection, direction = divmod(number, 2)
        self.spoils = connection % 2 == 0 and direction == connection // 2 % 2
        self.message = connection // 4 % 2  # which of the two that this direction has
        self.ends = connection % 2 == 1 and direction == 0
        self.n = 0

    def __call__(self, data: bytes) -> bytes:
        if self.is_quiet:
            return data
        self.n += 1
        if self.spoils and self.n == self.message + 1:
            at = self.rng.choice([*range(12), *range(24, len(data))])
            return data[:at] + bytes([data[at] ^ 1 << self.rng.randrange(8)]) + data[at + 1 :]
        return data if not self.ends or self.n < 12 else data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize("secret", ["", SECRET], ids=["damage", "an attacker"])
@pytest.mark.parametrize("seed", range(2))
def test_a_handshake_that_is_changed_costs_one_connection(tmp_path, record_property, secret, seed):
    """Every second one is: of them none in a row. A wrong id, job or secret would be refused for good."""
    rng, numbers = random.Random(seed), itertools.count()
    env = {"PADDLE_PS_TRANSPORT": "tcp", "FLAGS_ps_reconnect": "20000",
           "FLAGS_ps_loops": "1"} | ({"PADDLE_PS_SECRET": secret} if secret else {})
    results = []
    for is_quiet in (True, False):
        with (Job(1, 1, env=env) as job,
              FaultProxy(job.endpoints, seed, QUIET,
                         meddler=lambda: Greeting(rng, next(numbers), 16 if secret else 4, is_quiet)) as proxy):
            job.start("server", 0, *SMALL)
            job.start("trainer", 0, *SMALL, "--out", str(tmp_path / "trainer.npz"), env={"PADDLE_PS_MAP": proxy.map})
            job.end(60)
        results.append(dict(np.load(tmp_path / "trainer.npz")))
        numbers, first = itertools.count(), numbers
    assert next(numbers) == 0 and next(first) > 60  # connections, twice
    for key, value in results[0].items():
        np.testing.assert_array_equal(results[1][key], value, err_msg=key)


def test_a_bit_of_any_byte_of_hello_is_found():
    """Nothing of it is believed: no id, no number of trainers, no incarnation."""
    with Job(1, 1) as job:
        server = job.start("server", 0, *SMALL)
        server.wait_for("Server listening on")
        whole = ps.frame(ps.HELLO, ps.hello(0))
        for at in [*range(12), *range(24, len(whole))]:  # what is between is sizes: the server waits for more
            with ps.Peer(job.endpoints[0]) as peer:
                peer.send_raw(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
                said = peer.drain()
            assert [frame.type for frame in said] == ([ps.REFUSED] if at in (4, 5) else []), at  # another version is told
        with ps.Peer(job.endpoints[0]) as peer:
            assert peer.greet(0).type == ps.WELCOME
