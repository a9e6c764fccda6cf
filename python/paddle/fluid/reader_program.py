"""Readers inside Programs: reader variables, the ops that mark them, and what Executor.run takes from them.

A reader is a variable of the Program that knows its Source. Clones of the Program share it. The outputs of a `read`
op are fed with the next batch of its reader whenever the Program runs.
"""

from __future__ import annotations

import threading
import warnings
from typing import Callable, Iterator, NamedTuple

import numpy as np

from paddle.fluid import core, unique_name
from paddle.fluid.framework import Program, Variable, default_main_program, default_startup_program
from paddle.fluid.reader_queue import LoDTensorBlockingQueue, Pump
from paddle.fluid.vartype import VarType


class Fields(NamedTuple):
    """What each part of a batch is."""

    shapes: list
    dtypes: list
    lod_levels: list
    checks: list


class Source:
    """Where the batches of one reader come from: a queue, and the user's generator that fills it."""

    _pump: Pump | None = None

    def __init__(self, name: str, capacity: int):
        if isinstance(capacity, bool) or not isinstance(capacity, (int, np.integer)) or capacity < 1:
            raise ValueError(f"The reader's capacity is {capacity!r}; it is the number of batches to hold ready.")
        self.name = name
        self.queue = LoDTensorBlockingQueue(capacity)  # scripts may push batches into it themselves
        self.make: Callable[[], Iterator] | None = None

    def start(self) -> None:
        """Starts a pass over the data."""
        if self.make is None:
            raise RuntimeError(
                f"The reader {self.name!r} has no data yet. Call one of its decorate_*() or set_*_generator() "
                "functions first."
            )
        if self._pump is not None:
            self._pump.stop()
        self._pump = Pump(self.make, self.queue, f"The generator of the reader {self.name!r}")

    def reset(self) -> None:
        """Ends the pass; start() begins the next one."""
        if self._pump is not None:
            self._pump.stop()
        self._pump = None
        self.queue.reopen()

    def next(self) -> list:
        """The next batch. Waits for it; EOFException at the end of the pass."""
        nobody = self._pump is None and (self.make is not None or threading.active_count() == 1)
        if nobody and not self.queue.size() and not self.queue.is_closed():
            raise core.InvalidArgumentError(
                f"The reader {self.name!r} was not started: call its start() before Executor.run, and again after each "
                "reset()."
            )
        return self.queue.pop()

    def __del__(self):
        if self._pump is not None:
            self._pump.queue.close()


def tensor_of(field, name: str):
    """A field of a batch as LoDTensor."""
    if isinstance(field, core.LoDTensor):
        return field
    try:
        array = np.ascontiguousarray(field)
    except ValueError:
        array = None
    if array is None or array.dtype == object:
        raise TypeError(
            f"A batch of {name} is no regular array: it has parts of different lengths. Make a tensor of it with "
            "fluid.create_lod_tensor."
        )
    tensor = core.LoDTensor()
    tensor.set(array, core.CPUPlace())
    return tensor


# ---- building ----


def fields_of(feed_list) -> Fields:
    """What the variables of a feed_list hold."""
    if not isinstance(feed_list, (list, tuple)):
        raise TypeError(f"feed_list must be a list of Variables, found {type(feed_list).__name__}.")
    return Fields(
        [list(var.shape) for var in feed_list],
        [var.dtype for var in feed_list],
        [var.lod_level for var in feed_list],
        [int(var.need_check_feed) for var in feed_list],
    )


def reader_of(var) -> "Source":
    """The Source behind a reader variable."""
    source = getattr(var, "_source", None)
    if source is None:
        raise core.InvalidArgumentError(
            f"The Program reads from {var.name!r}, whose data are not in this process. Readers belong to the process "
            "that made them with py_reader or DataLoader.from_generator."
        )
    return source


def _make_var(block, name: str, fields: Fields, source: Source) -> Variable:
    var = block.create_var(name=name, type=VarType.READER, persistable=True, stop_gradient=True)
    var._source = source
    var.desc.set_shapes(fields.shapes)
    var.desc.set_dtypes(fields.dtypes)
    var.desc.set_lod_levels(fields.lod_levels)
    return var


def add_reader(fields: Fields, capacity: int, double_buffer: bool, names: tuple) -> tuple[Variable, Source]:
    """A reader in the default Programs; `names`: of queue, reader and double buffer."""
    queue, name, buffered = names
    source = Source(name, capacity)
    startup = default_startup_program().current_block()
    startup.append_op(
        type="create_py_reader",
        inputs={"blocking_queue": [startup.create_var(name=queue, type=VarType.RAW)]},
        outputs={"Out": [_make_var(startup, name, fields, source)]},
        attrs={
            "shape_concat": [int(side) for shape in fields.shapes for side in shape],
            "lod_levels": [int(level) for level in fields.lod_levels],
            "dtypes": [int(dtype) for dtype in fields.dtypes],
            "need_check_feed": fields.checks,
            "ranks": [len(shape) for shape in fields.shapes],
        },
    )
    reader = _make_var(default_main_program().current_block(), name, fields, source)
    return (add_double_buffer(reader, buffered) if double_buffer else reader), source


def add_double_buffer(reader: Variable, name: str | None, place=None) -> Variable:
    """A reader over another one. Batches are ready before they are asked for anyway."""
    block = default_main_program().current_block()
    desc = reader.desc
    fields = Fields(desc.shapes(), desc.dtypes(), desc.lod_levels(), [])
    made = _make_var(
        block, unique_name.generate("create_double_buffer_reader") if name is None else name, fields, reader_of(reader)
    )
    block.append_op(
        type="create_double_buffer_reader",
        inputs={"UnderlyingReader": [reader]},
        outputs={"Out": [made]},
        attrs={} if place is None else {"place": str(place).upper()},
    )
    for key, value in reader.__dict__.items():  # start(), reset() and the like
        made.__dict__.setdefault(key, value)
    return made


def patch_reader(reader: Variable, source: Source, decorate: dict) -> Variable:
    """Gives a reader variable the functions of py_reader."""

    def start() -> None:
        source.start()
        reader.thread = source._pump.thread

    reader.queue, reader.thread, reader.exited = source.queue, None, False
    reader.start, reader.reset = start, source.reset
    for name, function in decorate.items():
        setattr(reader, name, function)
    return reader


# ---- running ----


class Read(NamedTuple):
    """One `read` op: its reader and the variables that get its batch."""

    source: Source
    names: list
    drops_last: bool  # batches that are too few for all places


def reads_of(program: Program) -> list[Read]:
    """The `read` ops of the main block; remembered while the Program stays the same."""
    found = program.__dict__.get("_reads")
    if found is None or found[0] != program._changes:
        block, reads = program.global_block(), []
        for op in block.ops:
            if op.type == "read":
                reader = reader_of(block.var(op.input("Reader")[0]))
                reads.append(Read(reader, op.output("Out"), bool(op.attr("drop_last"))))
        found = program._reads = program._changes, reads
    return found[1]


def known_feeds(program: Program, feed: dict, stacklevel: int) -> dict:
    """Those that the Program has a variable for; it warns of the others, as 1.8.5 does."""
    known = {name: value for name, value in feed.items() if program.global_block().has_var(name)}
    for name in [name for name in feed if name not in known]:
        warnings.warn(f"The variable {name} is not found in program. It is not declared or is pruned.", stacklevel=stacklevel)
    return known


def next_feed(program: Program) -> dict:
    """The next batch of every reader of the Program, by the names of the variables that get it."""
    feed = {}
    for source, names, _ in reads_of(program):
        batch = source.next()
        if len(batch) != len(names):
            raise core.InvalidArgumentError(
                f"The reader {source.name!r} gave a batch of {len(batch)} fields for {len(names)} variables: "
                f"{', '.join(names)}."
            )
        for name, field in zip(names, batch):
            feed[name] = tensor_of(field, name)
    return feed


def drops_last(program: Program) -> bool:
    """Whether a reader of the Program drops batches at its end that are too few for all places."""
    return any(read.drops_last for read in reads_of(program))
