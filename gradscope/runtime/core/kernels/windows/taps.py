"""Tables of resizing: the elements and weights of each element of the result.

They are computed as PyTorch does on the CPU: in single precision except for float64; positions of
nearest neighbours always in single.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.support import Array

Scale = float | None


@dataclass(frozen=True, slots=True, eq=False)
class Taps:
    """A linear map along one dim, as a sparse matrix.

    Result i is the sum of weights[j] * x[places[j]] for j from starts[i] up to, excluding,
    starts[i + 1]. Without weights, all are one.
    """

    size: int  # of the input
    starts: Array
    places: Array
    weights: Array | None = None

    @property
    def out(self) -> int:
        return len(self.starts) - 1

    @property
    def each(self) -> int:
        """The number of elements for each element of the result; zero if it varies."""
        counts = np.diff(self.starts)
        return int(counts[0]) if len(counts) and (counts == counts[0]).all() else 0

    @property
    def changes_nothing(self) -> bool:
        """Whether every result is the element at its own position."""
        if self.weights is not None or not self.out == self.size == len(self.places):
            return False
        own = np.arange(self.out)
        return np.array_equal(self.places, own) and np.array_equal(self.starts[:-1], own)

    def transposed(self) -> Taps:
        """The transposed map, for gradients."""
        owners = np.repeat(np.arange(self.out), np.diff(self.starts))
        order = np.argsort(self.places, kind="stable")
        starts = np.zeros(self.size + 1, np.int64)
        np.cumsum(np.bincount(self.places, minlength=self.size), out=starts[1:])
        weights = None if self.weights is None else self.weights[order]
        return Taps(self.out, starts, owners[order], weights)


@lru_cache(512)
def nearest(size: int, out: int, scale: Scale, exact: bool, *, back: bool = False) -> Taps:
    step = np.float32(1 / scale if scale is not None and scale > 0 else size / out)
    at = np.arange(out, dtype=np.float32) + np.float32(0.5 if exact else 0)
    places = np.minimum(np.floor(at * step), size - 1).astype(np.int64)
    made = Taps(size, np.arange(out + 1), places)
    return made.transposed() if back else made


@lru_cache(512)
def linear(
    size: int,
    out: int,
    scale: Scale,
    align: bool,
    kind: Any,
    *,
    back: bool = False,
    kept_in: Any = None,
) -> Taps:
    """`kept_in`: the dtype to which the weights are rounded, as in some of PyTorch's functions."""
    if size == out:
        made = Taps(size, np.arange(out + 1), np.arange(out))
    else:
        at = np.maximum(_sources(size, out, scale, align, kind), 0)
        first = np.minimum(np.floor(at).astype(np.int64), size - 1)
        share = np.clip(at - first.astype(kind), 0, 1).astype(kept_in or kind)
        rest = (kind.type(1) - share.astype(kind)).astype(share.dtype)
        places = np.stack([first, np.minimum(first + 1, size - 1)], 1)
        made = _regular(size, places, np.stack([rest, share], 1).astype(kind))
    return made.transposed() if back else made


@lru_cache(512)
def cubic(size: int, out: int, scale: Scale, align: bool, kind: Any, *, back: bool = False) -> Taps:
    at = _sources(size, out, scale, align, kind)
    first = np.minimum(np.floor(at).astype(np.int64), size - 1)
    share = np.clip(at - first.astype(kind), 0, 1).astype(kind)
    places = np.clip(first[:, None] + np.arange(-1, 3), 0, size - 1)
    made = _regular(size, places, cubic_weights(share, -0.75))
    return made.transposed() if back else made


@lru_cache(512)
def mirrored(size: int, before: int, after: int, *, back: bool = False) -> Taps:
    """Padding by reflection; negative padding crops."""
    at = np.abs(np.arange(size + before + after) - before)
    return _edged(size, size - 1 - np.abs(size - 1 - at), back)


@lru_cache(512)
def repeated(size: int, before: int, after: int, *, back: bool = False) -> Taps:
    """Padding by the outermost elements; negative padding crops."""
    at = np.arange(size + before + after) - before
    return _edged(size, np.clip(at, 0, size - 1), back)


def _edged(size: int, places: Array, back: bool) -> Taps:
    made = Taps(size, np.arange(len(places) + 1), places)
    return made.transposed() if back else made


def cubic_weights(share: Array, sharpness: float) -> Array:
    """The weights of the four neighbours, the second of which is `share` before the point."""
    a = share.dtype.type(sharpness)

    def near(x: Array) -> Array:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Array) -> Array:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return np.stack([far(share + 1), near(share), near(1 - share), far(2 - share)], -1)


def cubic_slopes(share: Array, sharpness: float) -> Array:
    """The derivatives of these weights by the share."""
    a = share.dtype.type(sharpness)

    def near(x: Array) -> Array:
        return (3 * (a + 2) * x - 2 * (a + 3)) * x

    def far(x: Array) -> Array:
        return (3 * a * x - 10 * a) * x + 8 * a

    return np.stack([far(share + 1), near(share), -near(1 - share), -far(2 - share)], -1)


def cubic_curvatures(share: Array, sharpness: float) -> Array:
    """The second derivatives of these weights by the share."""
    a = share.dtype.type(sharpness)

    def near(x: Array) -> Array:
        return 6 * (a + 2) * x - 2 * (a + 3)

    def far(x: Array) -> Array:
        return 6 * a * x - 10 * a

    return np.stack([far(share + 1), near(share), near(1 - share), far(2 - share)], -1)


def _triangle(x: Array) -> Array:
    return np.maximum(1 - np.abs(x), 0)


def _cubic_bump(x: Array) -> Array:
    x, a = np.abs(x), -0.5
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _lanczos(x: Array) -> Array:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


FILTERS: dict[str, tuple[Callable[[Array], Array], int]] = {
    "bilinear": (_triangle, 2),
    "bicubic": (_cubic_bump, 4),
    "lanczos": (_lanczos, 6),
}


@lru_cache(512)
def smoothed(
    name: str, size: int, out: int, scale: Scale, align: bool, kind: Any, *, back: bool = False
) -> Taps:
    """Antialiased: each result from all elements that it covers, for downsampling."""
    filtered, width = FILTERS[name]
    step = kind.type(_step(size, out, scale, align))
    support = kind.type(width / 2) * max(step, kind.type(1))
    centres = step * (np.arange(out).astype(kind) + kind.type(0.5))
    half = kind.type(0.5)
    lows = np.maximum((centres - support + half).astype(np.int64), 0)
    highs = np.minimum((centres + support + half).astype(np.int64), size)
    places, weights = [], []
    for centre, low, high in zip(centres, lows, highs, strict=True):
        here = np.arange(low, high)
        found = filtered((here.astype(kind) - centre + half) / max(step, kind.type(1)))
        total = found.sum()
        places.append(here)
        weights.append((found / total if total else found).astype(kind))
    starts = np.zeros(out + 1, np.int64)
    np.cumsum(highs - lows, out=starts[1:])
    made = Taps(size, starts, np.concatenate(places), np.concatenate(weights))
    return made.transposed() if back else made


def _step(size: int, out: int, scale: Scale, align: bool) -> float:
    """The distance of two results in the input."""
    if align:
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return 1 / scale if scale is not None and scale > 0 else size / out


def _sources(size: int, out: int, scale: Scale, align: bool, kind: Any) -> Array:
    """The position of each result in the input."""
    step, at = kind.type(_step(size, out, scale, align)), np.arange(out).astype(kind)
    if align:
        return step * at
    half = kind.type(0.5)
    return np.asarray(step * (at + half) - half)


def _regular(size: int, places: Array, weights: Array) -> Taps:
    count, each = places.shape
    starts = np.arange(count + 1) * each
    return Taps(size, starts, places.reshape(-1), np.ascontiguousarray(weights).reshape(-1))
