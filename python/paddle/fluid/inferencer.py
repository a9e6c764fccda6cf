"""fluid.inferencer of v0.13 and v0.14; it is in fluid.contrib since v1.0."""

from paddle.fluid.contrib.inferencer import Inferencer

__all__ = ["Inferencer"]
