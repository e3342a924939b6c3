"""The steps of an LSTM, compiled: each in one pass, or all of them with their products by tiles.

The plain twins are in `lstm`. The matrix that multiplies states is packed for the tiles once for
all steps.

tanh is a quotient of two polynomials in x², fitted to 2e-8, so that the compiler vectorizes it; the
sigmoid of x is half of 1 + tanh(x / 2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.compiling.compiled import compiled, inner
from gradscope.runtime.fast.tiles.tile import BYTES, ROWS, VECTORS, make_products
from gradscope.runtime.fast.tiles.vectors import copy, transpose

EDGE = np.float32(8.8)  # beyond it tanh is 1 to the last digit but one
HALF, ONE = np.float32(0.5), np.float32(1.0)
P0, P1, P2, P3, P4 = (
    np.float32(number)
    for number in (
        0.9999999836139746,
        0.13394055595848553,
        0.0035110946203206457,
        2.0866032473685328e-05,
        1.3715486292809119e-08,
    )
)
Q1, Q2, Q3, Q4 = (
    np.float32(number)
    for number in (
        0.4672737447582723,
        0.025935888670653967,
        0.0003311062949646166,
        7.923138065769547e-07,
    )
)


@inner(inline="always")
def _tanh(x):  # type: ignore[no-untyped-def]
    x = EDGE if x > EDGE else x  # noqa: FURB136 -- keeps NaN
    x = -EDGE if x < -EDGE else x  # noqa: FURB136
    s = x * x
    above = (((P4 * s + P3) * s + P2) * s + P1) * s + P0
    below = (((Q4 * s + Q3) * s + Q2) * s + Q1) * s + ONE
    return x * above / below


# Each loop is a function of one-dimensional arrays that begin at 0: only then does the compiler
# vectorize it.


@inner(fastmath={"contract"})
def _sigmoids(row: Array, more: Array, bias: Array) -> None:
    for j in range(row.size):
        row[j] = HALF + HALF * _tanh(HALF * (row[j] + more[j] + bias[j]))


@inner(fastmath={"contract"})
def _tanhs(row: Array, more: Array, bias: Array) -> None:
    for j in range(row.size):
        row[j] = _tanh(row[j] + more[j] + bias[j])


@inner(fastmath={"contract"})
def _cells(entering: Array, kept: Array, new: Array, before: Array, cells: Array) -> None:
    for j in range(cells.size):
        cells[j] = kept[j] * before[j] + entering[j] * new[j]


@inner(fastmath={"contract"})
def _states(leaving: Array, cells: Array, state: Array) -> None:
    for j in range(cells.size):
        state[j] = leaving[j] * _tanh(cells[j])


@compiled(fastmath={"contract"})
def cell(gates: Array, more: Array, bias: Array, before: Array, cells: Array, state: Array) -> None:
    n = before.shape[1]
    for b in range(before.shape[0]):
        row, add = gates[b], more[b]
        _sigmoids(row[: 2 * n], add[: 2 * n], bias[: 2 * n])
        _tanhs(row[2 * n : 3 * n], add[2 * n : 3 * n], bias[2 * n : 3 * n])
        _sigmoids(row[3 * n :], add[3 * n :], bias[3 * n :])
        _cells(row[:n], row[n : 2 * n], row[2 * n : 3 * n], before[b], cells[b])
        _states(row[3 * n :], cells[b], state[b])


@inner
def _quarters(row: Array, n: int) -> Any:
    """The part of each of the four gates: input, forget, new, out."""
    return row[:n], row[n : 2 * n], row[2 * n : 3 * n], row[3 * n :]


@inner(fastmath={"contract"})
def _backward(gates: Any, cells: Array, before: Array, grads: Any, to_gates: Any) -> None:
    entering, kept, new, leaving = gates
    to_state, to_output, to_cells = grads
    to_entering, to_kept, to_new, to_leaving = to_gates
    for j in range(cells.size):
        bent = _tanh(cells[j])
        grad = to_state[j] + to_output[j]
        to_leaving[j] = grad * bent * leaving[j] * (ONE - leaving[j])
        inner = to_cells[j] + grad * leaving[j] * (ONE - bent * bent)
        to_entering[j] = inner * new[j] * entering[j] * (ONE - entering[j])
        to_kept[j] = inner * before[j] * kept[j] * (ONE - kept[j])
        to_new[j] = inner * entering[j] * (ONE - new[j] * new[j])
        to_cells[j] = inner * kept[j]


@compiled(fastmath={"contract"})
def cell_backward(
    gates: Array,
    cells: Array,
    before: Array,
    to_state: Array,
    to_output: Array,
    to_cells: Array,
    out: Array,
) -> None:
    n = before.shape[1]
    for b in range(before.shape[0]):
        grads = (to_state[b], to_output[b], to_cells[b])
        _backward(_quarters(gates[b], n), cells[b], before[b], grads, _quarters(out[b], n))


LANES = BYTES // 4
WIDE = VECTORS * LANES


@inner
def _panels(right: Array) -> Array:
    """The right matrix of a product, in panels as wide as tiles, each with its rows in order."""
    steps, columns = right.shape
    flat, made = right.reshape(-1), np.zeros(-(-columns // WIDE) * steps * WIDE, right.dtype)
    for nr in range(0, columns, WIDE):
        for step in range(steps):
            to = nr * steps + step * WIDE
            copy(flat, step * columns + nr, made, to, min(WIDE, columns - nr))
    return made


@inner
def _panels_of_transposed(left: Array) -> Array:
    """The same of the transpose of a matrix."""
    columns, steps = left.shape
    flat, made = left.reshape(-1), np.zeros(-(-columns // WIDE) * steps * WIDE, left.dtype)
    for column in range(0, columns, LANES):
        to = column // WIDE * WIDE * steps + column % WIDE
        squares = steps - steps % LANES if columns - column >= LANES else 0
        for step in range(0, squares, LANES):
            transpose(flat, column * steps + step, steps, made, to + step * WIDE, WIDE)
        for nr in range(min(LANES, columns - column)):
            for step in range(squares, steps):
                made[to + step * WIDE + nr] = left[column + nr, step]
    return made


@inner
def _multiply(left: Array, panels: Array, columns: int, made: Array) -> None:
    """Write a product, for as many rows as fill tiles, of which `columns` columns are wanted."""
    steps, out = left.shape[1], made.reshape(-1)
    for nr in range(0, columns, WIDE):
        at, vectors = nr * steps, -(-(columns - nr) // LANES)
        for row in range(0, left.shape[0], ROWS):
            rows, far = (left.reshape(-1), row * steps, steps, 1), made.shape[1]
            into = out, row * far + nr, far
            make_products(rows, (panels, at, WIDE), (0, steps), into, vectors, None)


@inner
def _copy(one: Array, other: Array, rows: int, columns: int) -> None:
    for row in range(rows):
        for column in range(columns):
            other[row, column] = one[row, column]


@compiled
def steps_forward(
    gates: Array,
    weight: Array,
    bias: Array,
    state: Array,
    cells: Array,
    all_cells: Array,
    outputs: Array,
    order: Array,
    first: int,
    last: int,
) -> None:
    """Run all steps in order: sums of inputs become gates; all cells and states are written.

    The transpose of `weight` multiplies the previous state. The rows of the batch from the first up
    to, excluding, the last are computed.
    """
    few = slice(first, last)
    state, cells = state[few], cells[few]
    batch, n = state.shape
    panels = _panels_of_transposed(weight)
    rows = -(-batch // ROWS) * ROWS
    left = np.zeros((rows, n), state.dtype)
    more = np.empty((rows, -(-4 * n // WIDE) * WIDE), state.dtype)
    for t in order:
        _copy(state, left, batch, n)
        _multiply(left, panels, 4 * n, more)
        before, cells, state = cells, all_cells[t, few], outputs[t, few]
        cell(gates[t, few], more, bias, before, cells, state)


@compiled
def steps_backward(
    gates: Array,
    right: Array,
    first_cells: Array,
    all_cells: Array,
    to_outputs: Array,
    to_state: Array,
    to_cells: Array,
    sums: Array,
    order: Array,
    first: int,
    last: int,
) -> None:
    """Run all steps in reverse order: the gradients of all sums are written.

    The gradients of the last state and cells become those of the first. `right` multiplies the
    gradient of a step's sums. The rows of the batch from the first up to, excluding, the last are
    computed.
    """
    few = slice(first, last)
    to_state, to_cells = to_state[few], to_cells[few]
    batch, n = to_state.shape
    panels = _panels(right)
    rows = -(-batch // ROWS) * ROWS
    left = np.zeros((rows, 4 * n), to_state.dtype)
    more = np.zeros((rows, -(-n // WIDE) * WIDE), to_state.dtype)
    _copy(to_state, more, batch, n)
    for nr in range(len(order)):
        t = order[nr]
        before = all_cells[order[nr + 1], few] if nr + 1 < len(order) else first_cells[few]
        grads, made = (more, to_outputs[t, few], to_cells), sums[t, few]
        cell_backward(gates[t, few], all_cells[t, few], before, *grads, made)
        _copy(made, left, batch, 4 * n)
        _multiply(left, panels, n, more)
    _copy(more, to_state, batch, n)


def warm() -> None:
    """Compile both steps, and all at once."""
    gates, small = np.zeros((1, 4), np.float32), np.zeros((1, 1), np.float32)
    cell(gates, gates.copy(), gates[0].copy(), small, small.copy(), small.copy())
    cell_backward(gates, small, small, small, small, small.copy(), gates.copy())
    first, several, every = small.copy(), small[None].copy(), gates[None].copy()
    order = np.zeros(1, np.intp)
    made = several, several.copy(), order, 0, 1
    steps_forward(every, gates.reshape(4, 1), gates[0].copy(), first, small, *made)
    rest = (first, first.copy(), every.copy(), order, 0, 1)
    steps_backward(every, gates.reshape(4, 1), small, several, several.copy(), *rest)
