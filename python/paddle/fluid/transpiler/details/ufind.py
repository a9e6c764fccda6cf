"""UnionFind: groups of things that were joined pair by pair."""

from __future__ import annotations

from typing import Hashable, Iterable


class UnionFind:
    """Each element begins as a group of its own.

    >>> groups = UnionFind(["a", "b", "c"])
    >>> groups.union("a", "b")
    >>> groups.is_connected("a", "b"), groups.is_connected("a", "c")
    (True, False)
    """

    def __init__(self, elementes: Iterable[Hashable] | None = None):
        self._above = {each: each for each in elementes or ()}

    def find(self, x: Hashable):
        """The element that stands for the group of x; None for what is no element."""
        if x not in self._above:
            return None
        while self._above[x] != x:
            self._above[x] = x = self._above[self._above[x]]
        return x

    def union(self, x: Hashable, y: Hashable) -> None:
        """Makes the groups of both one."""
        first, second = self.find(x), self.find(y)
        if first is None or second is None:
            raise KeyError(f"{x if first is None else y!r} is no element of this UnionFind.")
        self._above[second] = first

    def is_connected(self, x: Hashable, y: Hashable) -> bool:
        """Are both in one group?"""
        return self.find(x) == self.find(y)
