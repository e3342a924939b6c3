"""Convolutions in which every output channel sees one input channel: a product for each tap.

Where windows step by one, a channel is copied into a frame of zeros, and lines of windows are
thought as long as the lines of the frame. What a tap adds is then one long run over a whole image,
a run that is shifted for the next tap; what stands between two lines of windows is left out when
the run is copied back.

`some` are the first and the last of the channels that a call does, counted over all images unless
it makes the gradient of the weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.compiling.compiled import compiled, inner
from gradscope.runtime.fast.windows.fast_convolution import inside

uint = np.uintp


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


@compiled
def each_channel(
    x: Array,
    weight: Array,
    made_of: Array,
    sizes: Any,
    many: int,
    kernel: Any,
    out: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    some: Any,
) -> None:
    """Add to each output channel what its windows see of one input channel, times a weight."""
    _, channels, depth, height, width = sizes
    deep, tall, wide = out
    step, count = stride[2], deep * tall * wide
    taps = kernel[0] * kernel[1] * kernel[2]
    for nr in range(some[0] * many, some[1] * many):
        image, made = nr // (channels * many), nr % (channels * many)
        plane = (image * channels + made // many) * depth
        tap = made * taps
        for a in range(kernel[0]):
            for b in range(kernel[1]):
                for c in range(kernel[2]):
                    shift = c * dilation[2] - padding[2]
                    low, high = inside(shift, step, width, wide)
                    start = (image * channels * many + made) * count
                    by = weight[uint(tap)]
                    for line in range(deep):
                        z = line * stride[0] + a * dilation[0] - padding[0]
                        if z < 0 or z >= depth:
                            start += tall * wide
                            continue
                        y = b * dilation[1] - padding[1]
                        for _ in range(tall):
                            if y >= 0 and y < height:
                                seen = ((plane + z) * height + y) * width + shift
                                _scaled(made_of, start, x, seen, low, high, step, by)
                            y += stride[1]
                            start += wide
                    tap += 1


@compiled
def each_channel_to_input(
    grad: Array,
    weight: Array,
    x: Array,
    sizes: Any,
    many: int,
    kernel: Any,
    out: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    some: Any,
) -> None:
    """Add to the gradient of each channel what its windows pass on."""
    _, channels, depth, height, width = sizes
    deep, tall, wide = out
    step, count = stride[2], deep * tall * wide
    taps = kernel[0] * kernel[1] * kernel[2]
    for nr in range(some[0] * many, some[1] * many):
        image, made = nr // (channels * many), nr % (channels * many)
        plane = (image * channels + made // many) * depth
        tap = made * taps
        for a in range(kernel[0]):
            for b in range(kernel[1]):
                for c in range(kernel[2]):
                    shift = c * dilation[2] - padding[2]
                    low, high = inside(shift, step, width, wide)
                    start = (image * channels * many + made) * count
                    by = weight[uint(tap)]
                    for line in range(deep):
                        z = line * stride[0] + a * dilation[0] - padding[0]
                        if z < 0 or z >= depth:
                            start += tall * wide
                            continue
                        y = b * dilation[1] - padding[1]
                        for _ in range(tall):
                            if y >= 0 and y < height:
                                seen = ((plane + z) * height + y) * width + shift
                                _scaled_back(x, seen, grad, start, low, high, step, by)
                            y += stride[1]
                            start += wide
                    tap += 1


@compiled
def each_channel_to_weight(
    grad: Array,
    x: Array,
    weight: Array,
    sizes: Any,
    many: int,
    kernel: Any,
    out: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    some: Any,
) -> None:
    """Add to the gradient of each weight the products that it stood in."""
    images, channels, depth, height, width = sizes
    deep, tall, wide = out
    step, count = stride[2], deep * tall * wide
    taps = kernel[0] * kernel[1] * kernel[2]
    for image in range(images):
        for made in range(some[0] * many, some[1] * many):
            plane = (image * channels + made // many) * depth
            tap = made * taps
            for a in range(kernel[0]):
                for b in range(kernel[1]):
                    for c in range(kernel[2]):
                        shift = c * dilation[2] - padding[2]
                        low, high = inside(shift, step, width, wide)
                        start = (image * channels * many + made) * count
                        total = 0.0
                        for line in range(deep):
                            z = line * stride[0] + a * dilation[0] - padding[0]
                            if z < 0 or z >= depth:
                                start += tall * wide
                                continue
                            y = b * dilation[1] - padding[1]
                            for _ in range(tall):
                                if y >= 0 and y < height:
                                    seen = ((plane + z) * height + y) * width + shift
                                    total += _dot(grad, start, x, seen, low, high, step)
                                y += stride[1]
                                start += wide
                        weight[uint(tap)] += total
                        tap += 1


@inner
def _run(out: Any, frame: Any) -> int:
    """How long the run over all windows is, with what stands between their lines."""
    return ((out[0] - 1) * frame[1] + out[1] - 1) * frame[2] + out[2]


@inner
def _copy(
    source: Array, start: int, target: Array, at: int, lines: Any, wide: int, gap: Any
) -> None:
    """Copy lines of an image; `gap` are how far a line and an image are, here and there."""
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
def _frame(sizes: Any, padding: Any) -> Any:
    return (
        sizes[2] + 2 * padding[0],
        sizes[3] + 2 * padding[1],
        sizes[4] + 2 * padding[2],
    )


@compiled
def framed(
    x: Array,
    weight: Array,
    images: Array,
    sizes: Any,
    many: int,
    kernel: Any,
    out: Any,
    padding: Any,
    dilation: Any,
    some: Any,
) -> None:
    """Write what the windows see of each channel, times its weight."""
    frame = _frame(sizes, padding)
    count, lines = _run(out, frame), (sizes[2], sizes[3])
    image, line = sizes[3] * sizes[4], sizes[4]
    into = (line, image, frame[2], frame[1] * frame[2])
    corner = (padding[0] * frame[1] + padding[1]) * frame[2] + padding[2]
    apart = (out[2], out[1] * out[2], frame[2], frame[1] * frame[2])
    together = (apart[2], apart[3], apart[0], apart[1])
    padded = np.zeros(frame[0] * frame[1] * frame[2], x.dtype)
    run = np.zeros(count, x.dtype)
    taps = kernel[0] * kernel[1] * kernel[2]
    for plane in range(some[0], some[1]):
        channel = plane % sizes[1]
        start = plane * sizes[2] * image
        _copy(x, start, padded, corner, lines, line, into)
        for one in range(many):
            run[:] = 0
            tap = (channel * many + one) * taps
            for a in range(kernel[0]):
                for b in range(kernel[1]):
                    shift = (a * dilation[0] * frame[1] + b * dilation[1]) * frame[2]
                    for c in range(kernel[2]):
                        at = shift + c * dilation[2]
                        _add_run(run, 0, padded, at, count, weight[uint(tap)])
                        tap += 1
            made = (plane * many + one) * out[0] * apart[1]
            _copy(run, 0, images, made, (out[0], out[1]), out[2], together)


@compiled
def framed_to_input(
    grad: Array,
    weight: Array,
    x: Array,
    sizes: Any,
    many: int,
    kernel: Any,
    out: Any,
    padding: Any,
    dilation: Any,
    some: Any,
) -> None:
    """Write the gradient of each channel."""
    frame = _frame(sizes, padding)
    count, lines = _run(out, frame), (sizes[2], sizes[3])
    image, line = sizes[3] * sizes[4], sizes[4]
    into = (line, image, frame[2], frame[1] * frame[2])
    corner = (padding[0] * frame[1] + padding[1]) * frame[2] + padding[2]
    apart = (out[2], out[1] * out[2], frame[2], frame[1] * frame[2])
    padded = np.zeros(frame[0] * frame[1] * frame[2], grad.dtype)
    run = np.zeros(count, grad.dtype)
    taps = kernel[0] * kernel[1] * kernel[2]
    for plane in range(some[0], some[1]):
        channel = plane % sizes[1]
        padded[:] = 0
        for one in range(many):
            made = (plane * many + one) * out[0] * apart[1]
            _copy(grad, made, run, 0, (out[0], out[1]), out[2], apart)
            tap = (channel * many + one) * taps
            for a in range(kernel[0]):
                for b in range(kernel[1]):
                    shift = (a * dilation[0] * frame[1] + b * dilation[1]) * frame[2]
                    for c in range(kernel[2]):
                        at = shift + c * dilation[2]
                        _add_run(padded, at, run, 0, count, weight[uint(tap)])
                        tap += 1
        start = plane * sizes[2] * image
        back = (into[2], into[3], into[0], into[1])
        _copy(padded, corner, x, start, lines, line, back)


@compiled
def framed_to_weight(
    grad: Array,
    x: Array,
    weight: Array,
    sizes: Any,
    many: int,
    kernel: Any,
    out: Any,
    padding: Any,
    dilation: Any,
    some: Any,
) -> None:
    """Add to the gradient of each weight the products that it stood in."""
    frame = _frame(sizes, padding)
    count, lines = _run(out, frame), (sizes[2], sizes[3])
    image, line = sizes[3] * sizes[4], sizes[4]
    into = (line, image, frame[2], frame[1] * frame[2])
    corner = (padding[0] * frame[1] + padding[1]) * frame[2] + padding[2]
    apart = (out[2], out[1] * out[2], frame[2], frame[1] * frame[2])
    padded = np.zeros(frame[0] * frame[1] * frame[2], grad.dtype)
    run = np.zeros(count, grad.dtype)
    taps = kernel[0] * kernel[1] * kernel[2]
    for nr in range(sizes[0]):
        for channel in range(some[0], some[1]):
            start = (nr * sizes[1] + channel) * sizes[2] * image
            _copy(x, start, padded, corner, lines, line, into)
            for one in range(many):
                made = ((nr * sizes[1] + channel) * many + one) * out[0] * apart[1]
                _copy(grad, made, run, 0, (out[0], out[1]), out[2], apart)
                tap = (channel * many + one) * taps
                for a in range(kernel[0]):
                    for b in range(kernel[1]):
                        shift = (a * dilation[0] * frame[1] + b * dilation[1]) * frame[2]
                        for c in range(kernel[2]):
                            at = shift + c * dilation[2]
                            weight[uint(tap)] += _dot_run(run, padded, at, count)
                            tap += 1


def warm() -> None:
    """Call every kernel of this file once for each dtype it is for."""
    one, nothing = (1, 1, 1), (0, 0, 0)
    for kind in (np.float32, np.float64):
        x = np.ones(1, kind)
        for kernel in (each_channel, each_channel_to_input, each_channel_to_weight):
            kernel(x, x, x, (1, 1, *one), 1, one, one, one, nothing, one, (0, 1))
        for kernel in (framed, framed_to_input, framed_to_weight):
            kernel(x, x, x, (1, 1, *one), 1, one, one, nothing, one, (0, 1))
