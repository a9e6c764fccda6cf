"""fluid.contrib: so far the Trainer and the Inferencer, which were here from v1.0 to v1.5."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["trainer", "inferencer"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"paddle.fluid.contrib.{name}")
    if name.startswith("__"):
        raise AttributeError(f"module 'paddle.fluid.contrib' has no attribute {name!r}")
    raise AttributeError(f"fluid.contrib.{name} is not there yet in this package.")
