"""Which server gets which slice. A dispatcher is made with the endpoints and asked once for all slices."""

from __future__ import annotations

import zlib
from typing import Sequence


class PSDispatcher:
    """Base of all dispatchers. `dispatch` returns one endpoint for each of the variables (anything with a
    name).

    Args:
        pserver_endpoints: HOST:PORT of all servers.
    """

    def __init__(self, pserver_endpoints: Sequence[str]):
        self._eps = list(pserver_endpoints)
        self._step = 0

    @property
    def eps(self) -> list[str]:
        """The endpoints."""
        return self._eps

    def reset(self) -> None:
        """Starts again at the first endpoint."""
        self._step = 0

    def dispatch(self, varlist: Sequence) -> list[str]:
        """One endpoint for each variable.

        Args:
            varlist: the variables, or their names.

        Returns:
            an endpoint for each.
        """
        raise NotImplementedError(f"{type(self).__name__} must define dispatch(varlist).")


class RoundRobin(PSDispatcher):
    """One after the other, in turn.

    Args:
        pserver_endpoints: HOST:PORT of all servers.

    >>> fluid.transpiler.RoundRobin(["a:1", "b:2"]).dispatch(["x", "y", "z"])
    ['a:1', 'b:2', 'a:1']
    """

    def dispatch(self, varlist: Sequence) -> list[str]:
        found = []
        for _ in varlist:
            found.append(self._eps[self._step])
            self._step = (self._step + 1) % len(self._eps)
        return found


class HashName(PSDispatcher):
    """By a hash of the name, which is the same in every process and on every machine.

    Args:
        pserver_endpoints: HOST:PORT of all servers.
    """

    @staticmethod
    def _name(var) -> str:
        return var if isinstance(var, str) else var.name

    def dispatch(self, varlist: Sequence) -> list[str]:
        return [self._eps[zlib.crc32(self._name(var).encode()) % len(self._eps)] for var in varlist]


class BalancedBytes(PSDispatcher):
    """To the server that has the fewest bytes so far; among equals to the first. The default.

    Equal slices are dealt out in turn, as RoundRobin does. The slices are taken in their order, unless taking
    the largest first makes the fullest server more than 5% lighter.
    """

    _GAIN = 0.95

    def _fill(self, sizes: Sequence[int], order: Sequence[int]) -> tuple[list[int], int]:
        load = [0] * len(self._eps)
        place = [0] * len(sizes)
        for index in order:
            server = min(range(len(load)), key=load.__getitem__)
            place[index] = server
            load[server] += sizes[index]
        return place, max(load)

    def dispatch(self, varlist: Sequence) -> list[str]:
        sizes = [var.nbytes for var in varlist]
        if not sizes:
            return []
        order = range(len(sizes))
        place, most = self._fill(sizes, order)
        sorted_place, sorted_most = self._fill(sizes, sorted(order, key=lambda index: -sizes[index]))
        if sorted_most < self._GAIN * most:
            place = sorted_place
        return [self._eps[server] for server in place]
