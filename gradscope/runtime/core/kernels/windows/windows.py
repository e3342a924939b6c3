"""Windows that slide over images, and their contents as columns of a matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from gradscope.runtime.core.kernels.support import LARGE, Array, Family

Sizes: TypeAlias = tuple[int, ...]

SCRATCH: Final = 1 << 20
"""Number of elements of columns at a time, a compromise between cache and memory."""
WHOLE: Final = 1 << 16
"""Number of elements below which all columns are created at once."""


FAST: Final = Family("windows.im2col", few=LARGE >> 4)


@dataclass(frozen=True, slots=True)
class Windows:
    """All windows over images of one size, in depth, height and width."""

    size: Sizes
    kernel: Sizes
    out: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes

    @property
    def taps(self) -> int:
        """The number of elements that a window sees of each channel."""
        return prod(self.kernel)

    @property
    def count(self) -> int:
        """The number of windows."""
        return prod(self.out)

    @property
    def are_elements(self) -> bool:
        """Whether each window is one element of the image, in order."""
        return self.taps == 1 and self.out == self.size and not any(self.padding)

    @property
    def step_by_one(self) -> bool:
        """Whether windows have stride one, and none extends beyond the padding."""
        ends = zip(self.out, self.size, self.kernel, self.padding, self.dilation, strict=True)
        return max(self.stride) == 1 and all(o <= n + 2 * p - d * (k - 1) for o, n, k, p, d in ends)

    def inside(self, dim: int, tap: int) -> slice:
        """The windows whose element at this tap is in the image."""
        step, shift = self.stride[dim], tap * self.dilation[dim] - self.padding[dim]
        low = min(max(0, -(shift // step)), self.out[dim])
        return slice(low, max(low, min((self.size[dim] - 1 - shift) // step + 1, self.out[dim])))

    def seen(self, dim: int, tap: int) -> slice:
        """The elements that those windows see."""
        windows = self.inside(dim, tap)
        step, shift = self.stride[dim], tap * self.dilation[dim] - self.padding[dim]
        count = windows.stop - windows.start
        start = windows.start * step + shift
        return slice(start, start + (count - 1) * step + 1, step) if count else slice(0)


@lru_cache(1024)
def taps_of(w: Windows) -> tuple[tuple[Any, Any], ...]:
    """For each tap, an index of columns and an index of the image elements it sees.

    The first is an index of (channels, *kernel, images, *windows), the second of (channels, images,
    *size).
    """
    every = slice(None)
    return tuple(
        (
            (every, *tap, every, *(w.inside(dim, at) for dim, at in enumerate(tap))),
            (every, every, *(w.seen(dim, at) for dim, at in enumerate(tap))),
        )
        for tap in np.ndindex(w.kernel)
    )


@lru_cache(4096)
def windows(
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    out: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Windows:
    """Windows over images of up to three dims; missing dims have one element."""
    more = (1,) * (3 - len(size))
    none = (0,) * len(more)
    return Windows(
        (*more, *size),
        (*more, *kernel),
        (*more, *out),
        (*more, *stride),
        (*none, *padding),
        (*more, *dilation),
    )


class WindowBlock(NamedTuple):
    """Some images, or lines of windows of one image, whose columns are created together."""

    images: slice
    lines: tuple[int, int]
    places: slice  # of these windows among all of an image

    @property
    def is_of_one(self) -> bool:
        return self.images.stop - self.images.start == 1


def blocks(w: Windows, images: int, rows: int, together: int) -> Iterator[WindowBlock]:
    """Blocks of columns with this number of rows.

    Images with fewer windows than `together` are put side by side, so that matrices are wide enough
    to be multiplied fast.
    """
    lines, width = w.out[0] * w.out[1], w.out[2]
    if rows * images * w.count < WHOLE:
        yield WindowBlock(slice(0, images), (0, lines), slice(0, w.count))
        return
    room = max(1, SCRATCH // max(1, rows * width))  # in lines
    if w.count < together:
        step = max(1, room // lines)
        for start in range(0, images, step):
            stop = min(start + step, images)
            yield WindowBlock(slice(start, stop), (0, lines), slice(0, w.count))
        return
    for image in range(images):
        for first in range(0, lines, room):
            last = min(first + room, lines)
            yield WindowBlock(
                slice(image, image + 1), (first, last), slice(first * width, last * width)
            )


def is_large(x: Array, w: Windows) -> bool:
    """Whether all columns of these images justify a compiled kernel."""
    return len(x) * x.shape[1] * w.taps * w.count >= LARGE and x.dtype.char in "fd"


def _is_large(x: Array, w: Windows) -> bool:
    """The same for columns, whose values do not depend on it: Numba may already be imported."""
    return FAST.wins(len(x) * x.shape[1] * w.taps * w.count) and x.dtype.char in "fd"


def columns(x: Array, w: Windows, block: WindowBlock, out: Array) -> None:
    """Write the contents of a block's windows to `out`: a row for each channel and tap."""
    part = x[block.images]
    if not _is_large(x, w):
        plain_columns(part, w, block.lines, out)
        return
    FAST.kernels.im2col(part, out, w, block)


def add_columns(x: Array, w: Windows, block: WindowBlock, made: Array) -> None:
    """Add each column to its window of `x`."""
    part = x[block.images]
    if not _is_large(x, w):
        plain_add_columns(part, w, block.lines, made)
        return
    FAST.kernels.col2im(made, part, w, block)


def unfolded(x: Array, w: Windows) -> Array:
    """All columns of each image: (images, channels * taps, windows)."""
    x = np.ascontiguousarray(x)
    made = np.empty((len(x), x.shape[1] * w.taps, w.count), x.dtype)
    for image in range(len(x)):
        columns(x, w, _all_of(w, image), made[image])
    return made


def folded(made: Array, w: Windows, channels: int) -> Array:
    """Images in which each element is the sum of its occurrences in all columns."""
    made = np.ascontiguousarray(made)
    x = np.zeros((len(made), channels, *w.size), made.dtype)
    for image in range(len(made)):
        add_columns(x, w, _all_of(w, image), made[image])
    return x


def _all_of(w: Windows, image: int) -> WindowBlock:
    return WindowBlock(slice(image, image + 1), (0, w.out[0] * w.out[1]), slice(0, w.count))


def plain_columns(x: Array, w: Windows, lines: tuple[int, int], out: Array) -> None:
    """The same as `columns`, tap by tap in NumPy."""
    if lines != (0, w.out[0] * w.out[1]):
        every = np.empty((x.shape[1] * w.taps, x.shape[0] * w.count), x.dtype)
        plain_columns(x, w, (0, w.out[0] * w.out[1]), every)
        width = w.out[2]
        out[...] = every[:, lines[0] * width : lines[1] * width]
        return
    spread = out.reshape(x.shape[1], *w.kernel, x.shape[0], *w.out)
    if any(w.padding):
        spread[...] = 0
    source = x.swapaxes(0, 1)
    for places, seen in taps_of(w):
        spread[places] = source[seen]


def plain_add_columns(x: Array, w: Windows, lines: tuple[int, int], made: Array) -> None:
    """The same as `add_columns`, tap by tap in NumPy."""
    if lines != (0, w.out[0] * w.out[1]):
        every = np.zeros((x.shape[1] * w.taps, x.shape[0] * w.count), x.dtype)
        every[:, lines[0] * w.out[2] : lines[1] * w.out[2]] = made.reshape(len(every), -1)
        made = every
    spread = made.reshape(x.shape[1], *w.kernel, x.shape[0], *w.out)
    target = x.swapaxes(0, 1)
    for places, seen in taps_of(w):
        target[seen] += spread[places]
