"""Rows that machine code writes into a ring buffer on any thread, and their reader.

The stamp of a row is written last: the number of rows before it plus one. So a reader can tell that
the row is complete. A slow reader loses the oldest rows, and gets their number.
"""

from __future__ import annotations

from time import sleep

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
PATIENCE, A_MOMENT = 50, 1e-4


class Reader:
    """Reads rows written from now on, in one thread at a time."""

    def __init__(self, rows: Ints, state: Ints, stamp: int) -> None:
        self._rows = rows
        self._counted = memoryview(state.data)  # faster to read; the first word counts the rows
        self._stamp = stamp  # the column
        self._next = self._counted[0]

    def waiting(self) -> int:
        """The number of unread rows; at most the capacity of the ring."""
        return int(self._counted[0] - self._next)

    def read(self) -> tuple[Ints, int]:
        """Complete rows in order, and the number of lost ones.

        If a thread has not finished a row, it and later rows are returned the next time.
        """
        last = int(self._counted[0])
        for patience in reversed(range(PATIENCE)):
            first = max(self._next, int(self._counted[0]) - len(self._rows))
            rows = self._between(first, last)
            kept = max(first, int(self._counted[0]) - len(self._rows))  # overwritten meanwhile
            whole = rows[kept - first :, self._stamp] == np.arange(kept + 1, last + 1)
            if whole.all() or not patience:
                many = len(whole) if whole.all() else int(np.argmin(whole))
                lost, self._next = kept - self._next, kept + many
                return rows[kept - first :][:many], lost
            sleep(A_MOMENT)
        raise AssertionError

    def since(self, count: int) -> tuple[Ints, int]:
        """The rows from a former number of rows on, and how many are lost or not complete."""
        last = int(self._counted[0])
        first = max(count, last - len(self._rows))
        rows = self._between(first, last)
        kept = max(first, int(self._counted[0]) - len(self._rows))  # overwritten meanwhile
        rows = rows[kept - first :]
        whole = rows[:, self._stamp] == np.arange(kept + 1, last + 1)
        return rows[whole], kept - count + int(np.count_nonzero(~whole))

    def again(self, stamps: Ints) -> Ints:
        """The current rows with these stamps; a row may have been overwritten by another."""
        return self._rows[(stamps - 1) % len(self._rows)]

    def _between(self, first: int, last: int) -> Ints:
        """A copy of the rows from one count to another."""
        start, end = first % len(self._rows), last % len(self._rows)
        if first < last and end <= start:
            return np.concatenate([self._rows[start:], self._rows[:end]])
        return self._rows[start:end].copy()
