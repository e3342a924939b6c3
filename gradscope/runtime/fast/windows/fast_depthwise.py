"""Depthwise convolutions: every output channel sees one input channel, one product per tap.

If windows have stride one, a channel is copied into a frame of zeros, and lines of windows are
treated as if they were as long as the lines of the frame. Then the contribution of a tap is one
long run over a whole image, shifted for the next tap. The elements between two lines of windows are
skipped when the run is copied back.

Kernels add to one of three arrays: TO_OUTPUT, TO_INPUT (the gradient of the images) or TO_WEIGHT.
`many` is the number of output channels per input channel; `w` are the windows: kernel, out, stride,
padding, dilation. `some` are the first and last channels of a call, counted over all images except
TO_WEIGHT.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.compiling.compiled import compiled, inner
from gradscope.runtime.fast.windows.fast_convolution import inside

uint = np.uintp
TO_OUTPUT, TO_INPUT, TO_WEIGHT = range(3)


@inner
def _scaled(
    out: Array, at: int, x: Array, seen: int, low: int, high: int, step: int, by: Any
) -> None:
    if step == 1:
        for i in range(low, high):
            out[uint(at + i)] += by * x[uint(seen + i)]
    else:
        for i in range(low, high):
            out[uint(at + i)] += by * x[uint(seen + i * step)]


@inner
def _scaled_back(
    x: Array, seen: int, out: Array, at: int, low: int, high: int, step: int, by: Any
) -> None:
    if step == 1:
        for i in range(low, high):
            x[uint(seen + i)] += by * out[uint(at + i)]
    else:
        for i in range(low, high):
            x[uint(seen + i * step)] += by * out[uint(at + i)]


@inner(fastmath={"reassoc", "contract"})
def _dot(out: Array, at: int, x: Array, seen: int, low: int, high: int, step: int) -> Any:
    total = x.dtype.type(0)
    if step == 1:
        for i in range(low, high):
            total += out[uint(at + i)] * x[uint(seen + i)]
    else:
        for i in range(low, high):
            total += out[uint(at + i)] * x[uint(seen + i * step)]
    return total


@inner
def _one_tap(
    way: int, out: Array, start: int, x: Array, plane: int, by: Any, tap: Any, sizes: Any, w: Any
) -> float:
    """Add one tap's contribution to the outputs or a gradient; TO_WEIGHT: return the sum."""
    _, _, depth, height, width = sizes
    _, (deep, tall, wide), stride, padding, dilation = w
    step, shift = stride[2], tap[2] * dilation[2] - padding[2]
    low, high = inside(shift, step, width, wide)
    total = 0.0
    for line in range(deep):
        z = line * stride[0] + tap[0] * dilation[0] - padding[0]
        if z < 0 or z >= depth:
            start += tall * wide
            continue
        y = tap[1] * dilation[1] - padding[1]
        for _ in range(tall):
            if y >= 0 and y < height:
                seen = ((plane + z) * height + y) * width + shift
                if way == TO_OUTPUT:
                    _scaled(out, start, x, seen, low, high, step, by)
                elif way == TO_INPUT:
                    _scaled_back(x, seen, out, start, low, high, step, by)
                else:
                    total += _dot(out, start, x, seen, low, high, step)
            y += stride[1]
            start += wide
    return total


@compiled
def each_channel(
    way: int, out: Array, x: Array, weight: Array, sizes: Any, many: int, w: Any, some: Any
) -> None:
    """Sum the contributions of all taps of each channel, or pass gradients back."""
    channels, kernel = sizes[1], w[0]
    for first in range(sizes[0] if way == TO_WEIGHT else 1):
        for nr in range(some[0] * many, some[1] * many):
            image, made = first + nr // (channels * many), nr % (channels * many)
            plane = (image * channels + made // many) * sizes[2]
            start = (image * channels * many + made) * w[1][0] * w[1][1] * w[1][2]
            at = made * kernel[0] * kernel[1] * kernel[2]
            for a in range(kernel[0]):
                for b in range(kernel[1]):
                    for c in range(kernel[2]):
                        by = weight[uint(at)]
                        total = _one_tap(way, out, start, x, plane, by, (a, b, c), sizes, w)
                        if way == TO_WEIGHT:
                            weight[uint(at)] += total
                        at += 1


@inner
def _copy(
    source: Array, start: int, target: Array, at: int, lines: Any, wide: int, gap: Any
) -> None:
    """Copy lines of an image. `gap` are the distances of lines and images, in source and target."""
    for z in range(lines[0]):
        for y in range(lines[1]):
            here = start + z * gap[1] + y * gap[0]
            there = at + z * gap[3] + y * gap[2]
            for i in range(wide):
                target[uint(there + i)] = source[uint(here + i)]


@inner
def _add_run(to: Array, at: int, source: Array, start: int, count: int, by: Any) -> None:
    for i in range(count):
        to[uint(at + i)] += by * source[uint(start + i)]


@inner(fastmath={"reassoc", "contract"})
def _dot_run(first: Array, second: Array, start: int, count: int) -> Any:
    total = first.dtype.type(0)
    for i in range(count):
        total += first[uint(i)] * second[uint(start + i)]
    return total


@inner
def _all_taps(
    way: int, run: Array, padded: Array, weight: Array, tap: int, frame: Any, w: Any
) -> None:
    """Process each tap with the run over all windows, and a channel's frame."""
    kernel, dilation, count = w[0], w[4], len(run)
    for a in range(kernel[0]):
        for b in range(kernel[1]):
            shift = (a * dilation[0] * frame[1] + b * dilation[1]) * frame[2]
            for c in range(kernel[2]):
                at = shift + c * dilation[2]
                if way == TO_OUTPUT:
                    _add_run(run, 0, padded, at, count, weight[uint(tap)])
                elif way == TO_INPUT:
                    _add_run(padded, at, run, 0, count, weight[uint(tap)])
                else:
                    weight[uint(tap)] += _dot_run(run, padded, at, count)
                tap += 1


@compiled
def framed(
    way: int, out: Array, x: Array, weight: Array, sizes: Any, many: int, w: Any, some: Any
) -> None:
    """The same for stride one. TO_OUTPUT and TO_INPUT overwrite."""
    (deep, tall, wide), padding = w[1], w[3]
    depth, height, width = sizes[2:]
    frame = (depth + 2 * padding[0], height + 2 * padding[1], width + 2 * padding[2])
    # Distances of lines and images in x, in a frame, and among the windows; with the gaps.
    into = (width, height * width, frame[2], frame[1] * frame[2])
    back = (into[2], into[3], into[0], into[1])
    apart = (wide, tall * wide, frame[2], frame[1] * frame[2])
    together = (apart[2], apart[3], apart[0], apart[1])
    corner = (padding[0] * frame[1] + padding[1]) * frame[2] + padding[2]
    padded = np.zeros(frame[0] * frame[1] * frame[2], x.dtype)
    run = np.zeros(((deep - 1) * frame[1] + tall - 1) * frame[2] + wide, x.dtype)
    for first in range(sizes[0] if way == TO_WEIGHT else 1):
        for nr in range(some[0], some[1]):
            plane = first * sizes[1] + nr
            start = plane * depth * height * width
            if way == TO_INPUT:
                padded[:] = 0
            else:
                _copy(x, start, padded, corner, (depth, height), width, into)
            for made in range(plane * many, (plane + 1) * many):
                at = made * deep * tall * wide
                if way == TO_OUTPUT:
                    run[:] = 0
                else:
                    _copy(out, at, run, 0, (deep, tall), wide, apart)
                tap = made % (sizes[1] * many) * w[0][0] * w[0][1] * w[0][2]
                _all_taps(way, run, padded, weight, tap, frame, w)
                if way == TO_OUTPUT:
                    _copy(run, 0, out, at, (deep, tall), wide, together)
            if way == TO_INPUT:
                _copy(padded, corner, x, start, (depth, height), width, back)


def warm() -> None:
    """Call every kernel of this file once per dtype, to compile it."""
    one, nothing = (1, 1, 1), (0, 0, 0)
    for kind in (np.float32, np.float64):
        x = np.ones(1, kind)
        for kernel in (each_channel, framed):
            kernel(TO_OUTPUT, x, x, x, (1, 1, *one), 1, (one, one, one, nothing, one), (0, 1))
