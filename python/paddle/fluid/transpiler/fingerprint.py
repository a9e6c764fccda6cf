"""What a job trains, as lines of text: trainers carry them to the servers, which refuse another Program by name.

A line is `what: how`. Only what must be the same in all processes stands here. Endpoints may differ (a server behind another
address), initial values of parameters (one that loads a checkpoint) and seeds too. All is taken from the Programs as the user
wrote them, not from what trainers and servers make of them; and where names are made up, by how often a script made a layer
before, a variable is called after the op that makes it.
"""

from __future__ import annotations

import hashlib

import numpy as np

from paddle.fluid.data_feeder import convert_dtype
from paddle.fluid.framework import EMPTY_VAR_NAME, Parameter
from paddle.fluid.transpiler.flow import Flow, is_rule, sub_blocks
from paddle.fluid.transpiler.job import Job
from paddle.fluid.transpiler.lookup_table import table_settings
from paddle.fluid.vartype import AttrType

_MOST = 32  # values of a list that are told one by one; of more, a hash
# Attributes that do not change what is trained: where an op comes from, and by which library it is computed.
_LEFT_OUT = frozenset(
    "op_role op_role_var op_namescope op_callstack op_device use_mkldnn use_cudnn use_quantizer seed "
    "skip_eager_deletion_vars".split()
)


def _value(value) -> str:
    if isinstance(value, float):
        short = str(np.float32(value))
        return (short if float(np.float32(value)) == value else repr(value)).removesuffix(".0")
    if isinstance(value, (list, tuple)):
        texts = [_value(each) for each in value]
        told = texts if len(texts) <= _MOST else [*texts[:3], f"... {len(texts)} values, sha256 "
                                                              f"{hashlib.sha256(' '.join(texts).encode()).hexdigest()[:16]}"]
        return "[" + ", ".join(told) + "]"
    return str(value)


def _attrs(op) -> list[str]:
    """The attributes that change what an op computes."""
    blocks = (AttrType.BLOCK, AttrType.BLOCKS)
    names = [name for name in sorted(op.attr_names) if name not in _LEFT_OUT and op.attr_type(name) not in blocks]
    return [f"{name}={_value(op.attr(name))}" for name in names if op.attr(name) not in ("", [])]


def _slots(names: list, of) -> list:
    """[(slot, variable)] of an op; the slot with a number where it has several."""
    found = []
    for slot in names:
        variables = of(slot)
        for i, variable in enumerate(variables):
            if variable != EMPTY_VAR_NAME:
                found.append((f"{slot}[{i}]" if len(variables) > 1 else slot, variable))
    return found


def _inputs(op) -> list:
    return _slots(sorted(op.input_names), op.input)


def _outputs(op) -> list:
    return _slots(sorted(op.output_names), op.output)


class _Updates:
    """The ops that make updates, as the user wrote them, and what their variables are called."""

    def __init__(self, job: Job, program):
        block = program.global_block()
        self.vars = {var.name: var for var in block._all_vars()}
        self.start = Flow(list(job.whole_startup.global_block().ops))
        self.rules = {}
        self.listed: list = []  # (label, op, who runs it), those of inner blocks included
        self.names: dict = {}  # variable -> what it is called
        numbers = {"update": 0, "learning rate": 0}
        for place, kind, who in job.graph.asked:
            op = block.ops[place]
            if is_rule(op):
                self.rules[op.input("Param")[0]] = op
                continue
            self._list(f"{kind} op {numbers[kind]}", op, who)
            numbers[kind] += 1
        for param in self.rules:
            self.names[param] = param
            self.names[f"{param}@GRAD"] = f"the gradient of {param}"
        for label, op, _ in self.listed:
            for slot, name in _outputs(op):
                self.names.setdefault(name, self._made(label, op, slot))
        for update in job.graph.updates:
            self.names.setdefault(update.grad, f"the gradient of {update.param.name}")

    def _list(self, label: str, op, who: str) -> None:
        self.listed.append((label, op, who))
        for block in sub_blocks(op):
            for i, inner in enumerate(block.ops):
                self._list(f"{label}.{i}", inner, "")

    @staticmethod
    def _made(label: str, op, slot: str) -> str:
        return label if len(_outputs(op)) == 1 else f"{slot} of {label}"

    def _is_lasting(self, name: str) -> bool:
        return name in self.vars and self.vars[name].persistable

    def _started(self, name: str) -> str:
        """How a lasting variable begins."""
        ops = self.start.needed([name])
        if [op.type for op in ops] != ["fill_constant"]:
            return "; ".join(f"{op.type}({', '.join(_attrs(op))})" for op in ops) or "nothing"
        shape, dtype = list(self.vars[name].shape), convert_dtype(self.vars[name].dtype)
        text = _value(ops[0].attr("value"))
        return " ".join([text, *([dtype] if dtype != "float32" else []), *([str(shape)] if shape != [1] else [])])

    def _read(self, label: str, slot: str, name: str) -> str:
        """A variable as a reader names it."""
        if name not in self.names:
            if isinstance(self.vars.get(name), Parameter):
                self.names[name] = name
            elif self._is_lasting(name):  # that none of these ops changes
                return self._started(name)
            else:
                self.names[name] = f"{slot} of {label}"
        return self.names[name]

    def of_rule(self, param: str) -> str:
        """What the rule of a parameter reads beside the parameter, and what it writes beside its inputs."""
        rule = self.rules[param]
        label = f"the update of {param}"
        texts = [f"{slot} {self._read(label, slot, name)}" for slot, name in _inputs(rule) if slot != "Param"]
        for slot, name in _outputs(rule):
            if name not in rule.input(slot.removesuffix("Out")):
                texts.append(f"{slot} to {self._read(label, slot, name)}")
        return ", ".join(texts)

    def lines(self) -> list[str]:
        """A line for each op beside the rules."""
        found = []
        for label, op, who in self.listed:
            texts = _attrs(op)
            texts += [f"{slot}={self._read(label, slot, name)}" for slot, name in _inputs(op)]
            kept = []
            for slot, name in _outputs(op):
                if self.names[name] != self._made(label, op, slot):
                    texts.append(f"{slot} to {self.names[name]}")
                elif self._is_lasting(name):
                    kept.append(f", kept from {self._started(name)}")
            found.append(f"{label}: {op.type}({', '.join(texts)}){''.join(kept)}{who}")
        return found


def rule_text(op) -> str:
    """The rule of an optimizer op."""
    return f"{op.type}({', '.join(_attrs(op))})"


def fingerprint(job: Job, program) -> list[str]:
    """The lines of a job, the same in each of its processes. `program` has its updates, and was not changed yet."""
    number = {endpoint: i for i, endpoint in enumerate(job.endpoints)}
    mode = "geo" if job.is_geo else "sync" if job.is_sync else "async"
    lines = [f"mode: {mode}", f"trainers: {job.trainers}", f"servers: {len(job.endpoints)}"]
    if job.config.enable_dc_asgd:
        lines.append("compensation for delay: DC-ASGD")
    graph = job.graph
    for update in sorted(graph.updates, key=lambda each: each.param.name):
        param = update.param
        kind = "rows stay on servers" if param.name in job.remote else "sparse" if update.is_sparse else "dense"
        where = ", ".join(f"{part.shape[0]} rows on server {number[part.endpoint]}" for part in job.placement.of_param(param.name))
        lines.append(f"parameter {param.name}: {convert_dtype(param.dtype)} {list(param.shape)}, {rule_text(update.rule)}, "
                     f"{kind}, {where}")
    if job.table is not None:
        table = graph.vars[job.table]
        merged = ["averaged" if job.config.average_table_gradient else "added up"] if job.merges else []
        rows = table_settings(graph, len(job.endpoints)) if table.table_settings is not None else []
        texts = [f"{convert_dtype(table.dtype)} {list(table.shape)}", rule_text(graph.table_rule), *merged, *rows]
        lines.append(f"table {job.table}: {', '.join(texts)}")
    updates = _Updates(job, program)
    lines += updates.lines()
    lines += [f"input of the update of {param}: {updates.of_rule(param)}" for param in sorted(updates.rules)]
    return [line.replace("\n", " ") for line in lines]
