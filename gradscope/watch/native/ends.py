"""Records the release of nodes, when their records are returned.

See Note [Records] in records.py. This takes about 30 ns per node, on the thread that releases it,
and does not call Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradscope.machine_code.interpreter import MONOTONIC, clock_gettime
from gradscope.machine_code.language import Address, increase, load, store
from gradscope.machine_code.ring import Reader

Ints = NDArray[np.int64]
CAPACITY = 1 << 15
COLUMNS = STAMP, NUMBER, DIED, BORN, SITE, CONTEXT, TOPOLOGICAL, _ = range(8)
"""TOPOLOGICAL: negative if no traversal has found the node."""

BILLION = 1_000_000_000
NOBODY = -1

_rows = np.zeros((CAPACITY, len(COLUMNS)), np.int64)
_state = np.zeros(2, np.int64)
_state[1] = NOBODY
ROWS, MASK, ROW = Address(_rows.ctypes.data, "ends"), CAPACITY - 1, 8 * len(COLUMNS)
COUNT = Address(_state.ctypes.data, "state_of_ends")
RECORDING = COUNT + 8


def ended(record: int, number: int) -> int:
    """Record the release of a node; `record`: the address of its words, from its number on."""
    count = increase(COUNT, 1)
    row = ROWS + (count & MASK) * ROW
    store(row, 0)
    clock_gettime(MONOTONIC, row + 16)
    store(row + 16, load(row + 16) * BILLION + load(row + 24))
    store(row + 8, number)
    store(row + 24, load(record + 32))
    store(row + 32, load(record + 24))
    store(row + 40, load(record + 16))
    store(row + 48, load(record + 40))
    store(row, count + 1)
    return row


class GoneNodes:
    """Reads the released nodes of one recording."""

    def __init__(self) -> None:
        self._reader = Reader(_rows, _state, STAMP)
        self.lost = 0

    def start(self, recording: int) -> None:
        """Start."""
        _state[1] = recording

    def stop(self) -> None:
        """Stop."""
        _state[1] = NOBODY

    def read(self) -> Ints:
        """Rows of the nodes released since the last time."""
        rows, lost = self._reader.read()
        self.lost += lost
        return rows


def keep() -> tuple[Any, ...]:
    """Keep the memory that machine code writes to, because nodes may outlive everything else."""
    return _rows, _state
