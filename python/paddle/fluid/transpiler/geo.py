"""GEO-SGD: trainers update their parameters by themselves, and tell servers what has changed.

A trainer keeps its Program as it is. Behind the last update stands one op geo_sgd, which every so many batches tells the servers
its share of what has changed, and takes in what the others have (src/pserver/client/geo.h). Servers add up: their half of the job
is that of a Program whose only updates are `parameter -= -1 * told`, so that slices, files and restarts are those of any job.
"""

from __future__ import annotations

from paddle.fluid.framework import Program
from paddle.fluid.transpiler.copying import declare, remove_ops
from paddle.fluid.transpiler.fingerprint import rule_text
from paddle.fluid.transpiler.flow import inputs_of, is_rate_op, is_update_op
from paddle.fluid.transpiler.job import Job
from paddle.fluid.transpiler.trainer_side import TrainerStartup
from paddle.fluid.transpiler.update_graph import UpdateGraph
from paddle.fluid.vartype import OpRole, VarType

_RATE = "geo_sgd_rate"
_LOOKUPS = {"lookup_table", "lookup_table_v2", "fused_embedding_seq_pool"}
_BY_ROW = {"sgd", "adagrad"}  # rules that change only the rows of a sparse gradient; adam does with lazy_mode
_OPTIMIZE = {"op_role": int(OpRole.Optimize)}


def told_name(param: str) -> str:
    """What servers call the change of a parameter."""
    return f"{param}@DELTA"


def _ids_of(block, param: str) -> list[str]:
    """The ids of all lookups of a table; none: something else reads it as well."""
    found = []
    for inner in block.program.blocks:
        for op in inner.ops:
            if is_update_op(op) or is_rate_op(op) or op.type.endswith("_grad") or param not in inputs_of(op):
                continue
            if inner is not block or op.type not in _LOOKUPS or op.input("W") != [param]:
                return []
            found += op.input("Ids")
    return list(dict.fromkeys(found))


class LocalUpdates:
    """What the user's Program updates, by which rule, and of which parameters only rows are told."""

    def __init__(self, program: Program):
        self.block = program.global_block()
        graph = UpdateGraph(program.clone(), True, None)
        self.rules = {update.param.name: update.rule for update in graph.updates}
        self.params = list(self.rules)
        self.ids = {param: self._told_by_rows(rule, param) for param, rule in self.rules.items()}

    def _told_by_rows(self, rule, param: str) -> list[str]:
        grad = self.block.var(rule.input("Grad")[0])
        by_row = rule.type in _BY_ROW or (rule.type == "adam" and rule.attr("lazy_mode"))
        return _ids_of(self.block, param) if grad.type == VarType.SELECTED_ROWS and by_row else []

    def lines(self, every: int) -> list[str]:
        """What trainers must have the same, beside what servers do."""
        return [f"trainers tell what has changed every {every} batches",
                *(f"update of {param} in trainers: {rule_text(rule)}" for param, rule in sorted(self.rules.items()))]


def adding_programs(program: Program, startup: Program, local: LocalUpdates) -> tuple[Program, Program]:
    """(main, startup) of the servers' half: what a Program would be whose updates add what trainers tell."""
    main, start = program.clone(), startup.clone()
    block = main.global_block()
    remove_ops([op for op in block.ops if is_update_op(op) or is_rate_op(op)])
    for each in (block, start.global_block()):
        rate = each.create_var(name=_RATE, shape=[1], dtype="float32", persistable=True)
    start.global_block().append_op(type="fill_constant", outputs={"Out": [rate]},
                                   attrs={"shape": [1], "dtype": rate.dtype, "value": -1.0})
    for param in local.params:
        var = block.var(param)
        kind = VarType.SELECTED_ROWS if local.ids[param] else VarType.LOD_TENSOR
        told = declare(block, var, told_name(param), persistable=False, type=kind)
        block.append_op(type="sgd", inputs={"Param": [var], "Grad": [told], "LearningRate": [_RATE]},
                        outputs={"ParamOut": [var]}, attrs={"op_role_var": [param, told.name], **_OPTIMIZE})
    return main, start


class GeoTrainer:
    """Adds to the user's Programs what makes a process a trainer."""

    def __init__(self, job: Job, local: LocalUpdates, every: int):
        self.job, self.local, self.every = job, local, every
        self.removed: list = []  # as TrainerProgram has them
        self.rates: dict = {}

    def _attrs(self) -> dict:
        local = self.local
        return {"trainer_id": self.job.trainer_id, "trainers": self.job.trainers, "every": self.every,
                "is_sparse": [int(bool(local.ids[param])) for param in local.params]}

    def _slices(self) -> dict:
        parts = [(i, part) for i, param in enumerate(self.local.params) for part in self.job.placement.of_param(param)]
        return {"into": [i for i, _ in parts], "rows": [-1 if part.number is None else part.shape[0] for _, part in parts],
                "deltas": [part.grad_name for _, part in parts], "slices": [part.name for _, part in parts],
                "epmap": [part.endpoint for _, part in parts], "job": self.job.carried}

    def build(self) -> None:
        """Changes both Programs."""
        local = self.local
        TrainerStartup(self.job, self).build()
        self.job.startup.global_block().append_op(type="geo_sgd", inputs={"Param": local.params}, outputs={},
                                              attrs={"begins": True, **self._attrs()})
        ids = [(name, i) for i, param in enumerate(local.params) for name in local.ids[param]]
        self.job.program.global_block().append_op(
            type="geo_sgd", inputs={"Param": local.params, "Ids": [name for name, _ in ids]},
            outputs={"ParamOut": local.params},
            attrs={"ids_of": [i for _, i in ids], **self._attrs(), **self._slices(), **_OPTIMIZE})
