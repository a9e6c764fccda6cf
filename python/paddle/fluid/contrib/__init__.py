"""fluid.contrib: so far memory_usage, two layers (contrib.layers), and the Trainer and the Inferencer, which were here from v1.0
to v1.5.
"""

from __future__ import annotations

import importlib
from typing import Any

from paddle import absent

__all__ = ["layers", "trainer", "inferencer", "memory_usage_calc", "memory_usage", "fused_embedding_seq_pool"]


def __getattr__(name: str) -> Any:
    if name == "memory_usage":
        return importlib.import_module("paddle.fluid.contrib.memory_usage_calc").memory_usage
    if name == "fused_embedding_seq_pool":
        return importlib.import_module("paddle.fluid.contrib.layers").fused_embedding_seq_pool
    if name in __all__:
        return importlib.import_module(f"paddle.fluid.contrib.{name}")
    absent.refuse(__name__, name)
