"""How far a Trainer is in its data, and where it goes on when it was started again.

Batches are counted from the first one that train() ever read. `behind` of them have their effect in the parameters
already: they are read, and not trained. One process knows that from its checkpoint. In a job the servers count:
the steps that count this trainer, behind what the job began with, which is the checkpoint that its servers loaded
when it was new. So a checkpoint tells which job it was made in and how many batches that job began with; for a job
that began with a checkpoint, a file beside the checkpoints does until it has one of its own.

Batches are counted by reading them. Whole epochs need not be read where a place is known: an epoch, a step, and how
many batches there are up to it. Trainer 0 has that of its checkpoint. Epochs of other trainers may have other
lengths: each keeps a file with its own last places.
"""

from __future__ import annotations

import contextlib
import glob
import os
from typing import Callable

from paddle.fluid import io, io_checkpoint
from paddle.fluid.log_helper import tell

_RECORD = "checkpoint_of_job_"  # and its number: how many batches it began with
_PLACES = "checkpoint_place_"  # and the number of a trainer: a line for each
_ADDED = ("batches", "train_call", "job", "job_began")  # to what checkpoints of v0.14 keep


def newest(config) -> dict:
    """What the newest checkpoint keeps of the progress, as text; nothing when there is none. `config` is told of it."""
    folder = config.checkpoint_dir
    serial = io_checkpoint.get_latest_checkpoint_serial(folder)
    if serial < 0:
        return {}
    names = ["epoch_id", "step_id"]
    names += [name for name in _ADDED if io_checkpoint.has_trainer_arg(folder, serial, 0, name)]
    saved = dict(zip(names, io_checkpoint.load_trainer_args(folder, serial, 0, names)))
    config.load_serial, config.epoch_id, config.step_id = serial, int(saved["epoch_id"]), int(saved["step_id"])
    return saved


def _places_of(config, trainer: int) -> str:
    return os.path.join(config.checkpoint_dir, f"{_PLACES}{trainer}")


def _read_places(path: str) -> list:
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [tuple(map(int, line.split())) for line in file]


class Progress:
    """Counts batches. `read`: so far. `behind`: those that are not trained again. `call`: of train(), from 1 on."""

    def __init__(self):
        self.read = self.behind = self.call = 0
        self.job = self.began = 0  # the job, and the batches that it began with; 0: no job
        self._places: list = []  # (epoch, step, how many batches there are up to it) in the first train(), the last

    # ---- within train() ----

    def epochs(self, epochs: range) -> range:
        """At the begin of train(): the epochs to read. Those before a known place are not."""
        self.call += 1
        if self.behind and self.call == 1:
            tell(
                f"training goes on behind the first {self.behind} batches, which are in the parameters already: "
                "they are not trained again."
            )
        if self.call > 1 or not self._places:
            return epochs
        epoch, step, batches = self._places[-1]
        self.read = batches - step - 1
        return epochs[epoch:]

    def takes(self) -> bool:
        """A batch was read: is it to be trained?"""
        self.read += 1
        return self.read > self.behind

    def is_behind(self) -> bool:
        """Is the next batch one of those that are not trained again?"""
        return self.read < self.behind

    # ---- checkpoints ----

    def args(self, epoch: int, step: int) -> dict:
        """What a checkpoint keeps of it."""
        found = {"epoch_id": epoch, "step_id": step, "batches": self.read, "train_call": self.call}
        return {**found, "job": f"{self.job:016x}", "job_began": self.began} if self.job else found

    def go_on(self, saved: dict) -> None:
        """After a checkpoint that has all the training so far: one process."""
        epoch, step = int(saved["epoch_id"]), int(saved["step_id"])
        self.behind = int(saved.get("batches", step + 1))
        if int(saved.get("train_call", 1)) == 1:
            self._places = [(epoch, step, self.behind)]

    def go_on_in_job(self, job: int, trainer: int, steps: int, config, saved: dict, differs: Callable) -> None:
        """After the steps of the job that count this trainer.

        job: what tells it from others. saved: what the newest checkpoint keeps, or nothing. differs: which variables servers have
        not as it has them, called in a job that may have begun with it.
        """
        self.job = job
        self.began = 0 if config is None else self._began_with(trainer, steps, config, saved, differs)
        self.behind = self.began + steps
        places = []
        if trainer and config is not None:
            places = _read_places(_places_of(config, trainer))
        elif saved and int(saved["train_call"]) == 1:
            places = [(int(saved["epoch_id"]), int(saved["step_id"]), int(saved["batches"]))]
        self._places = [place for place in places if place[2] <= self.behind]

    def keep_place(self, config, trainer: int, epoch: int, step: int) -> None:
        """In another trainer than 0, where that one writes a checkpoint."""
        if self.call > 1:
            return
        self._places = [*self._places, (epoch, step, self.read)][-max(config.max_num_checkpoints, 0) - 1 :]
        io._make_folder(config.checkpoint_dir)
        text = "".join("{} {} {}\n".format(*place) for place in self._places)
        io._write(_places_of(config, trainer), text.encode())

    def _began_with(self, trainer: int, steps: int, config, saved: dict, differs: Callable) -> int:
        folder, path = config.checkpoint_dir, os.path.join(config.checkpoint_dir, self._record())
        began, is_same = None, saved.get("job") == f"{self.job:016x}"
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                began = int(file.read())
        elif is_same:
            began = int(saved["job_began"])
        # Servers that know their job and had kept nothing of it begin with the checkpoint, too.
        if is_same and not steps and int(saved["batches"]) > began and not differs():
            began = self._begin(path, trainer, saved)
        if began is not None or not saved:
            return began or 0
        if "batches" not in saved:
            raise RuntimeError(
                f"the checkpoint {config.load_serial} in {folder!r} does not tell how many batches it has (its "
                "trainer_0 has no file 'batches'), so a job cannot go on behind them: another version wrote it. Move "
                "it away to start anew."
            )
        if steps:
            whose = f"of the job {saved['job']}" if "job" in saved else "of one process"
            raise RuntimeError(
                f"the servers have taken up the job {self.job:016x}, whose last step that counts trainer {trainer} is "
                f"{steps}, and the checkpoint {config.load_serial} in {folder!r} is {whose}: which batches they have "
                f"had cannot be told. Move the checkpoints away to go on behind the first {steps} batches; or set "
                "FLAGS_ps_fresh=1 on all servers to go back to the checkpoint."
            )
        other = differs()
        if other:
            raise RuntimeError(
                f"the servers have not begun with the checkpoint in {io_checkpoint.values_of(folder, config.load_serial)!r}: they "
                f"hold other values of {other[0]}, and the batches that the checkpoint has would be lost. Let all servers see "
                f"the same checkpoint_dir, {folder!r}, when they are started; or move its checkpoints away to start anew."
            )
        return self._begin(path, trainer, saved)

    @staticmethod
    def _begin(path: str, trainer: int, saved: dict) -> int:
        """The job begins with that checkpoint: how many batches it has."""
        if trainer == 0:
            io._write(path, saved["batches"].encode())
        return int(saved["batches"])

    def _record(self) -> str:
        return f"{_RECORD}{self.job:016x}"

    def ended(self, config, trainer: int) -> None:
        """Training has ended well: no checkpoint is left. What this job began with stays: servers may go on."""
        if self.read <= self.behind and self.behind:
            tell(f"train() has read no batch behind the first {self.behind}: it has trained nothing.")
        if config is None or self.is_behind():
            return
        if trainer:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_places_of(config, trainer))
            return
        io_checkpoint.clean_checkpoint(config.checkpoint_dir)
        for path in glob.glob(os.path.join(glob.escape(config.checkpoint_dir), f"{_RECORD}{'[0-9a-f]' * 16}")):
            if os.path.basename(path) != self._record():
                os.unlink(path)
