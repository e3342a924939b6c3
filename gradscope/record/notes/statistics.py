"""Statistics of an array: counts of special values, sizes, the first non-finite values."""

from __future__ import annotations

from math import isfinite, nan, sqrt
from typing import Any, NamedTuple

import numpy as np

SMALL = 4096
"""Largest number of elements of an array that is measured in one piece."""

CHUNK = 1 << 13
"""Elements of a larger array that are measured together: they stay in the cache for all passes, and
are too few for NumPy's library to start threads."""

# The functions that array methods finally call.
summed, minimum, maximum = np.add.reduce, np.minimum.reduce, np.maximum.reduce

FIRST = 8
"""Number of elements that are not finite whose indices are stored."""


class Statistics(NamedTuple):
    """Counts over all elements; min to norm over the finite ones, NaN if there is none.

    For complex numbers, magnitudes are measured, and an infinite one counts as +inf.
    """

    size: int
    nan: int
    posinf: int
    neginf: int
    zero: int
    min: float
    max: float
    mean: float
    rms: float
    norm: float
    bad: tuple[int, ...]


NOTHING = Statistics(0, 0, 0, 0, 0, nan, nan, nan, nan, nan, ())


def statistics(array: Any) -> Statistics:
    """The statistics of an array, which is only read and not held."""
    size = array.size
    if size <= SMALL:
        return _of(array.ravel()) if size else NOTHING
    flat = array.reshape(-1)
    return _joined([_of(flat[i : i + CHUNK]) for i in range(0, size, CHUNK)])


def _of(flat: Any) -> Statistics:
    """The statistics of one row of elements."""
    values = _measured(flat)
    size = values.size
    low, high = float(minimum(values)), float(maximum(values))
    if isfinite(low) and isfinite(high):
        zero = 0 if low > 0 or high < 0 else size - int(np.count_nonzero(values))
        return Statistics(size, 0, 0, 0, zero, low, high, *_sizes(values, size), ())
    finite = np.isfinite(values)
    bad = np.flatnonzero(~finite)
    wrong = values[bad]
    kept = values[finite]
    nans = int(np.isnan(wrong).sum())
    above = int((wrong > 0).sum())
    counts = (size, nans, above, size - len(kept) - nans - above)
    where = tuple(bad[:FIRST].tolist())
    if not len(kept):
        return Statistics(*counts, 0, nan, nan, nan, nan, nan, where)
    zero = len(kept) - int(np.count_nonzero(kept))
    sizes = _sizes(kept, len(kept))
    return Statistics(*counts, zero, float(kept.min()), float(kept.max()), *sizes, where)


def _measured(flat: Any) -> Any:
    """The elements as double-precision numbers."""
    kind = flat.dtype.kind
    if kind == "c":
        return np.abs(flat.astype(np.complex128))
    return flat if flat.dtype.char == "d" else flat.astype(np.float64)


def _sizes(values: Any, count: int) -> tuple[float, float, float]:
    """Mean, root mean square and norm, without avoidable overflow."""
    mean, squares = float(summed(values)) / count, float(values.dot(values))
    if not isfinite(mean):
        mean = float(summed(values / count))
    if isfinite(squares):
        norm = sqrt(squares)
        return mean, norm / sqrt(count), norm
    largest = float(np.abs(values).max())
    scaled = values / largest
    root = sqrt(float(scaled.dot(scaled)))
    return mean, largest * (root / sqrt(count)), largest * root


def _joined(parts: list[Statistics]) -> Statistics:
    """The statistics of consecutive pieces."""
    size, nans, above, below, zero = (
        sum(column) for column in zip(*(part[:5] for part in parts), strict=True)
    )
    bad: list[int] = []
    start = 0
    for part in parts:
        bad.extend(start + index for index in part.bad[: FIRST - len(bad)])
        start += part.size
    finite = [(part, part.size - part.nan - part.posinf - part.neginf) for part in parts]
    finite = [(part, many) for part, many in finite if many]
    if not finite:
        return Statistics(size, nans, above, below, 0, nan, nan, nan, nan, nan, tuple(bad))
    total = sum(many for _, many in finite)
    low, high = min(part.min for part, _ in finite), max(part.max for part, _ in finite)
    mean = sum(part.mean * (many / total) for part, many in finite)
    norm = _root([part.norm for part, _ in finite])
    sizes = low, high, mean, norm / sqrt(total), norm
    return Statistics(size, nans, above, below, zero, *sizes, tuple(bad))


def _root(norms: list[float]) -> float:
    """The root of the sum of squares, even if a square would overflow."""
    largest = max(norms)
    if not largest or not isfinite(largest):
        return largest
    return largest * sqrt(sum((norm / largest) ** 2 for norm in norms))
