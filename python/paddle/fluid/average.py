"""Running averages over fetched values. Plain Python: they add nothing to a Program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from paddle.fluid.metrics import is_number

if TYPE_CHECKING:
    from paddle.fluid.hints import ArrayLike

__all__ = ["WeightedAverage"]


class WeightedAverage:
    """sum(value * weight) / sum(weight) over all that was added since the last `reset`.

    >>> avg = fluid.average.WeightedAverage()
    >>> avg.add(value=2.0, weight=1)
    >>> avg.add(value=4.0, weight=2)
    >>> round(avg.eval(), 4)
    3.3333
    """

    def __init__(self):
        self.reset()

    def reset(self) -> None:
        """Forgets all values."""
        self.numerator = None
        self.denominator = None

    def add(self, value: float | ArrayLike, weight: float) -> None:
        """Adds a number or an array with its weight.

        Args:
            value: a number or an array.
            weight: its weight.
        """
        if not (is_number(value) or isinstance(value, np.ndarray)):
            raise ValueError(
                f"WeightedAverage.add: value must be a number or a numpy array, not {type(value).__name__}."
            )
        if not is_number(weight):
            raise ValueError(f"WeightedAverage.add: weight must be one number, not {type(weight).__name__}.")
        if self.numerator is None:
            self.numerator = value * weight
            self.denominator = weight
        else:
            self.numerator = self.numerator + value * weight
            self.denominator = self.denominator + weight

    def eval(self):
        """Returns the average of what was added."""
        if self.numerator is None:
            raise ValueError("WeightedAverage.eval: nothing was added yet. Call add(value, weight) first.")
        return self.numerator / self.denominator
