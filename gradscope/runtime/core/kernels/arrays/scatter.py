"""Adding values at indices that may repeat: the backwards of indexing, gathering and embedding.

All add in the order of the source, and halves in float32 with one rounding at the end, as PyTorch
does on the CPU, so that sums round the same.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gradscope.runtime.core.kernels.support import HALVES, LARGE, Array, fast


def put_add(out: Array, positions: Array, values: Array) -> None:
    """Add values[i] at flat position positions[i] of `out`.

    `out` must be contiguous, and the caller must ensure that no position is outside.
    """
    if out.dtype in HALVES:
        wide = out.astype(np.float32)
        put_add(wide, positions, values.astype(np.float32))
        out[...] = wide
        return
    flat = out.reshape(-1)
    positions = positions.reshape(-1)
    values = np.broadcast_to(values, positions.shape) if values.ndim == 0 else values.reshape(-1)
    if values.size >= LARGE and out.dtype.kind in "fiu":
        fast().put_add(flat, positions, values)
    else:
        np.add.at(flat, positions, values)


def index_add(out: Array, dim: int, index: Array, source: Array) -> None:
    """Add the i-th slice of `source` along `dim` to the index[i]-th of `out`, in place."""
    _add(_index_add, out, dim, index, source)


def scatter_add(out: Array, dim: int, index: Array, source: Array) -> None:
    """Add source[..., i, ...] at index index[..., i, ...] along `dim` of `out`, in place."""
    _add(_scatter_add, out, dim, index, source)


def _add(
    way: Callable[[Array, int, Array, Array], None],
    out: Array,
    dim: int,
    index: Array,
    source: Array,
) -> None:
    """Convert the operands for both functions: dims, valid indices, no halves."""
    if index.size == 0:
        return
    if out.ndim == 0:
        out, index, source = out.reshape(1), index.reshape(-1), source.reshape(-1)
    dim %= out.ndim
    _check(index, dim, out.shape[dim])
    if out.dtype in HALVES:
        wide = out.astype(np.float32)
        way(wide, dim, index, source.astype(np.float32))
        out[...] = wide
    else:
        way(out, dim, index, source)


def _check(index: Array, dim: int, size: int) -> None:
    """Refuse indices that Numba would write outside and NumPy would count from the end."""
    for extreme in (index.min(), index.max()):
        if not 0 <= extreme < size:
            raise RuntimeError(
                f"index {extreme} is out of bounds for dimension {dim} with size {size}"
            )


def _index_add(out: Array, dim: int, index: Array, source: Array) -> None:
    if dim or not out.flags.c_contiguous:
        np.add.at(out.swapaxes(0, dim), index, source.swapaxes(0, dim))
        return
    width = out[0].size
    if width * len(index) >= LARGE and out.dtype.kind in "fiu":
        rows = np.ascontiguousarray(source).reshape(len(index), width)
        fast().add_rows(out.reshape(len(out), width), index, rows)
    else:
        put_add(out, index[:, None] * width + np.arange(width), np.ascontiguousarray(source))


def _scatter_add(out: Array, dim: int, index: Array, source: Array) -> None:
    source = source[tuple(slice(size) for size in index.shape)]
    places = list(np.ogrid[tuple(slice(size) for size in index.shape)])
    places[dim] = index
    if not out.flags.c_contiguous:
        np.add.at(out, tuple(places), source)
        return
    position = np.zeros((), np.int64)
    for place, stride in zip(places, out.strides, strict=True):
        position = np.asarray(position + place * (stride // out.itemsize))
    put_add(out, position, np.ascontiguousarray(source))
