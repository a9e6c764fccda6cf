"""Rows of tables in the order of their ids, each once, in bounded memory.

Ids are cut into ranges so that the rows of one range fit. What does not fit all at once is first written into a scratch file for
each column, range beside range within each block that was read; then each range is read, put in order and handed on. So every row
is read twice and written twice, however many there are.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence

import numpy as np

from paddle.tables.rows import Block, Table, TableError

FIRST, SUM, MEAN = "first", "sum", "mean"
_SAMPLES = 1 << 16
_SHARE = 6  # a range takes this part of the memory: it is there as read, in order, and its ids with their places


class Ordered:
    """The rows of some tables of one shape. A row that stands twice is an error unless `on_duplicate` says what comes of the two.

    Use it in a `with`: it has scratch files. `folder`: where they are.
    """

    def __init__(self, tables: Sequence[Table], memory: int, on_duplicate: str | None, folder: str):
        self.like, self.on_duplicate = tables[0], on_duplicate
        self._tables, self._files = tables, []
        self._range = max(memory // _SHARE, 1 << 16)
        self._folder = folder
        self._kept: list[Block] = []  # all rows, where they are of one range
        self._places = np.zeros((0, 1), np.int64)  # of each block that was read and each range: its first row in the scratch files
        self.rows = self.doubles = 0

    def __enter__(self) -> Ordered:
        try:
            self._partition(*self._limits())
            self._count()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused) -> None:
        for file in self._files:
            file.close()
        self._files, self._kept = [], []

    def blocks(self, columns: Sequence[int]) -> Iterator[Block]:
        """Ids that rise, and these columns of their rows; may be called again."""
        for number in range(self._ranges):
            ids, values = self._read(number, columns)
            order = np.argsort(ids, kind="stable" if self.doubles else None)
            ids = ids[order]
            is_new = _starts(ids)
            in_order = [np.take(each, order, axis=0) for each in values]
            if is_new.all():
                yield ids, in_order
            else:
                yield ids[is_new], [self._joined(each, np.flatnonzero(is_new)) for each in in_order]

    # ---- ranges ----

    def _limits(self) -> tuple[int, np.ndarray]:
        """How many rows there are, and where ranges end."""
        total, step = 0, 1
        samples: list[np.ndarray] = []
        for table in self._tables:
            for ids in table.ids():
                total += len(ids)
                samples.append(ids[::step].copy())
                if sum(map(len, samples)) > 2 * _SAMPLES:
                    samples, step = [np.concatenate(samples)[::2]], step * 2
        ranges = -(-total * self.like.row_bytes() // self._range)
        if ranges <= 1:
            return total, np.zeros(0, np.int64)
        known = np.sort(np.concatenate(samples))
        return total, np.unique(known[np.arange(1, ranges) * len(known) // ranges])

    def _partition(self, total: int, limits: np.ndarray) -> None:
        self._ranges = len(limits) + 1
        columns = len(self.like.columns)
        if self._ranges == 1:
            self._kept = [block for table in self._tables for block in table.blocks()]
            return
        self._files = [tempfile.TemporaryFile(dir=self._folder) for _ in range(columns + 1)]
        places, done = [], 0
        for table in self._tables:
            for ids, values in table.blocks(size=self._range):
                where = np.searchsorted(limits, ids, side="right")
                order = np.argsort(where.astype(np.uint16 if self._ranges <= 65536 else np.int64), kind="stable")
                for file, each in zip(self._files, (ids, *values)):
                    np.take(each, order, axis=0).tofile(file)
                starts = np.searchsorted(where[order], np.arange(self._ranges))
                places.append(np.append(starts, len(ids)) + done)
                done += len(ids)
        for file in self._files:
            file.flush()
        self._places = np.array(places, np.int64)

    def _read(self, number: int, columns: Sequence[int]) -> Block:
        table = self.like
        if not self._files:
            if not self._kept:
                return np.zeros(0, np.int64), [np.zeros((0, table.width), table.dtype) for _ in columns]
            return (np.concatenate([ids for ids, _ in self._kept]),
                    [np.concatenate([values[column] for _, values in self._kept]) for column in columns])
        starts, ends = self._places[:, number], self._places[:, number + 1]
        total = int((ends - starts).sum())

        def gathered(file, width: int, dtype: np.dtype) -> np.ndarray:
            out, at = np.empty((total, width), dtype), 0
            for start, end in zip(starts.tolist(), ends.tolist()):
                if end > start:
                    file.seek(start * width * dtype.itemsize)
                    if file.readinto(memoryview(out[at : at + end - start]).cast("B")) < (end - start) * width * dtype.itemsize:
                        raise TableError(f"a scratch file in {self._folder!r} got shorter")
                at += end - start
            return out

        ids = gathered(self._files[0], 1, np.dtype(np.int64))[:, 0]
        return ids, [gathered(self._files[1 + column], table.width, table.dtype) for column in columns]

    # ---- ids that stand twice ----

    def _count(self) -> None:
        total = 0
        twice: list[int] = []
        for number in range(self._ranges):
            ids = np.sort(self._read(number, ())[0])
            total += len(ids)
            is_new = _starts(ids)
            self.rows += int(is_new.sum())
            twice += ids[~is_new][: 3 - len(twice)].tolist() if len(twice) < 3 else []
        self.doubles = total - self.rows
        if self.doubles and self.on_duplicate is None:
            raise TableError(
                f"{self.doubles} rows stand twice, as of the ids {', '.join(map(str, dict.fromkeys(twice)))} "
                f"({self._who_has(twice[0])}). Say what comes of such rows: --on-duplicate=first, sum or mean."
            )

    def _who_has(self, id: int) -> str:
        found = [piece.path for table in self._tables for piece in table.pieces for ids in piece.ids(1 << 19) if id in ids]
        return "in " + " and ".join(repr(path) for path in dict.fromkeys(found))

    def _joined(self, values: np.ndarray, starts: np.ndarray) -> np.ndarray:
        if self.on_duplicate == FIRST:
            return values[starts]
        counts = np.diff(np.append(starts, len(values)))
        joined = values[starts]
        several = counts > 1  # a row that stands once keeps its bits
        sums = np.add.reduceat(values, starts, axis=0, dtype=np.float64)[several]
        joined[several] = sums / counts[several, None] if self.on_duplicate == MEAN else sums
        return joined


def _starts(ids: np.ndarray) -> np.ndarray:
    """Of ids in order: which ones are not like the one before?"""
    is_new = np.ones(len(ids), bool)
    is_new[1:] = ids[1:] != ids[:-1]
    return is_new


def scratch_folder(beside: str) -> str:
    """Where scratch files go: beside what is written, as there is room for as much again."""
    return os.path.dirname(os.path.abspath(beside))
