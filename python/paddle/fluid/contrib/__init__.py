"""fluid.contrib: so far the Trainer and the Inferencer, which were here from v1.0 to v1.5."""

from __future__ import annotations

import importlib
from typing import Any

from paddle import absent

__all__ = ["trainer", "inferencer"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"paddle.fluid.contrib.{name}")
    absent.refuse(__name__, name)
