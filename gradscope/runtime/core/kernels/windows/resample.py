"""Resizing: linear maps along the last dims of an array, one table of taps for each.

Halves are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from gradscope.runtime.core.kernels.support import HALVES, Array, Family
from gradscope.runtime.core.kernels.windows.pool import COMPILED
from gradscope.runtime.core.kernels.windows.taps import Taps

FAST: Final = Family("windows.fast_resample", few=COMPILED)


def resample(x: Array, tables: Sequence[Taps]) -> Array:
    """Map the last dims of `x`, each by its table."""
    if x.dtype in HALVES:
        if all(table.weights is None and table.each == 1 for table in tables):
            return resample_plain(x, tables)
        return resample(x.astype(np.float32), tables).astype(x.dtype)
    size = max(x.size, _made_size(x, tables))
    if x.dtype.kind != "f" or not FAST.wins(size):
        return resample_plain(x, tables)
    return _compiled(np.ascontiguousarray(x), tables)


def _made_size(x: Array, tables: Sequence[Taps]) -> int:
    lead = int(np.prod(x.shape[: -len(tables)], dtype=int))
    return lead * int(np.prod([table.out for table in tables], dtype=int))


def _compiled(x: Array, tables: Sequence[Taps]) -> Array:
    """Dims that grow are mapped last, so that intermediate results are small."""
    first, given = x.ndim - len(tables), x
    order = sorted(enumerate(tables, first), key=lambda one: one[1].out - one[1].size)
    if len(tables) > 1 and order[-1][0] == x.ndim - 1:
        order.insert(0, order.pop())  # rows first: later steps process whole rows
        order[1:] = sorted(order[1:], key=lambda one: one[1].out - one[1].size)
    for dim, table in order:
        if table.changes_nothing:
            continue
        rows = int(np.prod(x.shape[:dim], dtype=int))
        width = int(np.prod(x.shape[dim + 1 :], dtype=int))
        made = np.empty((*x.shape[:dim], table.out, *x.shape[dim + 1 :]), x.dtype)
        FAST.kernels.along(
            x.reshape(rows, table.size, width), made.reshape(rows, table.out, width), table
        )
        x = made
    return x if x is not given else x.copy()


def resample_plain(x: Array, tables: Sequence[Taps]) -> Array:
    given = x
    for dim, table in enumerate(tables, x.ndim - len(tables)):
        if table.changes_nothing:
            continue
        seen = x.take(table.places, dim)
        if table.weights is not None:
            seen = seen * table.weights.astype(x.dtype).reshape(-1, *(1,) * (x.ndim - 1 - dim))
        if table.each == 1:
            x = seen
            continue
        shape = (*x.shape[:dim], table.out, *x.shape[dim + 1 :])
        x = np.zeros(shape, x.dtype)
        some = np.diff(table.starts) > 0
        if some.any() and seen.size:
            index: tuple[Any, ...] = (*(slice(None),) * dim, some)
            x[index] = np.add.reduceat(seen, table.starts[:-1][some], dim)
    return x if x is not given else x.copy()


def resample_bytes(x: Array, tables: Sequence[Taps]) -> Array:
    """The same for uint8, as in PyTorch: with integer weights, and bytes after every dim."""
    for dim in range(x.ndim - 1, x.ndim - 1 - len(tables), -1):
        table = tables[dim - x.ndim]
        if table.changes_nothing:
            continue
        starts, places, weights = _merged(table)
        bits = _bits(weights)
        whole = np.trunc(weights * (1 << bits) + np.copysign(0.5, weights)).astype(np.int32)
        seen = x.take(places, dim) * whole.reshape(-1, *(1,) * (x.ndim - 1 - dim))
        sums = np.add.reduceat(seen, starts, dim) if seen.size else seen[..., :0]
        x = np.clip((sums + (1 << bits >> 1)) >> bits, 0, 255).astype(np.uint8)
    return x


def _merged(table: Taps) -> tuple[Array, Array, Array]:
    """Starts, positions and weights, with repeated positions of one result merged."""
    assert table.weights is not None
    owners = np.repeat(np.arange(table.out), np.diff(table.starts))
    keys, inverse = np.unique(owners * table.size + table.places, return_inverse=True)
    weights = np.bincount(inverse, table.weights.astype(np.float64))
    starts = np.searchsorted(keys, np.arange(table.out) * table.size)
    return starts, keys % table.size, weights


def _bits(weights: Array) -> int:
    """The number of fractional bits for which the largest weight fits in 16 bits."""
    greatest = float(weights.max())
    bits = 0
    while bits < 22 and int(0.5 + greatest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    return bits
