"""What workers give each other when they meet: plain values and arrays as bytes.

Bytes of other processes never become code here, so there is no pickle: JSON, with arrays beside it.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

MOST = 1 << 20  # bytes that a worker gives in one call, as servers take them
_PLAIN = "None, bool, int, float, str, bytes, list, tuple, set, dict and numpy arrays without objects"


def _array_bytes(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()


def _tell(value: Any, blobs: list[bytes]) -> Any:
    """The value as JSON has it: a list of a kind and what it is made of, for all that JSON itself would change."""
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if type(value) is float:
        return ["float", value.hex()]
    if isinstance(value, (bytes, bytearray)):
        blobs.append(bytes(value))
        return ["bytes", len(blobs) - 1]
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        blobs.append(_array_bytes(np.asarray(value)))
        return ["array" if isinstance(value, np.ndarray) else "scalar", len(blobs) - 1]
    if type(value) in (list, tuple, set, frozenset):
        return [type(value).__name__, [_tell(each, blobs) for each in value]]
    if type(value) is dict:
        return ["dict", [[_tell(key, blobs), _tell(each, blobs)] for key, each in value.items()]]
    raise TypeError(f"a {type(value).__name__} cannot be given to other workers; they take {_PLAIN}.")


_MAKERS: dict[str, Callable] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


def _made(told: Any, blobs: list[bytes]) -> Any:
    if not isinstance(told, list):
        return told
    kind, of = told
    if kind in _MAKERS:
        return _MAKERS[kind](_made(each, blobs) for each in of)
    if kind == "dict":
        return {_made(key, blobs): _made(each, blobs) for key, each in of}
    if kind == "float":
        return float.fromhex(of)
    if kind == "bytes":
        return blobs[of]
    array = np.load(io.BytesIO(blobs[of]), allow_pickle=False)
    return array if kind == "array" else array[()]


def pack(value: Any) -> bytes:
    """A value as bytes.

    >>> unpack(pack({"files": ["a", "b"], "loss": 0.1, "sizes": (1, 2)}))
    {'files': ['a', 'b'], 'loss': 0.1, 'sizes': (1, 2)}
    """
    blobs: list[bytes] = []
    text = json.dumps(_tell(value, blobs)).encode()
    parts = [text, *blobs]
    if 4 + 4 * len(parts) + sum(map(len, parts)) > MOST:
        raise ValueError(f"{4 + 4 * len(parts) + sum(map(len, parts))} bytes are too much for a meeting of workers: each gives "
                         f"{MOST} at most; give less, or in several calls.")
    return struct.pack(f"<I{len(parts)}I", len(parts), *map(len, parts)) + b"".join(parts)


def unpack(given: bytes) -> Any:
    """The value that pack() made bytes of."""
    (count,) = struct.unpack_from("<I", given)
    sizes = struct.unpack_from(f"<{count}I", given, 4)
    at, parts = 4 + 4 * count, []
    for size in sizes:
        parts.append(given[at : at + size])
        at += size
    return _made(json.loads(parts[0]), parts[1:])


def split(gathered: bytes) -> list[tuple[int, bytes]]:
    """(the worker's number, what it gave), of what a server gathered."""
    (count,) = struct.unpack_from("<I", gathered)
    at, found = 4 + 12 * count, []
    for i in range(count):
        number, size = struct.unpack_from("<IQ", gathered, 4 + 12 * i)
        found.append((number, gathered[at : at + size]))
        at += size
    return found
