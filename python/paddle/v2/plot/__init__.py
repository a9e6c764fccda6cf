"""paddle.v2.plot: paddle.utils.plot under its old name."""

from paddle.utils.plot import Ploter

__all__ = ["Ploter"]
