"""What the variables of updates are: rows of a parameter, sums over rows, or the same on all servers."""

from __future__ import annotations

from paddle.fluid.transpiler.flow import is_rule


def sums_all(op) -> bool:
    """Does it add up all elements of its input?"""
    if op.type == "squared_l2_norm":
        return True
    return op.type == "reduce_sum" and bool(op.attr("reduce_all"))


def keeps_sums(op) -> bool:
    """Is its result for a sum of parts the sum of its results for the parts?"""
    return op.type in ("sum", "assign") or (op.type == "scale" and op.attr("bias") == 0.0)


class Classes:
    """What the variables of the updates are, given which parameters lie in slices (`is_cut`).

    own: variable -> the update whose rows it has. parts: sums over rows, of which each server has a part.
    totals: what is computed from such sums and is the same everywhere. All others are constants or the
    learning rate.
    """

    def __init__(self, graph, is_cut):
        self.flow = graph.flow
        self.own: dict = {}
        self.owner: dict = {}  # op -> update
        self.parts: set = set()
        self.totals: set = set()
        self.part_ops: list = []
        self.total_ops: list = []
        users: dict = {}
        for update in graph.updates:
            for name in (update.param.name, update.grad, *update.states):
                self.own[name] = update
            for op in update.ops:
                users.setdefault(op, []).append(update)
        for op in graph.moved:
            self._classify(op, users.get(op, []), is_cut)

    def _classify(self, op, users: list, is_cut) -> None:
        read, written = self.flow.reads[op], self.flow.writes[op]
        if is_rule(op):
            self.owner[op] = users[0]
            others = [name for name in read if self.own.get(name, users[0]) is not users[0]]
            if others:
                raise ValueError(
                    f"the update of {users[0].param.name!r} uses {others[0]!r}, which is computed from rows of "
                    f"{self.own[others[0]].param.name!r}; another server may have these. Servers only share "
                    "sums over all elements (reduce_sum)."
                )
            return
        owners = {id(self.own[name]): self.own[name] for name in [*read, *written] if name in self.own}
        from_parts = [name for name in read if name in self.parts]
        if len(owners) > 1:
            names = sorted(update.param.name for update in owners.values())
            raise ValueError(
                f"op {op.type!r} joins the gradients of {', '.join(names)} element by element; servers can "
                "only share sums "
                "over them. Use one of the GradientClipBy... classes, or set clip_on_trainer of the config."
            )
        if from_parts and not owners and keeps_sums(op) and len(from_parts) == len(read):
            self.parts.update(written)
            self.part_ops.append(op)
        elif not owners and (from_parts or any(name in self.totals for name in read)):
            self.totals.update(written)
            self.total_ops.append(op)
        elif owners:
            update = next(iter(owners.values()))
            self.owner[op] = update
            if sums_all(op) and (is_cut(update) or any(user is not update for user in users)):
                self.parts.update(written)
                self.part_ops.append(op)
            else:
                self.own.update(dict.fromkeys(written, update))
