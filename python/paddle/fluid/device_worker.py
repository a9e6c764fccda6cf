"""What upstream's threads do with each batch, by name; trainer_desc.py says where that went."""

from __future__ import annotations

from typing import Any

__all__ = ["DeviceWorker", "Hogwild", "DownpourSGD", "Section", "DownpourSGDOPT"]


class DeviceWorker:
    """What a thread does with each batch."""

    def __init__(self):
        self._program: Any = None
        self._infer: bool | None = None

    def _set_infer(self, infer: bool = False) -> None:
        self._infer = infer

    def _set_fleet_desc(self, fleet_desc: Any) -> None:
        self._fleet_desc = fleet_desc

    def _set_program(self, program: Any) -> None:
        self._program = program

    def _gen_worker_desc(self, trainer_desc: Any) -> None:
        raise NotImplementedError("DeviceWorker is what its kinds have in common: use Hogwild.")


class Hogwild(DeviceWorker):
    """Threads on the same parameters, without locks: what Executor.train_from_dataset does."""

    def _gen_worker_desc(self, trainer_desc: Any) -> None:
        trainer_desc.device_worker_name = "HogwildWorker"
        if self._infer:
            trainer_desc.hogwild_param.skip_ops.extend(["feed", "push_sparse", "push_sparse_v2", "push_dense"])


class DownpourSGD(DeviceWorker):
    """Threads with upstream's parameter server pslib, which is not there."""

    def _gen_worker_desc(self, trainer_desc: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} describes training with pslib, which is not there. "
                                  "fluid.incubate.fleet.parameter_server.distribute_transpiler trains with parameter servers: "
                                  "docs/FLEET.md is the guide.")


class DownpourSGDOPT(DownpourSGD):
    """The same with another optimizer."""


class Section(DeviceWorker):
    """A part of a Program that PipelineOptimizer has cut, which is not there."""

    def _gen_worker_desc(self, trainer_desc: Any) -> None:
        raise NotImplementedError("Section describes a part of a Program that PipelineOptimizer has cut, which is not there. "
                                  "Executor.train_from_dataset trains a Program as a whole, with several threads.")


class DeviceWorkerFactory:
    """Makes one by its name."""

    def _create_device_worker(self, worker_type: str) -> DeviceWorker:
        classes = {each.__name__.lower(): each for each in (Hogwild, DownpourSGD, Section, DownpourSGDOPT)}
        if worker_type.lower() not in classes:
            raise ValueError(f"There is no device worker {worker_type!r}; there are {', '.join(classes)}.")
        return classes[worker_type.lower()]()
