"""How a Program is cut to run on several places.

1.8.5 runs each op on all places, in the Program's order, and sums a parameter's gradient over them right behind the op
that makes it. So do we, but what is the same on all places is computed once: the optimizer's ops, what they read, and
whatever is made from averaged gradients and updated parameters alone.

Segments alternate: even ones run on each place with its batch, odd ones once for all. An op stands in the first segment
of its kind that keeps the Program's order wherever two ops touch one variable; most Programs that train need two.
"""

from __future__ import annotations

from typing import NamedTuple

from paddle.fluid import core, protos
from paddle.fluid.framework import Program
from paddle.fluid.vartype import OpRole, VarType

_TALKS = int(OpRole.RPC) | int(OpRole.Dist)
_UPDATES = int(OpRole.Optimize) | int(OpRole.LRSched) | _TALKS
_MESSAGES = ""  # a variable that all messages write: they keep their order


class Segment(NamedTuple):
    """Ops that run together, on each place or once."""

    program: Program
    once: bool
    reads: list  # what comes from feeds and from segments before
    writes: frozenset
    averaged: frozenset  # gradients of parameters: behind the segment they are the sum over the places
    handed_on: list  # what later segments read


class Cut(NamedTuple):
    """A Program in segments."""

    segments: list
    own: list  # persistable variables that each place has a copy of
    single: frozenset  # persistable variables that change once for all
    last: dict  # name -> number of the segment that writes it last
    trains: bool


def cut(program: Program, divisor: int, apart: frozenset) -> Cut:
    """The segments of a Program, with the loss's gradient divided; remembered while it stays the same.

    Args:
        program: what shall run.
        divisor: gradients begin with 1 / divisor: the sum over all places is their average.
        apart: persistable variables that were fed a value of its own to each place.
    """
    kept = program.__dict__.setdefault("_cuts", {})
    found = kept.get((divisor, apart))
    if found is None or found[0] != program._changes:
        found = kept[divisor, apart] = program._changes, _cut(program, divisor, apart)
    return found[1]


# ---- ops ----


class _Op(NamedTuple):
    type: str
    role: int
    reads: set
    writes: set
    draws: bool  # gives other values each time it runs
    grads: list  # those that are averaged behind it


def _blocks(op) -> list:
    names = [name for name in op.attr_names if op.attr_type(name) == core.AttrType.BLOCK]
    return [block for block in map(op._block_attr, names) if block is not None]


def _walk(op):
    """An op and those in its blocks."""
    yield op
    for block in _blocks(op):
        for inner in block.ops:
            yield from _walk(inner)


def _written(op) -> list[str]:
    """The outputs of an op, but for statistics that it names and only uses."""
    if op.type == "batch_norm" and (op.attr("is_test") or op.attr("use_global_stats")):
        return [name for name in op.output_arg_names if name not in op.input_arg_names]
    return op.output_arg_names


def _ops(block, known: dict) -> list[_Op]:
    found, written = [], set()
    for op in block.ops:
        inside = list(_walk(op))
        reads = {name for each in inside for name in each.input_arg_names if name in known}
        writes = {name for each in inside for name in _written(each) if name in known}
        # Ops with blocks may leave their outputs as they were, and into arrays they put one entry.
        reads |= {
            name for name in writes
            if (name in written or known[name].persistable)
            and (len(inside) > 1 or known[name].type == VarType.LOD_TENSOR_ARRAY)
        }  # fmt: skip
        written |= writes
        role, grads = int(op.attr("op_role")), []
        if role & int(OpRole.Backward):
            pairs = op.attr("op_role_var")
            grads = [grad for param, grad in zip(pairs[::2], pairs[1::2]) if param in known and known[param].persistable]
        if role & _TALKS:
            writes.add(_MESSAGES)
        draws = any(each.type == "read" or "seed" in protos.attr_defaults(each.type) for each in inside)
        found.append(_Op(op.type, role, reads, writes, draws, grads))
    return found


# ---- segments ----


class _Order:
    """The segment of each op, when the persistable variables in `apart` have a value of its own on each place."""

    def __init__(self, ops: list[_Op], known: dict, apart: set):
        self.apart = apart
        self.grads = {grad for op in ops for grad in op.grads}
        self.kept = {name for name, var in known.items() if var.persistable} - self.grads
        self.alike: dict = {}  # name -> whether what was written last is the same on all places
        self.late: set = set()  # what was averaged, or made once
        self.written: dict = {}  # name -> the last segment so far that writes it
        self.read: dict = {}  # name -> the last segment so far that reads it
        self.numbers = [self._place(op, known) for op in ops]
        by_each = {name for op, number in zip(ops, self.numbers) if number % 2 == 0 for name in op.writes}
        by_all = {name for op, number in zip(ops, self.numbers) if number % 2 for name in op.writes}
        self.own = by_each & {name for name, var in known.items() if var.persistable}
        self.single = by_all & self.kept - by_each
        # A variable is either changed once for all or by each place.
        self.found_apart = {name for name in self.own - self.grads if not self.alike[name]} | (by_each & by_all & self.kept)

    def _is_alike(self, name: str) -> bool:
        return self.alike.get(name, name in self.kept and name not in self.apart)

    def _place(self, op: _Op, known: dict) -> int:
        other = [name for name in op.reads if not self._is_alike(name)]
        if op.role & _TALKS:
            once = True
            self._check_message(op, known, other)
        elif other or op.grads or op.writes & self.apart:
            once = False
        else:
            once = bool(op.role & _UPDATES) or (not op.draws and not op.reads.isdisjoint(self.late))
        before = [self.written.get(name, 0) for name in op.reads | op.writes] + [self.read.get(name, 0) for name in op.writes]
        number = max(before, default=0)
        number += (number % 2 == 1) != once
        for name in op.reads:
            self.read[name] = max(number, self.read.get(name, 0))
        alike = once or not (other or op.draws)
        for name in op.writes:
            self.written[name], self.alike[name] = number, alike
        self.late |= op.writes if once else set()
        for name in op.grads:
            self.written[name], self.alike[name] = number + 1, True
            self.late.add(name)
        return number

    def _check_message(self, op: _Op, known: dict, other: list) -> None:
        # Marks that no op writes have no value at all.
        bad = sorted(name for name in other if name in self.alike or name in self.kept or known[name].is_data)
        bad += sorted(op.writes & self.apart)
        if bad:
            raise core.UnsupportedError(
                f"The op {op.type!r}, which exchanges data with servers, uses {bad[0]!r}, of which each place has a value of "
                "its own: such a Program runs on one place only (CPU_NUM, or the argument places of with_data_parallel)."
            )


def _order(ops: list[_Op], known: dict, apart: frozenset) -> _Order:
    found = _Order(ops, known, set(apart))
    while not found.found_apart <= found.apart:
        found = _Order(ops, known, found.apart | found.found_apart)
    return found


def begins_gradients(op) -> bool:
    """Is it the op that makes the gradient of the loss?"""
    return op.type == "fill_constant" and int(op.attr("op_role")) == int(OpRole.Backward) | int(OpRole.Loss)


def _only(program: Program, numbers: list, number: int, divisor: int) -> Program:
    """A copy with the ops of one segment."""
    copy = program.clone()
    block = copy.global_block()
    copy._remove_parts([op for op, each in zip(block.ops, numbers) if each != number])
    for op in block.ops:
        if begins_gradients(op):
            op._put_attr("value", op.attr("value") / divisor)
    return copy


def _read_before_written(ops: list[_Op], kept: set) -> set:
    reads, written = set(), set()
    for op in ops:
        reads |= op.reads - written - kept
        written |= op.writes
    return reads


def _cut(program: Program, divisor: int, apart: frozenset) -> Cut:
    known = {var.name: var for var in program.global_block()._all_vars()}
    ops = _ops(program.global_block(), known)
    order = _order(ops, known, apart)
    trains = any(op.grads or op.role & _UPDATES for op in ops)
    segments, last, wanted = [], {}, set()
    used = sorted({0, *order.numbers})
    for i, number in reversed(list(enumerate(used))):
        mine = [op for op, each in zip(ops, order.numbers) if each == number]
        writes = frozenset().union(*(op.writes for op in mine)) - {_MESSAGES}
        handed_on = sorted((writes & wanted) - order.kept)
        for name in handed_on:
            if known[name].type not in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS):
                maker = next(op.type for op in mine if name in op.writes)
                raise core.UnsupportedError(
                    f"{name!r}, which the op {maker!r} makes, is read again by ops behind an update of parameters or a use of "
                    "gradients, and is no tensor: such a Program runs on one place only (CPU_NUM, or the argument places of "
                    "with_data_parallel)."
                )
        reads = _read_before_written(mine, order.kept)
        wanted |= reads
        averaged = frozenset(name for op in mine for name in op.grads)
        only = _only(program, order.numbers, number, divisor) if trains else program
        segments.insert(0, Segment(only, number % 2 == 1, sorted(reads), writes, averaged, handed_on))
        for name in writes:
            last.setdefault(name, i)
    own = sorted(name for name in order.own if known[name].type == VarType.LOD_TENSOR)
    return Cut(segments, own, frozenset(order.single), last, trains)
