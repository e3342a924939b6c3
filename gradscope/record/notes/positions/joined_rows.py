"""Left-out steps that share a row, so that the rows of a very long run stay few."""

from __future__ import annotations

LEFT_OUT_ROWS = 1 << 16
"""Number of left-out steps that have rows of their own."""

USUAL, FEWEST = 256 << 20, 1 << 8


def fewer(rows: int, max_bytes: int | None) -> int:
    """The number of rows for a file with this limit: fewer, if it is below the usual one."""
    return rows if max_bytes is None else max(min(rows, rows * max_bytes // USUAL), FEWEST)


class JoinedRows:
    """Decides which left-out steps belong to the row of the step before.

    The first `most` left-out steps have rows of their own; later, a row stands for 2, 4, 8, … of
    them. The number of rows grows like the logarithm of the number of steps.
    """

    def __init__(self, most: int) -> None:
        self._most = self._limit = most
        self._rows = 0
        self._in_row = 0
        self._was_alone = True
        self.stride = 1
        """Largest number of steps in one row."""

    def joins(self, *, alone: bool) -> bool:
        """Whether the step that begins now belongs to the row of the one before.

        `alone`: it must have a row of its own.
        """
        joins = not (alone or self._was_alone) and self._in_row < self.stride
        self._was_alone = alone
        if joins:
            self._in_row += 1
            return True
        self._in_row = 1
        self._rows += 1
        if self._rows > self._limit:
            self.stride *= 2
            self._limit += self._most // 2
        return False
