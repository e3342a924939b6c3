"""Where the windows of a pooling lie along one dim of its input."""

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
        """How many places of the padded input the windows cover."""
        return (out - 1) * self.stride + (self.kernel - 1) * step + 1


@dataclass(frozen=True, slots=True, eq=False)
class PoolSpan:
    """The windows along one dim: window i holds starts[i], starts[i] + step, … below ends[i].

    All of that lies inside the input. A window counts `counts[i]` places for an average, which may
    include the padding's. `starts` has one row, or one for each plane.
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
        """Where each window has its place number `tap`, its last one if it has fewer."""
        last = self.starts + (self.ends - self.starts - 1) // self.step * self.step
        return np.minimum(self.starts + tap * self.step, last)

    @property
    def taps(self) -> int:
        """How many places the longest window has."""
        if self.regular is not None:
            return self.regular.kernel
        return int(((self.ends - self.starts - 1) // self.step).max(initial=-1)) + 1


_NONE, _ONE = np.zeros((1, 1), np.int64), np.ones((1, 1), np.int64)
WHOLE = PoolSpan(1, _NONE, _ONE, _ONE, 1, Regular(1, 1, 0))
"""Along a dim that is not there."""


def pooled_size(
    size: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool
) -> int:
    """How many windows there are. In ceil mode the last may begin inside and end outside."""
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
    # As many steps forward as bring it inside.
    starts = begin + np.maximum((-begin + dilation - 1) // dilation, 0) * dilation
    ends = np.minimum(end, size)
    counts = np.minimum(end, size + padding) - begin if count_include_pad else ends - starts
    return _span(size, starts, ends, counts, dilation, Regular(kernel, stride, padding))


@lru_cache(512)
def adaptive(size: int, out: int) -> PoolSpan:
    """`out` windows that together cover the dim, as equal as can be."""
    if out and size % out == 0 and size:
        return regular(size, size // out, size // out)
    i = np.arange(out)
    starts = i * size // max(out, 1)
    ends = -((i + 1) * -size // max(out, 1))
    return _span(size, starts, ends, ends - starts)


def fractional(size: int, kernel: int, out: int, samples: Array) -> PoolSpan:
    """Windows at distances that a random number for each plane decides."""
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
