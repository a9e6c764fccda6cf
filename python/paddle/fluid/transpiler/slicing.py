"""Slices: which rows of a parameter lie on which server, and what a slice and its gradient are called."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from paddle.fluid.log_helper import notice
from paddle.fluid.transpiler.ps_dispatcher import BalancedBytes, PSDispatcher
from paddle.fluid.vartype import VarType

_SIZES = {
    VarType.FP64: 8,
    VarType.INT64: 8,
    VarType.FP16: 2,
    VarType.INT16: 2,
    VarType.BOOL: 1,
    VarType.INT8: 1,
    VarType.UINT8: 1,
}


def block_rows(shape, count: int, smallest: int) -> list[int]:
    """The rows of each slice of a variable: at most `count` slices of about `smallest` elements or more."""
    rows = int(shape[0])
    if not rows:
        return [0]
    width = math.prod(shape[1:]) or 1
    elements = rows * width
    parts = min(count, max(1, elements // smallest))
    each = math.ceil(math.ceil(elements / parts) / width)
    return [min(each, rows - begin) for begin in range(0, rows, each)]


class VarBlock:
    """A slice as text, NAME:NUMBER:ELEMENTS; scripts that plan their own placement use it."""

    def __init__(self, varname: str, offset: int, size: int):
        self.varname = varname
        self.offset = offset
        self.size = size

    def __str__(self) -> str:
        return f"{self.varname}:{self.offset}:{self.size}"


def slice_variable(var_list, slice_count: int, min_block_size: int) -> list[str]:
    """The slices of all variables, each as NAME:NUMBER:ELEMENTS.

    >>> slice_variable([w], 2, 8192)          # w: [1000, 1000]        # doctest: +SKIP
    ['w:0:500000', 'w:1:500000']
    """
    found = []
    for var in var_list:
        width = math.prod(var.shape[1:])
        for number, rows in enumerate(block_rows(var.shape, slice_count, min_block_size)):
            found.append(str(VarBlock(var.name, number, rows * width)))
    return found


@dataclass(eq=False)
class Slice:
    """Rows [begin, begin + rows) of a parameter, and the same rows of its gradient."""

    param: str
    grad: str
    number: int | None  # None: the parameter is whole
    begin: int
    shape: tuple
    dtype: object
    endpoint: str = ""

    @property
    def name(self) -> str:
        """The slice's name on its server."""
        return self.of(self.param)

    @property
    def grad_name(self) -> str:
        """The name of its gradient, averaged over trainers."""
        return self.of(self.grad)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * _SIZES.get(self.dtype, 4)

    def of(self, name: str) -> str:
        """The name that the slice of another variable of the same rows has."""
        return name if self.number is None else f"{name}.block{self.number}"

    def cut(self, shape) -> tuple:
        """The shape of that slice."""
        return (self.shape[0], *shape[1:])


@dataclass(eq=False)
class Placement:
    """All slices and where they are."""

    endpoints: list
    slices: list

    def __post_init__(self):
        self._by_param: dict = {}
        for each in self.slices:
            self._by_param.setdefault(each.param, []).append(each)

    def of_param(self, name: str) -> list:
        """The slices of a parameter, in the order of its rows."""
        return self._by_param[name]

    def on(self, endpoint: str) -> list:
        """The slices on a server."""
        return [each for each in self.slices if each.endpoint == endpoint]

    def mark(self, table: str | None) -> str:
        """A number for where all slices, and the distributed table, lie: another one when servers hold other rows."""
        number = {endpoint: i for i, endpoint in enumerate(self.endpoints)}
        texts = sorted(f"{each.name} {each.begin} {each.shape[0]} on {number[each.endpoint]}" for each in self.slices)
        return hashlib.sha256("\n".join([*texts, f"table {table}"]).encode()).hexdigest()[:16]

    def summary(self) -> str:
        """What each server gets, as lines of text."""
        lines = []
        for endpoint in self.endpoints:
            here = self.on(endpoint)
            size = sum(each.nbytes for each in here)
            lines.append(
                f"{endpoint}: {size} bytes in {len(here)} slices: "
                f"{', '.join(each.name for each in here) or '-'}"
            )
        return "\n".join(lines)


def place(updates, endpoints: list, config) -> Placement:
    """Cuts the parameters of all updates and asks the dispatcher where the slices go."""
    slices = []
    for update in updates:
        count = len(endpoints) if config.slice_var_up and update.sliceable else 1
        param = update.param
        parts = block_rows(param.shape, count, config.min_block_size)
        begin = 0
        for number, rows in enumerate(parts):
            slices.append(
                Slice(
                    param=param.name,
                    grad=update.grad,
                    number=number if len(parts) > 1 else None,
                    begin=begin,
                    shape=(rows, *param.shape[1:]),
                    dtype=param.dtype,
                )
            )
            begin += rows
    chosen = _dispatch(config.split_method, slices, endpoints)
    for each, endpoint in zip(slices, chosen):
        each.endpoint = endpoint
    found = Placement(endpoints, slices)
    idle = [endpoint for endpoint in endpoints if not found.on(endpoint)]
    if idle and slices:
        notice(f"no parameter goes to {', '.join(idle)}; a job of this size needs fewer servers.")
    return found


def _dispatch(split, slices: list, endpoints: list) -> list:
    if split is None:
        return BalancedBytes(endpoints).dispatch(slices)
    if isinstance(split, type) and issubclass(split, PSDispatcher):
        chosen = split(endpoints).dispatch(slices)
    else:  # v0.12: a function of the variables and the endpoints
        chosen = split(slices, endpoints)
    chosen = list(chosen)
    if len(chosen) != len(slices):
        raise ValueError(
            f"split_method gave {len(chosen)} endpoints for {len(slices)} variables; give one for each."
        )
    for each in chosen:
        if each not in endpoints:
            raise ValueError(f"split_method gave the endpoint {each!r}, which is not among {endpoints}.")
    return chosen
