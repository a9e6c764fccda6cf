"""paddle.batch: groups the samples of a reader into lists."""

from __future__ import annotations

from itertools import islice
from typing import Any, Callable, Iterable, Iterator

__all__ = ["batch"]


def need_reader(what: str, *readers: Callable) -> None:
    """A TypeError unless all of them are functions: what a reader gives can be read once only."""
    for reader in readers:
        if not callable(reader):
            raise TypeError(
                f"{what} takes a reader, a function that gives samples, but found a {type(reader).__name__}. Give the "
                "function itself, without () behind it."
            )


def batch(
    reader: Callable[[], Iterable[Any]], batch_size: int, drop_last: bool = False
) -> Callable[[], Iterator[list]]:
    """Return a reader of lists of `batch_size` samples.

    The last list may be shorter; `drop_last=True` leaves it out.

    Args:
        reader: a function that gives an iterable of samples.
        batch_size: how many samples a list has.
        drop_last: leave out a last list that is shorter.

    Returns:
        a reader of lists.

    >>> list(paddle.batch(lambda: range(5), 2)())
    [[0, 1], [2, 3], [4]]
    """
    need_reader("paddle.batch", reader)
    size = int(batch_size)
    if size <= 0:
        raise ValueError(f"paddle.batch: batch_size must be at least 1, got {batch_size!r}.")

    def batch_reader() -> Iterator[list]:
        samples = iter(reader())
        while group := list(islice(samples, size)):
            if drop_last and len(group) < size:
                return
            yield group

    return batch_reader
