"""The Programs of a trainer: the user's own, where gradients are sent and parameters received instead of
updated.
"""

from __future__ import annotations

from paddle.fluid import framework
from paddle.fluid.transpiler import lookup_table
from paddle.fluid.transpiler.copying import declare, remove_ops, remove_vars
from paddle.fluid.transpiler.flow import inputs_of, outputs_of, sub_blocks
from paddle.fluid.transpiler.job import Job
from paddle.fluid.vartype import OpRole, VarType

_RPC = {"op_role": int(OpRole.RPC)}
_DIST = {"op_role": int(OpRole.Dist)}


def _mark(block):
    """A variable that only orders ops."""
    return block.create_var(name=framework.generate_control_dev_var_name())


def _sign(block, job: Job, *types: str):
    """The first op of one of these types, the first type that there is, tells servers what is trained. Returns it."""
    for kind in types:
        for op in block.ops:
            if op.type == kind:
                op._set_attr("job", job.carried)
                return op
    return None


def _names(op) -> list[str]:
    return [*inputs_of(op), *outputs_of(op)]


def _inner_ops(ops: list) -> list:
    """All ops of the blocks that these run (branches of a schedule)."""
    found = [inner for op in ops for block in sub_blocks(op) for inner in block.ops]
    return found and [*_inner_ops(found), *found]


class TrainerProgram:
    """Changes the user's main Program into the trainer's."""

    def __init__(self, job: Job):
        self.job = job
        self.block = job.program.global_block()
        self.runtime_split = job.config.runtime_split_send_recv
        self.marks: dict = {}  # gradient -> what its send marks
        self.renamed: dict = {}  # gradients that are sent as they are -> the names that servers know them by
        self.rates: dict = {}  # what trainers compute rates from as well (counters, constants) -> where servers keep it

    # ---- out ----

    def _remove_update(self) -> None:
        """The ops that servers run go, and the variables that nothing else uses."""
        ops = list(self.block.ops)
        gone = [ops[index] for index in self.job.removed]
        used = {name for op in gone for name in _names(op)}
        # What stands behind the last update (averages of parameters, metrics) reads the parameters of the
        # next step.
        after = ops[self.job.removed[-1] + 1 :]
        self.anchor = after[0] if after else None
        remove_ops([*_inner_ops(gone), *gone])
        self.writers = {name: op for op in self.block.ops for name in op.output_arg_names}
        updates = self.job.graph.updates
        kept = {name for op in self.block.ops for name in _names(op)}
        kept.update(name for update in updates for name in (update.param.name, update.grad))
        self.removed = [name for name in used if name not in kept and name != self.job.table]
        remove_vars(self.block, self.removed)
        overview = self.job.program._parameters_on_pservers
        rates = {var.origin.name: var for var in overview.distributed_vars if var.vtype == "Schedule"}
        self.rates = {name: var for name, var in rates.items() if self.block.has_var(name)}

    def _send(self, update) -> None:
        """Sends the gradient right after the op that makes it."""
        job, parts = self.job, self.job.placement.of_param(update.param.name)
        grad = self.block.var(update.grad)
        if grad.name not in self.writers:
            raise ValueError(f"no op of block 0 makes the gradient {grad.name!r}; it cannot be sent.")
        place = self.writers[grad.name].idx + 1
        sections = [part.shape[0] for part in parts]
        attrs = {"epmap": [part.endpoint for part in parts], "trainer_id": job.trainer_id,
                 "at_servers": [part.grad_name for part in parts], **_RPC}
        names = [job.sent_name(part.grad_name) for part in parts]
        if self.runtime_split:
            sent = [grad]
            attrs.update(sections=sections, send_varnames=names)
        elif len(parts) == 1:
            if names[0] != grad.name:
                self.renamed[grad.name] = names[0]
            sent = [grad]
        else:
            sent = [
                self.block.create_var(
                    name=name, persistable=False, dtype=grad.dtype, type=grad.type, shape=part.shape
                )
                for name, part in zip(names, parts)
            ]
            self._insert_split(place, grad, sent, sections)
            place += 1
        mark = self.marks[update.grad] = _mark(self.block)
        attrs["op_role_var"] = [update.param.name, grad.name]
        self.block._insert_op(place, type="send", inputs={"X": sent}, outputs={"Out": [mark]}, attrs=attrs)

    def _insert_split(self, place: int, grad, sent: list, sections: list) -> None:
        is_sparse = grad.type == VarType.SELECTED_ROWS
        self.block._insert_op(
            place,
            type="split_selected_rows" if is_sparse else "split_byref",
            inputs={"X": [grad]},
            outputs={"Out": sent},
            attrs={"height_sections" if is_sparse else "sections": sections, **_DIST},
        )

    # ---- in ----

    def _append(self, **op):
        return (
            self.block.append_op(**op)
            if self.anchor is None
            else self.block._insert_op(self.anchor.idx, **op)
        )

    def _barrier(self, marks: list):
        barrier = _mark(self.block)
        self._append(
            type="send_barrier",
            inputs={"X": marks},
            outputs={"Out": [barrier]},
            attrs={
                "endpoints": self.job.endpoints,
                "trainer_id": self.job.trainer_id,
                "half_async": False,
                **_RPC,
            },
        )
        return barrier

    def _receive(self, update, after, received: list, joins: list) -> None:
        parts = self.job.placement.of_param(update.param.name)
        param = self.block.var(update.param.name)
        attrs = {"epmap": [part.endpoint for part in parts], "trainer_id": self.job.trainer_id, **_RPC}
        if self.runtime_split:
            outs = [param]
            attrs["recv_varnames"] = [part.name for part in parts]
        else:
            outs = [declare(self.block, param, part.name, part.shape, len(parts) == 1) for part in parts]
        received += outs
        if len(outs) > 1:
            joins.append((outs, param))
        grad = update.grad if self.runtime_split or len(parts) > 1 else self.job.sent_name(update.grad)
        attrs["op_role_var"] = [param.name, grad]
        self._append(type="recv", inputs={"X": [after]}, outputs={"Out": outs}, attrs=attrs)

    def build(self) -> None:
        """Changes the Program."""
        job = self.job
        self._remove_update()
        for update in job.graph.updates:
            self._send(update)
        self.block._rename_vars(self.renamed)
        job.renamed = self.renamed
        if job.table is not None:
            self.marks[job.table] = _mark(self.block)
        # In async mode the first recv ends the step, where there is one.
        is_all_remote = all(update.param.name in job.remote for update in job.graph.updates)
        barrier = self._barrier(list(self.marks.values())) if job.is_sync or is_all_remote else None
        received, joins = [], []
        for update in job.graph.updates:
            if update.param.name not in job.remote:
                self._receive(update, barrier or self.marks[update.grad], received, joins)
        for name in job.remote:
            lookup_table.replace_lookups(job, name)
        if job.is_sync:
            self._append(
                type="fetch_barrier",
                inputs={"X": [barrier]},
                outputs={"Out": received},
                attrs={"endpoints": job.endpoints, "trainer_id": job.trainer_id, **_RPC},
            )
        for outs, param in joins:
            self._append(
                type="concat", inputs={"X": outs}, outputs={"Out": [param]}, attrs={"axis": 0, **_DIST}
            )
        if job.table is not None:
            lookup_table.prefetch_table(job)
            lookup_table.send_table_grad(job, self.marks[job.table])
        signed = _sign(self.block, job, "send")
        if self.rates and signed is not None:
            signed._set_attr("also_kept", list(self.rates))


class TrainerStartup:
    """Changes the user's startup Program into the trainer's: start values come from the servers."""

    def __init__(self, job: Job, trainer: TrainerProgram):
        self.job = job
        self.block = job.startup.global_block()
        self.removed = set(trainer.removed)
        self.rates = trainer.rates

    def _remove_states(self) -> None:
        """What trainers no longer have needs no start value."""
        remove_ops(op for op in self.block.ops if outputs_of(op) and self.removed.issuperset(outputs_of(op)))
        used = {name for op in self.block.ops for name in _names(op)}
        remove_vars(self.block, self.removed - used)

    def _receive(self) -> None:
        job, joins = self.job, []
        who = {"trainer_id": job.trainer_id, "trainers": job.trainers, **_RPC}
        for update in job.graph.updates:
            if update.param.name in job.remote:
                continue
            parts = job.placement.of_param(update.param.name)
            param = declare(self.block, update.param)
            outs = [declare(self.block, param, part.name, part.shape, len(parts) == 1) for part in parts]
            if len(outs) > 1:
                joins.append((outs, param))
            self.block.append_op(
                type="recv",
                inputs={"X": []},
                outputs={"Out": outs},
                attrs={"epmap": [part.endpoint for part in parts], **who},
            )
        for name in job.handed_out:
            self.block.append_op(
                type="recv",
                inputs={"X": []},
                outputs={"Out": [self.block.var(name)]},
                attrs={"epmap": job.endpoints[:1], **who},
            )
        # In a job that has begun they are not what the startup Program says.
        for name, var in self.rates.items():
            if name not in job.handed_out and self.block.has_var(name):
                self.block.append_op(
                    type="recv",
                    inputs={"X": []},
                    outputs={"Out": [self.block.var(name)]},
                    attrs={"epmap": [var.endpoint], **who},
                )
        self.block.append_op(
            type="fetch_barrier",
            inputs={},
            outputs={"Out": [_mark(self.block)]},
            attrs={"endpoints": job.endpoints, "trainer_id": job.trainer_id, **_RPC},
        )
        for outs, param in joins:
            self.block.append_op(
                type="concat", inputs={"X": outs}, outputs={"Out": [param]}, attrs={"axis": 0}
            )

    def _leave_tables(self) -> None:
        """Tables on servers get no memory here."""
        for name in [*self.job.remote, *([self.job.table] if self.job.table is not None else [])]:
            remove_ops(op for op in self.block.ops if op.output_arg_names == [name])
            var = self.block.vars.get(name)
            if var is not None:
                self.block.append_op(
                    type="fake_init", outputs={"Out": [var]}, attrs={"shape": list(var.shape)}
                )

    def build(self) -> None:
        """Changes the Program."""
        self._remove_states()
        self._receive()
        self._leave_tables()
        _sign(self.block, self.job, "recv", "fetch_barrier")
