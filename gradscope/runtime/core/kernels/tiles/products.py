"""The product of two matrices: by tiles where it is large, else by NumPy's BLAS."""

from __future__ import annotations

from functools import cache, partial
from typing import Any, Final

import numpy as np

from gradscope.runtime.core.kernels.compiling.compile_notices import own_work
from gradscope.runtime.core.kernels.compiling.spread import spread
from gradscope.runtime.core.kernels.compiling.support import Array

MANY: Final = 1 << 22
"""From so many products on it pays to have compiled what uses tiles: seconds, once for each."""
FEWEST: Final = (32, 64, 16)
"""Rows, steps and columns below which too much of the work would be for nothing."""
MULTIPLE: Final = 8
"""Rows of the largest tile."""
COST: Final = 0.02
"""Nanoseconds for one product on most processors; half of it on those with the widest vectors."""
PART: Final = 96
"""Columns that a thread makes together, at least: those of two tiles with the longest vectors."""
VECTOR: Final = 16
"""Columns of the longest vector: parts begin at its multiples."""


NONE: Final = {kind: np.empty(0, kind) for kind in "fd"}
"""What is added where there is no bias."""


@cache
def tiles() -> Any:
    """Return fast_products. Importing it brings in Numba: ask late."""
    with own_work("loads kernels"):
        from gradscope.runtime.core.kernels.tiles import fast_products as module

    return module


def product(
    left: Array, right: Array, made: Array | None = None, bias: Array | None = None
) -> Array:
    """Return the product of two matrices of one dtype, written into `made` if that is given.

    `bias` is a vector of this dtype, in one piece, that is added to each row.
    """
    if not _wins(left, right):
        made = left.dot(right, made)
        return made if bias is None else np.add(made, bias, made)
    (rows, count), columns = left.shape, right.shape[1]
    if made is None:
        made = np.empty((rows, columns), left.dtype)
    if _are_flipped(left, right):
        left, right, rows, columns, far = right.T, left.T, columns, rows, (1, columns)
    else:
        far = (columns, 1)
    bias = NONE[left.dtype.char] if bias is None else bias
    matrices = (*_flat(left), *_flat(right), made.reshape(-1), far, bias, count)
    if columns >= 2 * PART:
        some = partial(_some_columns, matrices, (0, rows))
        spread(some, columns, rows * count * COST, VECTOR)
    else:
        spread(partial(_some_rows, matrices, (0, columns)), rows, columns * count * COST, MULTIPLE)
    return made


def _wins(left: Array, right: Array) -> bool:
    (rows, count), (steps, columns) = left.shape, right.shape
    enough = rows >= FEWEST[0] and count >= FEWEST[1] and columns >= FEWEST[2]
    fit = count == steps and left.dtype == right.dtype and left.dtype.char in "fd"
    return enough and fit and rows * count * columns >= MANY


def _are_flipped(left: Array, right: Array) -> bool:
    """Whether the product is made the other way round: the right matrix is laid out anew.

    One that lies column by column takes longer, and need not be if it is the left one.
    """
    if right.flags.c_contiguous or not (right.flags.f_contiguous and left.flags.c_contiguous):
        return False
    (rows, count), columns = left.shape, right.shape[1]
    return rows * (count + columns) < count * columns


def _some_columns(matrices: Any, rows: Any, first: int, last: int) -> None:
    tiles().multiply(*matrices, rows, (first, last))


def _some_rows(matrices: Any, columns: Any, first: int, last: int) -> None:
    tiles().multiply(*matrices, (first, last), columns)


def _flat(matrix: Array) -> tuple[Array, tuple[int, int]]:
    """A matrix as it lies in memory, and how far apart its rows and columns are."""
    if matrix.flags.f_contiguous and not matrix.flags.c_contiguous:
        return matrix.T.reshape(-1), (1, matrix.shape[0])
    return np.ascontiguousarray(matrix).reshape(-1), (matrix.shape[1], 1)
