"""Windows of images as columns of a matrix, and back (im2col and col2im).

Arrays are contiguous and passed flat; sizes are tuples over depth, height and width. A window may
extend beyond its image, where zeros are assumed. Loops run over whole lines of an image, whose part
inside is computed ahead of the line, so that they are vectorized.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.compiling.compiled import compiled, inner

uint = np.uintp


@inner
def inside(shift: int, step: int, size: int, count: int) -> Any:
    """The window positions [low, high) whose element at position * step + shift is in the image."""
    low = 0 if shift >= 0 else (step - 1 - shift) // step
    high = (size - 1 - shift) // step + 1 if size > shift else 0
    low = min(low, count)
    return low, max(low, min(high, count))


# Indices are computed as unsigned: for signed ones Numba checks each time whether they count from
# the end, which prevents vectorization.
@inner
def _copy(out: Array, start: int, x: Array, source: int, low: int, high: int, step: int) -> None:
    if step == 1:
        for i in range(low, high):
            out[uint(start + i)] = x[uint(source + i)]
    else:
        for i in range(low, high):
            out[uint(start + i)] = x[uint(source + i * step)]


@inner
def _clear(out: Array, start: int, stop: int) -> None:
    for i in range(start, stop):
        out[uint(i)] = 0


@inner
def _add(x: Array, target: int, made: Array, start: int, low: int, high: int, step: int) -> None:
    if step == 1:
        for i in range(low, high):
            x[uint(target + i)] += made[uint(start + i)]
    else:
        for i in range(low, high):
            x[uint(target + i * step)] += made[uint(start + i)]


@compiled
def columns_of(
    back: bool, x: Array, columns: Array, sizes: Any, w: Any, lines: Any, some: Any
) -> None:
    """Copy what each window sees to a column, or `back`: add every column to its window.

    `sizes` are those of x: images, channels, depth, height, width; `w` the windows: kernel, out,
    stride, padding, dilation. `lines` are the first and last lines of windows, counted over depth
    and height; `some` are the first and last channels to process.
    """
    images, channels, depth, height, width = sizes
    kernel, (_, tall, wide), stride, padding, dilation = w
    first, last = lines
    step = stride[2]
    start = some[0] * kernel[0] * kernel[1] * kernel[2] * images * (last - first) * wide
    for channel in range(some[0], some[1]):
        for a in range(kernel[0]):
            for b in range(kernel[1]):
                up = b * dilation[1] - padding[1]
                for c in range(kernel[2]):
                    shift = c * dilation[2] - padding[2]
                    low, high = inside(shift, step, width, wide)
                    for image in range(images):
                        plane = (image * channels + channel) * depth
                        z = (first // tall) * stride[0] + a * dilation[0] - padding[0]
                        row = first % tall
                        for _ in range(first, last):
                            y = row * stride[1] + up
                            at = ((plane + z) * height + y) * width + shift
                            is_seen = z >= 0 and z < depth and y >= 0 and y < height
                            if back:
                                if is_seen:
                                    _add(x, at, columns, start, low, high, step)
                            elif is_seen:
                                _clear(columns, start, start + low)
                                _copy(columns, start, x, at, low, high, step)
                                _clear(columns, start + high, start + wide)
                            else:
                                _clear(columns, start, start + wide)
                            start += wide
                            row += 1
                            if row == tall:
                                row = 0
                                z += stride[0]


def warm() -> None:
    """Call every kernel of this file once per dtype, to compile it."""
    one, x = (1, 1, 1), (1, 1, 1, 1, 1)
    for kind in (np.float32, np.float64):
        numbers = np.ones(1, kind)
        columns_of(False, numbers, numbers, x, (one, one, one, (0, 0, 0), one), (0, 1), (0, 1))
