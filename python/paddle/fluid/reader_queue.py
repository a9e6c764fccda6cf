"""Between a generator in a thread and the one who takes its batches: a queue of bounded length.

A Pump runs the generator and pushes; `Queue.pop` waits for the next batch. Closing the queue ends the thread at
its next push; an error of the generator is raised to the one who pops. No Pump outlives the interpreter.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import deque
from typing import Any, Callable, Iterable

from paddle.fluid import core, shown
from paddle.fluid.log_helper import notice

# How long the end of a process waits for generators that are busy, and when it says so.
_AT_EXIT_S, _TOLD_AFTER_S = 5.0, 0.5


def raised_in(error: BaseException, what: str) -> BaseException:
    """The exception for an error of the user's generator: one that `except EnforceNotMet` catches, as upstream's, and
    also an `except` of the error's own class."""
    if not isinstance(error, Exception):
        return error
    text = f"{what} raised {type(error).__name__}" + (f": {shown.sentence(str(error))}" if str(error) else ".")
    if not isinstance(error, core.EnforceNotMet):
        try:
            bases = core.EnforceNotMet, type(error)
            made = type(type(error).__name__, bases, {"__init__": lambda self, *args: None})(text)
            made.__dict__.update(error.__dict__)
            made.args = (text,)
        except TypeError:  # a class that cannot be derived from
            made = core.EnforceNotMet(text)
    else:
        made = core.EnforceNotMet(text)
    made.__cause__ = error
    return made


class LoDTensorBlockingQueue:
    """Holds up to `capacity` batches. One thread may push while another pops."""

    def __init__(self, capacity: int):
        self._capacity = int(capacity)
        self._items: deque = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._error: BaseException | None = None
        self._pass = 0  # raised by each reopen(): what was pushed for an earlier pass is not taken

    def push(self, item, of_pass: int | None = None) -> bool:
        """Waits for room and adds a batch. False: the queue is closed, or its pass is over."""
        with self._changed:
            while True:
                if self._closed or (of_pass is not None and of_pass != self._pass):
                    return False
                if len(self._items) < self._capacity:
                    break
                self._changed.wait()
            self._items.append(item)
            self._changed.notify_all()
            return True

    def pop(self) -> Any:
        """Waits for the next batch. Raises EOFException at the end, or what the generator raised."""
        with self._changed:
            while not self._items and not self._closed:
                self._changed.wait()
            if not self._items:
                if self._error is not None:
                    raise self._error
                raise core.EOFException("There is no next data.")
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """No more comes in; what is there can still be popped."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def kill(self, error: BaseException | None = None) -> None:
        """Closes; after what is there, pop raises."""
        with self._changed:
            self._error = error or core.EnforceNotMet("The queue was killed; nothing more can be read from it.")
            self._closed = True
            self._changed.notify_all()

    def reopen(self) -> int:
        """Empties the queue for a new pass, whose number it returns."""
        with self._changed:
            self._items.clear()
            self._closed, self._error = False, None
            self._pass += 1
            self._changed.notify_all()
            return self._pass

    def size(self) -> int:
        return len(self._items)

    def capacity(self) -> int:
        return self._capacity

    def is_closed(self) -> bool:
        return self._closed

    def wait_for_inited(self, milliseconds: int = 0) -> bool:
        """Upstream's queue is set up by the first run; ours when it is made."""
        return True


class Pump:
    """A thread that pushes what `make()` yields into the queue and closes it at the end."""

    def __init__(self, make: Callable[[], Iterable], queue: LoDTensorBlockingQueue, what: str):
        self.queue, self.what = queue, what
        self._pass = queue.reopen()
        self.thread = threading.Thread(
            target=_work, args=(make, queue, self._pass, what), name="paddle-reader", daemon=True
        )
        _PUMPS.add(self)
        self.thread.start()

    def stop(self) -> None:
        """Ends the thread, also midway; waits for it."""
        self.queue.close()
        if self.thread is not threading.current_thread():
            self.thread.join()


def _work(make, queue: LoDTensorBlockingQueue, number: int, what: str) -> None:
    items = None
    try:
        items = iter(make())
        for item in items:
            if not queue.push(item, number):
                return
        queue.close()
    except BaseException as error:
        queue.kill(raised_in(error, what))
    finally:
        if hasattr(items, "close"):
            items.close()  # the generator's own `finally` runs in this thread


_PUMPS: weakref.WeakSet = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    running = list(_PUMPS)
    for pump in running:
        pump.queue.close()
    begin = time.monotonic()
    for wait in (_TOLD_AFTER_S, _AT_EXIT_S):
        for pump in running:
            pump.thread.join(max(begin + wait - time.monotonic(), 0))
        busy = [pump.what for pump in running if pump.thread.is_alive()]
        if busy and wait < _AT_EXIT_S:
            notice(f"{busy[0]} is busy: the end of the process waits for it, {_AT_EXIT_S:g} s at most.")
