"""What the variables of updates are: rows of a parameter, sums over rows, or the same on all servers."""

from __future__ import annotations


def sums_all(op) -> bool:
    """Does it add up all elements of its input?"""
    if op.type == "squared_l2_norm":
        return True
    return op.type == "reduce_sum" and bool(op.attr("reduce_all"))


def keeps_sums(op) -> bool:
    """Is its result for a sum of parts the sum of its results for the parts?"""
    return op.type in ("sum", "assign") or (op.type == "scale" and op.attr("bias") == 0.0)


def _only_users(graph) -> dict:
    """Ops of updates -> the update that needs it; None: several do."""
    found: dict = {}
    todo = [(update.rule, update) for update in graph.updates]
    while todo:
        op, user = todo.pop()
        if op in found:
            if found[op] is None or found[op] is user:
                continue
            user = None
        found[op] = user
        todo += [(maker, user) for name in graph.flow.reads[op] for maker in graph.makers(name)]
    return found


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
        self.part_ops: dict = {}  # these two as sets that keep the order
        self.total_ops: dict = {}
        self._owned: dict = {}  # update -> its ops
        for update in graph.updates:
            for name in (update.param.name, update.grad, *update.states):
                self.own[name] = update
        users = _only_users(graph)
        for op in graph.moved:
            self._classify(op, users.get(op), is_cut)
            if op in self.owner:
                self._owned.setdefault(self.owner[op], []).append(op)

    def ops_of(self, update) -> list:
        """The ops on rows of its parameter and gradient, in order; its optimizer op is one of them."""
        return self._owned.get(update, [])

    def _classify(self, op, user, is_cut) -> None:
        read, written = self.flow.reads[op], self.flow.writes[op]
        if op in self.flow.rules:
            self.owner[op] = user
            others = [name for name in read if self.own.get(name, user) is not user]
            if others:
                raise ValueError(
                    f"the update of {user.param.name!r} uses {others[0]!r}, which is computed from rows of "
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
            self.part_ops[op] = None
        elif not owners and (from_parts or any(name in self.totals for name in read)):
            self.totals.update(written)
            self.total_ops[op] = None
        elif owners:
            update = next(iter(owners.values()))
            self.owner[op] = update
            if sums_all(op) and (is_cut(update) or user is not update):
                self.parts.update(written)
                self.part_ops[op] = None
            else:
                self.own.update(dict.fromkeys(written, update))
