"""Who reads and writes what: the ops of a block as a graph over names of variables, and what ops are for."""

from __future__ import annotations

from paddle.fluid.framework import EMPTY_VAR_NAME
from paddle.fluid.vartype import OpRole

# Outputs that name an input again and leave it as it is.
_PASSED_ON = {"hierarchical_sigmoid": "W_Out"}


def inputs_of(op) -> list[str]:
    """Names that an op reads, its sub-blocks included."""
    names = [name for name in op.input_arg_names if name != EMPTY_VAR_NAME]
    for block in sub_blocks(op):
        for inner in block.ops:
            names += [name for name in inputs_of(inner) if name not in block.vars]
    return names


def outputs_of(op) -> list[str]:
    """Names that an op writes, its sub-blocks included."""
    same = op.output(_PASSED_ON[op.type]) if op.type in _PASSED_ON else ()
    names = [name for name in op.output_arg_names if name != EMPTY_VAR_NAME and name not in same]
    for block in sub_blocks(op):
        for inner in block.ops:
            names += [name for name in outputs_of(inner) if name not in block.vars]
    return names


def sub_blocks(op) -> list:
    """The blocks that an op runs."""
    program = op.block.program
    return [program.block(value) for kind, value in op._attrs().values() if kind == 8 and value >= 0]


def role_of(op) -> int:
    return int(op.attr("op_role"))


def is_rate_op(op) -> bool:
    """Does it belong to the schedule of the learning rate?"""
    return bool(role_of(op) & OpRole.LRSched)


def is_update_op(op) -> bool:
    """Was it made for the update of a parameter?"""
    return bool(role_of(op) & OpRole.Optimize) and not is_rate_op(op)


def is_rule(op) -> bool:
    """Is it an optimizer op?"""
    return bool(
        "Param" in op.input_names and "Grad" in op.input_names and op.input("Grad") and op.output("ParamOut")
    )


class Flow:
    """Who reads and writes what, for some ops of a block."""

    def __init__(self, ops: list):
        self.ops = ops
        self.place = {op: index for index, op in enumerate(ops)}
        self.rules = {op for op in ops if is_rule(op)}
        self.reads = {op: inputs_of(op) for op in ops}
        self.writes = {op: outputs_of(op) for op in ops}
        self._writers: dict = {}
        for op in ops:
            for name in self.writes[op]:
                self._writers.setdefault(name, []).append(op)

    def writers(self, name: str) -> list:
        """The ops that write a variable, in order."""
        return self._writers.get(name, [])

    def needed(self, names, among=lambda op: True) -> list:
        """The ops that the named variables depend on, in order; `among` says which ones count.

        All writers of a variable are taken, also those that come after its reader: they make what the next
        step reads.
        """
        chosen: set = set()
        todo, seen = list(names), set()
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            for op in self.writers(name):
                if op not in chosen and among(op):
                    chosen.add(op)
                    todo += self.reads[op]
        return self.in_order(chosen)

    def in_order(self, ops) -> list:
        return sorted(ops, key=self.place.__getitem__)
