"""paddle.utils: small helpers of scripts; so far the plots of the book."""

from __future__ import annotations

import importlib
from typing import Any

from paddle import absent

__all__ = ["plot"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"paddle.utils.{name}")
    absent.refuse(__name__, name)
