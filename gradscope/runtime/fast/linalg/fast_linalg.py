"""The Numba twin of linalg.plain_panel."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.compiling.compiled import compiled, inner


@inner
def _pivot_row(a: Array, j: int) -> int:
    best, row = -1.0, j
    for i in range(j, a.shape[0]):
        size = abs(a[i, j].real) + abs(a[i, j].imag)
        if size > best or (np.isnan(size) and not np.isnan(best)):  # as NumPy's argmax
            best, row = size, i
    return row


@compiled
def panel(batch: Array, swaps: Array) -> None:
    """Factor a few columns of each matrix in place, one by one."""
    for b in range(batch.shape[0]):
        a = batch[b]
        rows, columns = a.shape
        for j in range(min(rows, columns)):
            row = _pivot_row(a, j)
            swaps[b, j] = row - j
            if row != j:
                for c in range(columns):
                    a[j, c], a[row, c] = a[row, c], a[j, c]
            pivot = a[j, j]
            for i in range(j + 1, rows):
                if pivot != 0:
                    a[i, j] /= pivot
                factor = a[i, j]
                for c in range(j + 1, columns):
                    a[i, c] -= factor * a[j, c]


def warm() -> None:
    """Call every kernel of this file once per dtype, to compile it."""
    for kind in (np.float32, np.float64, np.complex64, np.complex128):
        batch = np.ones((2, 4, 4), kind)
        for view in (batch, batch[:, :, :2]):  # a whole matrix and a part of one
            panel(view, np.zeros((2, 4), np.int64)[:, : view.shape[2]])
