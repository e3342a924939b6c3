"""Convolutions by register tiles, as sums over channels and taps, without copying windows.

Of some channels of some images, *planes* are packed: a plane contains, for each window, the element
that the window sees with some tap, in the order of lines, images, position in a line. The tap below
sees the same plane one line later, so that 3×3 taps need three planes, of which every line stays in
the cache until it was used. All windows of a block are adjacent, however small images are, and are
multiplied by vectors:

    made[o, window] = sum over channel, tap of weight[o, channel, tap] * plane[window + tap's lines]

The gradient of the weight is the sum over windows instead; there, channels are adjacent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.compiling.compiled import compiled, inner
from gradscope.runtime.fast.tiles.tile import (
    BYTES,
    ROWS,
    VECTORS,
    add_products,
    make_products,
    of_row,
)
from gradscope.runtime.fast.tiles.vectors import copy
from gradscope.runtime.fast.windows.fast_convolution import inside

uint = np.uintp

TOGETHER = 1024
"""Windows processed together: their planes and sums stay in the second-level cache."""
STEPS = 256
"""Steps, each a channel and a tap, that are summed before the sums are stored."""


CHANNELS = 64
"""Input channels whose weight gradient is computed together."""
HIGH = 64
"""Smallest number of its rows."""


@inner
def _lay(
    x: Array, at: int, size: Any, place: Any, step: int, plane: Array, to: int, of: Any
) -> None:
    """Pack a plane of one channel: `of` lines, images, positions; images have distance `of[3]`."""
    height, width = size
    lines, images, wide, apart = of
    low, high = inside(place[1], step, width, wide)
    for line in range(lines):
        y = place[0] + line * step
        is_in = y >= 0 and y < height
        for image in range(images):
            if is_in:
                source = at + image * apart + y * width + place[1]
                for i in range(low):
                    plane[uint(to + i)] = 0
                if step == 1:
                    for i in range(low, high):
                        plane[uint(to + i)] = x[uint(source + i)]
                else:
                    for i in range(low, high):
                        plane[uint(to + i)] = x[uint(source + i * step)]
                for i in range(high, wide):
                    plane[uint(to + i)] = 0
            else:
                for i in range(wide):
                    plane[uint(to + i)] = 0
            to += wide


@inner
def _put(sums: Array, start: int, made: Array, at: int, of: Any, steps: Any) -> None:
    """Store the sums of one channel in its images, with these distances."""
    lines, images, wide = of
    down, apart, right = steps
    for line in range(lines):
        for image in range(images):
            to = at + line * down + image * apart
            if right == 1:
                for i in range(wide):
                    made[uint(to + i)] = sums[uint(start + i)]
            else:
                for i in range(wide):
                    made[uint(to + i * right)] = sums[uint(start + i)]
            start += wide


@inner
def _steps(weights: Any, taps: Array, of: Any, a_steps: Array, b_steps: Array) -> int:
    """The offsets of each channel and tap in weights and planes; their number."""
    channel, channels, planes, plane, line = of
    nr = 0
    for one in range(channels):
        for tap in range(len(taps)):
            a_steps[nr] = (channel + one) * weights[2] + taps[tap, 2]
            b_steps[nr] = (one * planes + taps[tap, 0]) * plane + taps[tap, 1] * line
            nr += 1
    return nr


@inner
def _sum(
    a: Array,
    a_at: Any,
    a_steps: Array,
    b: Array,
    begins: Array,
    b_steps: Array,
    sums: Array,
    of: Any,
) -> None:
    """Add the products of some steps to the sums of all rows, or start the sums with them."""
    steps, is_first, rows, vectors, lanes = of
    vector = 0
    while vector < vectors:
        left = vectors - vector
        some = 2 if left == 4 else min(left, VECTORS)  # no tile of one vector
        at = (begins[vector], begins[vector + 1], begins[vector + 2])
        for row in range(0, rows, ROWS):
            first = a_at[0] + min(row, rows - ROWS) * a_at[1]
            matrices = (a, first, a_at[1], a_steps), (b, at, b_steps), (0, steps)
            into = (sums, (row * vectors + vector) * lanes, vectors * lanes)
            if is_first:
                make_products(*matrices, into, some, None)
            else:
                add_products(*matrices, into, some)
        vector += some


@inner
def _block(high: int, wide: int, line: int, left: int) -> Any:
    """The number of images, and of lines of each, that are processed together from this line."""
    lines = min(high - line, left, max(1, TOGETHER // wide))
    images = max(1, min(TOGETHER // (high * wide), left // high)) if lines == high else 1
    return images, lines


@compiled
def convolve(
    x: Array,
    weight: Array,
    made: Array,
    source: Any,
    target: Any,
    weights: Any,
    planes: Array,
    taps: Array,
    some: Any,
) -> None:
    """Compute some lines of windows, from the first up to, excluding, the last, over all images.

    `source`: the number of channels of an image of x, the first and the number of those used,
    height, width, and the stride. `target`: the same of `made`, then the first line and position
    that is a window, the number of lines and positions. `weights`: offset of the weight, distances
    of its rows and channels. `planes`: the offset of the first window in each; `taps`: the plane of
    each, its shift in lines, and its position in the weight.
    """
    all_in, first_in, count_in, height, width, step = source
    all_out, first_out, count_out, tall, broad, far, top, left, high, wide = target
    lanes, shifts = BYTES // x.itemsize, taps[:, 1].max()
    images, lines = _block(high, wide, 0, some[1] - some[0])
    room = images * lines * wide + VECTORS * lanes
    together = max(1, STEPS // len(taps))
    together = -(-count_in // -(-count_in // together))
    seen = np.zeros(together * len(planes) * (room + shifts * images * wide), x.dtype)
    sums = np.empty(-(-count_out // ROWS) * ROWS * room, x.dtype)
    a_steps = np.empty(together * len(taps), np.intp)
    b_steps = np.empty(together * len(taps), np.intp)
    begins = np.arange(room // lanes + VECTORS) * lanes
    at = some[0]
    while at < some[1]:
        image, line = at // high, at % high
        images, lines = _block(high, wide, line, some[1] - at)
        at += images * lines
        vectors = -(-lines * images * wide // lanes)
        plane = (lines + shifts) * images * wide + VECTORS * lanes
        for channel in range(0, count_in, together):
            channels = min(together, count_in - channel)
            of_steps = (channel, channels, len(planes), plane, images * wide)
            steps = _steps(weights, taps, of_steps, a_steps, b_steps)
            for nr in range(channels * len(planes)):
                one, which = nr // len(planes), nr % len(planes)
                begin = (image * all_in + first_in + channel + one) * height * width
                place = (planes[which, 0] + line * step, planes[which, 1])
                of_lines = (lines + shifts, images, wide, all_in * height * width)
                _lay(x, begin, (height, width), place, step, seen, nr * plane, of_lines)
            of_sum = (steps, channel == 0, count_out, vectors, lanes)
            _sum(weight, weights, a_steps, seen, begins, b_steps, sums, of_sum)
        apart = (far * broad, all_out * tall * broad, far)
        for row in range(count_out):
            to = (image * all_out + first_out + row) * tall + top + line * far
            begin = of_row(row, count_out) * vectors * lanes
            _put(sums, begin, made, to * broad + left, (lines, images, wide), apart)


@inner
def _lay_channels(x: Array, at: int, size: Any, place: Any, seen: Array, to: int, of: Any) -> None:
    """Pack one channel of an image next to the others: `of` lines, positions, their distances."""
    height, width = size
    lines, wide, apart, step = of
    low, high = inside(place[1], step, width, wide)
    for line in range(lines):
        y = place[0] + line * step
        if y >= 0 and y < height:
            source = at + y * width + place[1]
            for i in range(low):
                seen[uint(to + i * apart)] = 0
            for i in range(low, high):
                seen[uint(to + i * apart)] = x[uint(source + i * step)]
            for i in range(high, wide):
                seen[uint(to + i * apart)] = 0
        else:
            for i in range(wide):
                seen[uint(to + i * apart)] = 0
        to += wide * apart


@inner
def _begins(kernel: Any, dilation: Any, of: Any, begins: Array) -> None:
    """The offset of each vector of channels that a window sees: tap by tap or line by line."""
    merged, of_run, lanes, far, broad = of
    for vector in range(len(begins) - VECTORS):
        run, part = vector // of_run, vector % of_run
        down, right = (run, 0) if merged else (run // kernel[1], run % kernel[1])
        tap = down * dilation[0] * broad + right * dilation[1]
        begins[vector] = tap * far + part * lanes


@inner
def _places(grads: Any, of: Any, a_steps: Array, b_steps: Array) -> int:
    """The offsets of each window in the gradient and in the planes; the number of windows."""
    all_out, high, wide = grads
    images, lines, tall, broad, stride, far = of
    nr = 0
    for image in range(images):
        for line in range(lines):
            for i in range(wide):
                a_steps[nr] = (image * all_out * high + line) * wide + i
                b_steps[nr] = ((image * tall + line * stride) * broad + i * stride) * far
                nr += 1
    return nr


@inner
def _put_weights(sums: Array, made: Array, kernel: Any, of: Any) -> None:
    """Store the sums of some channels in the weights."""
    merged, of_run, lanes, vectors, first, last, count_in, channel, channels = of
    taps = kernel[0] * kernel[1]
    for row in range(first, last):
        begin = of_row(row - first, last - first) * vectors * lanes
        to = (row * count_in + channel) * taps
        # Distance of a tap from the previous one in its line, and from the one above.
        right, down = (channels, of_run * lanes) if merged else (of_run * lanes, 0)
        down = down if merged else kernel[1] * right
        if taps == 1:
            copy(sums, begin, made, to, channels)
            continue
        for i in range(channels):
            for high in range(kernel[0]):
                for wide in range(kernel[1]):
                    made[uint(to)] = sums[uint(begin + i + high * down + wide * right)]
                    to += 1


@inner
def _begin_of(part: int, parts: int, rows: Any) -> int:
    """The first row of one part."""
    return rows[0] + (rows[1] - rows[0]) * part // parts


@compiled
def convolve_to_weight(
    grad: Array,
    x: Array,
    made: Array,
    source: Any,
    target: Any,
    kernel: Any,
    stride: int,
    padding: Any,
    dilation: Any,
    rows: Any,
    some: Any,
) -> None:
    """Compute the weight gradient from some input channels for some rows of output channels.

    `source`: the number of images, of their channels, the first and the number of channels of this
    group, height and width. `target`: the same of the gradient except for the images.
    """
    images, all_in, first_in, count_in, height, width = source
    all_out, high, wide = target
    lanes = BYTES // x.itemsize
    step = stride if kernel[0] == kernel[1] == 1 else 1  # nothing is seen between windows
    stride //= step
    broad = (wide - 1) * stride + (kernel[1] - 1) * dilation[1] + 1
    for channel in range(some[0], some[1], CHANNELS):
        channels = min(CHANNELS, some[1] - channel)
        # Channels of adjacent taps share vectors, unless they fill some alone.
        merged = dilation[1] == 1 and channels % lanes != 0
        far = channels if merged else channels + lanes
        of_run = -(-channels * (kernel[1] if merged else 1) // lanes)
        vectors = of_run * kernel[0] * (1 if merged else kernel[1])
        begins = np.zeros(vectors + VECTORS, np.intp)
        _begins(kernel, dilation, (merged, of_run, lanes, far, broad), begins)
        sums = np.empty((-(-(rows[1] - rows[0]) // ROWS)) * ROWS * vectors * lanes, x.dtype)
        most = (max(1, min(high, STEPS // wide)), max(1, min(images, STEPS // (high * wide))))
        tall = (most[0] - 1) * stride + (kernel[0] - 1) * dilation[0] + 1
        seen = np.empty(most[1] * tall * broad * far + (VECTORS + kernel[1]) * lanes, x.dtype)
        a_steps, b_steps = np.empty((2, most[0] * most[1] * wide), np.intp)
        blocks = -(-high // most[0])  # of lines, in each image
        last_at = -(-images // most[1]) * blocks - 1
        parts = 1 if last_at else max(1, (rows[1] - rows[0]) // HIGH)
        for at in range(last_at + 1):
            image, line = at // blocks * most[1], at % blocks * most[0]
            several, lines = min(most[1], images - image), min(most[0], high - line)
            tall = (lines - 1) * stride + (kernel[0] - 1) * dilation[0] + 1
            for nr in range(several * channels):
                one = (image + nr // channels) * all_in + first_in + channel + nr % channels
                place = (line * stride * step - padding[0], -padding[1])
                to = nr // channels * tall * broad * far + nr % channels
                of_lines = (tall, broad, far, step)
                _lay_channels(x, one * height * width, (height, width), place, seen, to, of_lines)
            steps = _places(target, (several, lines, tall, broad, stride, far), a_steps, b_steps)
            for part in range(parts):
                first, last = _begin_of(part, parts, rows), _begin_of(part + 1, parts, rows)
                grads = (((image * all_out + first) * high + line) * wide, high * wide)
                of_sum = (steps, at == 0, last - first, vectors, lanes)
                _sum(grad, grads, a_steps, seen, begins, b_steps, sums, of_sum)
                if at == last_at:
                    of = (merged, of_run, lanes, vectors, first, last, count_in, channel, channels)
                    _put_weights(sums, made, kernel, of)


def warm() -> None:
    """Call every kernel of this file once per dtype, to compile it."""
    planes, taps = np.zeros((1, 2), np.intp), np.zeros((1, 3), np.intp)
    for kind in (np.float32, np.float64):
        x, rows = np.ones(1, kind), np.ones(ROWS, kind)
        target = (ROWS, 0, ROWS, 1, 1, 1, 0, 0, 1, 1)
        convolve(x, rows, rows.copy(), (1, 0, 1, 1, 1, 1), target, (0, 1, 1), planes, taps, (0, 1))
        source, pair = (1, 1, 0, 1, 1, 1), (1, 1)
        rest = (pair, 1, (0, 0), pair, (0, ROWS), (0, 1))
        convolve_to_weight(rows, x, rows.copy(), source, (ROWS, 1, 1), *rest)
