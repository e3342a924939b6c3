"""The windows of a pooling along one dim of its input."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from gradscope.runtime.core.kernels.support import Array


@dataclass(frozen=True, slots=True, eq=False)
class Regular:
    """Windows of one size at equal distances."""

    kernel: int
    stride: int
    padding: int

    def reach(self, out: int, step: int) -> int:
        """The number of positions of the padded input that the windows cover."""
        return (out - 1) * self.stride + (self.kernel - 1) * step + 1


@dataclass(frozen=True, slots=True, eq=False)
class PoolSpan:
    """The windows along one dim: window i holds starts[i], starts[i] + step, … below ends[i].

    All of that is inside the input. The divisor of an average is `counts[i]`, which may include
    padding. `starts` has one row, or one for each plane.
    """

    size: int  # of the input
    starts: Array
    ends: Array
    counts: Array
    step: int = 1
    regular: Regular | None = None

    @property
    def out(self) -> int:
        return int(self.starts.shape[-1])

    def places(self, tap: int) -> Array:
        """The position of element `tap` of each window; its last element if it has fewer."""
        last = self.starts + (self.ends - self.starts - 1) // self.step * self.step
        return np.minimum(self.starts + tap * self.step, last)

    @property
    def taps(self) -> int:
        """The number of elements of the longest window."""
        if self.regular is not None:
            return self.regular.kernel
        return int(((self.ends - self.starts - 1) // self.step).max(initial=-1)) + 1


_NONE, _ONE = np.zeros((1, 1), np.int64), np.ones((1, 1), np.int64)
WHOLE = PoolSpan(1, _NONE, _ONE, _ONE, 1, Regular(1, 1, 0))
"""The windows along a missing dim."""


def pooled_size(
    size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> int:
    """The number of windows. In ceil mode the last one may begin inside and end outside."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    out = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (out - 1) * stride >= size + padding:
        return out - 1
    return out


@lru_cache(512)
def regular(
    size: int,
    kernel: int,
    stride: int,
    padding: int = 0,
    dilation: int = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> PoolSpan:
    out = pooled_size(size, kernel, stride, padding, dilation, ceil_mode)
    begin = np.arange(out) * stride - padding
    end = begin + (kernel - 1) * dilation + 1
    # The number of steps needed to get inside.
    starts = begin + np.maximum((-begin + dilation - 1) // dilation, 0) * dilation
    ends = np.minimum(end, size)
    counts = np.minimum(end, size + padding) - begin if count_include_pad else ends - starts
    return _span(size, starts, ends, counts, dilation, Regular(kernel, stride, padding))


@lru_cache(512)
def adaptive(size: int, out: int) -> PoolSpan:
    """`out` windows that cover the dim, of sizes as equal as possible."""
    if out and size % out == 0 and size:
        return regular(size, size // out, size // out)
    i = np.arange(out)
    starts = i * size // max(out, 1)
    ends = -((i + 1) * -size // max(out, 1))
    return _span(size, starts, ends, ends - starts)


def fractional(size: int, kernel: int, out: int, samples: Array) -> PoolSpan:
    """Windows at random distances, by one random number for each plane."""
    samples = samples.reshape(-1, 1)
    starts = np.empty((len(samples), out), np.int64)
    if out > 1:
        alpha = samples.dtype.type(size - kernel) / samples.dtype.type(out - 1)
        i = np.arange(out - 1).astype(samples.dtype)
        moved = ((i + samples) * alpha).astype(np.int64)
        starts[:, :-1] = moved - (samples * alpha).astype(np.int64)
    if out > 0:
        starts[:, -1] = size - kernel
    return PoolSpan(size, starts, starts + kernel, np.full(starts.shape, kernel))


def _span(
    size: int,
    starts: Array,
    ends: Array,
    counts: Array,
    step: int = 1,
    kind: Regular | None = None,
) -> PoolSpan:
    rows = [np.ascontiguousarray(a[None], np.int64) for a in (starts, ends, counts)]
    for row in rows:
        row.flags.writeable = False
    return PoolSpan(size, rows[0], rows[1], rows[2], step, kind)
