"""Loaders that prepare batches in a thread while the executor works on the ones before.

>>> loader = fluid.io.DataLoader.from_generator(feed_list=[x, y], capacity=8)             # doctest: +SKIP
>>> loader.set_sample_list_generator(paddle.batch(reader, 32), places=fluid.CPUPlace())   # doctest: +SKIP
>>> for feed in loader():                                                                 # doctest: +SKIP
...     exe.run(feed=feed, fetch_list=[loss])

With iterable=False the loader stands in the Program, and Executor.run takes a batch each time:

>>> loader.start()                                                                        # doctest: +SKIP
>>> try:                                                                                  # doctest: +SKIP
...     while True:
...         exe.run(fetch_list=[loss])
... except fluid.core.EOFException:
...     loader.reset()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Iterator

import numpy as np

from paddle import absent
from paddle.fluid import core
from paddle.fluid.data_feeder import BatchedTensorProvider, DataFeeder
from paddle.fluid.framework import default_main_program
from paddle.fluid.reader_program import Source, add_reader, fields_of, tensor_of
from paddle.fluid.reader_queue import LoDTensorBlockingQueue, Pump
from paddle.fluid.unique_name import UniqueNameGenerator

if TYPE_CHECKING:
    from paddle.fluid.hints import PlaceLike

__all__ = ["PyReader", "DataLoader"]

# Readers of loaders are numbered through the whole process, whatever unique_name.guard is open.
_loader_names = UniqueNameGenerator()


class Feeds(list):
    """The feeds of one step, a dict for each place. A name gives that variable's tensor on the first one."""

    def __getitem__(self, key):
        return super().__getitem__(0)[key] if isinstance(key, str) else super().__getitem__(key)


class _Prefetch:
    """Iterates over what `make` yields; a thread runs it up to `capacity` items ahead."""

    def __init__(self, make: Callable[[], Iterator], capacity: int):
        self._pump = Pump(make, LoDTensorBlockingQueue(capacity), "The generator of the loader")

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self._pump.queue.pop()
        except core.EOFException:
            raise StopIteration from None

    def close(self) -> None:
        self._pump.stop()

    def cut_off(self) -> None:
        """The loader is iterated over anew. Who goes on with this one hears that it is not at the end of the data."""
        if not self._pump.queue.is_closed():
            self._pump.queue.kill(
                RuntimeError(
                    "this loader was iterated over anew before this iteration had come to its end: it has one at a time. "
                    "Make a loader for each."
                )
            )
        self._pump.stop()

    def __del__(self):
        if hasattr(self, "_pump"):
            self._pump.queue.close()


def _count(places) -> int:
    return len(places) if isinstance(places, (list, tuple)) else 1


class DataLoaderBase:
    """What loaders share: a call gives the loader itself, to be iterated over."""

    def __call__(self):
        return self

    def __iter__(self):
        raise NotImplementedError(f"{type(self).__name__} must define __iter__.")

    def __next__(self):
        raise NotImplementedError(f"{type(self).__name__} must define __next__.")

    def next(self):
        return self.__next__()


class GeneratorLoader(DataLoaderBase):
    """A loader over a Python generator, for static programs. Made by DataLoader.from_generator."""

    def __init__(
        self,
        feed_list: list | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        drop_last: bool = True,
    ):
        if not feed_list:
            raise ValueError(
                "the loader has no feed_list. Give the variables that the generator's fields are for."
            )
        if not capacity or capacity < 0:
            raise ValueError(
                f"the loader's capacity is {capacity}; it must be the number of batches to hold ready."
            )
        self._iterable = bool(iterable)
        self._feed_list = list(feed_list)
        self._names = [var.name for var in feed_list]
        self._capacity = int(capacity)
        self._return_list = return_list
        self._drop_last = drop_last
        self._tensor_reader: Callable | None = None
        self._devices = 1
        self._running: _Prefetch | None = None
        self._source: Source | None = None
        if not self._iterable:
            self._put_into_program(use_double_buffer)

    def _put_into_program(self, use_double_buffer: bool) -> None:
        """The variables of feed_list are read in the default Program from now on."""
        names = tuple(_loader_names(key) for key in ("lod_tensor_blocking_queue", "create_py_reader", "double_buffer"))
        reader, self._source = add_reader(fields_of(self._feed_list), self._capacity, use_double_buffer, names)
        default_main_program().current_block().append_op(
            type="read",
            inputs={"Reader": [reader]},
            outputs={"Out": self._feed_list},
            attrs={"drop_last": bool(self._drop_last)},
        )

    @property
    def iterable(self) -> bool:
        return self._iterable

    @property
    def queue(self):
        """The queue between the thread and the one who takes batches; None before the first iteration."""
        if self._source is not None:
            return self._source.queue
        return None if self._running is None else self._running._pump.queue

    def __iter__(self) -> Iterator:
        if not self._iterable:
            raise RuntimeError(
                "This loader was made with iterable=False: call start(), then Executor.run without feed until it "
                "raises fluid.core.EOFException, then reset()."
            )
        if self._tensor_reader is None:
            raise RuntimeError(
                "the loader has no data yet. Call set_sample_generator, set_sample_list_generator or "
                "set_batch_generator first."
            )
        if self._running is not None:
            self._running.cut_off()
        self._running = _Prefetch(self._items, self._capacity)
        return self._running

    def __next__(self):
        if self._running is None:
            iter(self)
        try:
            return next(self._running)
        except StopIteration:
            self._running = None
            raise

    def _reset(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None

    def _items(self) -> Iterator:
        """Yields lists with a feed (or a list of tensors) for each place."""
        group = []
        for fields in self._tensor_reader():
            group.append(self._feed_of(fields))
            if len(group) == self._devices:
                yield self._pack(group)
                group = []
        if group and not self._drop_last:
            yield self._pack(group)

    def _feed_of(self, fields) -> dict:
        if isinstance(fields, dict):
            return {name: tensor_of(fields[name], name) for name in self._names}
        if len(fields) != len(self._names):
            raise ValueError(
                f"the generator gave {len(fields)} fields for {len(self._names)} variables: "
                f"{', '.join(self._names)}."
            )
        return {name: tensor_of(field, name) for name, field in zip(self._names, fields)}

    @classmethod
    def _check_input_array(cls, item):
        """The item as an array; a TypeError if its parts have different lengths."""
        return np.array(tensor_of(item, "the loader"))

    def _pack(self, group: list):
        if self._return_list:
            return [[feed[name] for name in self._names] for feed in group]
        return Feeds(group)

    def start(self) -> None:
        """Starts a pass over the data; Executor.run then takes a batch each time. For iterable=False."""
        if self._source is None:
            raise RuntimeError("start() is for iterable=False. Iterate over the loader: for feed in loader(): ...")
        self._source.start()

    def reset(self) -> None:
        """Ends the pass; start() begins the next one. For iterable=False."""
        if self._source is None:
            raise RuntimeError("reset() is for iterable=False. Iterate again; each iteration starts anew.")
        self._source.reset()

    def set_sample_generator(
        self, reader: Callable, batch_size: int, drop_last: bool = True, places: PlaceLike | list | None = None
    ) -> "GeneratorLoader":
        """Takes a generator of single samples (tuples of fields) and makes batches of them.

        Args:
            reader: a function that gives an iterable of samples.
            batch_size: how many samples a batch has.
            drop_last: leave out a last batch that is shorter.
            places: where the batches go: one batch for each of several places.

        Returns:
            itself.
        """
        if batch_size <= 0:
            raise ValueError(f"batch_size is {batch_size}; it must be above 0.")
        if any(var.lod_level for var in self._feed_list):
            import paddle

            batches = paddle.batch(reader, batch_size=batch_size, drop_last=drop_last)
            return self.set_sample_list_generator(batches, places=places)
        provider = BatchedTensorProvider(
            feed_list=self._feed_list,
            place=core.CPUPlace(),
            batch_size=batch_size,
            generator=reader,
            drop_last=drop_last,
        )
        return self.set_batch_generator(provider, places=places)

    def set_sample_list_generator(self, reader: Callable, places: PlaceLike | list | None = None) -> "GeneratorLoader":
        """Takes a generator of lists of samples, as paddle.batch makes them.

        Args:
            reader: a function that gives an iterable of lists of samples.
            places: where the batches go.

        Returns:
            itself.
        """
        feeder = DataFeeder(feed_list=self._feed_list, place=core.CPUPlace())
        return self.set_batch_generator(feeder.decorate_reader(reader, multi_devices=False), places=places)

    def set_batch_generator(self, reader: Callable, places: PlaceLike | list | None = None) -> "GeneratorLoader":
        """Takes a generator of whole batches: one array or tensor per variable.

        Args:
            reader: a function that gives an iterable of batches.
            places: where the batches go.

        Returns:
            itself.
        """
        self._tensor_reader = reader
        self._devices = max(_count(places), 1)
        if self._source is not None:
            self._source.make = self._batches
        return self

    def _batches(self) -> Iterator:
        """Yields the fields of each batch in the order of feed_list, for the reader in the Program."""
        for fields in self._tensor_reader():
            yield list(self._feed_of(fields).values())


_keeps_order = True


def keep_data_loader_order(*value: bool) -> bool | None:
    """Sets or tells whether batches keep their order; here they always do."""
    global _keeps_order
    if not value:
        return _keeps_order
    _keeps_order = bool(value[0])
    return None


class DataLoader:
    """Where loaders come from: DataLoader.from_generator(...)."""

    def __init__(self, *args, **kwargs):
        raise RuntimeError(
            "DataLoader(dataset, ...) is not there. Use "
            "fluid.io.DataLoader.from_generator(feed_list, capacity) with "
            "a Python generator."
        )

    @staticmethod
    def from_generator(
        feed_list: list | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> GeneratorLoader:
        """Makes a loader that holds up to `capacity` batches ready for the variables in `feed_list`.

        Args:
            feed_list: the Variables that are fed, in the order of a sample's fields.
            capacity: how many batches wait at most.
            use_double_buffer: has no effect.
            iterable: iterate over the loader; False: start() and reset(), and Executor.run takes the batches
                itself.
            return_list: give lists of tensors instead of feeds.
            use_multiprocess: has no effect: a thread reads.
            drop_last: leave out batches that do not fill all places.

        Returns:
            a loader; give it its data with set_sample_generator, set_sample_list_generator or
                set_batch_generator.
        """
        return GeneratorLoader(feed_list, capacity, use_double_buffer, iterable, return_list, drop_last)

    @staticmethod
    def from_dataset(dataset: object, places: PlaceLike | list, drop_last: bool = True) -> DataLoaderBase:
        """Makes a loader of the batches of a data set, which the engine reads.

        Args:
            dataset: one of fluid.DatasetFactory.
            places: where the batches go: one batch for each of several places.
            drop_last: leave out a batch that is shorter, and batches that do not fill all places; False: what is left is spread
                over all places.

        Returns:
            a loader.
        """
        from paddle.fluid.reader_dataset import DatasetLoader

        return DatasetLoader(dataset, places, drop_last)


class PyReader(DataLoaderBase):
    """The older face of the same: decorate_... methods take the generator, iteration gives feeds.

    Args:
        feed_list: the Variables that are fed, in the order of a sample's fields.
        capacity: how many batches wait at most.
        use_double_buffer: has no effect.
        iterable: iterate over the reader; False: start() and reset(), and Executor.run takes the batches
            itself.
        return_list: give lists of tensors instead of feeds.
    """

    def __init__(
        self,
        feed_list: list | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
    ):
        self._loader = DataLoader.from_generator(
            feed_list, capacity, use_double_buffer, iterable, return_list
        )

    @property
    def queue(self):
        return self._loader.queue

    @property
    def iterable(self) -> bool:
        return self._loader.iterable

    def __iter__(self) -> Iterator:
        return iter(self._loader)

    def __next__(self):
        return next(self._loader)

    def start(self) -> None:
        """Starts a pass over the data. For iterable=False."""
        self._loader.start()

    def reset(self) -> None:
        """Ends the pass. For iterable=False."""
        self._loader.reset()

    def decorate_sample_generator(
        self, sample_generator: Callable, batch_size: int, drop_last: bool = True, places: PlaceLike | list | None = None
    ) -> None:
        """Takes a generator of single samples.

        Args:
            sample_generator: a function that gives an iterable of samples.
            batch_size: how many samples a batch has.
            drop_last: leave out a last batch that is shorter.
            places: where the batches go.
        """
        self._loader.set_sample_generator(sample_generator, batch_size, drop_last, places)

    def decorate_sample_list_generator(self, reader: Callable, places: PlaceLike | list | None = None) -> None:
        """Takes a generator of lists of samples.

        Args:
            reader: a function that gives an iterable of lists of samples.
            places: where the batches go.
        """
        self._loader.set_sample_list_generator(reader, places)

    def decorate_batch_generator(self, reader: Callable, places: PlaceLike | list | None = None) -> None:
        """Takes a generator of whole batches.

        Args:
            reader: a function that gives an iterable of batches.
            places: where the batches go.
        """
        self._loader.set_batch_generator(reader, places)


def __getattr__(name: str):
    absent.refuse(__name__, name)
