"""Runs of a Program on several places, as CompiledProgram.with_data_parallel and ParallelExecutor ask for: each place has
a batch and its own statistics, the gradients of all are averaged, and the parameters are updated once.

The Program is cut into segments (places_cut.py). Those that compute with a batch run on each place, those that update run
once, fed with the averages. All places are this machine's processor, so they run one after the other, with all threads
inside the ops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle.fluid import core, executor_servers
from paddle.fluid.compiler import BuildStrategy, join_values
from paddle.fluid.framework import Program
from paddle.fluid.places_cut import Cut, cut

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

    feeds = [reader_program.known_feeds(program, feed, stacklevel=8) for feed in feeds or ()]
    batches = []
    try:
        for _ in range(count):
            batches.append(reader_program.next_feed(program))
    except core.EOFException:
        if not batches or reader_program.drops_last(program):
            raise
    return [{**(feeds[i] if i < len(feeds) else {}), **batch} for i, batch in enumerate(batches)]


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


def _given(reads: list, values: dict, feed: dict, place: int) -> dict:
    """What a segment is fed with on a place: what segments before it made, else the place's batch."""
    found = {name: values[name][min(place, len(values[name]) - 1)] if name in values else feed.get(name) for name in reads}
    return {name: value for name, value in found.items() if value is not None}


def _held(scope, name: str):
    """A copy of the value in the scope; None: it has none."""
    found = scope.find_var(name)
    tensor = None if found is None else found.get_tensor()
    return np.array(tensor) if tensor is not None and tensor._is_initialized() else None


class Places:
    """What a CompiledProgram keeps for its places: a scope for each but the first, below the scope of the run; those of
    `shared`, where its variables are those of another one."""

    def __init__(self, count: int, strategy: BuildStrategy | None, shared: Places | None = None):
        self.count = count
        scale = None if strategy is None else strategy.gradient_scale_strategy
        self._divisor = count if scale in (None, BuildStrategy.GradientScaleStrategy.CoeffNumDevice) else 1
        self.syncs = strategy is not None and strategy.sync_batch_norm
        self._scopes: dict = {} if shared is None else shared._scopes
        self._left: dict = {} if shared is None else shared._left  # scope -> what the first place had of its own after a run
        self._apart: frozenset = frozenset()  # persistable variables that were fed a value of its own to each place

    def _changed(self, scope, own: list) -> set:
        """What has been changed since the last run by somebody else, or by a run that failed: all places begin with that."""
        left = self._left.get(scope, {})
        return {name for name in own if name in left and not np.array_equal(left[name], _held(scope, name), equal_nan=True)}

    def _scope_of(self, scope, place: int, own: list, single: frozenset, changed: set):
        """The scope of a place, with copies of what it has of its own, and none of what changes once for all."""
        if place == 0:
            return scope
        kids = self._scopes.setdefault(scope, {})
        kid = kids.get(place)
        if kid is None:
            kid = kids[place] = scope.new_scope()
        here = set(kid.local_var_names())
        if here & single:
            kid.erase(sorted(here & single))
        for name in own:
            value = _held(scope, name) if name not in here or name in changed else None
            if value is not None:
                kid.var(name).get_tensor().set(value, core.CPUPlace())
        return kid

    def _cut(self, program: Program, feed, feeds: list[dict]) -> tuple[Cut, list]:
        block = program.global_block()
        fed = [name for name in feeds[0] if block.has_var(name) and block.var(name).persistable]
        if isinstance(feed, (list, tuple)):
            self._apart |= {name for name in fed if any(each.get(name) is not feeds[0][name] for each in feeds)}
        return cut(program, self._divisor, self._apart), fed

    def run(self, executor, program: Program, feed, fetches: list, scope, return_numpy: bool, return_merged: bool) -> list:
        """One step on all places; a list with the values of the fetches."""
        if self.syncs and any(op.type == "batch_norm" for block in program.blocks for op in block.ops):
            raise NotImplementedError(
                f"BuildStrategy.sync_batch_norm is not there yet: on {self.count} places batch_norm has the statistics of each "
                "place's part of the batch. Run on one place (places, CPU_NUM), where they are those of the whole batch."
            )
        away = executor_servers.fetched_from_servers(program, fetches, scope)
        names = [away[i][0] if i in away else each if isinstance(each, str) else each.name for i, each in enumerate(fetches)]
        mine = [name for i, name in enumerate(names) if i not in away]
        trains = cut(program, self._divisor, self._apart).trains
        feeds = feeds_of(program, feed, self.count, trains)
        parts, fed = self._cut(program, feed, feeds)
        # All of them before the first place computes: each starts from what was there then.
        own = [name for name in parts.own if name not in self._apart]
        changed = self._changed(scope, own)
        scopes = [self._scope_of(scope, i, [*parts.own, *fed], parts.single, changed) for i in range(len(feeds))]
        values: dict = {}  # name -> one for each place, or one for all
        for i, segment in enumerate(parts.segments):
            wanted = list(dict.fromkeys([*segment.handed_on, *(name for name in mine if parts.last.get(name, 0) == i)]))
            found = []
            for k in range(1 if segment.once else len(feeds)):
                given = feeds[k] if i == 0 else _given(segment.reads, values, feeds[k], k)
                found.append(executor._run_fed(segment.program, given, wanted, scope=scopes[k], return_numpy=False))
            for k, name in enumerate(wanted):
                made = [row[k] for row in found]
                values[name] = [_sum(made)] if name in segment.averaged else made
        self._left.setdefault(scope, {}).update({name: _held(scope, name) for name in own})
        if away:
            asked = executor_servers.ask(executor, program, away, False)
            values.update({name: [value] for (name, _), value in zip(away.values(), asked)})
        return [self._result(name, values[name], len(feeds), return_numpy, return_merged) for name in names]

    @staticmethod
    def _result(name: str, parts: list, count: int, return_numpy: bool, return_merged: bool) -> Any:
        parts = parts * (count if len(parts) == 1 else 1)
        if return_merged:
            return join_values(name, parts, return_numpy)
        return [join_values(name, [part], return_numpy) for part in parts]
