"""Speaks the servers' protocol (docs/PROTOCOL.md) from Python: honest enough to be let in, free to send anything after that."""

from __future__ import annotations

import hmac
import os
import random
import socket
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from ps_seal import Seal, crc32c, length_in, stretched

HELLO, CHALLENGE, PROOF, WELCOME, REFUSED = 1, 2, 3, 4, 5
OPEN, PUSH, PULL, ROWS, BYE, BEAT, SAVE, STATUS, SUM, ORDER, WANT, READY, PROGRAM = range(16, 29)
OPENED, VALUES, DONE, FAILED, NOTICE, REPORT, SUMMED = range(32, 39)
HERE, KEPT, AWAITED = 42, 43, 48
MEET, MET = 46, 47
TRAINER, SERVER, TOOL = 1, 2, 3
END = 1  # flag of PUSH
PLACE = 1  # flag of SAVE
BARRIER = 1  # flag of MEET
NOT_MINE = 0xFFFFFFFF
HEAD = struct.Struct("<4sHHHHIQQQQ")


class Gone(Exception):
    """The server has hung up."""


@dataclass
class Frame:
    type: int
    flags: int
    request: int
    step: int
    meta: bytes
    payload: bytes

    def text(self) -> str:
        """Of REFUSED and NOTICE; of FAILED, behind its status."""
        return self.meta[6 if self.type == FAILED else 2 :].decode(errors="replace")


def book_line(text: str) -> str:
    """A line of the file `trainers`, which tells who has ended."""
    return f"{text} ={crc32c(0, text.encode()):08x}\n"


def head(type: int, meta: int = 0, payload: int = 0, flags: int = 0, request: int = 0, step: int = 0,
         extra: int = 0, version: int = 3) -> bytes:
    return HEAD.pack(b"CPDL", version, type, flags, 0, meta, payload, request, step, extra)


def frame(type: int, meta: bytes = b"", payload: bytes = b"", **more) -> bytes:
    """A message; one of the handshake has its checksum."""
    if type < OPEN and "step" not in more:
        more["step"] = crc32c(0, head(type, len(meta), len(payload), **more) + meta)
    return head(type, len(meta), len(payload), **more) + meta + payload


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<H", len(raw)) + raw


def name(value: str, is_pull: bool = False, kind: int = 0, dtype: int = 0, dims: tuple[int, ...] = ()) -> bytes:
    """An entry of an OPEN."""
    return struct.pack("<B", is_pull) + text(value) + struct.pack(f"<BBB{len(dims)}q", kind, dtype & 0xFF, len(dims), *dims)


def opening(*entries: bytes) -> bytes:
    return struct.pack("<I", len(entries)) + b"".join(entries)


def parts(*triples: tuple[int, int, int], wishes: list[int] | None = None) -> bytes:
    """The meta of a PUSH: (unit, part, rows) each; with `wishes` it has to carry END."""
    meta = struct.pack("<I", len(triples)) + b"".join(struct.pack("<IIQ", *t) for t in triples)
    return meta if wishes is None else meta + numbers(wishes)


def numbers(values: list[int]) -> bytes:
    return struct.pack(f"<I{len(values)}I", len(values), *values)


def hello(id: int, incarnation: int = 0, role: int = TRAINER, loop: int = 0, job: str = "", version: int = 3,
          has_secret: bool = False) -> bytes:
    return (
        struct.pack("<HBBHiQII", version, role, 0, loop, id, incarnation or random.getrandbits(63) | 1, os.getpid(), 0)
        + text(job)
        + text("peer")
        + text("")
        + struct.pack("<BQ", has_secret, 0)
        + os.urandom(32)
    )


def derived(secret: bytes, label: str, hello_meta: bytes, challenge: bytes) -> bytes:
    transcript = text(label) + b"".join(struct.pack("<I", len(m)) + m for m in (hello_meta, challenge, b""))
    return hmac.digest(stretched(secret), transcript, "sha256")


def proof(secret: bytes, hello_meta: bytes, challenge: bytes) -> bytes:
    return b"\x20" + derived(secret, "cpaddle client", hello_meta, challenge) if secret else b"\0"


class Peer:
    """One connection. `greet` does the handshake."""

    def __init__(self, endpoint: str, deadline: float = 10):
        host, port = endpoint.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=deadline)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""  # of messages
        self.raw = b""  # of records
        self.seals: tuple[Seal, Seal] | None = None  # out and in; None: the handshake is not through

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *unused) -> None:
        self.socket.close()

    def send(self, data: bytes) -> bool:
        """Messages, in records once the handshake is through. False when the server does not listen any more."""
        return self.send_raw(self.seals[0].records(data) if self.seals else data)

    def send_raw(self, data: bytes) -> bool:
        """Bytes as they are."""
        try:
            self.socket.sendall(data)
            return True
        except (ConnectionError, TimeoutError):
            return False

    def _need(self, n: int) -> None:
        while len(self.buffer) < n:
            try:
                more = self.socket.recv(1 << 16)
            except ConnectionError as error:
                raise Gone(str(error)) from None
            if not more:
                raise Gone("closed")
            self.raw += more
            self._unseal()

    def _unseal(self) -> None:
        if self.seals is None:
            self.buffer, self.raw = self.buffer + self.raw, b""
            return
        seal = self.seals[1]
        while len(self.raw) >= 4 + seal.bytes:
            n = length_in(self.raw)
            head = 4 + seal.bytes
            if len(self.raw) < head + n:
                return
            data = self.raw[head : head + n]
            assert self.raw[4:head] == seal.next(data), "the server's seal is wrong"
            self.buffer, self.raw = self.buffer + data, self.raw[head + n :]

    def read(self) -> Frame:
        self._need(HEAD.size)
        magic, _, type, flags, _, meta, payload, request, step, _ = HEAD.unpack_from(self.buffer)
        assert magic == b"CPDL"
        self._need(HEAD.size + meta + payload)
        body = self.buffer[HEAD.size :]
        self.buffer = body[meta + payload :]
        return Frame(type, flags, request, step, body[:meta], body[meta : meta + payload])

    def announced(self) -> tuple[int, int]:
        """Type of the next frame, and size of its payload, which is not read."""
        self._need(HEAD.size)
        fields = HEAD.unpack_from(self.buffer)
        return fields[2], fields[6]

    def answer(self) -> Frame:
        """The next frame that is asked for."""
        while (got := self.read()).type in (NOTICE, KEPT, AWAITED):
            pass
        return got

    def drain(self) -> list[Frame]:
        """All that comes until the server hangs up."""
        got = []
        try:
            while True:
                got.append(self.read())
        except Gone:
            return got

    def greet(self, id: int, secret: bytes = b"", **more) -> Frame:
        """WELCOME, or REFUSED."""
        meta = hello(id, has_secret=bool(secret), **more)
        self.send(frame(HELLO, meta))
        got = self.read()
        if got.type != CHALLENGE:
            return got
        challenge = got.meta
        self.send(frame(PROOF, proof(secret, meta, challenge)))
        got = self.read()
        if got.type == WELCOME:
            keys = [derived(secret, f"cpaddle {who}'s seals", meta, challenge) if secret else b"" for who in ("client", "server")]
            self.seals = (Seal(keys[0]), Seal(keys[1]))
            self.raw, self.buffer = self.buffer, b""
            self._unseal()
        return got

    def open(self, *entries: bytes) -> Frame:
        self.send(frame(OPEN, opening(*entries), request=1))
        return self.answer()


def until_listening(endpoint: str, deadline: float = 20) -> None:
    end = time.monotonic() + deadline
    while True:
        try:
            Peer(endpoint).socket.close()
            return
        except OSError:
            assert time.monotonic() < end, f"nobody listens at {endpoint}"
            time.sleep(0.05)


def until_read(endpoint: str, deadline: float = 10) -> None:
    """Waits until the server has taken all that was sent to it out of its sockets, and answers again."""
    port, end = f":{int(endpoint.split(':')[1]):04X}", time.monotonic() + deadline
    while True:
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        unread = [row for row in rows if row[1].endswith(port) and row[3] == "01" and not row[4].endswith(":00000000")]
        if not unread:
            break
        assert time.monotonic() < end, f"{len(unread)} connections are not read"
        time.sleep(0.01)
    Peer(endpoint).greet(0)


def memory(pid: int, field: str = "VmHWM") -> int:
    """KiB of a process: VmHWM is the most it ever had, VmRSS what it has now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise LookupError(field)


def threads(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/task"))
