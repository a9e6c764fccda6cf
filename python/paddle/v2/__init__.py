"""paddle.v2: the data side of v2 (batch, reader, dataset, image), its plots, and fluid as v0.11 had it.

>>> import paddle.v2 as paddle
>>> list(paddle.batch(lambda: range(3), 2)())
[[0, 1], [2]]
"""

from __future__ import annotations

import importlib
from typing import Any

from paddle import absent

__all__ = ["batch", "minibatch", "reader", "dataset", "image", "plot", "fluid"]


def __getattr__(name: str) -> Any:
    if name == "batch":
        return importlib.import_module("paddle.v2.minibatch").batch
    if name in __all__:
        return importlib.import_module(f"paddle.v2.{name}")
    absent.refuse(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
