"""paddle.reader: functions that make, join and change readers.

A reader is a function without arguments that returns an iterable of samples. The names below are
loaded at first use, so that importing the package costs nothing.

>>> list(paddle.reader.firstn(lambda: range(10), 3)())
[0, 1, 2]
"""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {
    "cache": "decorator",
    "map_readers": "decorator",
    "buffered": "threaded",
    "compose": "decorator",
    "chain": "decorator",
    "shuffle": "decorator",
    "ComposeNotAligned": "decorator",
    "firstn": "decorator",
    "xmap_readers": "threaded",
    "multiprocess_reader": "process",
    "PipeReader": "process",
    "pipe_reader": "process",
    "Fake": "decorator",
}

__all__ = [*_WHERE, "creator"]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(importlib.import_module(f"{__name__}.{_WHERE[name]}"), name)
        globals()[name] = value
        return value
    if name in ("creator", "decorator"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module 'paddle.reader' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "decorator"})
