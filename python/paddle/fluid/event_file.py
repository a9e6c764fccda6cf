"""TensorBoard's event files, as far as scalars go: records with masked checksums around messages of protobuf.

A record is the length (u64, little-endian), its checksum, the bytes, their checksum; a checksum is crc32c, turned and shifted by a
constant so that one of bytes that hold checksums is no worse.
"""

from __future__ import annotations

import atexit
import itertools
import os
import socket
import struct
import threading
import time
from pathlib import Path

from paddle import _core

FLUSH_SECONDS = 1.0
_numbers = itertools.count()


def masked_crc(data: bytes) -> int:
    """The checksum of a record's length or bytes."""
    crc = _core.checksum(0, data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _varint(number: int) -> bytes:
    found = bytearray()
    number &= (1 << 64) - 1
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _bytes(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _event(when: float, step: int, rest: bytes) -> bytes:
    """Event: wall_time = 1, step = 2, and what it is of."""
    return b"\x09" + struct.pack("<d", when) + b"\x10" + _varint(step) + rest


class EventFile:
    """A new file in `folder`, which is made; any thread may write. What was not flushed, FLUSH_SECONDS at most, is lost
    when the process is killed."""

    def __init__(self, folder: str):
        os.makedirs(folder, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        self.path = Path(folder, name)
        self.lock = threading.Lock()
        self.flushed, self.pid, self.pending = 0.0, os.getpid(), bytearray()
        self.file = open(self.path, "xb", buffering=0)
        self._write(_event(time.time(), 0, _bytes(3, b"brain.Event:2")))
        self._flush()
        atexit.register(self.flush)

    def _write(self, event: bytes) -> None:
        length = struct.pack("<Q", len(event))
        self.pending += length + struct.pack("<I", masked_crc(length)) + event + struct.pack("<I", masked_crc(event))

    def _flush(self) -> None:
        if self.pid == os.getpid():  # a forked child has the same file
            while self.pending:
                del self.pending[:self.file.write(self.pending)]
            self.flushed = time.monotonic()

    def add(self, step: int, scalars: dict[str, float]) -> None:
        """One event: Summary = 5 with values, of which tag = 1 and simple_value = 2."""
        values = b"".join(_bytes(1, _bytes(1, tag.encode()) + b"\x15" + struct.pack("<f", min(max(value, -3e38), 3e38)))
                          for tag, value in scalars.items())
        with self.lock:
            self._write(_event(time.time(), step, _bytes(5, values)))
            if time.monotonic() - self.flushed >= FLUSH_SECONDS:
                self._flush()

    def flush(self) -> None:
        with self.lock:
            self._flush()
