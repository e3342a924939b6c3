"""The product of two matrices: by tiles if it is large, otherwise by NumPy's BLAS."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from gradscope.runtime.core.kernels.support import Array, kernels_of, pays_from

MANY: Final = pays_from(1 << 22)
"""Number of multiplications from which compiling the tiles, which takes seconds, pays off."""
FEWEST: Final = (32, 64, 16)
"""Smallest rows, steps and columns for tiles: less would waste too much of a tile."""
COST: Final = 0.02
"""Nanoseconds per multiplication on most processors; half of it with the widest vectors."""


tiles: Final = kernels_of("tiles.products")


def product(
    left: Array, right: Array, made: Array | None = None, bias: Array | None = None
) -> Array:
    """Return the product of two matrices of one dtype, written to `made` if given.

    `bias` is a contiguous vector of this dtype that is added to each row.
    """
    kind = left.dtype.char
    way = _way(left.shape, left.strides, kind, right.shape, right.strides, right.dtype.char)
    if not way:
        made = left.dot(right, made)
        return made if bias is None else np.add(made, bias, made)
    return tiles().product(left, right, made, bias, way)


class ProductPlan(NamedTuple):
    """How to compute a product of two matrices with these memory layouts."""

    flipped: bool  # computed from the transposed ones, and stored transposed
    sizes: tuple[int, int, int]  # rows, steps, columns
    far: tuple[int, int]  # distances of rows and columns of the result
    left: str  # memory layout, "by rows" or "by columns", or to be copied
    right: str


@lru_cache(maxsize=256)
def _way(
    shape: tuple[int, ...], strides: tuple[int, ...], kind: str,
    right_shape: tuple[int, ...], right_strides: tuple[int, ...], right_kind: str,
) -> ProductPlan | None:  # fmt: skip
    """How to compute a product by tiles; None if NumPy should compute it, or raise the error."""
    (rows, count), (steps, columns) = shape, right_shape
    enough = rows >= FEWEST[0] and count >= FEWEST[1] and columns >= FEWEST[2]
    fit = count == steps and kind == right_kind and kind in "fd"
    if not (enough and fit and rows * count * columns >= MANY):
        return None
    size = np.dtype(kind).itemsize
    left, right = _order(shape, strides, size), _order(right_shape, right_strides, size)
    # A right matrix is packed. A column-major one takes longer for that, and need not be packed if
    # it is the left one.
    by_columns = right == "by columns" and left == "by rows"
    if by_columns and rows * (count + columns) < count * columns:
        return ProductPlan(True, (columns, count, rows), (1, columns), "by rows", "by columns")
    return ProductPlan(False, (rows, count, columns), (columns, 1), left, right)


def _order(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> str:
    """The memory layout of a matrix, no side of which is one."""
    if strides == (shape[1] * size, size):
        return "by rows"
    return "by columns" if strides == (size, shape[0] * size) else "apart"
