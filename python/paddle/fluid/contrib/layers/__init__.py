"""fluid.contrib.layers: so far sparse_embedding."""

from __future__ import annotations

from typing import Any

from paddle import absent
from paddle.fluid.contrib.layers.nn import sparse_embedding

__all__ = ["sparse_embedding"]


def __getattr__(name: str) -> Any:
    absent.refuse(__name__, name)
