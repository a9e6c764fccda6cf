"""Saving and loading in a job with parameter servers.

Files are those of one process: the names and shapes of whole variables. A trainer that saves writes all of them:
what it holds, and what it fetches because it lies on servers only (sparse parameters, states of optimizers and
schedules) or may be newer there (all parameters, where trainers do not wait for each other). Whether others save too
does not matter: their folder may be on another disk, and where it is the same one each file is written aside and
renamed. A distributed table is written by the servers themselves, each its rows (io_table_parts.py).
"""

from __future__ import annotations

import os

import numpy as np

from paddle import _core
from paddle.fluid import core, io_check, io_table_parts
from paddle.fluid.executor import global_scope
from paddle.fluid.framework import JOBS, Program
from paddle.fluid.log_helper import notice
from paddle.fluid.vartype import VarType, convert_np_dtype_to_dtype_

_HERE = "Param"  # the kind of what trainers hold as well, and get anew with each step


def is_server(program: Program) -> bool:
    """Is it a server's Program?"""
    return any(op.type == "listen_and_serv" for op in program.global_block().ops)


def is_job_server(program: Program) -> bool:
    """Is it a server's Program that the transpiler made?"""
    return bool(program._is_distributed) and is_server(program)


def is_trainer(program: Program) -> bool:
    """Is it a trainer's Program: one that has variables on servers?"""
    return bool(program._is_distributed and program._parameters_on_pservers) and not is_server(program)


def is_elsewhere(scope, name: str) -> bool:
    """Has the variable a shape in the scope and no values? Those of tables lie on servers."""
    holder = scope.find_var(name)
    if holder is None:
        return False
    tensor = holder.get_tensor()
    return bool(tensor.shape()) and 0 not in tensor.shape() and not tensor._is_initialized()


def job_with(tables: list):
    """The job of this process whose servers hold all these tables; None: there is none, or more than one."""
    jobs = [each.job for each in JOBS if tables and {*each.job.remote, each.job.table}.issuperset(tables)]
    return jobs[0] if len(jobs) == 1 else None


def value_on_servers(name: str) -> np.ndarray | None:
    """The whole table of this name as it is now, where servers of this process's job hold it: scope.find_var(name).get_tensor()
    has no values then. None: they do not.
    """
    from paddle.fluid.executor import Executor

    job = job_with([name])
    if job is None:
        return None
    asked = _Saving(job.program, [])
    slices = _on_servers(job.program).get(name)
    if slices is None:
        asked.receive_table(name)
    else:
        asked.receive(name, slices)
    return Executor(core.CPUPlace()).run(asked.program, fetch_list=[asked.vars[name]])[0]


def knowing(program: Program) -> Program:
    """The Program, or where it was copied before transpile one like it that knows which values lie on
    servers.
    """
    if program._is_distributed:
        return program
    scope, params = global_scope(), program.all_parameters()
    tensors = [var.name for var in params if var.type == VarType.LOD_TENSOR]
    job = job_with([name for name in tensors if is_elsewhere(scope, name)])
    if job is None:
        return program
    copy = program.clone()
    copy._copy_dist_param_info_from(job.program)
    return copy


def trainer_id(program: Program) -> int:
    """The number of this trainer in the Program's job: one process may take part in several. Without one the
    first server hands it out in the first exchange.
    """
    job = program._parameters_on_pservers.job
    return _core.job_id() if job is None or job.trainer_id < 0 else job.trainer_id


def _on_servers(program: Program, also_here: bool = False) -> dict:
    """What trainers do not hold, and with `also_here` parameters that they do: the name of the whole variable -> its slices, in
    order."""
    groups: dict = {}
    for var in program._parameters_on_pservers.distributed_vars:
        if var.vtype == "HandedOut" or (var.vtype == _HERE and not also_here):
            continue
        slices = groups.setdefault(var.origin.name, [])
        if var.is_slice or not slices:
            slices.append(var)
    return {name: sorted(slices, key=lambda var: var.block_id) for name, slices in groups.items()}


# ---- saving ----


def asked_for_files(program: Program) -> dict:
    """What a trainer that saves asks servers for: what it does not hold, and where trainers do not wait for each other also the
    parameters, of which servers may have more than its last exchange brought."""
    job = program._parameters_on_pservers.job
    return _on_servers(program, job is not None and not job.is_sync)


def states_on_servers(program: Program) -> list[str]:
    """Names of what belongs to no trainer's Program: states of optimizers and schedules."""
    return [
        name for name, slices in _on_servers(program).items() if slices[0].vtype in ("Optimizer", "Schedule")
    ]


def lasting_on_servers(program: Program) -> list[str]:
    """Names of all that trainers do not hold, the distributed table apart."""
    return list(_on_servers(program))


def check_files(folder: str, program: Program, chosen: list, states: list, taken: dict | None = None,
                one_file: str | None = "filename") -> None:
    """Before `save` of these as files: each has one of its own, apart from those in `taken` (io_check.need_own_files)."""
    table, names = program._distributed_lookup_table, [var.name for var in chosen]
    if states and table in names:
        taken = {**(taken or {}), io_table_parts.TABLES: f"for the parts of the table {table!r}, which servers write"}
    io_check.need_own_files(folder, list(dict.fromkeys([*names, *states])), taken, one_file)


def save(executor, folder: str | None, program: Program, chosen: list, filename: str | None, states: list):
    """Writes the variables `chosen` and the states of these names as a trainer; without a folder it returns
    bytes. What lies on servers is fetched by every trainer, so that its files are whole.
    """
    remote, table = asked_for_files(program), program._distributed_lookup_table
    away = [name for name in dict.fromkeys([*(var.name for var in chosen), *states]) if name in remote]
    has_table = any(var.name == table for var in chosen)
    local = [var for var in chosen if var.name not in remote and var.name != table]
    if folder is not None and filename is None:
        check_files(folder, program, chosen, states)
    saving = _Saving(program, local)
    if folder is None or filename is not None:
        for name in away:
            saving.receive(name, remote[name])
        if has_table:
            saving.receive_table(table)
        return saving.as_bytes(executor) if folder is None else saving.join(executor, folder, filename)
    saving.each(folder)
    for name in away:
        saving.fetch(folder, name, remote[name])
    is_in_parts = has_table and bool(states)
    if is_in_parts:
        for name in (table, *program._parameters_on_pservers.table_states):
            saving.notify(folder, name)
    elif has_table:
        saving.receive_table(table)
        saving.write(folder, table)
    in_parts = (table, *program._parameters_on_pservers.table_states) if is_in_parts else ()
    with io_table_parts.replaced(folder, [var.name for var in chosen], in_parts):
        saving.run(executor)
    return None


class _Saving:
    """A Program that saves. `vars`: what is at hand in it, by name. What is named twice is asked for once.

    What it puts together has the whole variable's name, for messages; it is not the scope's variable of that name. What that is
    made of has names that no variable has.
    """

    def __init__(self, program: Program, local: list):
        from paddle.fluid.io import _clone_var_in_block_

        self.whole = program
        self.program = Program()
        self.block = self.program.global_block()
        self.vars = {var.name: _clone_var_in_block_(self.block, var) for var in local}

    def write(self, folder: str, name: str) -> None:
        path = os.path.join(folder, name)
        self.block.append_op(type="save", inputs={"X": [self.vars[name]]}, attrs={"file_path": path})

    def each(self, folder: str) -> None:
        for name in self.vars:
            self.write(folder, name)

    def fetch(self, folder: str, name: str, slices: list) -> None:
        """From its servers straight to its file."""
        self.block.append_op(
            type="recv_save",
            attrs={
                "trainer_id": self._id(),
                "dtype": int(convert_np_dtype_to_dtype_(slices[0].origin.dtype)),
                "shape": list(slices[0].origin.shape),
                "slice_shapes": [",".join(map(str, each.slice.shape)) for each in slices],
                "slice_varnames": [f"{each.slice.name}.slice.{i}" for i, each in enumerate(slices)],
                "remote_varnames": [each.slice.name for each in slices],
                "endpoints": [each.endpoint for each in slices],
                "file_path": os.path.join(folder, name),
            },
        )

    def receive(self, name: str, slices: list) -> None:
        """From its servers, put together."""
        if name in self.vars:
            return
        names = [f"{name} (slice {i})" for i in range(len(slices))] if len(slices) > 1 else [name]
        parts = []
        for each, part in zip(names, slices):
            here = part.slice
            parts.append(self._receive(each, here.name, here.shape, here.dtype, part.endpoint))
        self.vars[name] = parts[0] if len(parts) == 1 else self._op("concat", name, {"X": parts}, axis=0)

    def receive_table(self, name: str) -> None:
        """A table whose row i is row i // n of server i % n."""
        if name in self.vars:
            return
        if self.whole._parameters_on_pservers.is_hashed:
            self._look_up_all(name)
            return
        endpoints, var = self.whole._endpoints, self.whole.global_block().var(name)
        height, width = int(var.shape[0]), [int(side) for side in var.shape[1:]]
        longest = -(-height // len(endpoints))
        parts = []
        for i, endpoint in enumerate(endpoints):
            rows = len(range(i, height, len(endpoints)))
            part = self._receive(f"{name} (part {i})", name, [rows, *width], var.dtype, endpoint)
            if rows < longest:
                sides = [0, longest - rows, *[0, 0] * len(width)]
                part = self._op("pad", f"{name} (part {i}, padded)", {"X": [part]}, paddings=sides, pad_value=0.0)
            parts.append(part)
        mixed = self._op("stack", f"{name} (parts)", {"X": parts}, "Y", axis=1)
        flat = self._op("reshape", f"{name} (rows)", {"X": [mixed]}, shape=[longest * len(endpoints), *width])
        self.vars[name] = self._op("slice", name, {"Input": [flat]}, axes=[0], starts=[0], ends=[height])

    def _look_up_all(self, name: str) -> None:
        """A table whose rows are made when they are first trained: as trainers look them up, those that are not there too."""
        var, endpoints = self.whole.global_block().var(name), list(self.whole._endpoints)
        height, width = (int(side) for side in var.shape)
        if not self.whole._parameters_on_pservers.table_height:
            raise ValueError(
                f"the table {name!r} has no vocabulary, so that nobody can have all of it: save_persistables has servers write the "
                "rows that there are."
            )
        ends = []
        for label, value in (("from", 0), ("to", height), ("by", 1)):
            ends.append(self.block.create_var(name=f"{name} ({label})", shape=[1], dtype="int64", persistable=False))
            self.block.append_op(type="fill_constant", outputs={"Out": [ends[-1]]},
                                 attrs={"shape": [1], "dtype": VarType.INT64, "value": float(value)})
        counted = self._op("range", f"{name} (numbers)", {"Start": [ends[0]], "End": [ends[1]], "Step": [ends[2]]})
        ids = self._op("reshape", f"{name} (ids)", {"X": [counted]}, shape=[-1, 1])
        asked, got = (
            [self.block.create_var(name=f"{name} ({label} {i})", shape=[-1, side], dtype=dtype, persistable=False)
             for i in range(len(endpoints))]
            for label, side, dtype in (("asked of", 1, "int64"), ("got of", width, var.dtype))
        )
        self.block.append_op(type="split_ids", inputs={"Ids": [ids]}, outputs={"Out": asked},
                             attrs={"table_name": name, "height": height})
        self.block.append_op(type="prefetch", inputs={"X": asked}, outputs={"Out": got},
                             attrs={"epmap": endpoints, "trainer_id": self._id(), "table_name": name})
        self.vars[name] = self.block.create_var(name=name, shape=[height, width], dtype=var.dtype, persistable=False)
        self.block.append_op(type="merge_ids", inputs={"Ids": [ids], "Rows": asked, "X": got},
                             outputs={"Out": [self.vars[name]]})

    def notify(self, folder: str, table: str) -> None:
        """Servers write their rows of the table, or of a state of its rows."""
        self.block.append_op(
            type="checkpoint_notify",
            attrs={
                "epmap": list(self.whole._endpoints),
                "dir": os.path.join(folder, io_table_parts.TABLES),
                "lookup_table": table,
                "trainer_id": self._id(),
            },
        )

    def join(self, executor, folder: str, filename: str) -> None:
        """All in one file."""
        self.block.append_op(
            type="save_combine",
            inputs={"X": [self.vars[name] for name in sorted(self.vars)]},
            attrs={"file_path": os.path.join(folder, filename)},
        )
        self.run(executor)

    def as_bytes(self, executor) -> bytes:
        names = sorted(self.vars)
        found = executor.run(self.program, fetch_list=[self.vars[name] for name in names], return_numpy=False)
        return b"".join(tensor._serialize() for tensor in found)

    def run(self, executor) -> None:
        if self.block.ops:
            executor.run(self.program)

    def _id(self) -> int:
        return trainer_id(self.whole)

    def _receive(self, name: str, theirs: str, shape, dtype, endpoint: str):
        out = self.block.create_var(name=name, shape=list(shape), dtype=dtype, persistable=False)
        self.block.append_op(
            type="recv",
            inputs={"X": []},
            outputs={"Out": [out]},
            attrs={"epmap": [endpoint], "recv_varnames": [theirs], "trainer_id": self._id()},
        )
        return out

    def _op(self, kind: str, name: str, inputs: dict, slot: str = "Out", **attrs):
        first = next(iter(inputs.values()))[0]
        out = self.block.create_var(name=name, dtype=first.dtype, persistable=False)
        self.block.append_op(type=kind, inputs=inputs, outputs={slot: [out]}, attrs=attrs)
        return out


# ---- loading ----


def without_remote(program: Program, chosen: list) -> list:
    """Those that a trainer holds."""
    away = {*_on_servers(program), program._distributed_lookup_table}
    return [var for var in chosen if var.name not in away]


def of_trainer_alone(program: Program, chosen: list) -> list:
    """Those that no server has, or only as they were at the job's start: metrics, statistics of norms, frozen parameters."""
    away = {var.origin.name for var in program._parameters_on_pservers.distributed_vars if var.vtype != "HandedOut"}
    return [var for var in chosen if var.name not in {*away, program._distributed_lookup_table}]


def began_elsewhere(executor, folder: str, program: Program) -> list[str]:
    """In a trainer whose startup Program has run, in a job without a step: which variables of this folder's files
    have other values on the servers? Of those that trainers hold too; when there are none, of the smallest table.
    """
    overview = program._parameters_on_pservers.distributed_vars
    here = {var.origin.name: var.origin for var in overview if var.vtype == _HERE}
    tables = [var.origin for var in overview if var.vtype == "RemotePrefetch"]
    asked = list(here.values()) or sorted(tables, key=lambda var: (np.prod(var.shape), var.name))[:1]
    reading, scope = Program(), core.Scope()
    for var in asked:
        out = reading.global_block().create_var(name=var.name, shape=var.shape, dtype=var.dtype, persistable=True)
        path = os.path.join(folder, var.name)
        reading.global_block().append_op(type="load", outputs={"Out": [out]}, attrs={"file_path": path})
    executor.run(reading, scope=scope)
    found = []
    for var in asked:
        mine = np.array(scope.find_var(var.name).get_tensor())
        theirs = global_scope().find_var(var.name).get_tensor() if here else value_on_servers(var.name)
        if np.array(theirs).tobytes() != mine.tobytes():
            found.append(var.name)
    return sorted(found)


def tell_of_tables(program: Program, chosen: list, how: str) -> None:
    """Where a trainer is asked to load nothing that it holds: says so of what lies on servers. `how`: what servers call. (What
    it holds and servers have otherwise, the next step finds out: src/exec/theirs.h.)
    """
    overview, asked = program._parameters_on_pservers.distributed_vars, {var.name for var in chosen}
    away = {var.origin.name for var in overview if var.vtype == "RemotePrefetch"}
    away = sorted(asked & {*away, program._distributed_lookup_table})
    if away and not asked & {var.origin.name for var in overview if var.vtype == _HERE}:
        notice(
            f"not loaded in this trainer, as servers hold the values: {_some(away)}. Load them in the servers too, after their "
            f"startup Program and before they serve: {how}."
        )


def _some(names: list) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def load_joined(executor, path: str, program: Program, chosen: list, states: list) -> None:
    """A trainer's own variables out of one file: of the chosen ones, and of states on servers with these
    names.
    """
    mine = {var.name for var in without_remote(program, chosen)}
    found = {**{var.name: var for var in chosen}, **_origins(program, states)}
    for name, tensor in _read_joined(executor, path, found).items():
        if name in mine:
            global_scope().var(name).get_tensor().set(np.array(tensor), core.CPUPlace())


def _origins(program: Program, names) -> dict:
    """Whole variables on servers, by name."""
    remote = _on_servers(program)
    return {name: remote[name][0].origin for name in names if name in remote}


def _read_joined(executor, path: str, found: dict) -> dict:
    """Variables out of the one file that has all of them: name -> tensor."""
    reading, scope = Program(), core.Scope()
    outs = [
        reading.global_block().create_var(
            name=name, shape=found[name].shape, dtype=found[name].dtype, persistable=True
        )
        for name in sorted(found)
    ]
    reading.global_block().append_op(type="load_combine", outputs={"Out": outs}, attrs={"file_path": path})
    executor.run(reading, scope=scope)
    return {name: scope.find_var(name).get_tensor() for name in found}


def held_by_server(program: Program) -> list:
    """What this server holds: its slices, and of what servers have whole (rates, constants) its own."""
    endpoint, top = program._ps_endpoint, program.global_block()
    return [
        var
        for var in program._parameters_on_pservers.distributed_vars
        if var.endpoint == endpoint or (not var.is_slice and top.has_var(var.slice.name))
    ]


def of_whole(program: Program, vars, predicate) -> dict | None:
    """What a server is asked to load, as variables of the whole Program by name. None: `vars` names some that the
    whole has not.
    """
    if program._parameters_on_pservers.job is None:
        return None
    trainer = program._parameters_on_pservers.job.program
    if vars is None:
        return {var.name: var for var in trainer.list_vars() if predicate is None or predicate(var)}
    known = trainer.global_block().vars
    known = {**known, **_origins(program, _on_servers(program))}
    names = [each if isinstance(each, str) else each.name for each in vars]
    return {name: known[name] for name in names} if all(name in known for name in names) else None


def all_of_whole(program: Program, predicate) -> dict | None:
    """The same of all that lasts, states too."""
    found = of_whole(program, None, predicate)
    return None if found is None else {**found, **_origins(program, _on_servers(program))}


def load_server(executor, folder: str, program: Program, wanted: dict | None, filename: str | None) -> None:
    """Gives a server its slices of the wanted variables (None: of all that it holds), out of a file for each
    whole variable, or of one file that has all the wanted.
    """
    if filename is not None:
        from paddle.fluid.io_state_servers import set_server

        path = os.path.join(folder, filename)
        if wanted is None:
            raise ValueError(f"this server does not know which variables are in the one file {path!r}.")
        values = _read_joined(executor, path, wanted)
        set_server(program, values, repr(path), wanted)
        return
    top = program.global_block()
    reading = Program()
    for var in held_by_server(program):
        if wanted is not None and var.origin.name not in wanted:
            continue
        out = reading.global_block().create_var(
            name=var.slice.name, shape=var.slice.shape, dtype=var.slice.dtype, persistable=True
        )
        name, shape = var.origin.name, list(var.origin.shape)
        attrs = {"file_path": os.path.join(folder, name), "whole": name, "whole_shape": shape}
        if var.is_slice:
            attrs.update(seek=var.offset, shape=list(var.slice.shape))
        reading.global_block().append_op(type="load", outputs={"Out": [out]}, attrs=attrs)
    if reading.global_block().ops:
        executor.run(reading)
    table = program._distributed_lookup_table
    if table is not None and top.has_var(table) and (wanted is None or table in wanted):
        if program._parameters_on_pservers.is_hashed:
            for each in (table, *program._parameters_on_pservers.table_states):
                io_table_parts.load_rows(executor, folder, program, each, table)
        else:
            io_table_parts.load_server(executor, folder, program, table)


# ---- inference models ----


def own_lookups(program: Program) -> None:
    """Lookups on servers become lookups in the table itself: a model needs no servers."""
    block = program.global_block()
    sources = {name: op for op in block.ops if op.type == "prefetch" for name in op.output("Out")}
    for op in list(block.ops):
        if op.type == "distributed_lookup_table":
            kind, table, outs = op.attr("lookup_table_version"), op.input("W")[0], op.output("Outputs")
            padding = op.attr("padding_idx")
        elif op.type == "merge_ids" and op.input("X")[0] in sources:
            fetch, outs = sources[op.input("X")[0]], op.output("Out")
            table, padding = fetch.attr("table_name"), fetch.attr("padding_idx")
            kind = op.attr("lookup_table_version")
        else:
            continue
        place = op.idx
        for ids, out in zip(op.input("Ids"), outs):
            block._insert_op(
                place,
                type=kind,
                inputs={"Ids": [ids], "W": [table]},
                outputs={"Out": [out]},
                attrs={"padding_idx": padding},
            )
            place += 1
        block._remove_op(op.idx)
