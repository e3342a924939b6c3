"""Matrix products by register tiles. The plain twin is NumPy's `dot`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.compiling.compiled import compiled, inner
from gradscope.runtime.fast.tiles.tile import (
    BYTES,
    ROWS,
    VECTORS,
    add_products,
    make_products,
    of_row,
)
from gradscope.runtime.fast.tiles.vectors import copy, load, store, transpose

uint = np.uintp

STEPS = 256
"""Approximate number of rows of the right matrix that are multiplied before sums are stored."""
TOGETHER = 1024
"""Number of rows of the left matrix that are multiplied with the same part of the right one."""
LINE = 64
"""Size of a cache line in bytes."""


@inner
def _lay(b: Array, at: int, far: Any, panel: Array, of: Any) -> None:
    """Pack a part of the right matrix so that its rows are consecutive whole vectors."""
    steps, columns, wide, lanes = of
    if far[1] == 1:
        whole = columns - columns % lanes
        for step in range(steps):
            begin, to = at + step * far[0], step * wide
            for nr in range(0, whole, lanes):
                store(panel, to + nr, load(b, begin + nr))
            for nr in range(whole, columns):
                panel[uint(to + nr)] = b[uint(begin + nr)]
    else:
        squares = steps - steps % lanes if far[0] == 1 else 0
        for i in range(0, columns, lanes):
            few = min(lanes, columns - i)
            whole = squares if few == lanes else 0
            for step in range(0, whole, lanes):
                begin = at + step + i * far[1]
                transpose(b, begin, far[1], panel, step * wide + i, wide)
            for nr in range(i, i + few):
                for step in range(whole, steps):
                    panel[uint(step * wide + nr)] = b[uint(at + step * far[0] + nr * far[1])]
    for step in range(steps):
        for i in range(columns, wide):
            panel[uint(step * wide + i)] = 0


@inner
def _lay_rows(a: Array, at: int, far: int, packed: Array, of: Any) -> None:
    """Pack a left matrix in column-major order so that each tile's part is contiguous."""
    high, count, apart = of
    for step in range(count):
        begin, to = at + step * far, step * ROWS
        for tile in range(high // ROWS):
            copy(a, begin + tile * ROWS, packed, to + tile * apart, ROWS)
        if high % ROWS:
            copy(a, begin + high - ROWS, packed, to + high // ROWS * apart, ROWS)


@inner
def _begin(starts: Array, bias: Array, row: int, wide: int) -> None:
    """Initialize the sums of a tile's rows with one number each."""
    for i in range(ROWS):
        for nr in range(wide):
            starts[uint(i * wide + nr)] = bias[uint(row + i)]


@inner
def _make(
    a: Array, begin: int, a_far: Any, panel: Array, steps: Any, starts: Any, c: Any, of: Any
) -> None:
    """Add or store the products of some rows and one panel.

    `starts`: initial values of sums, the distance of their rows, and the array with which they are
    filled for each tile, and its offset, if rows have a distance at all.
    """
    count, is_first, a_steps, b_steps = steps
    made, to, row_far = c
    high, vectors = of
    start, start_far, bias, first = starts
    far, apart = a_far
    for row in range(0, high, ROWS):
        at = begin + (row // ROWS * apart if apart else min(row, high - ROWS) * far)
        matrices = (a, at, far, a_steps), (panel, 0, b_steps), (0, count)
        into = made, to + row * row_far, row_far
        if is_first:
            if start_far:
                _begin(start, bias, first + min(row, high - ROWS), start_far)
            make_products(*matrices, into, vectors, (start, 0, start_far))
        else:
            add_products(*matrices, into, vectors)


@inner
def _put(sums: Array, wide: int, c: Array, at: int, far: Any, of: Any) -> None:
    """Store the sums of some rows and columns, possibly transposed."""
    high, some, lanes = of
    if far[1] == 1:
        for row in range(high):
            copy(sums, of_row(row, high) * wide, c, at + row * far[0], some)
        return
    squares = high - high % lanes
    for i in range(0, some, lanes):
        whole = squares if some - i >= lanes and high % ROWS == 0 else 0
        for row in range(0, whole, lanes):
            transpose(sums, row * wide + i, wide, c, at + row + i * far[1], far[1])
        for row in range(whole, high):
            begin = of_row(row, high) * wide
            for nr in range(i, min(some, i + lanes)):
                c[uint(at + row * far[0] + nr * far[1])] = sums[uint(begin + nr)]


@compiled
def multiply(
    a: Array, a_far: Any, b: Array, b_far: Any, c: Array, c_far: Any, bias: Array, count: int,
    rows: Any, columns: Any,
) -> None:  # fmt: skip
    """Compute some rows and columns of a product, from the first up to, excluding, the last.

    `a_far`, `b_far` and `c_far` are distances of rows and columns; `count` is the number of columns
    of the left matrix. Whole tiles are stored in c directly. `bias`, if given, is added to each
    row, or if c is transposed, to each column.
    """
    lanes, line = BYTES // a.itemsize, LINE // a.itemsize
    wide = VECTORS * lanes
    parts = -(-(rows[1] - rows[0]) // TOGETHER)
    most = -(-(rows[1] - rows[0]) // parts)
    tiles = -(-most // ROWS)
    together = max(1, (count + STEPS // 2) // STEPS)
    some_steps = -(-count // together)
    panel = np.empty(some_steps * wide, a.dtype)
    sums = np.empty(tiles * ROWS * wide, a.dtype)
    starts, by_rows = np.zeros(ROWS * wide, a.dtype), bias.size > 0 and c_far[1] != 1
    lay_rows = a_far[0] == 1 and a_far[1] != 1
    apart = count * ROWS + line if lay_rows else 0
    packed = np.empty(tiles * apart if lay_rows else 0, a.dtype)
    a_steps = ROWS if lay_rows else a_far[1]
    for part in range(parts):
        first = rows[0] + (rows[1] - rows[0]) * part // parts
        high = rows[0] + (rows[1] - rows[0]) * (part + 1) // parts - first
        if lay_rows:
            _lay_rows(a, first, a_far[1], packed, (high, count, apart))
        column = columns[0]
        while column < columns[1]:
            left = columns[1] - column
            some = 2 * lanes if left == 4 * lanes else min(wide, left)  # no tile of one vector
            at_once = high % ROWS == 0 and some % lanes == 0 and c_far[1] == 1
            made, to, far = sums, 0, wide
            if at_once:
                made, to, far = c, first * c_far[0] + column, c_far[0]
            if bias.size and not by_rows:
                copy(bias, column, starts, 0, some)
            begins = (starts, wide if by_rows else 0, bias, first)
            for step in range(0, count, some_steps):
                few = min(some_steps, count - step)
                begin = step * b_far[0] + column * b_far[1]
                _lay(b, begin, b_far, panel, (few, some, wide, lanes))
                steps = (few, step == 0, a_steps, wide)
                of, to_c = (high, -(-some // lanes)), (made, to, far)
                if lay_rows:
                    _make(packed, step * ROWS, (1, apart), panel, steps, begins, to_c, of)
                else:
                    begin = first * a_far[0] + step * a_far[1]
                    _make(a, begin, (a_far[0], 0), panel, steps, begins, to_c, of)
            if not at_once:
                begin = first * c_far[0] + column * c_far[1]
                _put(sums, wide, c, begin, c_far, (high, some, lanes))
            column += some


def warm() -> None:
    """Call every kernel of this file once per dtype, to compile it."""
    for kind in (np.float32, np.float64):
        x, one = np.ones(ROWS, kind), np.ones(1, kind)
        multiply(x, (1, 1), one, (1, 1), x.copy(), (1, 1), one, 1, (0, ROWS), (0, 1))
