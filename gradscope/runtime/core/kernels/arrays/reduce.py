"""Sums with PyTorch's accuracy, and the sum that undoes a broadcast."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gradscope.runtime.core.kernels.support import HALVES, Array

# NumPy adds the rows of a sum over leading axes one after another; BLAS adds them faster. In
# float32 both lose a digit per thousand rows, so longer sums consist of blocks of this length.
BLOCK: Final = 512
_ONES: Final = {np.dtype(kind): np.ones(BLOCK, kind) for kind in (np.float32, np.float64)}


def sum_to_size(array: Array, shape: tuple[int, ...]) -> Array:
    """Sum an array to the shape it was broadcast from. Equal shapes return the array itself."""
    if array.shape == shape:
        return array
    if array.dtype in HALVES:
        return sum_to_size(array.astype(np.float32), shape).astype(array.dtype)
    leading = array.ndim - len(shape)
    stretched = tuple(
        leading + axis
        for axis, size in enumerate(shape)
        if size == 1 != array.shape[leading + axis]
    )
    if stretched:
        array = np.add.reduce(array, axis=stretched, dtype=array.dtype, keepdims=True)
    return _sum_rows(array, shape) if leading else array


def _sum_rows(array: Array, shape: tuple[int, ...]) -> Array:
    """Sum over all axes ahead of those of `shape`."""
    if not shape:
        return np.asarray(np.add.reduce(array, axis=None, dtype=array.dtype))
    if 0 in shape:
        return np.zeros(shape, array.dtype)
    length = math.prod(shape)
    return sum_columns(array.reshape(array.size // length, length)).reshape(shape)


def sum_columns(matrix: Array) -> Array:
    """Sum a matrix over its rows: one number per column."""
    ones = _ONES.get(matrix.dtype)
    if ones is None or not matrix.flags.c_contiguous:
        return np.asarray(np.add.reduce(matrix, axis=0, dtype=matrix.dtype))
    rows = matrix.shape[0]
    if rows <= BLOCK:
        return np.asarray(ones[:rows] @ matrix)
    blocks = rows // BLOCK
    whole = matrix[: blocks * BLOCK].reshape(blocks, BLOCK, -1)
    result = sum_columns(ones @ whole)
    if blocks * BLOCK < rows:
        result += sum_columns(matrix[blocks * BLOCK :])
    return result
