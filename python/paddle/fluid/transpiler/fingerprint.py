"""What a job trains, as lines of text: trainers carry them to the servers, which refuse another Program by name.

A line is `what: how`. Only what must be the same in all processes stands here: endpoints and initial values may differ (a server
behind another address, one that loads a checkpoint).
"""

from __future__ import annotations

from paddle.fluid.data_feeder import convert_dtype
from paddle.fluid.transpiler.job import Job


def _value(value) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    return str(value) if isinstance(value, (str, int, bool)) else "block"


def _op(op) -> str:
    """An op and the attributes that change what it computes."""
    attrs = [f"{name}={_value(value)}" for name, value in sorted(op.all_attrs().items()) if not name.startswith(("op_", "use_"))]
    return f"{op.type}({', '.join(attrs)})"


def fingerprint(job: Job) -> list[str]:
    """The lines of a job, the same in each of its processes."""
    number = {endpoint: i for i, endpoint in enumerate(job.endpoints)}
    lines = [f"mode: {'sync' if job.is_sync else 'async'}", f"trainers: {job.trainers}", f"servers: {len(job.endpoints)}"]
    graph = job.graph
    for update in sorted(graph.updates, key=lambda each: each.param.name):
        param = update.param
        kind = "rows stay on servers" if param.name in job.remote else "sparse" if update.is_sparse else "dense"
        where = ", ".join(f"{part.shape[0]} rows on server {number[part.endpoint]}" for part in job.placement.of_param(param.name))
        lines.append(f"parameter {param.name}: {convert_dtype(param.dtype)} {list(param.shape)}, {_op(update.rule)}, {kind}, {where}")
    if job.table is not None:
        table = graph.vars[job.table]
        rule = _op(graph.table_rule) if graph.table_rule is not None else "not updated"
        lines.append(f"table {job.table}: {convert_dtype(table.dtype)} {list(table.shape)}, {rule}")
    rules = {update.rule for update in graph.updates}
    others = [op for op in graph.moved if op not in rules]
    lines += [f"update op {i}: {_op(op)}" for i, op in enumerate(others)]
    lines += [f"learning rate op {i}: {_op(op)}" for i, op in enumerate(graph.rate_ops)]
    return [line.replace("\n", " ") for line in lines]
