"""paddle.v2: the data side of v2 (batch, reader, dataset, image) under its old name.

>>> import paddle.v2 as paddle
>>> list(paddle.batch(lambda: range(3), 2)())
[[0, 1], [2]]
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["batch", "minibatch", "reader", "dataset", "image"]


def __getattr__(name: str) -> Any:
    if name == "batch":
        return importlib.import_module("paddle.v2.minibatch").batch
    if name == "image":
        return importlib.import_module("paddle.dataset.image")
    if name in __all__:
        return importlib.import_module(f"paddle.v2.{name}")
    if name.startswith("__"):
        raise AttributeError(f"module 'paddle.v2' has no attribute '{name}'")
    raise AttributeError(
        f"paddle.v2.{name} is not there: the v2 layer API is not there yet. "
        f"paddle.v2 has {', '.join(__all__)}."
    )


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
