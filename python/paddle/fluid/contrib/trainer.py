"""Trainer: the training loop of v0.13 to v1.5, with events for the user's own function.

fluid.Trainer of v0.13 takes an optimizer; that of v0.14 and of fluid.contrib takes a function that makes one.
This one takes either. With PADDLE_TRAINING_ROLE in the environment it is one process of a cluster: see
trainer_cluster.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import Callable, Iterator

import numpy as np

from paddle import _core
from paddle.fluid import core, io, io_checkpoint, io_distributed, unique_name
from paddle.fluid.contrib import trainer_cluster, trainer_progress
from paddle.fluid.data_feeder import DataFeeder
from paddle.fluid.executor import Executor, scope_guard
from paddle.fluid.framework import Program, Variable, program_guard
from paddle.fluid.optimizer import Optimizer
from paddle.fluid.places import check_place

__all__ = [
    "Trainer",
    "BeginEpochEvent",
    "EndEpochEvent",
    "BeginStepEvent",
    "EndStepEvent",
    "CheckpointConfig",
]


class BeginEpochEvent:
    """An epoch begins."""

    def __init__(self, epoch_id: int):
        self.epoch = epoch_id


class EndEpochEvent:
    """An epoch is over."""

    def __init__(self, epoch_id: int):
        self.epoch = epoch_id


class BeginStepEvent:
    """A step begins. Set fetch_metrics to False, and EndStepEvent of this step has no metrics."""

    def __init__(self, epoch_id: int, step_id: int):
        self.epoch = epoch_id
        self.step = step_id
        self.fetch_metrics = True


class EndStepEvent:
    """A step is over. metrics: the values of what train_func returned."""

    def __init__(self, epoch_id: int, step_id: int, metrics: list):
        self.epoch = epoch_id
        self.step = step_id
        self.metrics = metrics


class CheckpointConfig:
    """Where a Trainer writes checkpoints, how many it keeps, and at which epochs and steps."""

    def __init__(
        self,
        checkpoint_dir: str | None = None,
        max_num_checkpoints: int = 3,
        epoch_interval: int = 1,
        step_interval: int = 10,
    ):
        self.checkpoint_dir = os.getcwd() if checkpoint_dir is None else checkpoint_dir
        self.max_num_checkpoints = max_num_checkpoints
        self.epoch_interval = max(int(epoch_interval), 1)
        self.step_interval = int(step_interval) if step_interval >= 1 else 10
        self.epoch_id = 0
        self.step_id = 0
        self.load_serial: int | None = None

    def _wants(self, epoch: int, step: int) -> bool:
        return epoch % self.epoch_interval == 0 and step % self.step_interval == 0


def check_and_get_place(place=None):
    """The place itself, or the CPU for None."""
    return check_place(place)


def build_feed_var_list(program: Program, feed_order) -> list:
    """The Variables to feed: named in a list, or numbered in a dict; for None all data in their order."""
    if not isinstance(program, Program):
        raise TypeError(f"A Program is wanted, found {program!r}.")
    block = program.global_block()
    if feed_order is None:
        return [var for var in block.vars.values() if var.is_data]
    if isinstance(feed_order, dict):
        if sorted(feed_order.values()) != list(range(len(feed_order))):
            raise ValueError(
                f"feed_order gives each name its place: 0, 1 and so on, each once. Found {feed_order!r}."
            )
        feed_order = sorted(feed_order, key=feed_order.get)
    if not isinstance(feed_order, (list, tuple)):
        raise TypeError(f"feed_order is a list of names, or a dict of names and places, not {feed_order!r}.")
    return [block.var(name) for name in feed_order]


def _optimizer_of(given) -> Optimizer:
    optimizer = given if isinstance(given, Optimizer) else given() if callable(given) else None
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"A Trainer needs an Optimizer, or a function that returns one (optimizer_func); found {given!r}."
        )
    return optimizer


def _first(value) -> np.ndarray:
    """The first entry of an output; a number where it is one, so that outputs of all shapes go into one array."""
    entry = np.asarray(value)[0]
    return entry.reshape(-1)[0] if entry.size == 1 else entry


class Trainer:
    """Builds a Program from train_func, and trains, tests and saves it.

    train_func: returns the loss, or a list that begins with it. optimizer_func: returns the optimizer (v0.13:
    optimizer, the object itself). param_path: a folder of save_params to begin with, if it is there.
    Names of layers begin anew, so that an Inferencer finds the saved parameters.

    >>> trainer = fluid.Trainer(train_func, make_sgd, place=fluid.CPUPlace())                # doctest: +SKIP
    >>> trainer.train(10, event_handler=show, reader=batches, feed_order=["x", "y"])         # doctest: +SKIP
    """

    def __init__(
        self,
        train_func: Callable,
        optimizer_func: Callable | None = None,
        param_path: str | None = None,
        place=None,
        parallel: bool = False,
        checkpoint_config: CheckpointConfig | None = None,
        optimizer: Optimizer | None = None,
    ):
        if checkpoint_config is not None and not isinstance(checkpoint_config, CheckpointConfig):
            raise TypeError(f"checkpoint_config must be a CheckpointConfig, found {checkpoint_config!r}.")
        self._cluster = trainer_cluster.from_environment()
        self._progress = trainer_progress.Progress()
        self._stopped = False
        self.parallel = parallel
        self.trainer_id = 0
        self.checkpoint_cfg = checkpoint_config
        self.place = check_and_get_place(place)
        self.scope = core.Scope()
        self.startup_program = Program()
        self.train_program = Program()
        with program_guard(self.train_program, self.startup_program), unique_name.guard():
            outputs = train_func()
            self.train_func_outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
            for var in self.train_func_outputs:
                if not isinstance(var, Variable):
                    raise TypeError(f"train_func returns Variables, the loss first; found {var!r}.")
            self.test_program = self.train_program.clone(for_test=True)
            made = _optimizer_of(optimizer_func if optimizer is None else optimizer)
            made.minimize(self.train_func_outputs[0])
            if self._cluster is not None:
                self.train_program, self.startup_program = self._cluster.transpile(
                    self.train_program, self.startup_program
                )
                if not self._cluster.is_server:
                    self.test_program = self.train_program.clone(for_test=True)
        with self._prog_and_scope_guard():
            executor = Executor(self.place)
            executor.run(self.startup_program)
            self._go_on(executor)
            if param_path and os.path.isdir(param_path):
                if self._progress.job and self._progress.behind:
                    self._load_own(executor, param_path)
                else:
                    io.load_persistables(executor, param_path, self.train_program)

    def stop(self) -> None:
        """Ends train() before its next step."""
        self._stopped = True

    def train(
        self, num_epochs: int, event_handler: Callable, reader: Callable | None = None, feed_order=None
    ) -> None:
        """Trains; event_handler gets an event at the begin and the end of each epoch and each step.

        In a server of a cluster: serves, and ends the process with status 0 when all trainers are done.
        """
        if self._cluster is not None and self._cluster.is_server:
            with self._prog_and_scope_guard():
                Executor(self.place).run(self.train_program)
            return
        if not callable(reader):
            raise TypeError(f"train() needs a reader that yields batches, found {reader!r}.")
        with self._prog_and_scope_guard():
            feeder = DataFeeder(build_feed_var_list(self.train_program, feed_order), self.place)
            batches = feeder.decorate_reader(reader, multi_devices=self.parallel)
            self._train(self._progress.epochs(range(num_epochs)), event_handler, batches, self._runner())
            self._progress.ended(self.checkpoint_cfg, self.trainer_id)

    def _train(self, epochs: range, event_handler: Callable, batches: Callable, run: Callable) -> None:
        config = self.checkpoint_cfg
        names = [var.name for var in self.train_func_outputs]
        for epoch in epochs:
            event_handler(BeginEpochEvent(epoch))
            for step, feed in enumerate(batches()):
                if self._stopped:
                    return
                if not self._progress.takes():
                    continue
                begin = BeginStepEvent(epoch, step)
                event_handler(begin)
                metrics = run(feed=feed, fetch_list=names if begin.fetch_metrics else [])
                if config is not None and config._wants(epoch, step):
                    self._save_checkpoint(epoch, step)
                event_handler(EndStepEvent(epoch, step, metrics))
            if not self._progress.is_behind():
                event_handler(EndEpochEvent(epoch))

    def _runner(self) -> Callable:
        """A function of feed and fetch_list that runs one step."""
        if not self.parallel:
            return partial(Executor(self.place).run, self.train_program)
        from paddle.fluid.parallel_executor import ParallelExecutor

        loss = self.train_func_outputs[0].name
        return ParallelExecutor(False, loss, main_program=self.train_program, scope=self.scope).run

    def test(self, reader: Callable, feed_order=None) -> list:
        """The mean over all batches of each of train_func's outputs."""
        with scope_guard(self.scope):
            feeder = DataFeeder(build_feed_var_list(self.test_program, feed_order), self.place)
            run = partial(Executor(self.place).run, self.test_program)
            names = [var.name for var in self.train_func_outputs]
            rows = [
                [_first(value) for value in run(feed=feeder.feed(batch), fetch_list=names)]
                for batch in reader()
            ]
        if not rows:
            raise ValueError("test() got no batch from its reader, so there is no mean.")
        return [sum(column) / len(rows) for column in zip(*rows)]

    def save_params(self, param_path: str) -> None:
        """Writes all persistable variables, for param_path or an Inferencer."""
        with self._prog_and_scope_guard():
            io.save_persistables(Executor(self.place), param_path, self.train_program)

    def save_inference_model(self, param_path: str, feeded_var_names: list, target_var_indexes: list) -> None:
        """Writes an inference model; its targets are given by their places in train_func's outputs."""
        targets = [self.train_func_outputs[index] for index in target_var_indexes]
        with self._prog_and_scope_guard():
            executor = Executor(self.place)
            io.save_inference_model(param_path, feeded_var_names, targets, executor, self.train_program)

    @contextlib.contextmanager
    def _prog_and_scope_guard(self) -> Iterator[None]:
        with program_guard(self.train_program, self.startup_program), scope_guard(self.scope):
            yield

    def _save_checkpoint(self, epoch: int, step: int) -> None:
        """In a cluster trainer 0 writes for all: in a sync job they are in the same step."""
        config = self.checkpoint_cfg
        if self.trainer_id != 0:
            self._progress.keep_place(config, self.trainer_id, epoch, step)
            return
        io_checkpoint.save_checkpoint(
            Executor(self.place),
            config.checkpoint_dir,
            config.max_num_checkpoints,
            main_program=self.train_program,
            trainer_id=self.trainer_id,
            trainer_args=self._progress.args(epoch, step),
        )

    def _go_on(self, executor: Executor) -> None:
        """Takes up the newest checkpoint, if there is one, and what the servers of a cluster have."""
        config, cluster, progress = self.checkpoint_cfg, self._cluster, self._progress
        saved = trainer_progress.newest(config) if config is not None else {}
        folder = io_checkpoint.values_of(config.checkpoint_dir, config.load_serial) if saved else ""
        if cluster is None or cluster.is_server:
            if saved:
                io_checkpoint.load_persist_vars_without_grad(executor, folder, self.train_program)
                progress.go_on(saved)
            return
        self.trainer_id, steps = _core.job_id(), cluster.transpiler.steps_done()
        job = _core.job_key(cluster.transpiler.pserver_endpoints[0])
        differs = partial(io_distributed.began_elsewhere, executor, folder, self.train_program)
        progress.go_on_in_job(job, self.trainer_id, steps, config, saved, differs)
        if saved:
            self._load_own(executor, folder)

    def _load_own(self, executor: Executor, folder: str) -> None:
        """In a trainer of a cluster: the rest came from the servers with its startup Program."""
        program = self.train_program
        lasting = [var for var in program.list_vars() if io.is_persistable(var)]
        own = io_distributed.of_trainer_alone(program, lasting)
        io.load_vars(executor, folder, program, vars=own)
