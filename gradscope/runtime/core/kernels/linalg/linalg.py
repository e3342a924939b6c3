"""Factorizations that NumPy lacks, for batches: LU, triangles, reflections, LDL, exponentials.

Each works in blocks: short loops over columns, and matrix products for the rest.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from gradscope.runtime.core.kernels.support import LARGE, Array, kernels_of, quiet

NARROW = 32
"""Number of columns that LU factors one by one. Wider matrices are split."""
SMALL = 64
"""Size up to which triangles are solved by NumPy directly. Larger ones are split."""


def adjoint(a: Array) -> Array:
    """The conjugate transpose of each matrix."""
    turned = a.swapaxes(-1, -2)
    return turned.conj() if a.dtype.kind == "c" else turned


def columns_first(a: Array) -> Array:
    """The same matrices in column-major order, as LAPACK returns them."""
    return np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)


def size_of(a: Array) -> Any:
    """The size of an element by which LAPACK chooses a pivot."""
    return np.abs(a.real) + np.abs(a.imag) if a.dtype.kind == "c" else np.abs(a)


# -- LU ------------------------------------------------------------------------------------------


@quiet
def lu(a: Array) -> tuple[Array, Array, Array]:
    """P A = L U: both factors in one matrix, row swaps counted from 1, and the first zero pivot."""
    *batch, rows, columns = a.shape
    count = min(rows, columns)
    work = a.reshape(prod(batch), rows, columns).copy()
    swaps = np.zeros((len(work), count), np.int64)
    _factor(work, swaps)
    pivots = (swaps + np.arange(1, count + 1)).astype(np.int32)
    zero = work.diagonal(0, 1, 2) == 0
    info = np.where(zero.any(1), zero.argmax(1) + 1, 0) if count else np.zeros(len(work))
    shape = tuple(batch)
    factors = columns_first(work.reshape(a.shape))
    return factors, pivots.reshape(*shape, count), info.astype(np.int32).reshape(shape)


def _factor(a: Array, swaps: Array) -> None:
    """Factor in place. `swaps` are distances from each row to the one that takes its position."""
    rows, columns = a.shape[1:]
    count = min(rows, columns)
    if columns <= NARROW or count < 2:
        panel(a, swaps)
        return
    left = min(max(NARROW, count // 2 // NARROW * NARROW), count)
    _factor(a[:, :, :left], swaps[:, :left])
    right = a[:, :, left:]
    _swap_rows(right, swaps[:, :left])
    right[:, :left] = solve_triangular(a[:, :left, :left], right[:, :left], False, True)
    if left == count:
        return
    right[:, left:] -= a[:, left:, :left] @ right[:, :left]
    _factor(right[:, left:], swaps[:, left:])
    _swap_rows(a[:, left:, :left], swaps[:, left:])


def _swap_rows(a: Array, swaps: Array) -> None:
    for matrix, order in zip(a, _order(swaps, a.shape[1]), strict=True):
        matrix[...] = matrix[order]


def panel(a: Array, swaps: Array) -> None:
    """Factor a few columns in place."""
    if a.size >= LARGE // NARROW:
        fast().panel(a, swaps)
    else:
        plain_panel(a, swaps)


fast: Final = kernels_of("linalg.fast_linalg")


def plain_panel(a: Array, swaps: Array) -> None:
    """Factor a few columns in place, one by one."""
    each = np.arange(len(a))
    for j in range(min(a.shape[1:])):
        below = size_of(a[:, j:, j]).argmax(1)
        swaps[:, j] = below
        if below.any():
            chosen = a[each, below + j]
            a[each, below + j] = a[:, j]
            a[:, j] = chosen
        pivot = a[:, j, j]
        a[:, j + 1 :, j] /= np.where(pivot == 0, 1, pivot)[:, None]
        a[:, j + 1 :, j + 1 :] -= a[:, j + 1 :, j, None] * a[:, j, None, j + 1 :]


def _order(swaps: Array, rows: int) -> Array:
    """The row at each position after all swaps."""
    if len(swaps) == 1:
        line = list(range(rows))
        for j, below in enumerate(swaps[0].tolist()):
            line[j], line[j + below] = line[j + below], line[j]
        return np.array([line], np.int64)
    order = np.broadcast_to(np.arange(rows), (len(swaps), rows)).copy()
    each = np.arange(len(swaps))
    for j in range(swaps.shape[1]):
        other = swaps[:, j] + j
        chosen = order[each, other]
        order[each, other] = order[:, j]
        order[:, j] = chosen
    return order


def order_of(pivots: Array, rows: int) -> Array:
    """The row of A at each position of P A."""
    *batch, count = pivots.shape
    swaps = pivots.reshape(prod(batch), count).astype(np.int64) - np.arange(1, count + 1)
    return _order(swaps, rows).reshape(*batch, rows)


def permutation(pivots: Array, rows: int, dtype: Any) -> Array:
    """The matrix P of A = P L U."""
    order = order_of(pivots, rows)
    made = np.zeros((*order.shape, rows), dtype)
    np.put_along_axis(made, order[..., None, :], 1, -2)
    return made


def lu_solve(factors: Array, pivots: Array, b: Array, adjoint_of: bool = False) -> Array:
    """X of A X = B, or of Aᴴ X = B, from the result of `lu`."""
    rows = factors.shape[-1]
    order = order_of(pivots, rows)
    batch = np.broadcast_shapes(factors.shape[:-2], b.shape[:-2])
    order = np.broadcast_to(order, (*batch, rows))
    b = np.broadcast_to(b, (*batch, *b.shape[-2:]))
    if not adjoint_of:
        moved = np.take_along_axis(b, order[..., None], -2)
        return solve_triangular(factors, solve_triangular(factors, moved, False, True), True)
    turned = adjoint(factors)
    found = solve_triangular(turned, solve_triangular(turned, b, False), True, True)
    made = np.empty_like(found)
    np.put_along_axis(made, order[..., None], found, -2)
    return made


# -- triangles -----------------------------------------------------------------------------------


def solve_triangular(a: Array, b: Array, upper: bool, unit: bool = False) -> Array:
    """X of A X = B, where only the upper or the lower triangle of A is read."""
    if not upper:
        return solve_triangular(a[..., ::-1, ::-1], b[..., ::-1, :], True, unit)[..., ::-1, :]
    size = a.shape[-1]
    if size <= SMALL:
        return _solve_small(np.triu(a), b, unit)
    half = size // 2
    last = solve_triangular(a[..., half:, half:], b[..., half:, :], True, unit)
    rest = b[..., :half, :] - a[..., :half, half:] @ last
    first = solve_triangular(a[..., :half, :half], rest, True, unit)
    return np.concatenate((np.broadcast_to(first, (*last.shape[:-2], *first.shape[-2:])), last), -2)


def _solve_small(a: Array, b: Array, unit: bool) -> Array:
    """LAPACK eliminates nothing in an upper triangle: only back substitution remains."""
    if unit:
        place = np.arange(a.shape[-1])
        a[..., place, place] = 1
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        return _substituted(a, b)


@quiet
def _substituted(a: Array, b: Array) -> Array:
    """Substitute row by row. A zero on the diagonal gives the result of dividing by it."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    made = np.broadcast_to(b, (*batch, *b.shape[-2:])).copy()
    for i in range(a.shape[-1] - 1, -1, -1):
        made[..., i, :] /= a[..., i, i, None]
        made[..., :i, :] -= a[..., :i, i, None] * made[..., i, None, :]
    return made


# -- Cholesky ------------------------------------------------------------------------------------


def cholesky(a: Array) -> tuple[Array, Array]:
    """L of A = L Lᴴ from the lower triangle, and the first minor that is not positive."""
    try:
        made = np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        return _cholesky_one_by_one(a)
    return columns_first(made), np.zeros(a.shape[:-2], np.int32)


def _cholesky_one_by_one(a: Array) -> tuple[Array, Array]:
    made = np.tril(a)
    info = np.zeros(a.shape[:-2], np.int32)
    for place in np.ndindex(*a.shape[:-2]):
        try:
            made[place] = np.linalg.cholesky(a[place])
        except np.linalg.LinAlgError:
            info[place] = _until_not_positive(made[place])
    return columns_first(made), info


@quiet
def _until_not_positive(a: Array) -> int:
    """Factor in place as far as possible; returns the number of the minor that is not positive."""
    for j in range(len(a)):
        row = a[j, :j]
        pivot = (a[j, j] - row @ row.conj()).real
        if not pivot > 0:
            return j + 1
        a[j, j] = root = np.sqrt(pivot)
        a[j + 1 :, j] = (a[j + 1 :, j] - a[j + 1 :, :j] @ row.conj()) / root
    return 0


# -- reflections ---------------------------------------------------------------------------------


def reflected(a: Array, tau: Array, c: Array, adjoint_of: bool = False) -> Array:
    """Q C, or Qᴴ C, for the Q whose reflections are below the diagonal of A."""
    made = np.array(np.broadcast_to(c, (*a.shape[:-2], *c.shape[-2:])))
    count = tau.shape[-1]
    for i in range(count) if adjoint_of else range(count - 1, -1, -1):
        line = a[..., i:, i, None].copy()
        line[..., 0, :] = 1
        factor = tau[..., i, None, None]
        factor = factor.conj() if adjoint_of else factor
        made[..., i:, :] -= factor * line * (adjoint(line) @ made[..., i:, :])
    return made


def householder(a: Array, tau: Array) -> Array:
    """The first columns of Q."""
    start = np.eye(*a.shape[-2:], dtype=a.dtype)
    return columns_first(reflected(a, tau, np.broadcast_to(start, a.shape)))


def geqrf(a: Array) -> tuple[Array, Array]:
    """R above the diagonal, and the reflections of Q below it."""
    if not a.size:
        return a.copy(), np.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
    lines, tau = np.linalg.qr(a, mode="raw")
    return lines.swapaxes(-1, -2), tau


# -- exponentials --------------------------------------------------------------------------------

DEGREE = 18
"""Terms of the series that suffice for double precision, for matrices scaled to be small."""


@quiet
def matrix_exp(a: Array) -> Array:
    """The exponential of each matrix: a series for a scaled matrix, then repeated squaring."""
    if not a.size:
        return a.copy()
    if a.real.dtype == np.float32:
        return matrix_exp(a.astype(np.result_type(a, np.float64))).astype(a.dtype)
    norms = np.abs(a).sum(-2).max(-1)
    greatest = np.where(np.isfinite(norms), norms, 0).max()
    squarings = max(0, int(np.ceil(np.log2(greatest)))) if greatest > 0 else 0
    each = np.clip(np.ceil(np.log2(np.maximum(norms, 1))), 0, None)
    each = np.where(np.isfinite(each), each, 0)
    made = _series(a / np.exp2(each)[..., None, None].astype(a.real.dtype))
    for step in range(squarings):
        again = each > step
        made = np.where(again[..., None, None], made @ made, made)
    return made.astype(a.dtype, copy=False)


def _series(a: Array) -> Array:
    """1 + a + a²/2 + …, in four groups of five terms."""
    size = a.shape[-1]
    powers = [np.broadcast_to(np.eye(size, dtype=a.dtype), a.shape), a]
    while len(powers) < 6:
        powers.append(powers[-1] @ a)
    factors = 1 / np.cumprod([1.0, *range(1, DEGREE + 2)])
    made = np.zeros_like(a)
    for start in (15, 10, 5, 0):
        made = made @ powers[5] if start < 15 else made
        for k in range(min(5, DEGREE + 2 - start)):
            made = made + powers[k] * factors[start + k].astype(a.real.dtype)
    return made
