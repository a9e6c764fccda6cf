"""fluid.contrib: so far memory_usage, some layers (contrib.layers), the reader of one trainer's batches (contrib.reader), files on
HDFS (contrib.utils), and the Trainer and the Inferencer, which were here from v1.0 to v1.5.
"""

from __future__ import annotations

import importlib
from typing import Any

from paddle import absent

_HOMES = {
    "memory_usage": "memory_usage_calc",
    "ctr_metric_bundle": "layers",
    "fused_embedding_seq_pool": "layers",
    "distributed_batch_reader": "reader",
    "HDFSClient": "utils",
    "multi_download": "utils",
    "multi_upload": "utils",
}
__all__ = ["layers", "reader", "utils", "trainer", "inferencer", "memory_usage_calc", *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"paddle.fluid.contrib.{_HOMES[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"paddle.fluid.contrib.{name}")
    absent.refuse(__name__, name)
