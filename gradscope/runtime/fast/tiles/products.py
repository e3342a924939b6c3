"""The product of two matrices by tiles, in several threads."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from gradscope.runtime.core.kernels.linalg.products import COST, ProductPlan
from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.threads.spread import spread
from gradscope.runtime.fast.tiles import fast_products

MULTIPLE: Final = 8
"""Rows of the largest tile."""
PART: Final = 96
"""Smallest number of columns for one thread: two tiles with the longest vectors."""
VECTOR: Final = 16
"""Columns of the longest vector: parts begin at its multiples."""
NONE: Final = {kind: np.empty(0, kind) for kind in "fd"}
"""Stands for a missing bias."""


def product(
    left: Array, right: Array, made: Array | None, bias: Array | None, way: ProductPlan
) -> Array:
    """Return the product, written to `made` if given; `bias` is added to each row."""
    if made is None:
        made = np.empty((left.shape[0], right.shape[1]), left.dtype)
    if way.flipped:
        left, right = right.T, left.T
    rows, count, columns = way.sizes
    flat = (*_flat(left, way.left), *_flat(right, way.right))
    bias = NONE[left.dtype.char] if bias is None else bias
    matrices = (*flat, made.reshape(-1), way.far, bias, count)
    if columns >= 2 * PART:
        some = partial(_some_columns, matrices, (0, rows))
        spread(some, columns, rows * count * COST, VECTOR)
    else:
        spread(partial(_some_rows, matrices, (0, columns)), rows, columns * count * COST, MULTIPLE)
    return made


def _some_columns(matrices: Any, rows: Any, first: int, last: int) -> None:
    fast_products.multiply(*matrices, rows, (first, last))


def _some_rows(matrices: Any, columns: Any, first: int, last: int) -> None:
    fast_products.multiply(*matrices, (first, last), columns)


def _flat(matrix: Array, order: str) -> tuple[Array, tuple[int, int]]:
    """A matrix as a flat array, and the distances of its rows and columns."""
    if order == "by columns":
        return matrix.T.reshape(-1), (1, matrix.shape[0])
    return np.ascontiguousarray(matrix).reshape(-1), (matrix.shape[1], 1)
