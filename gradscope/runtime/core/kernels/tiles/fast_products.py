"""Products of matrices by register tiles. Their plain twin is NumPy's `dot`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.compiling.compiled import compiled, inner
from gradscope.runtime.core.kernels.compiling.support import Array
from gradscope.runtime.core.kernels.tiles.tile import BYTES, ROWS, VECTORS, add_products, of_row

uint = np.uintp

STEPS = 256
"""So many rows of the right matrix are multiplied before the sums are put away."""
TOGETHER = 1024
"""So many rows of the left one are multiplied with the same part of the right one."""


@inner
def _lay(b: Array, at: int, far: Any, panel: Array, of: Any) -> None:
    """Lay out a part of the right matrix so that its rows are whole vectors, one after another."""
    steps, columns, wide = of
    if far[1] == 1:
        for step in range(steps):
            for i in range(columns):
                panel[uint(step * wide + i)] = b[uint(at + step * far[0] + i)]
    else:
        for i in range(columns):
            for step in range(steps):
                panel[uint(step * wide + i)] = b[uint(at + step * far[0] + i * far[1])]
    for step in range(steps):
        for i in range(columns, wide):
            panel[uint(step * wide + i)] = 0


@compiled
def multiply(
    a: Array, a_far: Any, b: Array, b_far: Any, c: Array, sizes: Any, rows: Any, columns: Any
) -> None:
    """Make some rows and columns of a product, from the first to before the last.

    `a_far` and `b_far` say how far apart rows and columns are; `sizes` how many columns the left
    matrix has, and the right one.
    """
    count, across = sizes
    lanes = BYTES // a.itemsize
    wide = VECTORS * lanes
    parts = -(-(rows[1] - rows[0]) // TOGETHER)
    most = -(-(rows[1] - rows[0]) // parts)
    panel = np.empty(min(count, STEPS) * wide, a.dtype)
    sums = np.empty(-(-most // ROWS) * ROWS * wide, a.dtype)
    a_steps, b_steps = np.arange(STEPS) * a_far[1], np.arange(STEPS) * wide
    for part in range(parts):
        first = rows[0] + (rows[1] - rows[0]) * part // parts
        high = rows[0] + (rows[1] - rows[0]) * (part + 1) // parts - first
        for column in range(columns[0], columns[1], wide):
            some = min(wide, columns[1] - column)
            sums[:] = 0
            for step in range(0, count, STEPS):
                steps = min(STEPS, count - step)
                _lay(b, step * b_far[0] + column * b_far[1], b_far, panel, (steps, some, wide))
                for row in range(0, high, ROWS):
                    at = (first + min(row, high - ROWS)) * a_far[0] + step * a_far[1]
                    matrices = (a, at, a_far[0], a_steps, panel, (0, lanes, 2 * lanes), b_steps)
                    vectors = -(-some // lanes)
                    add_products(*matrices, (0, steps), sums, row * wide, wide, vectors)
            for row in range(high):
                begin, to = of_row(row, high) * wide, (first + row) * across + column
                for i in range(some):
                    c[uint(to + i)] = sums[uint(begin + i)]


def warm() -> None:
    """Call every kernel of this file once for each dtype it is for."""
    for kind in (np.float32, np.float64):
        x, one = np.ones(ROWS, kind), np.ones(1, kind)
        multiply(x, (1, 1), one, (1, 1), x.copy(), (1, 1), (0, ROWS), (0, 1))
