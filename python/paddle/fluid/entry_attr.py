"""Which ids of a sparse table get a row (2.0's names): all of them, those that come often enough, or some by chance."""

from __future__ import annotations

__all__ = ["ProbabilityEntry", "CountFilterEntry"]


class EntryAttr:
    """What layers.sparse_embedding takes as `entry`. `settings`: what servers are told (docs/TABLES.md)."""

    settings: dict = {}

    def _to_attr(self) -> str:
        return "none"


class ProbabilityEntry(EntryAttr):
    """An id without a row gets one with this chance, each time that it is trained.

    Args:
        probability: between 0 and 1.
    """

    def __init__(self, probability: float):
        if not isinstance(probability, float) or not 0 < probability < 1:
            raise ValueError(f"probability is {probability!r}; it must be a float between 0 and 1.")
        self._probability = probability
        self.settings = {"chance": repr(probability)}

    def _to_attr(self) -> str:
        return f"probability_entry:{self._probability}"


class CountFilterEntry(EntryAttr):
    """An id gets a row in the step that is its count_filter-th; until then its gradients are dropped.

    Args:
        count_filter: a number of steps, 1 at least.
    """

    def __init__(self, count_filter: int):
        if not isinstance(count_filter, int) or isinstance(count_filter, bool) or count_filter < 1:
            raise ValueError(f"count_filter is {count_filter!r}; it must be a whole number, 1 at least.")
        self._count_filter = count_filter
        self.settings = {"count": str(count_filter)}

    def _to_attr(self) -> str:
        return f"count_filter_entry:{self._count_filter}"
