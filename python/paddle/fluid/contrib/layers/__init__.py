"""fluid.contrib.layers: so far ctr_metric_bundle, fused_embedding_seq_pool and sparse_embedding."""

from __future__ import annotations

from typing import Any

from paddle import absent
from paddle.fluid.contrib.layers.metric_op import ctr_metric_bundle
from paddle.fluid.contrib.layers.nn import fused_embedding_seq_pool, sparse_embedding

__all__ = ["ctr_metric_bundle", "fused_embedding_seq_pool", "sparse_embedding"]


def __getattr__(name: str) -> Any:
    absent.refuse(__name__, name)
