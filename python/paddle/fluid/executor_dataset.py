"""Executor.train_from_dataset and infer_from_dataset: a data set, a Program and the threads of the engine."""

from __future__ import annotations

import contextlib
import time
import warnings
from typing import Any

import numpy as np

from paddle.fluid import compiler, core, data_passes, executor_servers, framework, profiler
from paddle.fluid.dataset import DatasetBase
from paddle.fluid.framework import Program, Variable
from paddle.fluid.progress import Progress, watched


def run(executor, program: Program | None, dataset: DatasetBase | None, scope, thread: int, debug: bool, fetch_list, fetch_info,
        print_period: int, fetch_handler, is_test: bool = False) -> None:
    """What both do."""
    from paddle.fluid.executor import global_scope

    if dataset is None:
        raise RuntimeError("dataset is need and should be initialized")
    if not isinstance(dataset, DatasetBase):
        raise TypeError(f"A data set of fluid.DatasetFactory is wanted, found a {type(dataset).__name__}: the Program comes first, "
                        "then the data set.")
    if print_period < 1:
        raise ValueError(f"print_period={print_period}: give the number of batches between two lines, 1 or more.")
    program = framework.default_main_program() if program is None else program
    if isinstance(program, compiler.CompiledProgram):
        program = program._program
    is_counted = is_test or program._is_distributed  # a Program that trains here alone is no part of the job
    counted = data_passes.begin("infer" if is_test else "train", scope or global_scope()) if is_counted else None
    if counted is not None and counted.is_over:
        counted.end()
        return
    if is_test:
        program = executor._made_for(program, "infer_from_dataset", lambda: program.clone(for_test=True))
        program = executor_servers.with_lookups_on_servers(executor, program, scope or global_scope()) or program
        executor_servers.receive_newest(executor, program, scope or global_scope())
    progress = Progress("infer" if is_test else "train")
    shown = Shown(fetch_list, fetch_info, print_period, fetch_handler, progress)
    if progress.wants_values:
        shown.watch(watched(program))
    if dataset._has_no_part():
        if counted is not None:
            counted.end()
        return
    dataset._prepare_to_run()
    if program._is_distributed and not is_test:
        executor._come_back(program, scope)
    threads = dataset._threads(thread)
    where = ()
    if counted is not None and not is_test:
        counted.goes_over({**dataset._facts(), "the number of threads": threads})
        where = (counted.skip, counted.every, counted.pause, counted.since)
    if debug:
        profiler.start_profiler("All")
    try:
        report = dataset.dataset.train(program, scope or global_scope(), threads, shown.names, shown.period, shown.show_ms,
                                       shown if shown.names else None, progress, *where)
        progress.close(report)
    except BaseException as error:
        _note_left_out(error, program, dataset)
        with contextlib.suppress(OSError):  # which may be why it ends
            progress.close(None)
        raise
    finally:
        if debug:
            profiler.stop_profiler("total", None)
        dataset._finish_to_run()
    if counted is not None:
        counted.end(report[-1])


def _note_left_out(error: BaseException, program: Program, dataset: DatasetBase) -> None:
    """A variable without a value is one that the data set should have filled."""
    if not isinstance(error, core.NotFoundError):
        return
    filled = [each.name for each in dataset.use_var]
    for var in program.global_block().vars.values():
        if var.is_data and var.name not in filled and f"'{var.name}' has no value" in str(error):
            error.add_note(f"The data set does not fill '{var.name}': set_use_var has {', '.join(filled)}.")


class Shown:
    """What is printed, and handed to a FetchHandler; called with each batch that may be shown."""

    def __init__(self, fetch_list, fetch_info, print_period: int, handler, progress: Progress):
        fetches = list(fetch_list or ())
        self.infos = list(fetch_info) if fetch_info else [_name(each) for each in fetches]
        if len(self.infos) != len(fetches):
            raise ValueError(f"fetch_info has {len(self.infos)} texts for the {len(fetches)} variables of fetch_list: one each.")
        self.n, self.every, self.handler, self.progress = len(fetches), print_period, handler, progress
        self.keys: list[str] = []
        if handler is not None and not isinstance(handler.var_dict, dict):
            warnings.warn(f"FetchHandler: var_dict is {handler.var_dict!r}; a dict of names and Variables is wanted. The handler "
                          "is not called.", stacklevel=4)
            self.handler = handler = None
        if handler is not None:
            for key, var in handler.var_dict.items():
                if not isinstance(var, Variable):
                    raise TypeError(f"FetchHandler: {key!r} is {var!r}; a Variable is wanted.")
                self.keys.append(key)
                fetches.append(var)
            self.next = time.monotonic() + handler.period_secs
        self.names = [_name(each) for each in fetches]
        self.period = 1 if handler is not None else print_period
        self.watched: dict[str, int] = {}
        self.show_ms = 0

    def watch(self, names: dict[str, str]) -> None:
        """Hands these to the progress beside what is printed."""
        if not names:
            return
        self.show_ms = max(1, int(self.progress.values_seconds * 1000))
        for key, name in names.items():
            if name not in self.names:
                self.names.append(name)
            self.watched[key] = self.names.index(name)

    def __call__(self, batch: int, values: list) -> None:
        if self.n and batch % self.every == 0:
            texts = (f"{info}: {_text(value)}" for info, value in zip(self.infos, values))
            print(f"batch {batch}", *texts, sep="\t", flush=True)
            self.progress.note(batch, {info: value.item() for info, value in zip(self.infos, values)
                                       if value is not None and value.size == 1 and value.dtype.kind in "fiu"})
        if self.handler is not None and time.monotonic() >= self.next:
            self.next = time.monotonic() + self.handler.period_secs
            self.handler.handler(dict(zip(self.keys, values[self.n:])))
        for key, place in self.watched.items():
            if values[place] is not None and values[place].size == 1:
                self.progress.values[key] = values[place].item()


def _name(item: Any) -> str:
    return item.name if isinstance(item, Variable) else str(item)


def _text(value) -> str:
    if value is None:
        return "(no tensor)"
    return f"{value.item():.6g}" if value.size == 1 else np.array2string(value, threshold=8, precision=6)
