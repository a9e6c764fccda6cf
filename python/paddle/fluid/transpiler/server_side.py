"""The main Program of a server: listen_and_serv in block 0, and a block for all that it runs.

- lr_decay_block_id: the learning rate, once a step;
- prepare_block_id: what needs the gradients of more than one slice, once a step (server_prepare.py);
- optimize_blocks: one for each slice: the average over trainers, decay and clip, the optimizer op.
"""

from __future__ import annotations

from paddle.fluid.framework import Program
from paddle.fluid.log_helper import notice
from paddle.fluid.transpiler.copying import copy_op, declare
from paddle.fluid.transpiler.job import Job
from paddle.fluid.transpiler.lookup_table import ServerTable
from paddle.fluid.transpiler.server_prepare import PreparePlan, build_prepare
from paddle.fluid.vartype import OpRole

_OPTIMIZE = {"op_role": int(OpRole.Optimize)}


class ServerProgram:
    """Builds the Program of one server. `origins` maps each lasting variable to (its name in the whole, slice
    or None).
    """

    def __init__(self, job: Job, endpoint: str, prepare: PreparePlan):
        self.job = job
        self.endpoint = endpoint
        self.prepare = prepare
        self.slices = job.placement.on(endpoint)
        self.slices_of: dict = {}  # of a parameter
        for part in self.slices:
            self.slices_of.setdefault(part.param, []).append(part)
        self.origins: dict = {}
        self.program = Program()
        self.program.random_seed = job.program.random_seed
        self.program._copy_dist_param_info_from(job.program)
        self.program._ps_endpoint = endpoint
        self.top = self.program.global_block()
        self.updates = {update.param.name: update for update in job.graph.updates}
        self._shared = self._shared_names()

    def _shared_names(self) -> set:
        """Variables that one block writes and another reads, or a trainer fetches: they must outlast the block."""
        job, flow = self.job, self.job.graph.flow
        rates = {name for op in job.graph.rate_ops for name in flow.writes[op]}
        prepared = {name for op in self.prepare.ops for name in flow.writes[op]}
        readers = [*job.graph.moved, *([job.graph.table_rule] if job.graph.table_rule is not None else [])]
        late = [op for op in job.graph.moved if op not in self.prepare.ops]
        return job.graph.given_rates() | {name for op in readers for name in flow.reads[op] if name in rates} | {
            name
            for op in late
            for name in flow.reads[op]
            if name in prepared and not self.prepare.is_constant(name)
        }

    def _slices(self) -> list:
        """Where each sliced variable lies in its whole: name, whole, first row and rows, with tabs, which no name has. State of one
        number for the whole parameter (powers of beta) is the same in all slices: each is all of it.
        """
        found = []
        for here, (name, part) in self.origins.items():
            if part is None or here == name:
                continue
            shape = tuple(self.job.graph.vars[name].shape)
            has_rows = shape == tuple(self.updates[part.param].param.shape)
            found.append(f"{here}\t{name}\t{part.begin if has_rows else 0}\t{shape[0] if shape else 1}")
        return found

    # ---- variables ----

    def new_block(self):
        """A block inside block 0."""
        return self.program.block(self.program._add_block(0))

    def declare(self, block, name: str, part=None) -> str:
        """Declares a variable of the whole Program where it belongs; returns its name here. `part`: of this
        slice.
        """
        var = self.job.graph.vars[name]
        here = part.of(name) if part is not None else name
        if self.top.has_var(here) or block.has_var(here):
            return here
        shape = var.shape
        if part is not None and tuple(shape) == tuple(self.updates[part.param].param.shape):
            shape = part.cut(shape)
        lasting = var.persistable or name in self._shared
        declare(self.top if lasting else block, var, here, shape, lasting)
        if var.persistable:
            self.origins[here] = (name, part)
        return here

    def emit(self, block, op, part=None) -> None:
        """Appends a copy of an update op; variables with the rows of the slice's parameter become those of
        the slice.
        """
        own = self.job.classes.own

        def name_in(name: str) -> str:
            mine = part is not None and name in own and own[name].param.name == part.param
            return self.declare(block, name, part if mine else None)

        attrs = {"op_role_var": [part.name, part.grad_name]} if part is not None else {}
        copy_op(block, op, name_in, **attrs)

    def merge(self, block, part) -> None:
        """Averages the gradient of a slice over the trainers."""
        job = self.job
        if not job.merges:
            return
        block.append_op(
            type="sum",
            inputs={"X": job.received_names(part.grad_name)},
            outputs={"Out": [part.grad_name]},
            attrs={"use_mkldnn": False, **_OPTIMIZE},
        )
        block.append_op(
            type="scale",
            inputs={"X": [part.grad_name]},
            outputs={"Out": [part.grad_name]},
            attrs={"scale": 1.0 / job.trainers, **_OPTIMIZE},
        )

    # ---- the parts of the Program ----

    def _declare_slices(self) -> list[str]:
        """Parameters and gradients of this server; returns the variables that trainers send."""
        job, received = self.job, []
        for part in self.slices:
            self.declare(self.top, part.param, part)
        for name in job.handed_out if self.endpoint == job.endpoints[0] else []:
            self.declare(self.top, name)
        for part in self.slices:
            grad = job.graph.vars[part.grad]
            declare(self.top, grad, part.grad_name, part.shape, True)
            for name in job.received_names(part.grad_name):
                declare(self.top, grad, name, part.shape, not job.merges)
                received.append(name)
        return received

    def _rate_block(self):
        job = self.job
        if not job.graph.rate_ops:
            return None
        block = self.new_block()
        for op in job.graph.rate_ops:
            copy_op(block, op, lambda name: self.declare(block, name))
        return block

    def _optimize_block(self, part):
        update = self.updates[part.param]
        block = self.new_block()
        if update not in self.prepare.updates:
            self.merge(block, part)
        graph, flow = self.job.graph, self.job.graph.flow
        mine = {op for op in self.job.classes.ops_of(update) if op not in self.prepare.ops}
        constants = flow.needed(
            {name for op in mine for name in flow.reads[op]},
            lambda op: graph.is_moved(op) and op not in flow.rules and self.prepare.is_constant_op(op),
        )
        for op in flow.in_order({*mine, *constants}):
            self.emit(block, op, part if op in mine else None)
        return block

    def build(self) -> Program:
        """Makes the Program."""
        job = self.job
        received = self._declare_slices()
        rate_block = self._rate_block()
        prepare_block = build_prepare(self, self.prepare) if self.prepare.is_on(self.endpoint) else None
        blocks, grads, sparse = [], [], []
        for part in self.slices:
            block = self._optimize_block(part)
            blocks.append(block)
            grads.append(f"{part.grad_name}:{block.idx}")
            if self.updates[part.param].is_sparse:
                sparse.append(f"{part.grad_name}:{part.name}")
        attrs = {}
        if job.table is not None:
            table = ServerTable(self)
            blocks.append(table.optimize_block())
            grads.append(f"{table.grad_name}:{blocks[-1].idx}")
            received += table.received
            if table.is_hashed:
                attrs["hashed_tables"] = [table.settings(table.start_block(job.whole_startup))]
            else:
                attrs["prefetch_var_name_to_block_id"] = [f"{table.ids_name}:{table.prefetch_block().idx}"]
            attrs["checkpint_block_id"] = table.checkpoint_block().idx
            self.program._distributed_lookup_table = job.table
        if rate_block is not None:
            blocks.insert(0, rate_block)
        if not blocks:
            notice(f"the server {self.endpoint} has nothing to update.")
            blocks.append(self.new_block())
        self._listen(received, blocks, grads, sparse, rate_block, prepare_block, attrs)
        return self.program

    def _listen(self, received, blocks, grads, sparse, rate_block, prepare_block, attrs) -> None:
        job = self.job
        if prepare_block is not None:
            attrs["prepare_block_id"] = prepare_block.idx
        self.top.append_op(
            type="listen_and_serv",
            inputs={"X": received},
            outputs={},
            attrs={
                "optimize_blocks": blocks,
                "endpoint": self.endpoint,
                "endpoints": job.endpoints,
                "pserver_id": job.endpoints.index(self.endpoint),
                "Fanin": job.trainers,
                "distributed_mode": job.mode,
                "dc_asgd": job.config.enable_dc_asgd,
                "sync_mode": job.is_sync,
                "grad_to_block_id": grads,
                "sparse_grad_to_param": sparse,
                "slices": self._slices(),
                "placing": job.placement.mark(job.table),
                "job": job.lines_of(self.endpoint),
                "lr_decay_block_id": -1 if rate_block is None else rate_block.idx,
                "rpc_get_thread_num": job.server_config._rpc_get_thread_num,
                "rpc_send_thread_num": job.server_config._rpc_send_thread_num,
                "rpc_prefetch_thread_num": job.server_config._rpc_prefetch_thread_num,
                **attrs,
            },
        )
