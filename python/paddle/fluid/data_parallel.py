"""Runs of a Program on several places, as CompiledProgram.with_data_parallel and ParallelExecutor ask for: each place has
a batch and its own statistics, the gradients of all are averaged, and the parameters are updated once.

The Program is cut in two. What computes (forward and backward) runs once for each place; what updates (the optimizer,
the learning rate, messages to servers) runs once, fed with the averages. All places are this machine's processor, so
they run one after the other, with all threads inside the ops.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from paddle.fluid import core
from paddle.fluid.compiler import BuildStrategy, join_values
from paddle.fluid.framework import Program
from paddle.fluid.vartype import OpRole, VarType

_UPDATES = int(OpRole.Optimize) | int(OpRole.RPC) | int(OpRole.Dist) | int(OpRole.LRSched)


class Halves(NamedTuple):
    """A Program cut in two, and what goes from one half to the other."""

    compute: Program
    update: Program | None
    averaged: list  # gradients of parameters, which the places share
    carried: list  # what else the update reads: the first place's
    own: list  # persistable variables that computing changes: each place has its own
    updated: frozenset  # what the update writes
    trains: bool


def _names(op, side: str) -> set:
    """Names that an op reads or writes, with those in its blocks."""
    found = set(getattr(op, f"{side}_arg_names"))
    for name in op.attr_names:
        block = op._block_attr(name) if op.attr_type(name) == core.AttrType.BLOCK else None
        for inner in block.ops if block is not None else ():
            found |= _names(inner, side)
    return found


def _role(op) -> int:
    return int(op.attr("op_role"))


def _without(program: Program, is_out) -> Program:
    copy = program.clone()
    block = copy.global_block()
    for i in reversed([i for i, op in enumerate(block.ops) if is_out(op)]):
        block._remove_op(i)
    return copy


def cut(program: Program, divisor: int) -> Halves:
    """The halves of a Program, with the loss's gradient divided; remembered while it stays the same."""
    kept = program.__dict__.setdefault("_halves", {})
    found = kept.get(divisor)
    if found is None or found[0] != program._changes:
        found = kept[divisor] = program._changes, _cut(program, divisor)
    return found[1]


def _divide_loss(program: Program, divisor: int) -> None:
    """Gradients begin with 1 / divisor: the sum over all places is their average."""
    for op in program.global_block().ops:
        if op.type == "fill_constant" and _role(op) == int(OpRole.Backward) | int(OpRole.Loss):
            op._put_attr("value", op.attr("value") / divisor)


def _cut(program: Program, divisor: int) -> Halves:
    block = program.global_block()
    computed, updated, wanted, grads = set(), set(), set(), []
    for op in block.ops:
        if _role(op) & _UPDATES:
            updated |= _names(op, "output")
            wanted |= _names(op, "input")
            continue
        late = sorted(name for name in _names(op, "input") & updated if block.has_var(name) and not block.var(name).is_data)
        if late and not all(block.var(name).persistable for name in late):
            raise core.UnsupportedError(
                f"The op {op.type!r} reads {late[0]!r}, which the optimizer's ops make: such a Program cannot run on several "
                "places."
            )
        computed |= _names(op, "output")
        if _role(op) & int(OpRole.Backward):
            pairs = op.attr("op_role_var")
            grads += [
                grad for param, grad in zip(pairs[::2], pairs[1::2])
                if block.has_var(param) and block.var(param).persistable and grad not in grads
            ]  # fmt: skip
    own = sorted(
        name for name in computed
        if block.has_var(name) and block.var(name).persistable and block.var(name).type == VarType.LOD_TENSOR
    )  # fmt: skip
    carried = sorted(
        name for name in (wanted & computed) - set(own) - set(grads)
        if not block.has_var(name) or not block.var(name).persistable
    )  # fmt: skip
    if not updated and not grads:
        return Halves(program, None, [], [], own, frozenset(), False)
    compute = _without(program, lambda op: _role(op) & _UPDATES)
    _divide_loss(compute, divisor)
    update = _without(program, lambda op: not _role(op) & _UPDATES) if updated else None
    return Halves(compute, update, grads, carried, own, frozenset(updated), True)


# ---- feeds ----


def _pieces(value, count: int) -> list:
    """A batch cut for up to `count` places: by sequences where it has them, else by rows."""
    lengths = value.recursive_sequence_lengths() if isinstance(value, core.LoDTensor) else []
    array = np.asarray(value)
    batch = len(lengths[0]) if lengths else (array.shape[0] if array.ndim else 1)
    if not batch:
        return [value] * count
    step = -(-batch // count)
    if not lengths:
        array = array.reshape(1) if array.ndim == 0 else array
        return [array[i : i + step] for i in range(0, batch, step)]
    pieces = []
    for start in range(0, batch, step):
        begin, end, parts = start, min(start + step, batch), []
        for level in lengths:
            parts.append(level[begin:end])
            begin, end = sum(level[:begin]), sum(level[:end])
        piece = core.LoDTensor()
        piece.set(np.ascontiguousarray(array[begin:end]), core.CPUPlace())
        piece.set_recursive_sequence_lengths(parts)
        pieces.append(piece)
    return pieces


def _split(program: Program, feed: dict, count: int, trains: bool) -> list[dict]:
    """One feed for each place from a feed for all."""
    block = program.global_block()
    feeds: list[dict] = [{} for _ in range(count)]
    most = 0
    shared = {}
    for name, value in feed.items():
        pieces = _pieces(value, count)
        if block.has_var(name) and block.var(name).persistable and len(pieces) == 1:
            shared[name] = pieces[0]
            continue
        if trains and len(pieces) != count:
            raise core.InvalidArgumentError(
                f"The feed {name!r} can be cut into {len(pieces)} parts only, but there are {count} places: feed more samples, "
                "or use fewer places (CPU_NUM, or the argument places of with_data_parallel)."
            )
        most = max(most, len(pieces))
        for place, piece in zip(feeds, pieces):
            place[name] = piece
    feeds = feeds[: most or count]
    for name, piece in shared.items():
        for place in feeds:
            place[name] = piece
    return feeds


def _read(program: Program, feeds: list | None, count: int) -> list[dict]:
    """The batches of the Program's readers, one for each place."""
    from paddle.fluid import reader_program

    batches = []
    try:
        for _ in range(count):
            batches.append(reader_program.next_feed(program))
    except core.EOFException:
        if not batches or reader_program.drops_last(program):
            raise
    return [{**(feeds[i] if feeds else {}), **batch} for i, batch in enumerate(batches)]


def feeds_of(program: Program, feed, count: int, trains: bool) -> list[dict]:
    """One feed for each place that has data."""
    if isinstance(feed, (list, tuple)):
        if len(feed) > count or (trains and len(feed) != count):
            raise core.InvalidArgumentError(
                f"The list of feeds has {len(feed)} entries for {count} places (CPU_NUM, or the argument places of "
                "with_data_parallel): give one for each."
            )
        feeds = list(feed)
    else:
        feeds = _split(program, feed or {}, count, trains)
    if any(op.type == "read" for op in program.global_block().ops):
        return _read(program, feeds, count)
    return feeds


# ---- the run ----


def _sum(values: list):
    """The sum of the places' gradients; selected rows are put together."""
    if isinstance(values[0], core.SelectedRows):
        rows = [row for value in values for row in value.rows()]
        made = core.SelectedRows(rows, values[0].height())
        made.get_tensor().set(np.concatenate([np.array(value.get_tensor()) for value in values]), core.CPUPlace())
        return made
    total = np.array(values[0])
    for value in values[1:]:
        total += np.asarray(value)
    return total


class Places:
    """What a CompiledProgram keeps for its places: a scope for each but the first, below the scope of the run."""

    def __init__(self, count: int, strategy: BuildStrategy | None):
        self.count = count
        scale = None if strategy is None else strategy.gradient_scale_strategy
        self.divides = scale in (None, BuildStrategy.GradientScaleStrategy.CoeffNumDevice)
        self.syncs = strategy is not None and strategy.sync_batch_norm
        self._scopes: dict = {}

    def scope_of(self, scope, place: int, own: list):
        if place == 0:
            return scope
        kids = self._scopes.setdefault(scope, {})
        kid = kids.get(place)
        if kid is None:
            kid = kids[place] = scope.new_scope()
        here = set(kid.local_var_names())
        for name in own:
            held = scope.find_var(name) if name not in here else None
            if held is not None and held.get_tensor()._is_initialized():
                kid.var(name).get_tensor().set(np.array(held.get_tensor()), core.CPUPlace())
        return kid

    def run(self, executor, program: Program, feed, fetches: list, scope, return_numpy: bool, return_merged: bool) -> list:
        """One step on all places; a list with the values of the fetches."""
        if self.syncs and any(op.type == "batch_norm" for block in program.blocks for op in block.ops):
            raise NotImplementedError(
                f"BuildStrategy.sync_batch_norm is not there yet: on {self.count} places batch_norm has the statistics of each "
                "place's part of the batch. Run on one place (places, CPU_NUM), where they are those of the whole batch."
            )
        halves = cut(program, self.count if self.divides else 1)
        names = [each if isinstance(each, str) else each.name for each in fetches]
        feeds = feeds_of(program, feed, self.count, halves.trains)
        late = [name for name in names if name in halves.updated]
        early = [name for name in names if name not in halves.updated and name not in halves.averaged]
        first = [*early, *halves.averaged, *halves.carried]
        block = program.global_block()
        fed = [name for name in feeds[0] if block.has_var(name) and block.var(name).persistable]
        # All of them before the first place computes: each starts from what was there then.
        scopes = [self.scope_of(scope, i, [*halves.own, *fed]) for i in range(len(feeds))]
        found = [
            executor._run_fed(halves.compute, each, first, scope=where, return_numpy=False)
            for each, where in zip(feeds, scopes)
        ]
        values = {name: [row[k] for row in found] for k, name in enumerate(first)}
        for name in halves.averaged:
            values[name] = [_sum(values[name])]
        if halves.update is not None:
            given = {name: values[name][0] for name in (*halves.averaged, *halves.carried)}
            results = executor._run_fed(halves.update, given, late, scope=scope, return_numpy=False)
            values.update((name, [value]) for name, value in zip(late, results))
        return [self._result(name, values[name], len(feeds), return_numpy, return_merged) for name in names]

    @staticmethod
    def _result(name: str, parts: list, count: int, return_numpy: bool, return_merged: bool) -> Any:
        parts = parts * (count if len(parts) == 1 else 1)
        if return_merged:
            return join_values(name, parts, return_numpy)
        return [join_values(name, [part], return_numpy) for part in parts]
