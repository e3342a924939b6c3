"""Left-out steps that share a row, so that the rows of a very long run stay few."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradscope.record.notes.log import Ints

LEFT_OUT_ROWS = 1 << 16
"""Number of steps that have rows of their own, even if they are left out."""

USUAL, FEWEST = 256 << 20, 1 << 8


def fewer(rows: int, max_bytes: int | None) -> int:
    """The number of rows for a file with this limit: fewer, if it is below the usual one."""
    return rows if max_bytes is None else max(min(rows, rows * max_bytes // USUAL), FEWEST)


class JoinedRows:
    """Decides which left-out steps belong to the row of the step before, and counts them.

    The first `most` steps have rows of their own; later, a row stands for 2, 4, 8, … of those that
    are left out. The number of rows grows like the logarithm of the number of steps. `is_alone`
    returns whether the step that begins now must have a row of its own.
    """

    def __init__(self, most: int, is_alone: Callable[[], bool]) -> None:
        self._most = self._limit = most
        self._is_alone = is_alone
        self._rows = 0
        self._in_row = 0
        self._was_alone = True
        self._counts: dict[int, int] = {}  # further steps in rows, by id
        self.stride = 1
        """Largest number of steps in one row."""

    def joins(self) -> bool:
        """Whether the step that begins now belongs to the row of the one before."""
        if self.stride == 1:  # the usual case
            self._add_row()
            return False
        alone = self._is_alone()
        joins = not (alone or self._was_alone) and self._in_row < self.stride
        self._was_alone = alone
        if joins:
            self._in_row += 1
            return True
        self._in_row = 1
        self._add_row()
        return False

    def _add_row(self) -> None:
        self._rows += 1
        if self._rows > self._limit:
            self.stride *= 2
            self._limit += self._most // 2

    def add(self, row: int) -> None:
        """Count one more step in the row with this id."""
        self._counts[row] = self._counts.get(row, 0) + 1

    def take(self, last: int) -> Ints:
        """The ids of rows with several steps, and the numbers of further steps.

        `last`: the row that may get more.
        """
        counts = np.array([*self._counts.items()], np.int64).T
        self._counts = {row: many for row, many in self._counts.items() if row == last}
        return counts
