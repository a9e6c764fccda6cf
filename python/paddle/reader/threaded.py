"""Readers that read or map ahead in threads.

An exception in a thread is raised in the loop that reads. When that loop ends early, the threads end.
"""

from __future__ import annotations

import queue
import threading
from typing import Any, Callable, Iterable, Iterator

from paddle.batch import need_reader

Reader = Callable[[], Iterable[Any]]

__all__ = ["buffered", "xmap_readers"]

_END = object()
_POLL_S = 0.1


class _Failure:
    """Carries an exception from a thread to the loop that reads."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def _start(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()


def _put(box: queue.Queue, item: Any, stop: threading.Event) -> bool:
    """Put an item; give up, and say so, once the reading loop is gone."""
    while not stop.is_set():
        try:
            box.put(item, timeout=_POLL_S)
            return True
        except queue.Full:
            pass
    return False


def buffered(reader: Reader, size: int) -> Reader:
    """Read up to `size` samples ahead in a thread.

    Args:
        reader: a function that gives an iterable of samples.
        size: how many samples wait at most.

    Returns:
        a reader.

    >>> list(paddle.reader.buffered(lambda: range(3), 2)())
    [0, 1, 2]
    """
    need_reader("paddle.reader.buffered", reader)

    def buffered_reader() -> Iterator[Any]:
        box: queue.Queue = queue.Queue(maxsize=max(0, int(size)))
        stop = threading.Event()

        def fill() -> None:
            last: Any = _END
            try:
                for sample in reader():
                    if not _put(box, sample, stop):
                        return
            except BaseException as error:
                last = _Failure(error)
            _put(box, last, stop)

        _start(fill)
        try:
            while (sample := box.get()) is not _END:
                if isinstance(sample, _Failure):
                    raise sample.error
                yield sample
        finally:
            stop.set()

    return buffered_reader


def xmap_readers(
    mapper: Callable[[Any], Any], reader: Reader, process_num: int, buffer_size: int, order: bool = False
) -> Reader:
    """Map samples in `process_num` threads, with about `buffer_size` samples waiting on either side.

    `order=True` keeps the order of the reader.

    Args:
        mapper: a function of a sample.
        reader: a function that gives an iterable of samples.
        process_num: the number of threads.
        buffer_size: how many samples wait at most.
        order: keep the order of the reader.

    Returns:
        a reader.

    >>> list(paddle.reader.xmap_readers(lambda x: x + 1, lambda: range(4), 2, 8, order=True)())
    [1, 2, 3, 4]
    """
    need_reader("paddle.reader.xmap_readers", reader)
    workers = int(process_num)
    if workers < 1:
        raise ValueError(f"paddle.reader.xmap_readers: process_num must be at least 1, got {process_num!r}.")
    # One limit on samples in flight bounds both sides, and the store that puts results in order.
    limit = 2 * int(buffer_size) + workers if buffer_size > 0 else 0

    def mapped_reader() -> Iterator[Any]:
        todo: queue.SimpleQueue = queue.SimpleQueue()
        done: queue.SimpleQueue = queue.SimpleQueue()
        slots = threading.Semaphore(limit)
        stop = threading.Event()

        def feed() -> None:
            try:
                for place, sample in enumerate(reader()):
                    while limit and not slots.acquire(timeout=_POLL_S):
                        if stop.is_set():
                            return
                    if stop.is_set():
                        return
                    todo.put((place, sample))
            except BaseException as error:
                done.put(_Failure(error))
            finally:
                for _ in range(workers):
                    todo.put(_END)

        def work() -> None:
            try:
                while (job := todo.get()) is not _END and not stop.is_set():
                    done.put((job[0], mapper(job[1])))
                done.put(_END)
            except BaseException as error:
                done.put(_Failure(error))

        _start(feed)
        for _ in range(workers):
            _start(work)
        try:
            waiting: dict[int, Any] = {}
            running, due = workers, 0
            while running:
                got = done.get()
                if got is _END:
                    running -= 1
                elif isinstance(got, _Failure):
                    raise got.error
                elif not order:
                    slots.release()
                    yield got[1]
                else:
                    waiting[got[0]] = got[1]
                    while due in waiting:
                        slots.release()
                        yield waiting.pop(due)
                        due += 1
        finally:
            stop.set()

    return mapped_reader
