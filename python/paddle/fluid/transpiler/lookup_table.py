"""Tables that trainers do not hold: rows are fetched when a batch needs them.

Two kinds. The parameter of embedding(is_sparse=True) lies in slices of rows, like any other; its lookups
become one distributed_lookup_table. The table of embedding(is_distributed=True) lies on all servers, row i on
server i % n; its lookups become split_ids, prefetch, merge_ids. Where plain SGD updates it, it is a variable with
all its rows; with any other optimizer, and from contrib.layers.sparse_embedding, its rows are made when they are first
trained, with their states (is_hashed; docs/TABLES.md).
"""

from __future__ import annotations

from paddle.fluid.log_helper import notice
from paddle.fluid.transpiler.copying import attrs_of, copy_op, declare, place_of, remove_ops
from paddle.fluid.transpiler.flow import inputs_of, sub_blocks
from paddle.fluid.vartype import OpRole, VarType

LOOKUPS = ("lookup_table", "lookup_table_v2")
_GRADS = tuple(f"{kind}_grad" for kind in LOOKUPS)
_OPTIMIZE = {"op_role": int(OpRole.Optimize)}


def remote_params(graph, table: str | None) -> list[str]:
    """Parameters with sparse gradients that nothing but lookups reads."""
    readers: dict = {}
    for block in graph.program.blocks:
        for op in block.ops:
            for name in inputs_of(op):
                readers.setdefault(name, []).append(op)
    found = []
    for update in graph.updates:
        name = update.param.name
        others = [op for op in readers.get(name, []) if not graph.is_moved(op) and op.type not in _GRADS]
        if update.is_sparse and name != table and others and all(_is_remote(op, name) for op in others):
            found.append(name)
    return found


def _is_remote(op, name: str) -> bool:
    if op.type not in LOOKUPS or op.block.idx != 0 or op.input("W") != [name]:
        return False
    return bool(op.attr("remote_prefetch") or (op.type == "lookup_table_v2" and op.attr("is_distributed")))


# ---- the trainer's lookups ----


def replace_lookups(job, name: str) -> None:
    """Lookups of a parameter in slices become one distributed_lookup_table, or several where ids come too
    late.
    """
    block = job.program.global_block()
    groups: dict = {}
    for op in block.ops:
        if op.type in LOOKUPS and op.input("W") == [name]:
            groups.setdefault((op.type, op.attr("padding_idx")), []).append(op)
    for (kind, padding), ops in groups.items():
        first, last = _room(block, ops)
        for together in [ops] if first < last else [[op] for op in ops]:
            _join_lookups(job, block, together, kind, padding, _room(block, together)[0])


def _room(block, ops: list) -> tuple[int, int]:
    """Where one op for all of them may stand: after the last that makes ids, before the first that reads a
    result.
    """
    ids = {op.input("Ids")[0] for op in ops}
    outs = {op.output("Out")[0] for op in ops}
    first, last = 0, len(block.ops)
    for index, op in enumerate(block.ops):
        if ids.intersection(op.output_arg_names):
            first = max(first, index + 1)
        if outs.intersection(op.input_arg_names):
            last = min(last, index)
    return first, last


def _join_lookups(job, block, ops: list, kind: str, padding: int, first: int) -> None:
    parts = job.placement.of_param(ops[0].input("W")[0])
    slots = {
        "inputs": {"Ids": [op.input("Ids")[0] for op in ops], "W": ops[0].input("W")},
        "outputs": {"Outputs": [op.output("Out")[0] for op in ops]},
    }
    made = _made_in(ops)
    place = _remove(ops, first)
    block._insert_op(
        place,
        type="distributed_lookup_table",
        attrs={
            "table_names": [part.name for part in parts],
            "height_sections": [part.shape[0] for part in parts],
            "endpoints": [part.endpoint for part in parts],
            "padding_idx": padding,
            "trainer_id": job.trainer_id,
            "lookup_table_version": kind,
            **made,
        },
        **slots,
    )


def _made_in(ops: list) -> dict:
    """The attribute by which an error names the lines of the script that made the first of these ops."""
    return {"op_callstack": ops[0].attr("op_callstack")} if ops[0].has_attr("op_callstack") else {}


def _remove(ops: list, place: int) -> int:
    """Removes the ops; returns where `place` is afterwards."""
    place -= sum(op.idx < place for op in ops)
    remove_ops(ops)
    return place


# ---- the distributed table ----


def is_hashed(graph) -> bool:
    """Are rows of the table made when they are first trained?"""
    if graph.table_rule is None:
        return False
    return graph.table_rule.type != "sgd" or _table_of(graph).table_settings is not None


def _table_of(graph):
    return graph.vars[graph.table_rule.input("Param")[0]]


def table_height(graph) -> int:
    """Ids are below it; 0: there is no vocabulary."""
    return int(_table_of(graph).shape[0]) if _table_of(graph).table_settings is None else 0


def table_settings(graph, servers: int) -> list[str]:
    """Which ids have a row, as a server is told."""
    settings = dict(_table_of(graph).table_settings or {})
    if "most" in settings:
        settings["most"] = str(max(int(settings["most"]) // servers, 1))
    if table_height(graph):
        settings["height"] = str(table_height(graph))
    return [f"{key}={value}" for key, value in settings.items()]


def row_states(graph) -> list[str]:
    """States of which each row of such a table has its own."""
    if not is_hashed(graph):
        return []
    shape = tuple(graph.vars[graph.table_rule.input("Param")[0]].shape)
    return [name for name in graph.table_states if tuple(graph.vars[name].shape) == shape]


def table_fill(op) -> tuple[str, dict]:
    """The op that fills rows of the table as `op` of the startup Program fills all of it, and its attributes but the shape."""
    kept = (*TABLE_FILLS[op.type], "dtype", "op_role")
    attrs = {name: value for name, value in attrs_of(op).items() if name in kept}
    attrs.update(place_of(op))
    kind = op.type
    if kind == "fill_constant":
        kind = "uniform_random"
        attrs.pop("value", None)
        attrs["min"] = attrs["max"] = op.attr("value")
    return kind, attrs


def is_made_at_once(op) -> bool:
    """Are the numbers of a row known only when all before it are drawn? Then all rows are made when the server starts."""
    return op.type == "gaussian_random" and bool(op.attr("seed"))


def check_settings(graph, startup) -> None:
    """Can a table without a vocabulary be made?"""
    if graph.table_rule is None or table_height(graph):
        return
    table = _table_of(graph).name
    for op in startup.global_block().ops:
        if table in op.output_arg_names and is_made_at_once(op):
            raise ValueError(
                f"the table {table!r} has no vocabulary, and a Normal initializer with a seed, whose numbers are known only "
                "when all before them are drawn: use a Uniform, TruncatedNormal, Xavier or Constant one, or leave the seed out."
            )


def table_grad_names(job, index: int) -> tuple[str, list[str]]:
    """The gradient of the table that goes to server `index`: its name on this trainer, and on the server by
    trainer.
    """
    grad = job.graph.table_rule.input("Grad")[0]
    if not job.merges:
        return f"{grad}.pserver_{index}", [f"{grad}.pserver_{index}"]
    mine = (
        f"{grad}.pserver_{index}"
        if job.trainer_id < 0
        else f"{grad}.trainer_{job.trainer_id}.pserver_{index}"
    )
    return mine, [f"{grad}.trainer_{number}.pserver_{index}" for number in range(job.trainers)]


def check_table(graph, table: str) -> None:
    """Can the table be distributed?"""
    if graph.table_rule is None:
        raise ValueError(f"the distributed lookup table {table!r} has no optimizer op; is it trainable?")
    _check_readers(graph, table)
    grad = graph.vars[graph.table_rule.input("Grad")[0]]
    if grad.type != VarType.SELECTED_ROWS:
        raise ValueError(
            f"the embedding of {table!r} has is_distributed=True; give it is_sparse=True as well."
        )
    paddings = {
        op.attr("padding_idx") for op in graph.block.ops if op.type in LOOKUPS and op.input("W") == [table]
    }
    if len(paddings) > 1:
        raise ValueError(
            f"lookups of the distributed table {table!r} have different padding_idx ({sorted(paddings)}); "
            "give all the same."
        )
    others = sorted({update.rule.type for update in graph.updates} - {"sgd"})
    if others and not is_hashed(graph):
        notice(
            "distribute lookup table only support sgd optimizer, change it's optimizer to sgd instead of "
            + ", ".join(others)
        )


def _check_readers(graph, table: str) -> None:
    """Trainers fetch the rows that lookups need; nobody has the whole table."""
    for block in graph.program.blocks:
        for op in block.ops:
            if op is graph.table_rule or table not in op.input_arg_names or sub_blocks(op):
                continue
            if op.type in (*LOOKUPS, *_GRADS) and op.input("W") == [table]:
                if block.idx == 0:
                    continue
                found = f"op {op.type!r} inside a loop or a branch looks rows of {table!r} up"
            else:
                found = f"op {op.type!r} reads all of {table!r}"
            raise ValueError(
                f"{found}, but a distributed lookup table lies on the servers and only lookups outside of "
                "loops and branches can read it. Give its embedding is_distributed=False (is_sparse=True "
                "still sends only the rows of a batch). Averages of parameters leave it out with "
                "ParamAttr(do_model_average=False)."
            )


# What can fill each server's rows of a distributed table: op -> its own attributes that count.
TABLE_FILLS = {
    "uniform_random": ("min", "max", "seed"),
    "gaussian_random": ("mean", "std", "seed"),
    "truncated_gaussian_random": ("mean", "std", "seed"),
    "fill_constant": ("value",),
}


def check_start(ops: list, table: str) -> None:
    """Can servers fill their rows of the table? `ops` are those of the startup Program."""
    for op in ops:
        if table in op.output_arg_names and op.type not in TABLE_FILLS:
            raise ValueError(
                f"the distributed lookup table {table!r} is filled by op {op.type!r}, which makes the whole "
                "table at once; use a Uniform, Normal, TruncatedNormal, Xavier, MSRA or Constant "
                "initializer, or give its embedding is_distributed=False."
            )


def prefetch_table(job) -> None:
    """Lookups of the distributed table become split_ids, prefetch and merge_ids."""
    block = job.program.global_block()
    if not table_height(job.graph):
        for op in block.ops:
            if op.type in _GRADS and op.input("W") == [job.table]:
                op._set_attr("height_sections", [2**63 - 1])
    groups: dict = {}
    for op in block.ops:
        if op.type in LOOKUPS and op.input("W") == [job.table]:
            groups.setdefault(op.type, []).append(op)
    for kind, ops in groups.items():
        first, last = _room(block, ops)
        for together in [ops] if first < last else [[op] for op in ops]:
            is_only = len(groups) == 1 and together is ops
            _prefetch(job, block, together, kind, "" if is_only else f"_{together[0].output('Out')[0]}")


def _prefetch(job, block, ops: list, kind: str, suffix: str) -> None:
    place = max(_room(block, ops)[0], ops[0].idx)
    ids = [block.var(op.input("Ids")[0]) for op in ops]
    outs = [block.var(op.output("Out")[0]) for op in ops]
    width = int(job.graph.vars[job.table].shape[1])
    padding, made = ops[0].attr("padding_idx"), _made_in(ops)
    place = _remove(ops, place)
    asked, got = [], []
    for index in range(len(job.endpoints)):
        asked.append(declare(block, ids[0], f"prefetch_compress_in_tmp_{index}{suffix}", [-1, 1], False))
        got.append(declare(block, outs[0], f"prefetch_compress_out_tmp_{index}{suffix}", [-1, width], False))
    block._insert_op(
        place,
        type="split_ids",
        inputs={"Ids": ids},
        outputs={"Out": asked},
        attrs={"table_name": job.table, "height": table_height(job.graph), **made},
    )
    block._insert_op(
        place + 1,
        type="prefetch",
        inputs={"X": asked},
        outputs={"Out": got},
        attrs={
            "epmap": job.endpoints,
            "trainer_id": job.trainer_id,
            "table_name": job.table,
            "padding_idx": padding,
            **made,
        },
    )
    block._insert_op(
        place + 2,
        type="merge_ids",
        inputs={"Ids": ids, "Rows": asked, "X": got},
        outputs={"Out": outs},
        attrs={"lookup_table_version": kind, **made},
    )


def send_table_grad(job, mark) -> None:
    """The gradient of the distributed table is dealt out to the servers. `mark` orders the send before the
    barrier.
    """
    block = job.program.global_block()
    grad = block.var(job.graph.table_rule.input("Grad")[0])
    writer = next(op for op in reversed(block.ops) if grad.name in op.output_arg_names)
    parts = [
        declare(block, grad, table_grad_names(job, index)[0], persistable=False)
        for index in range(len(job.endpoints))
    ]
    block._insert_op(
        writer.idx + 1,
        type="split_ids",
        inputs={"Ids": [grad]},
        outputs={"Out": parts},
        attrs={"op_role": int(OpRole.Dist)},
    )
    block._insert_op(
        writer.idx + 2,
        type="send",
        inputs={"X": parts},
        outputs={"Out": [mark]},
        attrs={
            "epmap": job.endpoints,
            "trainer_id": job.trainer_id,
            "at_servers": [grad.name if job.merges else part.name for part in parts],
            "op_role": int(OpRole.RPC),
            "op_role_var": [job.table, grad.name],
        },
    )


class ServerTable:
    """The blocks that a server has for its rows of the distributed table."""

    def __init__(self, server):
        self.server = server
        self.job = job = server.job
        self.rule = job.graph.table_rule
        self.index = job.endpoints.index(server.endpoint)
        whole = job.graph.vars[job.table]
        self.is_hashed = is_hashed(job.graph)
        if self.is_hashed:
            # The engine knows of one row: what new ones are like.
            for name in (job.table, *row_states(job.graph)):
                declare(server.top, job.graph.vars[name], shape=(1, *whole.shape[1:]), persistable=True)
                if name != job.table:
                    server.origins[name] = (name, None)
        else:
            rows = -(-whole.shape[0] // len(job.endpoints))
            declare(
                server.top, whole, shape=(rows, *whole.shape[1:]), persistable=True, type=VarType.SELECTED_ROWS
            )
        self.grad = job.graph.vars[self.rule.input("Grad")[0]]
        self.received = table_grad_names(job, self.index)[1]
        for name in self.received:
            declare(server.top, self.grad, name, persistable=False)
        self.grad_name = self.grad.name if job.merges else self.received[0]
        declare(server.top, self.grad, self.grad_name, persistable=True)
        self.ids_name = f"prefetch_compress_in_tmp_{self.index}"

    def optimize_block(self):
        """Averages the gradient over trainers and applies the optimizer."""
        job, block = self.job, self.server.new_block()
        if job.merges:
            block.append_op(
                type="sum",
                inputs={"X": self.received},
                outputs={"Out": [self.grad_name]},
                attrs={"use_mkldnn": False, **_OPTIMIZE},
            )
            if job.config.average_table_gradient:
                block.append_op(
                    type="scale",
                    inputs={"X": [self.grad_name]},
                    outputs={"Out": [self.grad_name]},
                    attrs={"scale": 1.0 / job.trainers, **_OPTIMIZE},
                )
        if self.is_hashed:
            grad = self.rule.input("Grad")[0]
            copy_op(
                block,
                self.rule,
                lambda name: self.grad_name if name == grad else self.server.declare(block, name),
                op_role_var=[job.table, self.grad_name],
            )
            return block
        rate = self.server.declare(block, self.rule.input("LearningRate")[0])
        block.append_op(
            type="sgd",
            inputs={"Param": [job.table], "Grad": [self.grad_name], "LearningRate": [rate]},
            outputs={"ParamOut": [job.table]},
            attrs={"op_role_var": [job.table, self.grad_name], **_OPTIMIZE},
        )
        return block

    def start_block(self, startup):
        """What rows begin with: a fill of one row, whose attribute row_begin says which."""
        job = self.job
        op = next(op for op in startup.global_block().ops if job.table in op.output_arg_names)
        kind, attrs = table_fill(op)
        _, *rest = job.graph.vars[job.table].shape
        block = self.server.new_block()
        attrs.update(shape=[1, *rest], row_begin=0, height=table_height(job.graph))
        block.append_op(type=kind, outputs={"Out": [job.table]}, attrs=attrs)
        return block

    def settings(self, start) -> str:
        """What the server has to know of the table (hashed_tables of listen_and_serv)."""
        count = len(self.job.endpoints)
        where = [f"start={start.idx}", f"first={self.index}", f"step={count}"]
        return "\t".join([self.job.table, *where, *table_settings(self.job.graph, count)])

    def prefetch_block(self):
        """Looks rows up."""
        top, block = self.server.top, self.server.new_block()
        whole = self.job.graph.vars[self.job.table]
        ids = top.create_var(name=self.ids_name, shape=[-1, 1], dtype="int64")
        out = top.create_var(
            name=f"prefetch_compress_out_tmp_{self.index}", shape=[-1, whole.shape[1]], dtype=whole.dtype
        )
        lookup = next(
            op for op in self.job.graph.block.ops if op.type in LOOKUPS and op.input("W") == [whole.name]
        )
        block.append_op(
            type="lookup_sparse_table",
            inputs={"Ids": [ids], "W": [self.job.table]},
            outputs={"Out": [out]},
            attrs={"padding_idx": lookup.attr("padding_idx"), "auto_grown_table": False},
        )
        return block

    def checkpoint_block(self):
        """Writes this server's rows to a file; whoever asks for it says where."""
        self.server.top.create_var(name="kLookupTablePath", persistable=True, type=VarType.RAW)
        block = self.server.new_block()
        block.append_op(type="save", inputs={"X": [self.job.table]}, outputs={}, attrs={"file_path": "none"})
        return block
