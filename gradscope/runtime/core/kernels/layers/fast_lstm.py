"""One step of an LSTM in one pass, compiled. Its plain twin is in `lstm`.

tanh is a quotient of two polynomials in x², fitted to 2e-8, so that the compiler makes vector
instructions of it; the sigmoid of x is half of 1 + tanh(x / 2).
"""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.kernels.compiling.compiled import compiled, inner
from gradscope.runtime.core.kernels.compiling.support import Array

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


# Each loop is a function of one-dimensional arrays that begin at 0: only so does the compiler see
# that it may compute eight or sixteen numbers at once.


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


@inner(fastmath={"contract"})
def _backward(
    entering: Array,
    kept: Array,
    new: Array,
    leaving: Array,
    cells: Array,
    before: Array,
    to_state: Array,
    to_output: Array,
    to_cells: Array,
    to_entering: Array,
    to_kept: Array,
    to_new: Array,
    to_leaving: Array,
) -> None:
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
        row, made = gates[b], out[b]
        _backward(
            row[:n],
            row[n : 2 * n],
            row[2 * n : 3 * n],
            row[3 * n :],
            cells[b],
            before[b],
            to_state[b],
            to_output[b],
            to_cells[b],
            made[:n],
            made[n : 2 * n],
            made[2 * n : 3 * n],
            made[3 * n :],
        )


def warm() -> None:
    """Compile both steps."""
    gates, small = np.zeros((1, 4), np.float32), np.zeros((1, 1), np.float32)
    cell(gates, gates.copy(), gates[0].copy(), small, small.copy(), small.copy())
    cell_backward(gates, small, small, small, small, small.copy(), gates.copy())
