"""DataLoader.from_dataset: the batches of a data set, read by the engine, for scripts that feed them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from paddle.fluid import core
from paddle.fluid.reader import DataLoaderBase, Feeds, _Prefetch

__all__ = ["DatasetLoader"]

_AHEAD = 2  # steps


class DatasetLoader(DataLoaderBase):
    """A loader over a data set of fluid.DatasetFactory. Made by DataLoader.from_dataset."""

    def __init__(self, dataset: Any, places: Any, drop_last: bool):
        from paddle.fluid.dataset import DatasetBase

        if not isinstance(dataset, DatasetBase):
            raise TypeError(f"from_dataset: a data set of fluid.DatasetFactory is wanted, found {dataset!r}.")
        self._dataset, self._drop_last = dataset, bool(drop_last)
        self._places = len(places) if isinstance(places, list | tuple) else 1
        self._running: _Prefetch | None = None

    def __iter__(self) -> Iterator[Feeds]:
        if self._running is not None:
            self._dataset.dataset.stop_batches()
            self._running.cut_off()
        self._running = _Prefetch(self._items, _AHEAD)
        return self._running

    def __next__(self) -> Feeds:
        if self._running is None:
            iter(self)
        assert self._running is not None
        try:
            return next(self._running)
        except StopIteration:
            self._running = None
            raise

    def _items(self) -> Iterator[Feeds]:
        """A feed for each place, in a list."""
        self._dataset._prepare_to_run()
        names = [name for name, is_float, _ in self._dataset._slots() if is_float is not None]
        engine = self._dataset.dataset
        group: list[tuple[int, list]] = []
        try:
            engine.begin_batches()
            while (batch := engine.next_batch()) is not None:
                if self._drop_last and batch[0] < self._dataset.batch_size:
                    continue
                group.append(batch)
                if len(group) == self._places:
                    yield Feeds(dict(zip(names, values)) for _, values in group)
                    group = []
        finally:
            engine.end_batches()
            self._dataset._finish_to_run()
        if group and not self._drop_last:
            yield Feeds(dict(zip(names, values)) for values in _spread(group, self._places))


def _spread(group: list[tuple[int, list]], places: int) -> list[list]:
    """The samples of the last batches, which are fewer than places, over all places; as they are where that cannot be."""
    counts, columns = [count for count, _ in group], list(zip(*(values for _, values in group)))
    arrays = [np.concatenate([np.array(each) for each in column]) for column in columns]
    lengths = [_lengths(column, counts) for column in columns]
    samples = sum(counts)
    if samples < places or any(each is None for each in lengths):
        return [values for _, values in group]
    ends = [samples * (i + 1) // places for i in range(places)]
    return [[_cut(array, length, bool(column[0].lod()), begin, end) for array, length, column in zip(arrays, lengths, columns)]
            for begin, end in zip([0, *ends], ends)]


def _lengths(column: tuple, counts: list[int]) -> np.ndarray | None:
    """Rows of each sample."""
    if column[0].lod():
        return np.concatenate([each.recursive_sequence_lengths()[0] for each in column]).astype(int)
    rows = [(each.shape()[0], count) for each, count in zip(column, counts)]
    if any(of % count for of, count in rows):
        return None
    return np.concatenate([np.full(count, of // count) for of, count in rows])


def _cut(array: np.ndarray, lengths: np.ndarray, has_lod: bool, begin: int, end: int) -> Any:
    first, last = lengths[:begin].sum(), lengths[:end].sum()
    tensor = core.LoDTensor()
    tensor.set(np.ascontiguousarray(array[first:last]), core.CPUPlace())
    if has_lod:
        tensor.set_recursive_sequence_lengths([lengths[begin:end].tolist()])
    return tensor
