"""The startup Program of a server: its slices start with the values that one process would give them.

Random numbers are a function of the seed, or of the place of the op in the user's Program, and of the place of an
element in the whole variable, so that a slice is drawn by itself (attributes op_place, row_begin and height). What
other ops make is made whole and cut.
"""

from __future__ import annotations

from paddle.fluid.framework import Program
from paddle.fluid.transpiler.copying import attrs_of, copy_op, declare, place_of
from paddle.fluid.transpiler.flow import Flow
from paddle.fluid.transpiler.lookup_table import check_start, is_hashed, is_made_at_once, table_fill
from paddle.fluid.vartype import VarType

_RANDOM = ("uniform_random", "gaussian_random", "truncated_gaussian_random")
_TALK = ("recv", "send", "fetch_barrier", "send_barrier", "fake_init")


class ServerStartup:
    """Builds it. `server` is the ServerProgram that was built before."""

    def __init__(self, server, startup: Program):
        self.server = server
        ops = startup.global_block().ops
        self.talks = any(op.type in _TALK for op in ops)
        self.flow = Flow([op for op in ops if op.type not in _TALK])
        self.vars = startup.global_block().vars
        self.program = Program()
        self.program.random_seed = startup.random_seed
        self.block = self.program.global_block()
        self.wanted: dict = {}  # name in the whole -> [(name here, slice or None)]
        for name, (origin, part) in server.origins.items():
            self.wanted.setdefault(origin, []).append((name, part))

    def _simple_op(self, origin: str):
        """The one op that fills a variable, if it can fill a slice as well."""
        writers = self.flow.writers(origin)
        if (
            len(writers) == 1
            and writers[0].type in (*_RANDOM, "fill_constant")
            and not self.flow.reads[writers[0]]
        ):
            return writers[0]
        return None

    def _fill(self, op, name: str, part) -> None:
        """Draws or fills a slice."""
        attrs = {**attrs_of(op), **place_of(op)}
        attrs["shape"] = [int(side) for side in self.block.var(name).shape]
        if part is not None and part.number is not None and op.type in _RANDOM:
            attrs["row_begin"] = part.begin
            attrs["height"] = int(self.vars[op.output("Out")[0]].shape[0])
        self.block.append_op(type=op.type, outputs={"Out": [name]}, attrs=attrs)

    def _fill_table(self, op) -> None:
        """This server's rows of the distributed table: every n-th, from its own number on."""
        job = self.server.job
        index, count = job.endpoints.index(self.server.endpoint), len(job.endpoints)
        height, *rest = self.vars[job.table].shape
        check_start([op], job.table)
        kind, attrs = table_fill(op)
        filled = job.table
        if is_hashed(job.graph):
            self.block.append_op(type=kind, outputs={"Out": [job.table]}, attrs={**attrs, "shape": [1, *rest]})
            if not is_made_at_once(op):
                return
            filled = f"{job.table}@ROWS"
            declare(self.block, self.vars[job.table], filled, persistable=True, type=VarType.SELECTED_ROWS)
        attrs.update(
            shape=[len(range(index, height, count)), *rest],
            row_begin=index,
            row_step=count,
            height=height,
        )
        self.block.append_op(type=kind, outputs={"Out": [filled]}, attrs=attrs)

    def _copy_whole(self, origins: list) -> None:
        """Runs the ops that make these variables as they are, and cuts the slices out."""

        def name_in(name: str) -> str:
            if not self.block.has_var(name):
                declare(self.block, self.vars[name], persistable=False)
            return name

        for op in self.flow.needed(origins):
            copy_op(self.block, op, name_in)
        for origin in origins:
            for name, part in self.wanted[origin]:
                if name == origin:
                    continue
                if tuple(self.block.var(name).shape) == tuple(self.vars[origin].shape):
                    self.block.append_op(type="assign", inputs={"X": [origin]}, outputs={"Out": [name]})
                    continue
                self.block.append_op(
                    type="slice",
                    inputs={"Input": [origin]},
                    outputs={"Out": [name]},
                    attrs={"axes": [0], "starts": [part.begin], "ends": [part.begin + part.shape[0]]},
                )

    def check(self) -> None:
        """Of a Program that transpile was not given: is it one that fills what this server holds?"""
        advice = "Leave startup_program out, or give a copy that was made before transpile."
        if self.talks:
            raise ValueError(
                "startup_program is a trainer's: transpile has changed it, or what it is a copy of, so that it gets its values "
                f"from servers. {advice}"
            )
        table, top = self.server.job.table, self.server.top
        held = [*self.wanted, *([table] if table is not None and top.has_var(table) else [])]
        lacking = sorted(name for name in held if not self.flow.writers(name))
        if lacking:
            raise ValueError(f"startup_program gives {lacking[0]!r}, of which this server holds a part, no first value. {advice}")

    def build(self) -> Program:
        """Makes the Program."""
        job, top = self.server.job, self.server.top
        for var in top._all_vars():
            if var.persistable and var.type in (VarType.LOD_TENSOR, VarType.SELECTED_ROWS):
                declare(self.block, var)
        others = []
        for op in self.flow.ops:
            for origin in self.flow.writes[op]:
                if origin == job.table and self.server.top.has_var(origin):
                    self._fill_table(op)
                elif origin not in self.wanted:
                    continue
                elif self._simple_op(origin) is not None:
                    for name, part in self.wanted[origin]:
                        self._fill(op, name, part)
                elif origin not in others:
                    others.append(origin)
        if others:
            self._copy_whole(others)
        return self.program
