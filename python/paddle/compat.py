"""paddle.compat: text, bytes and number helpers that scripts for both Python 2 and 3 call."""

from __future__ import annotations

import math
from typing import Any, Callable

__all__ = ["long_type", "to_text", "to_bytes", "round", "floor_division", "get_exception_message"]

int_type = int
long_type = int


def to_text(obj: Any, encoding: str = "utf-8", inplace: bool = False) -> Any:
    """Turn bytes into str: alone, or in a list, a set or a dict (keys and values).

    Everything else is returned as it is. `inplace=True` changes the container that was given.

    >>> to_text([b"a", "b"])
    ['a', 'b']
    """

    def one(item: Any) -> Any:
        return item.decode(encoding) if isinstance(item, bytes) else item

    if isinstance(obj, dict):
        fresh: Any = {one(key): one(value) for key, value in obj.items()}
        if not inplace:
            return fresh
        obj.clear()
        obj.update(fresh)
        return obj
    return _each(obj, one, inplace)


def to_bytes(obj: Any, encoding: str = "utf-8", inplace: bool = False) -> Any:
    """Turn str into bytes: alone, or in a list or a set. None stays None.

    >>> to_bytes("a")
    b'a'
    """

    def one(item: Any) -> Any:
        if item is None or isinstance(item, bytes):
            return item
        if isinstance(item, str):
            return item.encode(encoding)
        raise TypeError(f"paddle.compat.to_bytes: wants str or bytes, got {type(item).__name__} ({item!r}).")

    return _each(obj, one, inplace)


def _each(obj: Any, one: Callable[[Any], Any], inplace: bool) -> Any:
    if isinstance(obj, list):
        fresh = [one(item) for item in obj]
        if not inplace:
            return fresh
        obj[:] = fresh
        return obj
    if isinstance(obj, set):
        fresh_set = {one(item) for item in obj}
        if not inplace:
            return fresh_set
        obj.clear()
        obj.update(fresh_set)
        return obj
    return one(obj)


def round(x: float, d: int = 0) -> float:
    """Round to `d` decimals; halves go away from zero, as in Python 2.

    >>> round(0.5), round(-2.5)
    (1.0, -3.0)
    """
    scale = 10**d
    return math.copysign(math.floor(abs(x) * scale + 0.5) / scale, x)


def floor_division(x: float, y: float) -> float:
    """Return x // y."""
    return x // y


def get_exception_message(exc: BaseException) -> str:
    """Return the text of an exception."""
    if exc is None:
        raise AssertionError("paddle.compat.get_exception_message: wants an exception, got None.")
    return str(exc)
