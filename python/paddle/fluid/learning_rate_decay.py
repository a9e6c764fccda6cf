"""The learning-rate schedules under the module name that v0.11 to v0.13 scripts import."""

from paddle.fluid.layers.learning_rate_scheduler import (
    exponential_decay,
    inverse_time_decay,
    natural_exp_decay,
    noam_decay,
    piecewise_decay,
    polynomial_decay,
)

__all__ = [
    "exponential_decay",
    "natural_exp_decay",
    "inverse_time_decay",
    "polynomial_decay",
    "piecewise_decay",
    "noam_decay",
]
