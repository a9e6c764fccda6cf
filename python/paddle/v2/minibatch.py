"""paddle.v2.minibatch: where scripts of v2 find batch."""

from paddle.batch import batch

__all__ = ["batch"]
