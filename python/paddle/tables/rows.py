"""A table that lies in files: what it is called, and its rows in blocks that fit into memory.

Columns are what a row has of each variable: the table's own numbers first, then those of the optimizer's states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

VALUES = "values"  # what the first column is called in portable files
NO_HEIGHT = int(np.iinfo(np.int64).max)  # ids are not bounded
BLOCK = 4 << 20  # bytes that are read at once where nobody says how many

Block = tuple[np.ndarray, list[np.ndarray]]  # ids, and the wanted columns of these rows


class TableError(Exception):
    """What was asked cannot be done: the message says why, and what to do."""


class Piece:
    """Some rows of a table, in one file or in one for each column."""

    path: str

    def ids(self, rows: int) -> Iterator[np.ndarray]:
        """All ids, `rows` at a time."""
        for ids, _ in self.blocks((), rows):
            yield ids

    def blocks(self, columns: Sequence[int], rows: int) -> Iterator[Block]:
        """All rows, `rows` at a time."""
        raise NotImplementedError


class Table(NamedTuple):
    """A table, its pieces not read yet."""

    name: str
    columns: tuple[str, ...]  # VALUES, then states without the table's name: "moment_0"
    width: int
    dtype: np.dtype
    height: int  # ids are below it
    pieces: tuple[Piece, ...]
    where: str  # for messages
    notes: tuple[str, ...] = ()  # what a user should know of what was found

    def row_bytes(self) -> int:
        """What a row takes in a file."""
        return 8 + len(self.columns) * self.width * self.dtype.itemsize

    def blocks(self, columns: Sequence[int] | None = None, size: int = BLOCK) -> Iterator[Block]:
        """All rows as they lie, about `size` bytes at a time; None: all columns."""
        wanted = range(len(self.columns)) if columns is None else columns
        rows = rows_of(size, self)
        for piece in self.pieces:
            yield from piece.blocks(wanted, rows)

    def ids(self, size: int = BLOCK) -> Iterator[np.ndarray]:
        """Their ids alone."""
        for piece in self.pieces:
            yield from piece.ids(max(size // 8, 1))

    def without_states(self) -> Table:
        """The parameter alone."""
        return self._replace(columns=self.columns[:1])

    def state_name(self, column: str) -> str:
        """What a job calls the variable of this column."""
        return self.name if column == VALUES else f"{self.name}_{column}"


def rows_of(size: int, table: Table) -> int:
    """How many rows are about `size` bytes."""
    return max(size // table.row_bytes(), 1)
