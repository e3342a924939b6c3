"""What the probe notes while the program runs: flat lists of numbers, nothing else.

# Note [Writing little]
A forward call and its backward cost five microseconds in all, so a note may cost a few hundred
nanoseconds. The probe therefore extends a flat list with a handful of numbers. They are written
much as they were noted; what follows from them is worked out when the trace is read
(trace/shorthand).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Log:
    """Records of one kind: `width` numbers each, one after the other in one list.

    Other threads may extend the list at any time; a record is added in one step, so taking whole
    records off its front needs no lock.
    """

    __slots__ = ("cells", "extend", "width")

    def __init__(self, width: int) -> None:
        self.cells: list[int] = []
        self.extend = self.cells.extend
        self.width = width

    def __len__(self) -> int:
        return len(self.cells) // self.width

    def take(self) -> Ints:
        """All records so far, one row per column."""
        count = len(self.cells) // self.width
        size = count * self.width
        cells = self.cells[:size]
        del self.cells[:size]
        return np.ascontiguousarray(np.fromiter(cells, np.int64, size).reshape(count, self.width).T)
