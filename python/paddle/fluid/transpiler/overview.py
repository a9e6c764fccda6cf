"""The list of all that lies on servers, for saving and loading."""

from __future__ import annotations

import math

from paddle.fluid.framework import JOBS
from paddle.fluid.transpiler.details.vars_distributed import VarDistributed, VarsDistributed, VarStruct
from paddle.fluid.transpiler.flow import inputs_of
from paddle.fluid.transpiler.job import Job
from paddle.fluid.transpiler.lookup_table import is_hashed, row_states, table_height


def overview_of(job: Job) -> VarsDistributed:
    """Parameters, the states of their updates, what trainers get at their start, and the variables of the learning rate."""
    found = VarsDistributed(job)
    JOBS.add(found)
    updates = {update.param.name: update for update in job.graph.updates}
    for part in job.placement.slices:
        vtype = "RemotePrefetch" if part.param in job.remote else "Param"
        found.add(_slice_of(job, part, part.param, vtype))
    for part in job.placement.slices:
        for name in updates[part.param].states:
            found.add(_slice_of(job, part, name, "Optimizer"))
    found.is_hashed, found.table_states = is_hashed(job.graph), row_states(job.graph)
    found.table_height = table_height(job.graph) if found.is_hashed else 0
    for name in job.graph.table_states:
        if name not in found.table_states:
            found.add(_whole_of(job, name, "Optimizer", job.endpoints[0]))
    for name in job.handed_out:
        found.add(_whole_of(job, name, "HandedOut", job.endpoints[0]))
    readers = _readers(job)
    rates = _rate_states(job)
    known = {*rates, *(var.origin.name for var in found.distributed_vars)}
    for name in _constants(job, known, readers):
        found.add(_whole_of(job, name, "Optimizer", readers[name]))
    makers = _makers(job, readers)
    for name in rates:
        found.add(_whole_of(job, name, "Schedule", makers[name]))
    for name in _computed_rates(job):
        found.rates[name] = _whole_of(job, name, "Schedule", makers[name])
    return found


def _whole_of(job: Job, name: str, vtype: str, endpoint: str) -> VarDistributed:
    whole = VarStruct.of(job.graph.vars[name])
    return VarDistributed(whole, whole, False, 0, 0, vtype, endpoint)


def _slice_of(job: Job, part, name: str, vtype: str) -> VarDistributed:
    var = job.graph.vars[name]
    rows = tuple(var.shape) == tuple(job.graph.vars[part.param].shape)
    cut = part.number is not None and rows
    here = VarStruct.of(var, part.of(name), part.cut(var.shape) if cut else var.shape)
    offset = part.begin * math.prod(var.shape[1:]) if cut else 0
    return VarDistributed(VarStruct.of(var), here, cut, part.number or 0, offset, vtype, part.endpoint)


def _readers(job: Job) -> dict[str, str]:
    """What updates read: name -> a server with an update that reads it. Others need not have it."""
    flow, owner = job.graph.flow, job.classes.owner
    found: dict = {}
    seen: set = set()
    for update in job.graph.updates:
        endpoint = job.placement.of_param(update.param.name)[0].endpoint
        todo = list(job.classes.ops_of(update))
        while todo:
            op = todo.pop()
            if op in seen:
                continue
            seen.add(op)
            for name in flow.reads[op]:
                found.setdefault(name, endpoint)
                # Those of another parameter, whose sum this one needs, are read there.
                todo += [maker for maker in job.graph.makers(name) if maker not in owner]
    return found


def _makers(job: Job, readers: dict[str, str]) -> dict[str, str]:
    """The same of the learning rate, and of all that schedules make it from. All servers compute all schedules; one that does not
    read a rate may be behind with it.
    """
    flow, found, ops = job.graph.flow, dict(readers), set(job.graph.rate_ops)
    if job.graph.table_rule is not None:
        for name in flow.reads[job.graph.table_rule]:
            found.setdefault(name, job.endpoints[0])
    for name, endpoint in list(found.items()):
        for op in flow.needed([name], ops.__contains__):
            for each in (*flow.reads[op], *flow.writes[op]):
                found.setdefault(each, endpoint)
    return found


def _constants(job: Job, known: set, readers: dict[str, str]) -> list[str]:
    """Lasting variables that updates read, nobody writes and trainers no longer have (the powers of Lamb). Each server that needs
    one has it whole.
    """
    ops = job.program.global_block().ops
    gone = {ops[index] for index in job.removed}
    held = {name for op in ops if op not in gone for name in inputs_of(op)}
    return [name for name in readers if job.graph.is_lasting(name) and name not in known and name not in held]


def _rules(job: Job) -> list:
    rules = [update.rule for update in job.graph.updates]
    return rules if job.graph.table_rule is None else [*rules, job.graph.table_rule]


def _computed_rates(job: Job) -> list[str]:
    """Rates that a schedule makes anew in each step and an update reads, as they are or a multiple of them."""
    flow = job.graph.flow
    made = {name for op in job.graph.rate_ops for name in flow.writes[op]}
    read = {name for op in _rules(job) for name in flow.reads[op]}
    return sorted(name for name in made & (read | job.graph.given_rates()) if not job.graph.is_lasting(name))


def _rate_states(job: Job) -> list[str]:
    """Lasting variables of the learning rate: the counter of a schedule, the rate itself."""
    flow, names = job.graph.flow, []
    for op in job.graph.rate_ops:
        names += [*flow.reads[op], *flow.writes[op]]
    for op in _rules(job):
        names += op.input("LearningRate") if "LearningRate" in op.input_names else []
    return [name for name in dict.fromkeys(names) if job.graph.is_lasting(name)]
