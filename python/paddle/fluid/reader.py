"""Loaders that prepare batches in a thread while the executor works on the ones before.

>>> loader = fluid.io.DataLoader.from_generator(feed_list=[x, y], capacity=8)             # doctest: +SKIP
>>> loader.set_sample_list_generator(paddle.batch(reader, 32), places=fluid.CPUPlace())   # doctest: +SKIP
>>> for feed in loader():                                                                 # doctest: +SKIP
...     exe.run(feed=feed, fetch_list=[loss])
"""

from typing import Callable, Iterator

import numpy as np

from paddle import absent
from paddle.fluid import core
from paddle.fluid.compiler import merge_feeds
from paddle.fluid.data_feeder import BatchedTensorProvider, DataFeeder

__all__ = ["PyReader", "DataLoader"]


class Feeds(list):
    """The feeds of one step, a dict for each device: here, one. A name gives that variable's tensor."""

    def __getitem__(self, key):
        return super().__getitem__(0)[key] if isinstance(key, str) else super().__getitem__(key)


class _Prefetch:
    """Iterates over what `make` yields; a thread runs it up to `capacity` items ahead.

    An error in the thread is raised to the one who iterates. `close` ends the thread, also in mid-way.
    """

    _END = object()

    def __init__(self, make: Callable[[], Iterator], capacity: int):
        import queue
        import threading

        self._queue = queue.Queue(maxsize=capacity)
        self._stop = threading.Event()
        # The thread must not know this object, or nobody could drop it while the thread waits.
        self._thread = threading.Thread(
            target=_Prefetch._work, args=(make, self._queue, self._stop), name="paddle-reader", daemon=True
        )
        self._thread.start()

    @staticmethod
    def _work(make, out, stop) -> None:
        import queue

        def put(item) -> bool:
            while not stop.is_set():
                try:
                    out.put(item, timeout=0.1)
                    return True
                except queue.Full:
                    continue
            return False

        try:
            for item in make():
                if not put((item, None)):
                    return
            put((_Prefetch._END, None))
        except BaseException as error:
            put((_Prefetch._END, error))

    def __iter__(self):
        return self

    def __next__(self):
        if self._stop.is_set():
            raise StopIteration
        item, error = self._queue.get()
        if item is not _Prefetch._END:
            return item
        self.close()
        if error is not None:
            raise error
        raise StopIteration

    def close(self) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def __del__(self):
        stop = getattr(self, "_stop", None)
        if stop is not None:
            stop.set()


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
        if not iterable:
            raise RuntimeError(
                "loaders with iterable=False put reader ops into the program, which are not "
                "there. Use iterable=True "
                "and give each item of `for feed in loader():` to Executor.run as feed."
            )
        if not feed_list:
            raise ValueError(
                "the loader has no feed_list. Give the variables that the generator's fields are for."
            )
        if not capacity or capacity < 0:
            raise ValueError(
                f"the loader's capacity is {capacity}; it must be the number of batches to hold ready."
            )
        self._feed_list = list(feed_list)
        self._names = [var.name for var in feed_list]
        self._capacity = int(capacity)
        self._return_list = return_list
        self._drop_last = drop_last
        self._tensor_reader: Callable | None = None
        self._devices = 1
        self._running: _Prefetch | None = None

    @property
    def iterable(self) -> bool:
        return True

    @property
    def queue(self):
        """The queue between the thread and the one who iterates, or None before the first iteration."""
        return None if self._running is None else self._running._queue

    def __iter__(self) -> Iterator:
        if self._tensor_reader is None:
            raise RuntimeError(
                "the loader has no data yet. Call set_sample_generator, set_sample_list_generator or "
                "set_batch_generator first."
            )
        self._reset()
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
        """Yields feeds (or lists of tensors); the batches of several places become one feed."""
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
            return {name: self._tensor(name, fields[name]) for name in self._names}
        if len(fields) != len(self._names):
            raise ValueError(
                f"the generator gave {len(fields)} fields for {len(self._names)} variables: "
                f"{', '.join(self._names)}."
            )
        return {name: self._tensor(name, field) for name, field in zip(self._names, fields)}

    @staticmethod
    def _tensor(name: str, field):
        if isinstance(field, core.LoDTensor):
            return field
        try:
            array = np.ascontiguousarray(field)
        except ValueError:
            array = None
        if array is None or array.dtype == object:
            raise TypeError(
                f"a batch of {name} is no regular array: it has parts of different lengths. Make "
                "a tensor of it with "
                "fluid.create_lod_tensor."
            )
        tensor = core.LoDTensor()
        tensor.set(array, core.CPUPlace())
        return tensor

    def _pack(self, group: list):
        feed = merge_feeds(group)
        if self._return_list:
            return [[feed[name] for name in self._names]]
        return Feeds([feed])

    def start(self) -> None:
        raise RuntimeError(
            "start() is for iterable=False. Iterate over the loader: for feed in loader(): ..."
        )

    def reset(self) -> None:
        raise RuntimeError("reset() is for iterable=False. Iterate again; each iteration starts anew.")

    def set_sample_generator(
        self, reader: Callable, batch_size: int, drop_last: bool = True, places=None
    ) -> "GeneratorLoader":
        """Takes a generator of single samples (tuples of fields) and makes batches of them."""
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

    def set_sample_list_generator(self, reader: Callable, places=None) -> "GeneratorLoader":
        """Takes a generator of lists of samples, as paddle.batch makes them."""
        feeder = DataFeeder(feed_list=self._feed_list, place=core.CPUPlace())
        return self.set_batch_generator(feeder.decorate_reader(reader, multi_devices=False), places=places)

    def set_batch_generator(self, reader: Callable, places=None) -> "GeneratorLoader":
        """Takes a generator of whole batches: one array or tensor per variable."""
        self._tensor_reader = reader
        self._devices = max(_count(places), 1)
        return self


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
        """Makes a loader that holds up to `capacity` batches ready for the variables in `feed_list`."""
        return GeneratorLoader(feed_list, capacity, use_double_buffer, iterable, return_list, drop_last)

    @staticmethod
    def from_dataset(dataset, places, drop_last: bool = True):
        raise RuntimeError("DataLoader.from_dataset is not there. Use DataLoader.from_generator.")


class PyReader(DataLoaderBase):
    """The older face of the same: decorate_... methods take the generator, iteration gives feeds."""

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
        self._loader.start()

    def reset(self) -> None:
        self._loader.reset()

    def decorate_sample_generator(
        self, sample_generator: Callable, batch_size: int, drop_last: bool = True, places=None
    ) -> None:
        """Takes a generator of single samples."""
        self._loader.set_sample_generator(sample_generator, batch_size, drop_last, places)

    def decorate_sample_list_generator(self, reader: Callable, places=None) -> None:
        """Takes a generator of lists of samples."""
        self._loader.set_sample_list_generator(reader, places)

    def decorate_batch_generator(self, reader: Callable, places=None) -> None:
        """Takes a generator of whole batches."""
        self._loader.set_batch_generator(reader, places)


def __getattr__(name: str):
    absent.refuse(__name__, name)
