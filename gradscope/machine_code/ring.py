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
    """Reads what is written from now on. One at a time may read."""

    def __init__(self, rows: Ints, state: Ints, stamp: int) -> None:
        self._rows = rows
        self._counted = memoryview(state.data)  # it is quicker to read; first, how many there were
        self._stamp = stamp  # the column
        self._next = self._counted[0]

    def waiting(self) -> int:
        """How many rows are there to be read; no more are kept than the ring holds."""
        return int(self._counted[0] - self._next)

    def read(self) -> tuple[Ints, int]:
        """Whole rows in order, and how many were lost.

        Where a thread is long in writing one, the rest comes next time.
        """
        last = int(self._counted[0])
        for patience in reversed(range(PATIENCE)):
            first = max(self._next, int(self._counted[0]) - len(self._rows))
            rows = self._between(first, last)
            kept = max(first, int(self._counted[0]) - len(self._rows))  # others were overwritten
            whole = rows[kept - first :, self._stamp] == np.arange(kept + 1, last + 1)
            if whole.all() or not patience:
                many = len(whole) if whole.all() else int(np.argmin(whole))
                lost, self._next = kept - self._next, kept + many
                return rows[kept - first :][:many], lost
            sleep(A_MOMENT)
        raise AssertionError

    def again(self, stamps: Ints) -> Ints:
        """The rows with these stamps as they are by now; another row may stand in its place."""
        return self._rows[(stamps - 1) % len(self._rows)]

    def _between(self, first: int, last: int) -> Ints:
        """A copy of the rows from one count to another."""
        start, end = first % len(self._rows), last % len(self._rows)
        if first < last and end <= start:
            return np.concatenate([self._rows[start:], self._rows[:end]])
        return self._rows[start:end].copy()
