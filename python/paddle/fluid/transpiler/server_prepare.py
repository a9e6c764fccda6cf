"""The prepare block: sums over all rows of gradients whose slices lie on several servers.

Clips by norm need them. When all gradients of a step have come, a server averages its own, adds up their
squares, adds these sums to those of the other servers (ps_sum) and derives the factors, with which the
optimize blocks then work. Only Programs with such clips have the block.
"""

from __future__ import annotations

from paddle.fluid.transpiler.copying import copy_op
from paddle.fluid.transpiler.job import Job
from paddle.fluid.vartype import OpRole, VarType

_OPTIMIZE = {"op_role": int(OpRole.Optimize)}


class PreparePlan:
    """Which ops run in the prepare blocks, for which updates, on which servers, in which round of sums."""

    def __init__(self, job: Job):
        self.job = job
        graph, classes = job.graph, job.classes
        flow = graph.flow
        shared = {*classes.part_ops, *classes.total_ops}
        self.ops = shared | self._ancestors(shared)
        reached = self._reached(shared)
        self.updates = [update for update in graph.updates if update.rule in reached]
        names = {update.param.name for update in self.updates}
        self.endpoints = [
            endpoint
            for endpoint in job.endpoints
            if any(part.param in names for part in job.placement.on(endpoint))
        ]
        self.rounds = self._rounds(flow.in_order(self.ops))
        if self.ops and not job.is_sync:
            raise ValueError(
                "an asynchronous job cannot clip by a norm that the decay is part of: servers see one "
                "gradient at a time. "
                "Use sync_mode=True, or clip before the decay."
            )

    def _ancestors(self, ops: set) -> set:
        """What comes before one of them and what it depends on."""
        graph, flow = self.job.graph, self.job.graph.flow
        found: set = set()
        # The last one first: what stands before another one stands before it, too.
        for op in reversed(flow.in_order(ops)):
            todo = list(flow.reads[op])
            while todo:
                for each in graph.makers(todo.pop()):
                    if each not in found and flow.place[each] < flow.place[op]:
                        found.add(each)
                        todo += flow.reads[each]
        return found

    def _reached(self, ops: set) -> set:
        """What depends on one of them."""
        graph, flow = self.job.graph, self.job.graph.flow
        readers: dict = {}
        for op in graph.moved:
            for name in flow.reads[op]:
                readers.setdefault(name, []).append(op)
        found, todo = set(ops), list(ops)
        while todo:
            for name in flow.writes[todo.pop()]:
                for op in readers.get(name, []):
                    if op not in found:
                        found.add(op)
                        todo += [] if op in flow.rules else [op]
        return found

    def is_on(self, endpoint: str) -> bool:
        return endpoint in self.endpoints

    def is_constant_op(self, op) -> bool:
        """Can every block compute it for itself?"""
        classes = self.job.classes
        return op not in classes.owner and op not in classes.part_ops and op not in classes.total_ops

    def is_constant(self, name: str) -> bool:
        writers = [op for op in self.job.graph.flow.writers(name) if self.job.graph.is_moved(op)]
        return bool(writers) and all(self.is_constant_op(op) for op in writers)

    def _rounds(self, ops: list) -> list:
        """Ops by the number of sums that come before them: [(ops, sums to make after them), ...]."""
        classes, flow = self.job.classes, self.job.graph.flow
        level: dict = {}
        rounds: list = []
        for op in ops:
            adds = op not in classes.part_ops or op in classes.owner
            after = 0
            for name in flow.reads[op]:
                after = max(after, level.get(name, 0) + (1 if adds and name in classes.parts else 0))
            for name in flow.writes[op]:
                level[name] = after
            while len(rounds) <= after:
                rounds.append(([], {}))
            rounds[after][0].append(op)
        for op in self.job.graph.moved:
            if op in classes.part_ops and op not in classes.owner:
                continue
            for name in flow.reads[op]:
                if name in classes.parts:
                    rounds[level[name]][1][name] = None
        return [(ops, list(sums)) for ops, sums in rounds]


class _Prepare:
    def __init__(self, server, plan: PreparePlan):
        self.server = server
        self.plan = plan
        self.block = server.new_block()
        self.parts: dict = {}  # a sum over rows -> the variables here that add up to this server's part of it

    def _scalar(self, name: str, like: str) -> str:
        if not self.block.has_var(name):
            self.block.create_var(
                name=name, shape=[1], dtype=self.server.job.graph.vars[like].dtype, type=VarType.LOD_TENSOR
            )
        return name

    def _add(self, names: list, out: str) -> None:
        self.block.append_op(type="sum", inputs={"X": names}, outputs={"Out": [out]}, attrs=dict(_OPTIMIZE))

    def own_op(self, op, update) -> None:
        """An op on the rows of one parameter: once for each slice of it that is here."""
        classes = self.server.job.classes
        for part in self.server.slices_of.get(update.param.name, []):
            if op not in classes.part_ops:
                self.server.emit(self.block, op, part)
                continue
            (out,) = self.server.job.graph.flow.writes[op]
            mine = self._scalar(f"{part.of(out)}.part", out)
            self.parts.setdefault(out, []).append(mine)

            def name_in(name, out=out, mine=mine, part=part):
                if name == out:
                    return mine
                return self.server.declare(self.block, name, part if name in classes.own else None)

            copy_op(self.block, op, name_in)

    def sum_op(self, op) -> None:
        """An op on sums: done on this server's parts of them."""
        flow = self.server.job.graph.flow
        (out,) = flow.writes[op]
        found = [name for read in flow.reads[op] for name in self.parts.get(read, [])]
        if not found:
            return
        mine = self._scalar(f"{out}.part", out)
        self._add(found, mine)
        if op.type == "scale":
            self.block.append_op(
                type="scale",
                inputs={"X": [mine]},
                outputs={"Out": [mine]},
                attrs={"scale": op.attr("scale"), **_OPTIMIZE},
            )
        self.parts[out] = [mine]

    def totals(self, names: list) -> None:
        """The sums over all servers."""
        mine = []
        for name in names:
            found = self.parts.get(name, [])
            if len(found) == 1:
                mine.append(found[0])
                continue
            here = self._scalar(f"{name}.here", name)
            if found:
                self._add(found, here)
            else:
                self.block.append_op(
                    type="fill_constant",
                    outputs={"Out": [here]},
                    attrs={
                        "shape": [1],
                        "dtype": int(self.server.job.graph.vars[name].dtype),
                        "value": 0.0,
                        **_OPTIMIZE,
                    },
                )
            mine.append(here)
        outs = [self.server.declare(self.block, name) for name in names]
        if len(self.plan.endpoints) == 1:
            for here, out in zip(mine, outs):
                self.block.append_op(
                    type="assign", inputs={"X": [here]}, outputs={"Out": [out]}, attrs=dict(_OPTIMIZE)
                )
            return
        self.block.append_op(
            type="ps_sum",
            inputs={"X": mine},
            outputs={"Out": outs},
            attrs={
                "endpoints": self.plan.endpoints,
                "endpoint": self.server.endpoint,
                "groups": names,
                **_OPTIMIZE,
            },
        )

    def build(self):
        classes = self.server.job.classes
        names = {update.param.name for update in self.plan.updates}
        for part in self.server.slices:
            if part.param in names:
                self.server.merge(self.block, part)
        for ops, sums in self.plan.rounds:
            for op in ops:
                if op in classes.owner:
                    self.own_op(op, classes.owner[op])
                elif op in classes.part_ops:
                    self.sum_op(op)
                else:
                    self.server.emit(self.block, op)
            if sums:
                self.totals(sums)
        return self.block


def build_prepare(server, plan: PreparePlan):
    """The prepare block of a server that takes part in the sums."""
    return _Prepare(server, plan).build()
