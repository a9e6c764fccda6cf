"""fluid.contrib.reader: distributed_batch_reader."""

from __future__ import annotations

from typing import Any

from paddle import absent
from paddle.fluid.contrib.reader.distributed_reader import distributed_batch_reader

__all__ = ["distributed_batch_reader"]


def __getattr__(name: str) -> Any:
    absent.refuse(__name__, name)
