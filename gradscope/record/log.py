"""What the probe notes while the program runs: flat lists of numbers, nothing else.

# Note [Writing little, deriving later]
A forward call and its backward cost five microseconds in all, so a note may cost a few hundred
nanoseconds. The probe therefore extends a flat list with a handful of numbers, and everything that
follows from them (rows of nodes, edges and saved tensors of ordinary calls, the events of a node's
run) is worked out afterwards, for thousands of notes at once, by NumPy (see rows.py, runs.py).

What is worked out is only what was seen in another form: a call's edges are where its inputs came
from; a node's run is noted as one record and written as the events it consists of. Whatever is out
of the ordinary (views, tensors written in place, hooks on saved tensors) is noted in full.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Log:
    """Records of one kind: `width` cells each, one after the other in one list.

    Other threads may extend the list at any time; a record is added in one step, so taking whole
    records off its front needs no lock.
    """

    __slots__ = ("cells", "extend", "objects", "width")

    def __init__(self, width: int, objects: int = 0) -> None:
        self.cells: list[Any] = []
        self.extend = self.cells.extend
        self.width = width
        self.objects = objects  # how many of the last cells of a record are no numbers

    def __len__(self) -> int:
        return len(self.cells) // self.width

    def take(self) -> tuple[Ints, list[list[Any]]]:
        """All records so far: their numbers, one row per column, and their objects by column."""
        count = len(self.cells) // self.width
        size = count * self.width
        cells = self.cells[:size]
        del self.cells[:size]
        if not self.objects:
            numbers = np.fromiter(cells, np.int64, size).reshape(count, self.width).T
            return np.ascontiguousarray(numbers), []
        plain = self.width - self.objects
        columns = [np.fromiter(cells[i :: self.width], np.int64, count) for i in range(plain)]
        kept = [cells[i :: self.width] for i in range(plain, self.width)]
        numbers = np.stack(columns) if count else np.zeros((plain, 0), np.int64)
        return numbers, kept
