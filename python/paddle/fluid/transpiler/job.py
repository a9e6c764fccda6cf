"""What the builders of trainer and server Programs share: the job as it was asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from paddle.fluid.framework import Parameter
from paddle.fluid.transpiler.classes import Classes
from paddle.fluid.transpiler.config import DistributedMode, DistributeTranspilerConfig, ServerRuntimeConfig
from paddle.fluid.transpiler.flow import Flow
from paddle.fluid.transpiler.lookup_table import check_settings, check_start
from paddle.fluid.transpiler.slicing import Placement
from paddle.fluid.transpiler.update_graph import UpdateGraph

_NAME_MOST = 511  # bytes of a name in a message to a server (docs/PROTOCOL.md)


@dataclass(eq=False)
class Job:
    """A job: who takes part, what is updated, and where it lies."""

    program: object  # the user's main Program; becomes the trainer's
    startup: object  # the user's startup Program; becomes the trainer's
    whole: object  # the main Program as it was
    whole_startup: object  # the startup Program as it was
    config: DistributeTranspilerConfig
    server_config: ServerRuntimeConfig
    endpoints: list
    trainers: int
    trainer_id: int  # -1: the first server hands one out
    mode: int
    graph: UpdateGraph
    placement: Placement
    classes: Classes
    table: str | None  # the distributed lookup table
    remote: list  # parameters whose rows trainers fetch when they need them
    removed: list  # positions of the ops that trainers no longer run
    renamed: dict = field(default_factory=dict)  # gradients that have another name in the trainer's Program -> that one
    lines: list = field(default_factory=list)  # what must be the same in all processes (fingerprint.py)

    def __post_init__(self) -> None:
        if self.table is not None:
            check_start(self.whole_startup.global_block().ops, self.table)
            check_settings(self.graph, self.whole_startup)
        self._check_names()

    def _check_parts(self) -> None:
        """Has a variable of the user's the name that a part of another one gets in the Programs of trainers and servers?"""
        states = {update.param.name: update.states for update in self.graph.updates}
        made = {
            part.of(whole): whole
            for part in self.placement.slices
            if part.number is not None
            for whole in (part.param, part.grad, *states.get(part.param, ()))
        }
        sent = {part.grad_name for part in self.placement.slices}
        if self.table is not None:
            sent.update(f"{self.table}@GRAD.pserver_{i}" for i in range(len(self.endpoints)))
        names = {name for program in (self.whole, self.whole_startup) for block in program.blocks for name in block.vars}
        # Sums over servers (server_prepare.py), and lookups of the distributed table.
        made.update({f"{name}.{which}": name for op in self.graph.moved for name in self.graph.flow.writes[op]
                     for which in ("part", "here")})
        if self.table is not None:
            made.update({f"prefetch_compress_{way}_tmp_{i}": self.table for way in ("in", "out")
                         for i in range(len(self.endpoints))})
        for name in sorted(names):
            whole, dot, number = name.rpartition(".trainer_")
            is_sent = dot and whole in sent and number.isdecimal() and number == str(int(number)) and int(number) < self.trainers
            if name in made or is_sent:
                raise ValueError(
                    f"the variable {name!r} has the name that a part of {made.get(name, whole)!r} gets on its way to servers: give "
                    "one of the two another name in its ParamAttr."
                )

    def _check_names(self) -> None:
        """Are the names such that messages to servers can carry them?"""
        self._check_parts()
        suffix = f".trainer_{self.trainers - 1}" if self.merges else ""
        sent = [(part.param, each) for part in self.placement.slices for each in (part.name, part.grad_name + suffix)]
        sent += [(name, name) for name in (*self.handed_out, *([self.table] if self.table is not None else []))]
        for variable, name in sent:
            if any(ord(c) < 0x20 or ord(c) == 0x7F for c in name):
                raise ValueError(
                    f"the name of the variable {variable!r} has a control character (a tab, a newline), which messages to "
                    "servers cannot carry: give it another name in its ParamAttr."
                )
            if len(name.encode()) > _NAME_MOST:
                raise ValueError(
                    f"the variable {variable[:40] + '...'!r} would be called by a name of {len(name.encode())} bytes on its way to "
                    f"servers, which take {_NAME_MOST}: give it a shorter name in its ParamAttr."
                )

    @property
    def is_sync(self) -> bool:
        return self.mode == DistributedMode.SYNC

    @property
    def is_geo(self) -> bool:
        """Do trainers update their parameters by themselves?"""
        return self.mode == DistributedMode.GEO

    @property
    def merges(self) -> bool:
        """Do servers average the gradients of several trainers?"""
        return self.is_sync and self.trainers > 1

    @cached_property
    def handed_out(self) -> list[str]:
        """Lasting variables that no server updates and that trainers get from the first one with their startup Program: parameters
        that are not trained (frozen ones, statistics of norms), so that what a server loaded reaches all trainers, and what
        starts at random, so that all have the same.
        """
        startup = self.whole_startup
        flow, lasting = Flow(startup.global_block().ops), self.graph.vars
        updated = {name for update in self.graph.updates for name in (update.param.name, *update.states)}
        found = []
        for name, var in startup.global_block().vars.items():
            if not var.persistable or name in updated or name == self.table or name not in lasting:
                continue
            made_by = flow.needed([name])
            drawn = any("seed" in op.attr_names and not op.attr("seed") for op in made_by) and not startup.random_seed
            if drawn or (made_by and isinstance(lasting[name], Parameter)):
                found.append(name)
        return found

    @property
    def carried(self) -> list[str]:
        """What an op of a trainer tells the servers about the job: who they are, then the lines."""
        return [",".join(self.endpoints), *self.lines]

    def lines_of(self, endpoint: str) -> list[str]:
        """What a server compares with what trainers tell it; they make the first of these lines for each server."""
        place = f"the place of this server in pservers: {self.endpoints.index(endpoint) + 1} of {len(self.endpoints)}"
        return [place, *self.lines]

    def sent_name(self, name: str) -> str:
        """What a gradient is called on this trainer; where servers average, it says whose it is."""
        return f"{name}.trainer_{self.trainer_id}" if self.merges and self.trainer_id >= 0 else name

    def received_names(self, name: str) -> list[str]:
        """The variables in which a server takes a gradient."""
        return [f"{name}.trainer_{number}" for number in range(self.trainers)] if self.merges else [name]
