"""The records of the servers' protocol (docs/PROTOCOL.md) in Python: lengths and seals, checksums or with a key."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import hashlib
import struct

import numpy as np

MOST = 131072


# ---- CRC-32C ----


def _table() -> np.ndarray:
    found = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        found.append(value)
    return np.array(found, np.uint32)


_TABLE = _table()
_LIST = [int(value) for value in _TABLE]
_WIDTH = 1024


def _plain(crc: int, data: bytes) -> int:
    for byte in data:
        crc = _LIST[(crc ^ byte) & 255] ^ crc >> 8
    return crc


@functools.cache
def _over() -> list[list[int]]:
    """What _WIDTH zero bytes make of each byte of a remainder."""
    zeros = bytes(_WIDTH)
    bits = [_plain(1 << i, zeros) for i in range(32)]
    return [[functools.reduce(lambda a, i: a ^ (bits[8 * k + i] if value >> i & 1 else 0), range(8), 0)
             for value in range(256)] for k in range(4)]


def crc32c(start: int, data: bytes) -> int:
    """Of `data`, behind bytes whose checksum is `start`. Long ones go through numpy, many pieces side by side."""
    crc = ~start & 0xFFFFFFFF
    lanes = len(data) // _WIDTH
    if lanes > 4:
        pieces = np.frombuffer(data, np.uint8, lanes * _WIDTH).reshape(lanes, _WIDTH).T.astype(np.uint32)
        state = np.zeros(lanes, np.uint32)
        for column in pieces:
            state = _TABLE[(state ^ column) & 255] ^ state >> 8
        over = _over()
        for piece in state.tolist():
            crc = over[0][crc & 255] ^ over[1][crc >> 8 & 255] ^ over[2][crc >> 16 & 255] ^ over[3][crc >> 24] ^ piece
        data = data[lanes * _WIDTH :]
    return ~_plain(crc, data) & 0xFFFFFFFF


# ---- lengths ----


def with_check(n: int) -> bytes:
    """A length as it travels: 18 bits, and 14 of its checksum."""
    return struct.pack("<I", n | (crc32c(0, struct.pack("<I", n)) << 18 & 0xFFFFFFFF))


def length_in(head: bytes) -> int:
    n = struct.unpack_from("<I", head)[0] & 0x3FFFF
    assert head[:4] == with_check(n), "the check of a record's length is wrong"
    return n


# ---- Poly1305, with keys from AES-256 in counter mode ----


@functools.cache
def _crypto() -> ctypes.CDLL:
    lib = ctypes.CDLL(ctypes.util.find_library("crypto"))
    for name in ("EVP_CIPHER_CTX_new", "EVP_aes_256_ctr"):
        getattr(lib, name).restype = ctypes.c_void_p
    return lib


def key_stream(key: bytes, n: int) -> bytes:
    """The first n bytes of AES-256 in counter mode."""
    lib = _crypto()
    context = ctypes.c_void_p(lib.EVP_CIPHER_CTX_new())
    out, got = ctypes.create_string_buffer(n), ctypes.c_int()
    lib.EVP_EncryptInit_ex(context, ctypes.c_void_p(lib.EVP_aes_256_ctr()), None, key, bytes(16))
    lib.EVP_EncryptUpdate(context, out, ctypes.byref(got), bytes(n), n)
    lib.EVP_CIPHER_CTX_free(context)
    return out.raw


def poly1305(key: bytes, data: bytes) -> bytes:
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    total = 0
    for at in range(0, len(data), 16):
        total = (total + int.from_bytes(data[at : at + 16] + b"\1", "little")) * r % ((1 << 130) - 5)
    return (total + int.from_bytes(key[16:], "little") & (1 << 128) - 1).to_bytes(16, "little")


@functools.cache
def stretched(secret: bytes) -> bytes:
    """The key of a secret."""
    return hashlib.scrypt(secret, salt=b"cpaddle secret", n=1 << 14, r=8, p=1, dklen=32)


class Seal:
    """One direction: the seals of its records, in order."""

    def __init__(self, key: bytes = b""):
        self.key, self.number = key, 0
        self.bytes = 16 if key else 4
        self.keys = b""

    def next(self, data: bytes) -> bytes:
        """Of the next record."""
        whole, number = data + with_check(len(data)), self.number
        self.number += 1
        if not self.key:
            return struct.pack("<I", crc32c(number & 0xFFFFFFFF, whole))
        if len(self.keys) < 32 * self.number:
            self.keys = key_stream(self.key, 64 * self.number)
        return poly1305(self.keys[32 * number : 32 * self.number], whole)

    def records(self, data: bytes) -> bytes:
        """Data in records."""
        out = []
        for at in range(0, len(data), MOST):
            piece = data[at : at + MOST]
            out.append(with_check(len(piece)) + self.next(piece) + piece)
        return b"".join(out)
