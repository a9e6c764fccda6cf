"""fluid.save and load in a job with parameter servers: whole values, wherever they lie.

A trainer writes what one process would: its own values, and those that lie on servers only (sparse
parameters, states of optimizers and schedules, the distributed table). A server cuts its slices out of them.
"""

from __future__ import annotations

import math

import numpy as np

from paddle.fluid import core, io_distributed, io_table_parts
from paddle.fluid.executor import Executor, global_scope
from paddle.fluid.framework import Program


def is_server(program: Program) -> bool:
    """Is it the Program of a server in such a job?"""
    return io_distributed.is_job_server(program)


def held(program: Program, chosen: list) -> list:
    """Those of the variables whose values are in this process."""
    return io_distributed.without_remote(program, chosen) if io_distributed.is_trainer(program) else chosen


def tell_of_tables(program: Program, chosen: list, how: str) -> None:
    """Before loading: a trainer says what of it lies on servers."""
    if io_distributed.is_trainer(program):
        io_distributed.tell_of_tables(program, chosen, how)


def fetched(program: Program, names: list[str]) -> dict[str, np.ndarray]:
    """The values of those of the names that a file is to have as servers have them; nothing for a Program without servers."""
    if not io_distributed.is_trainer(program):
        return {}
    saving = io_distributed._Saving(program, [])
    remote, table = io_distributed.asked_for_files(program), program._distributed_lookup_table
    for name in names:
        if name in remote:
            saving.receive(name, remote[name])
        elif name == table:
            saving.receive_table(name)
    if not saving.vars:
        return {}
    found = Executor().run(saving.program, fetch_list=list(saving.vars.values()))
    return {name: np.asarray(value) for name, value in zip(saving.vars, found)}


def states(program: Program) -> list[str]:
    """Names of what an optimizer keeps on servers."""
    return io_distributed.states_on_servers(program) if io_distributed.is_trainer(program) else []


def set_server(program: Program, values: dict, path: str, wanted=None) -> None:
    """Gives a server its slices of whole values: of those with names in `wanted`, else of all that it holds. All
    of them are checked before the first is set.
    """
    cut = []
    for var in io_distributed.held_by_server(program):
        if wanted is not None and var.origin.name not in wanted:
            continue
        whole = _value(values, var.origin.name, tuple(var.origin.shape), path)
        if var.is_slice:
            size = math.prod(var.slice.shape)
            whole = whole.reshape(-1)[var.offset : var.offset + size].reshape(var.slice.shape)
        cut.append((var.slice.name, whole))
    table = program._distributed_lookup_table
    rows = _table_rows(program, values, path) if wanted is None or table in wanted else None
    for name, value in cut:
        global_scope().var(name).get_tensor().set(np.ascontiguousarray(value), core.CPUPlace())
    if rows is not None:
        here = global_scope().var(table).get_selected_rows()
        here.get_tensor().set(np.ascontiguousarray(rows), core.CPUPlace())


def _value(values: dict, name: str, shape: tuple, path: str) -> np.ndarray:
    if name not in values:
        raise core.NotFoundError(f"{path} has no value for {name!r}, of which this server holds a part.")
    found = np.asarray(values[name])
    io_table_parts.check_shape(name, shape, found.shape, path)
    return found


def _table_rows(program: Program, values: dict, path: str) -> np.ndarray | None:
    """This server's rows of the distributed table."""
    table = program._distributed_lookup_table
    if table is None or not program.global_block().has_var(table):
        return None
    held_rows = global_scope().var(table).get_selected_rows()
    if not held_rows.height():
        raise core.NotFoundError(f"The table {table!r} has no rows yet. Run the server's startup Program first.")
    width = tuple(program.global_block().var(table).shape[1:])
    index, count = list(program._endpoints).index(program._ps_endpoint), len(program._endpoints)
    return _value(values, table, (held_rows.height(), *width), path)[index::count]
