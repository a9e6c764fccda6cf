"""Strangers at the doors of servers: bytes that no trainer of ours sends, from those who are let in and those who are not."""

from __future__ import annotations

import random
import struct
import threading

import ps_peer as ps

FAR = 1 << 62


def mutate(rng: random.Random, data: bytes) -> bytes:
    """A few bytes changed, cut off or put in."""
    raw = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        kind, at = rng.randrange(4), rng.randrange(len(raw) + 1)
        if kind == 0 and at < len(raw):
            raw[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(raw):
            raw[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif kind == 2:
            del raw[at : at + rng.randint(1, 8)]
        else:
            raw[at:at] = rng.randbytes(rng.randint(1, 8))
    return bytes(raw)


def strange_bytes(rng: random.Random) -> bytes:
    """From somebody who does not speak the protocol, or does not get through the handshake."""
    greeting = ps.hello(rng.randrange(-1, 4))
    return rng.choice(
        [
            lambda: rng.randbytes(rng.randint(1, 5000)),
            lambda: b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
            lambda: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(200),
            lambda: bytes(rng.randint(1, 70000)),
            lambda: ps.head(ps.HELLO)[: rng.randint(0, 47)],
            lambda: ps.head(ps.HELLO, meta=(4 << 20) - 1) + bytes(100),
            lambda: ps.head(ps.HELLO, meta=0xFFFFFFFF),
            lambda: ps.head(ps.HELLO, payload=FAR),
            lambda: ps.frame(ps.HELLO, greeting, version=99),
            lambda: mutate(rng, ps.frame(ps.HELLO, greeting)),
            lambda: ps.frame(ps.HELLO, mutate(rng, greeting)),
            lambda: ps.frame(ps.HELLO, greeting) * 2,
            lambda: ps.frame(ps.HELLO, greeting) + ps.frame(ps.PROOF, rng.randbytes(33)),
            lambda: ps.frame(ps.HELLO, greeting) + ps.frame(ps.PUSH, ps.parts(wishes=[0]), flags=ps.END, step=1),
            lambda: ps.frame(ps.PROOF, b"\0"),
            lambda: ps.frame(ps.WELCOME, rng.randbytes(90)),
            lambda: ps.frame(rng.randrange(50), rng.randbytes(rng.randint(0, 60)), rng.randbytes(rng.randint(0, 60))),
        ]
    )()


def stray_message(rng: random.Random) -> bytes:
    """From somebody who was welcomed, but has not opened: none of these may count."""
    step = rng.choice([0, 1, 2, 1000, FAR])
    return rng.choice(
        [
            lambda: ps.frame(ps.PUSH, ps.parts(wishes=[]), flags=ps.END, step=step),
            lambda: ps.frame(ps.PUSH, ps.parts((0, 0, 0)), rng.randbytes(52), step=step),
            lambda: ps.frame(ps.PULL, ps.numbers([0])),
            lambda: ps.frame(ps.ROWS, struct.pack("<IQ", 0, 1), bytes(8)),
            lambda: ps.frame(ps.BYE, b"\0" + ps.text("")),
            lambda: ps.frame(ps.BYE, b"\1" + ps.text("somebody else failed")),
            lambda: ps.frame(ps.SAVE, struct.pack("<IIIQ", 0, 0, 1, 0) + ps.text("no-such-folder")),
            lambda: ps.frame(ps.OPEN, ps.opening(ps.name(""))),
            lambda: ps.frame(ps.OPEN, ps.opening(ps.name("", is_pull=True))),
            lambda: ps.frame(ps.OPEN, ps.opening(ps.name("no such variable", is_pull=True))),
            lambda: ps.frame(ps.OPEN, struct.pack("<I", 0xFFFFFFFF)),
            lambda: ps.frame(ps.OPEN, rng.randbytes(40)),
            lambda: ps.frame(rng.randrange(16, 60), rng.randbytes(rng.randint(0, 60)), rng.randbytes(rng.randint(0, 60))),
            lambda: ps.head(ps.PUSH, meta=4 << 20, payload=FAR, step=1) + bytes(1000),
            lambda: ps.head(ps.ROWS, meta=12, payload=FAR) + struct.pack("<IQ", 0, FAR >> 3) + bytes(1000),
        ]
    )()


def hang_up(rng: random.Random, peer: ps.Peer) -> None:
    """In one of the ways connections end."""
    how = rng.randrange(4)
    if how == 0:
        peer.socket.shutdown(1)
        peer.socket.settimeout(3)
        try:
            peer.drain()
        except TimeoutError:
            raise AssertionError("the server keeps a connection that was ended") from None
    elif how == 1:
        peer.socket.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: a reset
    peer.socket.close()


def one_stranger(rng: random.Random, endpoint: str, secret: bytes, may_open: bool) -> None:
    peer = ps.Peer(endpoint)
    try:
        if rng.random() < 0.5:
            peer.send(strange_bytes(rng))
        else:
            role = rng.choice([ps.TRAINER, ps.TRAINER, ps.TRAINER, ps.TOOL, ps.SERVER])
            if peer.greet(rng.randrange(2), secret, role=role).type == ps.WELCOME:
                if may_open and role == ps.TRAINER and rng.random() < 0.2:
                    # Its place is taken, as long as that trainer is there.
                    assert peer.open().type == ps.FAILED
                for _ in range(rng.randint(1, 3)):
                    peer.send(stray_message(rng))
        hang_up(rng, peer)
    except (ps.Gone, OSError):
        peer.socket.close()


SECRET = "what the job knows and strangers do not"
NOBODY, OPEN, CLOSED = "alone", "strangers", "strangers, a secret"


def doors(who: str) -> dict[str, str]:
    """The environment of a job that has these at its doors."""
    return {"PADDLE_PS_SECRET": SECRET} if who == CLOSED else {}


class Crowd:
    """They come and go for as long as the block lasts, one after the other at each server, whether it is there or not; some stay
    and say nothing. They know no secret. None opens as a trainer should: in a job without a secret it would take the place of one
    that is away."""

    def __init__(self, who: str, endpoints: list[str], seed: int | str):
        self.endpoints, self.rng = endpoints, random.Random(seed)
        self.came = 0
        self.is_over = threading.Event()
        self.trouble: Exception | None = None
        self.thread = threading.Thread(target=self._run) if who != NOBODY else None
        self.silent: list[ps.Peer] = []

    def _one(self) -> None:
        endpoint = self.rng.choice(self.endpoints)
        try:
            if self.rng.random() < 0.1:
                peer = ps.Peer(endpoint)
                peer.send(ps.frame(ps.HELLO, ps.hello(0))[: self.rng.randrange(80)])
                self.silent.append(peer)
                if len(self.silent) > 20:
                    self.silent.pop(0).socket.close()
            else:
                one_stranger(self.rng, endpoint, self.rng.choice([b"", b"a guess at the secret"]), False)
            self.came += 1
        except OSError:
            self.is_over.wait(0.01)  # nobody listens: it has been killed

    def _run(self) -> None:
        try:
            while not self.is_over.is_set():
                self._one()
        except Exception as error:  # told when the block ends
            self.trouble = error

    def __enter__(self) -> Crowd:
        if self.thread:
            self.thread.start()
        return self

    def __exit__(self, kind, *unused) -> None:
        self.is_over.set()
        if self.thread:
            self.thread.join()
        for peer in self.silent:
            peer.socket.close()
        if self.trouble and not kind:
            raise self.trouble
