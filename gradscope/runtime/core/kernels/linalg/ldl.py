"""LDLᵀ and LDLᴴ: symmetric matrices that need not be positive, by Bunch and Kaufman's pivots."""

from __future__ import annotations

from math import prod

import numpy as np

from gradscope.runtime.core.kernels.linalg.linalg import columns_first, size_of
from gradscope.runtime.core.kernels.support import Array, quiet

ALPHA = (1 + 17**0.5) / 8
"""Bound that decides whether a pivot of one row suffices to keep growth bounded."""


@quiet
def ldl_factor(a: Array, hermitian: bool) -> tuple[Array, Array, Array]:
    """L below the diagonal, D on it and next to it, the swaps, and the first zero pivot."""
    *batch, size, _ = a.shape
    work = a.reshape(prod(batch), size, size).copy()
    pivots = np.zeros((len(work), size), np.int32)
    info = np.zeros(len(work), np.int32)
    for i, matrix in enumerate(work):
        info[i] = _factor(matrix, pivots[i], hermitian)
    shape = tuple(batch)
    return (
        columns_first(np.tril(work.reshape(a.shape))),
        pivots.reshape(*shape, size),
        info.reshape(shape),
    )


def _factor(a: Array, pivots: Array, hermitian: bool) -> int:
    size, k, bad = len(a), 0, 0
    while k < size:
        wide, row = _chosen(a, k, hermitian)
        if row < 0:
            bad = bad or k + 1
            pivots[k] = k + 1
            k += 1
            continue
        last = k + wide - 1
        if row != last:
            _swap(a, last, row, k, wide, hermitian)
        if hermitian:
            for i in {k, last, row}:
                a[i, i] = a[i, i].real
        _eliminate(a, k, wide, hermitian)
        pivots[k : last + 1] = row + 1 if wide == 1 else -(row + 1)
        k += wide
    return bad


def _chosen(a: Array, k: int, hermitian: bool) -> tuple[int, int]:
    """The number of rows of the pivot, and the row to swap with its last; -1 if all is zero."""
    here = _on_diagonal(a, k, hermitian)
    below = size_of(a[k + 1 :, k])
    greatest = below.max(initial=0)
    if max(here, greatest) == 0 or np.isnan(here):
        return 1, -1
    if here >= ALPHA * greatest:
        return 1, k
    row = k + 1 + int(below.argmax())
    across = size_of(a[row, k:row]).max(initial=0)
    across = max(across, size_of(a[row + 1 :, row]).max(initial=0))
    if here >= ALPHA * greatest * (greatest / across):
        return 1, k
    if _on_diagonal(a, row, hermitian) >= ALPHA * across:
        return 1, row
    return 2, row


def _on_diagonal(a: Array, k: int, hermitian: bool) -> float:
    return float(abs(a[k, k].real) if hermitian else size_of(a[k, k]))


def _swap(a: Array, place: int, row: int, k: int, wide: int, hermitian: bool) -> None:
    """Exchange two rows and columns, of which only the lower triangle is stored."""
    below = a[row + 1 :, place].copy()
    a[row + 1 :, place] = a[row + 1 :, row]
    a[row + 1 :, row] = below
    between = a[place + 1 : row, place].copy()
    a[place + 1 : row, place] = _turned(a[row, place + 1 : row], hermitian)
    a[row, place + 1 : row] = _turned(between, hermitian)
    if hermitian:
        a[row, place] = a[row, place].conj()
    a[place, place], a[row, row] = a[row, row], a[place, place]
    if wide == 2:
        a[k + 1, k], a[row, k] = a[row, k], a[k + 1, k]


def _turned(line: Array, hermitian: bool) -> Array:
    return line.conj() if hermitian else line.copy()


def _eliminate(a: Array, k: int, wide: int, hermitian: bool) -> None:
    """Eliminate the pivot from the rows below, and leave L in its columns."""
    rest = slice(k + wide, None)
    columns = a[rest, k : k + wide].copy()
    if not len(columns):
        return
    if wide == 1:
        factors = columns / a[k, k]
    else:
        pivot = np.array([[a[k, k], 0], [a[k + 1, k], a[k + 1, k + 1]]])
        pivot[0, 1] = pivot[1, 0].conj() if hermitian else pivot[1, 0]
        factors = columns @ np.linalg.inv(pivot)
    other = columns.conj() if hermitian else columns
    a[rest, rest] -= np.tril(factors @ other.T)
    a[rest, k : k + wide] = factors
    if hermitian:
        place = np.arange(k + wide, len(a))
        a[place, place] = a[place, place].real


@quiet
def ldl_solve(factors: Array, pivots: Array, b: Array, hermitian: bool) -> Array:
    """X of A X = B, from the result of `ldl_factor`."""
    batch = np.broadcast_shapes(factors.shape[:-2], b.shape[:-2])
    size = factors.shape[-1]
    factors = np.broadcast_to(factors, (*batch, size, size)).reshape(prod(batch), size, size)
    pivots = np.broadcast_to(pivots, (*batch, size)).reshape(prod(batch), size)
    made = np.broadcast_to(b, (*batch, *b.shape[-2:])).astype(factors.dtype)
    flat = made.reshape(prod(batch), size, b.shape[-1])
    for matrix, swaps, x in zip(factors, pivots, flat, strict=True):
        _solve(matrix, swaps, x, hermitian)
    return columns_first(flat.reshape(made.shape))


def _solve(a: Array, pivots: Array, x: Array, hermitian: bool) -> None:
    steps = _steps(pivots)
    for k, wide in steps:
        last = k + wide - 1
        row = abs(int(pivots[k])) - 1
        if row != last:
            x[[last, row]] = x[[row, last]]
        rest = slice(k + wide, None)
        x[rest] -= a[rest, k : k + wide] @ x[k : k + wide]
    for k, wide in steps:
        if wide == 1:
            x[k] /= a[k, k]
            continue
        pivot = np.array([[a[k, k], a[k + 1, k]], [a[k + 1, k], a[k + 1, k + 1]]])
        if hermitian:
            pivot[0, 1] = pivot[0, 1].conj()
        x[k : k + 2] = np.linalg.solve(pivot, x[k : k + 2])
    for k, wide in reversed(steps):
        rest = slice(k + wide, None)
        x[k : k + wide] -= _turned(a[rest, k : k + wide], hermitian).T @ x[rest]
        last = k + wide - 1
        row = abs(int(pivots[k])) - 1
        if row != last:
            x[[last, row]] = x[[row, last]]


def _steps(pivots: Array) -> list[tuple[int, int]]:
    """The first row of each pivot, and its number of rows."""
    made, k = [], 0
    while k < len(pivots):
        wide = 1 if pivots[k] > 0 or k + 1 == len(pivots) else 2
        made.append((k, wide))
        k += wide
    return made
