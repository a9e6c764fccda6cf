"""What a job trains, in plain values: a checkpoint keeps them, and a job that goes on compares them with its own.

What is trained by which rule is the same in servers and workers, less names that are made up; what a worker alone holds it compares
by its names. Numbers of optimizers and schedules are left out: somebody may want others from here on.
"""

from __future__ import annotations

from typing import Any

from paddle.fluid.data_feeder import convert_dtype
from paddle.fluid.framework import Parameter, Program
from paddle.fluid.incubate.fleet.base import checkpoint_values as values
from paddle.fluid.transpiler.config import DistributedMode
from paddle.fluid.transpiler.flow import is_rate_op

_MODES = {DistributedMode.SYNC: "sync", DistributedMode.ASYNC: "async", DistributedMode.HALF_ASYNC: "half_async",
          DistributedMode.GEO: "geo"}


def _text(var: Any) -> str:
    return f"{convert_dtype(var.dtype)} {list(var.shape)}"


def trained(transpiler: Any) -> dict[str, str]:
    """The mode; of each parameter and table its type, its shape and its optimizer; what schedules of learning rates keep."""
    job, local = transpiler._job, transpiler._local
    graph, found = job.graph, {"the mode": _MODES[job.mode]}
    for update in sorted(graph.updates, key=lambda each: each.param.name):
        name = update.param.name
        rule = update.rule if local is None else local.rules[name]  # with geo, workers have it
        found[f"the parameter {name!r}"] = f"{_text(update.param)} by {rule.type}"
    if job.table is not None:
        table = graph.vars[job.table]
        any_ids = "" if table.table_settings is None else ", rows of any ids"
        found[f"the table {job.table!r}"] = f"{_text(table)} by {graph.table_rule.type}{any_ids}"
    kept = {name for op in graph.rate_ops for name in graph.flow.writes[op] if graph.is_lasting(name)}
    if kept:
        found["what schedules of the learning rate keep"] = ", ".join(sorted(_text(graph.vars[name]) for name in kept))
    return found


def own(program: Program) -> dict[str, str]:
    """What this worker alone holds."""
    return {f"the variable {var.name!r}": _text(var) for var in values.own(program)}


def given_rates(program: Program) -> set[str]:
    """Of the Program that the user wrote: learning rates that no op changes. They are what the script says, also where it goes on.
    """
    block, read, written = program.global_block(), set(), set()
    for op in block.ops:
        written.update(op.output_arg_names)
        read.update(op.input("LearningRate") if "LearningRate" in op.input_names else [])
        read.update(op.input_arg_names if is_rate_op(op) else [])
    known = {name: block.var(name) for name in read - written if block.has_var(name)}
    return {name for name, var in known.items() if var.persistable and not isinstance(var, Parameter)}


def giving_rates(program: Program, startup: Program) -> Program:
    """Gives these learning rates the values that a startup Program has for them."""
    names, giving = given_rates(program), Program()
    for op in startup.global_block().ops:
        if op.type == "fill_constant" and op.output("Out")[0] in names:
            var = startup.global_block().var(op.output("Out")[0])
            here = giving.global_block().create_var(name=var.name, shape=var.shape, dtype=var.dtype, persistable=True)
            giving.global_block().append_op(type=op.type, outputs={"Out": [here]},
                                            attrs={name: op.attr(name) for name in ("shape", "dtype", "value")})
    return giving


def difference(was: dict[str, str], now: dict[str, str]) -> str:
    """The first thing that is not the same, in words; "": there is none."""
    for what in sorted({*was, *now}, key=lambda each: (each != "the mode", each)):
        if was.get(what) != now.get(what):
            return f"{what} was {was.get(what, 'not there')}, and is {now.get(what, 'not there')}"
    return ""
