"""What the builders of trainer and server Programs share: the job as it was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from paddle.fluid.transpiler.classes import Classes
from paddle.fluid.transpiler.config import DistributedMode, DistributeTranspilerConfig, ServerRuntimeConfig
from paddle.fluid.transpiler.slicing import Placement
from paddle.fluid.transpiler.update_graph import UpdateGraph


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

    @property
    def is_sync(self) -> bool:
        return self.mode == DistributedMode.SYNC

    @property
    def merges(self) -> bool:
        """Do servers average the gradients of several trainers?"""
        return self.is_sync and self.trainers > 1

    def sent_name(self, name: str) -> str:
        """What a gradient is called on this trainer; where servers average, it says whose it is."""
        return f"{name}.trainer_{self.trainer_id}" if self.merges and self.trainer_id >= 0 else name

    def received_names(self, name: str) -> list[str]:
        """The variables in which a server takes a gradient."""
        return [f"{name}.trainer_{number}" for number in range(self.trainers)] if self.merges else [name]
