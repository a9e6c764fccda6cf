"""Runs that want what lies on the servers of a job: fetches of rates and states, which servers compute, and
lookups in tables of Programs that were copied before transpile.

Executor.run comes here when it failed for want of a variable, before anything of the Program has run; infer_from_dataset before it
begins.
"""

from __future__ import annotations

import dataclasses

from paddle import _core
from paddle.fluid import core, io_distributed
from paddle.fluid.framework import JOBS, Program
from paddle.fluid.transpiler import lookup_table
from paddle.fluid.transpiler.config import DistributedMode


def run(executor, program: Program, feed, fetches: list, scope, as_numpy: bool):
    """The results, or NotImplemented when nothing that is missing lies on servers."""
    if io_distributed.is_trainer(program):
        job = program._parameters_on_pservers.job
        given, fetches = fetches, [job.renamed.get(each, each) if job and isinstance(each, str) else each for each in fetches]
        away = fetched_from_servers(program, fetches, scope)
        if not away and given == fetches:
            return NotImplemented
        return _run_and_fetch(executor, program, feed, fetches, scope, as_numpy, away)
    changed = with_lookups_on_servers(executor, program, scope)
    if changed is None:
        return NotImplemented
    names = [each if isinstance(each, str) else each.name for each in fetches]
    return executor._run_fed(changed, feed, names, scope=scope, return_numpy=as_numpy)


# ---- updates ----


def check_updates(program: Program, ops: list) -> None:
    """A script that names ops of optimizers in fetch_list wants these updates alone; servers do all of them in each step."""
    job = io_distributed.is_trainer(program) and program._parameters_on_pservers.job
    named = {op._id for op in ops}
    left = [update.param.name for update in job.graph.updates if update.rule._id not in named] if job else []
    if left:
        raise ValueError(
            f"fetch_list names updates of some parameters, and not that of {left[0]!r}: servers do all updates in each step. Name "
            "all of them, or none; what is trained by itself needs a Program and servers of its own."
        )


# ---- fetches ----


def _name_of(program: Program, item) -> str:
    """The name of what is fetched, also of a Variable that transpile took out: copies keep ids."""
    if isinstance(item, str):
        return item
    try:
        return item.name
    except core.GoneError:
        job = program._parameters_on_pservers.job
        if job is None or item._program is not job.program:
            raise
        return job.whole._variable(item._id).name


def fetched_from_servers(program: Program, fetches: list, scope) -> dict:
    """Those that a trainer's Program does not hold: place in the list -> (name, slices). None, of another Program."""
    if not io_distributed.is_trainer(program):
        return {}
    overview = program._parameters_on_pservers
    known = {**{name: [var] for name, var in overview.rates.items()}, **io_distributed._on_servers(program)}
    found = {}
    for i, item in enumerate(fetches):
        name = _name_of(program, item)
        if program.global_block().has_var(name) and not io_distributed.is_elsewhere(scope, name):
            continue
        if name in known or name == program._distributed_lookup_table:
            found[i] = name, known.get(name)
        elif overview.job is not None and overview.job.whole.global_block().has_var(name):
            raise core.NotFoundError(
                f"fetch {name!r}: it belongs to the update of the parameters, which servers compute; "
                "trainers have no value of it. What servers keep can be fetched: the learning rate and states of "
                "the optimizer."
            )
    return found


def _run_and_fetch(executor, program, feed, fetches: list, scope, as_numpy: bool, away: dict) -> list:
    """A step, then what servers have made of it."""
    mine = [item for i, item in enumerate(fetches) if i not in away]
    results = iter(executor._run_fed(program, feed, mine, scope=scope, return_numpy=as_numpy))
    theirs = iter(ask(executor, program, away, as_numpy))
    return [next(theirs) if i in away else next(results) for i in range(len(fetches))]


def ask(executor, program: Program, away: dict, as_numpy: bool) -> list:
    """The values that servers have now of what fetched_from_servers found."""

    def asking():
        saving = io_distributed._Saving(program, [])
        for name, slices in dict(away.values()).items():
            if slices is None:
                saving.receive_table(name)
            else:
                saving.receive(name, slices)
        return saving

    names = [name for name, _ in away.values()]
    asked = executor._made_for(program, ("asked", *names), asking)
    return executor.run(asked.program, fetch_list=[asked.vars[name] for name in names], return_numpy=as_numpy)


def receive_parameters(executor, program: Program, scope) -> None:
    """Those that the trainer holds, as servers have them now; in sync mode also what it computes rates from."""
    overview = program._parameters_on_pservers
    if not io_distributed.is_trainer(program) or overview.job is None:
        return

    def asking() -> Program:
        slices: dict = {}
        for var in overview.distributed_vars:
            is_own_count = var.vtype == "Schedule" and overview.job.is_sync and program.global_block().has_var(var.origin.name)
            if var.vtype == io_distributed._HERE or is_own_count:
                slices.setdefault(var.origin.name, []).append(var)
        saving = io_distributed._Saving(program, [])
        for name, parts in slices.items():
            saving.receive(name, parts)
            saving.vars[name].persistable = True  # the scope's own
        return saving.program

    executor.run(executor._made_for(program, "parameters", asking), scope=scope)


def receive_passed(server: str) -> None:
    """Behind a meeting in which this trainer gave nothing to steps of the others: its parameters are those of its last step."""
    from paddle.fluid.executor import Executor, global_scope

    for each in list(JOBS):
        if each.job is None or not each.job.is_sync or server not in each.job.endpoints:
            continue
        if all(global_scope().find_var(var.origin.name) for var in each.distributed_vars if var.vtype == io_distributed._HERE):
            receive_parameters(Executor(core.CPUPlace()), each.job.program, global_scope())


def receive_newest(executor, program: Program, scope) -> None:
    """Before a run that only reads parameters, where a communicator exchanges beside the computing: servers may have newer ones
    than the last batch was given. With geo a trainer's parameters are its own."""
    if not _core.communicator_runs():
        return
    read = {var.name for var in program.list_vars() if var.persistable}
    for each in list(JOBS):
        if each.job is not None and each.job.mode != DistributedMode.GEO and not read.isdisjoint(each.job.graph.vars):
            _core.communicator_flush()  # what is looked up on servers is theirs then, too
            receive_parameters(executor, each.job.program, scope)


# ---- lookups ----


def with_lookups_on_servers(executor, program: Program, scope) -> Program | None:
    """A copy of the Program whose lookups ask the servers, if it looks up in tables that only they have."""
    tables = {op.input("W")[0] for op in program.global_block().ops if op.type in lookup_table.LOOKUPS}
    lacking = sorted(name for name in tables if io_distributed.is_elsewhere(scope, name))
    job = io_distributed.job_with(lacking)
    return job and executor._made_for(program, ("lookups", id(job)), lambda: _changed(program, job, lacking))


def _changed(program: Program, job, names: list) -> Program:
    copy = program.clone()
    mine = dataclasses.replace(job, program=copy)
    for name in names:
        if name == job.table:
            lookup_table.prefetch_table(mine)
        else:
            lookup_table.replace_lookups(mine, name)
    return copy
