"""Readers made from readers, in the caller's thread.

Those that start threads are in threaded.py, those that start processes in process.py; all of them can
be taken from here by name as well.
"""

from __future__ import annotations

import importlib
import itertools
import random
from typing import Any, Callable, Iterable, Iterator

from paddle.batch import need_reader

Reader = Callable[[], Iterable[Any]]

__all__ = [
    "cache",
    "map_readers",
    "buffered",
    "compose",
    "chain",
    "shuffle",
    "ComposeNotAligned",
    "firstn",
    "xmap_readers",
    "multiprocess_reader",
    "PipeReader",
    "pipe_reader",
    "Fake",
]

_ELSEWHERE = {
    "buffered": "threaded",
    "xmap_readers": "threaded",
    "multiprocess_reader": "process",
    "PipeReader": "process",
    "pipe_reader": "process",
}
_GAP = object()


def __getattr__(name: str) -> Any:
    if name not in _ELSEWHERE:
        raise AttributeError(f"module 'paddle.reader.decorator' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"paddle.reader.{_ELSEWHERE[name]}"), name)
    globals()[name] = value
    return value


def cache(reader: Reader) -> Reader:
    """Read everything once, now, and serve later passes from memory.

    Args:
        reader: a function that gives an iterable of samples.

    Returns:
        a reader.

    >>> twice = paddle.reader.cache(lambda: iter([1, 2]))
    >>> list(twice()), list(twice())
    ([1, 2], [1, 2])
    """
    need_reader("paddle.reader.cache", reader)
    samples = tuple(reader())

    def cached_reader() -> Iterator[Any]:
        return iter(samples)

    return cached_reader


def map_readers(func: Callable[..., Any], *readers: Reader) -> Reader:
    """Call `func` with one sample of each reader; stop with the shortest.

    Args:
        func: a function of as many samples as there are readers.
        *readers: functions that give iterables of samples.

    Returns:
        a reader.

    >>> list(paddle.reader.map_readers(lambda a, b: a * b, lambda: [2, 3], lambda: [5, 7])())
    [10, 21]
    """
    need_reader("paddle.reader.map_readers", *readers)

    def mapped_reader() -> Iterator[Any]:
        yield from map(func, *(reader() for reader in readers))

    return mapped_reader


def shuffle(reader: Reader, buf_size: int) -> Reader:
    """Shuffle within blocks of `buf_size` samples. `random.seed` makes the order repeatable.

    Args:
        reader: a function that gives an iterable of samples.
        buf_size: how many samples are shuffled at a time.

    Returns:
        a reader.

    >>> sorted(paddle.reader.shuffle(lambda: range(5), 3)())
    [0, 1, 2, 3, 4]
    """
    need_reader("paddle.reader.shuffle", reader)
    size = max(1, int(buf_size))

    def shuffled_reader() -> Iterator[Any]:
        samples = iter(reader())
        while block := list(itertools.islice(samples, size)):
            random.shuffle(block)
            yield from block

    return shuffled_reader


def chain(*readers: Reader) -> Reader:
    """Read one reader after the other.

    >>> list(paddle.reader.chain(lambda: [1], lambda: [2, 3])())
    [1, 2, 3]
    """
    need_reader("paddle.reader.chain", *readers)

    def chained_reader() -> Iterator[Any]:
        for reader in readers:
            yield from reader()

    return chained_reader


class ComposeNotAligned(ValueError):
    """Readers given to `compose` are of different lengths."""


def compose(*readers: Reader, check_alignment: bool = True) -> Reader:
    """Put one sample of each reader into one flat tuple.

    Readers of different lengths raise ComposeNotAligned; with `check_alignment=False` reading stops
    with the shortest.

    Args:
        *readers: functions that give iterables of samples.
        check_alignment: readers of different lengths are an error.

    Returns:
        a reader.

    >>> list(paddle.reader.compose(lambda: [(1, 2)], lambda: [3])())
    [(1, 2, 3)]
    """
    need_reader("paddle.reader.compose", *readers)

    def composed_reader() -> Iterator[tuple]:
        streams = [reader() for reader in readers]
        rows = itertools.zip_longest(*streams, fillvalue=_GAP) if check_alignment else zip(*streams)
        for count, parts in enumerate(rows):
            ended = [place for place, part in enumerate(parts) if part is _GAP]
            if ended:
                raise ComposeNotAligned(
                    f"paddle.reader.compose: reader {ended[0]} of {len(readers)} ended after {count} "
                    "samples, others go on. Give readers of one length, or check_alignment=False."
                )
            yield tuple(itertools.chain.from_iterable(p if isinstance(p, tuple) else (p,) for p in parts))

    return composed_reader


def firstn(reader: Reader, n: int) -> Reader:
    """Stop after `n` samples.

    Args:
        reader: a function that gives an iterable of samples.
        n: how many.

    Returns:
        a reader.

    >>> list(paddle.reader.firstn(lambda: range(100), 2)())
    [0, 1]
    """
    need_reader("paddle.reader.firstn", reader)

    def firstn_reader() -> Iterator[Any]:
        return itertools.islice(reader(), max(0, int(n)))

    return firstn_reader


class Fake:
    """Repeat the first sample of a reader, to time everything but the reading.

    >>> list(paddle.reader.Fake()(lambda: iter([7, 8]), 3)())
    [7, 7, 7]
    """

    def __init__(self) -> None:
        self.data: Any = None
        self.yield_num = 0

    def __call__(self, reader: Reader, data_num: int) -> Reader:
        def fake_reader() -> Iterator[Any]:
            if self.data is None:
                self.data = next(iter(reader()))
            for self.yield_num in range(1, data_num + 1):
                yield self.data
            self.yield_num = 0

        return fake_reader
