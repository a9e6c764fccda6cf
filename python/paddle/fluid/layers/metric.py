"""The path of `metric_op` until 0.13."""

from paddle.fluid.layers import homes

__getattr__ = homes.served(__name__)
