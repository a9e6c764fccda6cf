"""fluid.distributed_splitter of v0.11.1 and v0.12: ways to choose servers, as functions for split_method.

Since v0.13 they are the classes RoundRobin and HashName, which do the work here too.
"""

from __future__ import annotations

from typing import Sequence

from paddle.fluid.transpiler.ps_dispatcher import HashName, RoundRobin


def hash_name(varlist: Sequence, pserver_endpoints: Sequence[str]) -> list[str]:
    """By a hash of the name, which is the same in every process and on every machine."""
    return HashName(pserver_endpoints).dispatch(varlist)


def round_robin(varlist: Sequence, pserver_endpoints: Sequence[str]) -> list[str]:
    """One after the other, in turn.

    >>> round_robin(["x", "y", "z"], ["a:1", "b:2"])
    ['a:1', 'b:2', 'a:1']
    """
    return RoundRobin(pserver_endpoints).dispatch(varlist)
