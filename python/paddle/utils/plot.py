"""Curves of a training run, as the book's scripts draw them: `from paddle.utils.plot import Ploter`."""

from __future__ import annotations

import os
import warnings

__all__ = ["PlotData", "Ploter"]


class PlotData:
    """The points of one curve."""

    def __init__(self) -> None:
        self.reset()

    def append(self, step: float, value: float) -> None:
        """Add one point."""
        self.step.append(step)
        self.value.append(value)

    def reset(self) -> None:
        """Forget all points."""
        self.step: list[float] = []
        self.value: list[float] = []


class Ploter:
    """Several curves in one picture. It needs matplotlib; with DISABLE_PLOT=True in the environment, or without
    matplotlib (then with a warning), points are kept and nothing is drawn.

    Args:
        *args (str): the titles of the curves.

    >>> curves = Ploter('Train cost', 'Test cost')
    >>> curves.append('Train cost', 0, 5.5)
    >>> curves.append('Train cost', 1, 3.25)
    >>> curves.__plot_data__['Train cost'].value
    [5.5, 3.25]
    """

    def __init__(self, *args: str) -> None:
        self.__args__ = args
        self.__plot_data__ = {title: PlotData() for title in args}
        self.__disable_plot__ = os.environ.get("DISABLE_PLOT")

    def append(self, title: str, step: float, value: float) -> None:
        """Add a point to a curve.

        Args:
            title: the curve, one of the titles given at first.
            step: where the point lies on the x axis.
            value: where it lies on the y axis; an array of one element will do.
        """
        if title not in self.__plot_data__:
            raise ValueError(f"Ploter: there is no curve {title!r}; the curves are {', '.join(map(repr, self.__args__))}.")
        self.__plot_data__[title].append(step, value)

    def plot(self, path: str | None = None) -> None:
        """Draw the curves.

        Args:
            path: the picture's file; without it the picture is shown, in a notebook below the cell.
        """
        pyplot = self._pyplot()
        if pyplot is None:
            return
        shown = [(title, data) for title, data in self.__plot_data__.items() if data.step]
        for _, data in shown:
            pyplot.plot(data.step, [float(value) for value in data.value])
        pyplot.legend([title for title, _ in shown], loc="upper left")
        if path is not None:
            pyplot.savefig(path)
        else:
            self._show(pyplot)
        pyplot.gcf().clear()

    def reset(self) -> None:
        """Forget all points."""
        for data in self.__plot_data__.values():
            data.reset()

    def __plot_is_disabled__(self) -> bool:
        return self.__disable_plot__ == "True"

    def _pyplot(self):
        if self.__plot_is_disabled__():
            return None
        try:
            import matplotlib.pyplot as pyplot
        except ImportError:
            warnings.warn("Ploter draws nothing: matplotlib is not installed. pip install 'cpaddle[scripts]' brings it.",
                          stacklevel=3)
            return None
        return pyplot

    @staticmethod
    def _show(pyplot) -> None:
        try:
            from IPython import display
        except ImportError:
            pyplot.show(block=False)
            return
        display.clear_output(wait=True)
        display.display(pyplot.gcf())
