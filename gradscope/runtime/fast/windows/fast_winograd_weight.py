"""The gradient of 3×3 weights with 16 products for each pair of patches (see fast_winograd.py).

    made = Gᵀ (sum over patches of (A grad Aᵀ) * (Bᵀ patch B)) G

For each of 16 places this is a product of matrices, channels by patches by channels: the vectors of
its tiles are input channels, so images are repacked with adjacent channels.
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
    whole,
)
from gradscope.runtime.fast.tiles.vectors import (
    copy,
    each_second,
    everywhere,
    load,
    store,
    transpose,
    weave_three,
)
from gradscope.runtime.fast.windows.fast_winograd import (
    PLACES,
    block,
    sum_of,
    summed,
)

uint = np.uintp

CHANNELS = 64
"""Input channels whose gradient is computed together."""


@inner
def _turned(x: Array, at: int, count: int, far: int, run: Array, of: Any) -> None:
    """Transpose numbers of some channels, at distance `far`, so that channels are adjacent."""
    channels, padded, lanes = of
    for channel in range(0, channels, lanes):
        whole_ones = count - count % lanes if channels - channel >= lanes else 0
        for i in range(0, whole_ones, lanes):
            transpose(x, at + channel * far + i, far, run, i * padded + channel, padded)
        for nr in range(channel, min(channels, channel + lanes)):
            for i in range(whole_ones, count):
                run[uint(i * padded + nr)] = x[uint(at + nr * far + i)]


@inner
def _nothing(made: Array, at: int, count: int) -> None:
    for i in range(at, at + count):
        made[uint(i)] = 0


@inner
def _beside(x: Array, at: int, size: Any, place: Any, made: Array, run: Array, of: Any) -> None:
    """Pack some channels adjacently, by images, lines and positions."""
    height, width = size
    images, channels, tall, broad, apart, padded = of
    lanes = BYTES // x.itemsize
    low = max(0, -place[1])
    high = max(low, min(broad, width - place[1]))
    top = min(tall, max(0, -place[0]))
    bottom = max(top, min(tall, height - place[0]))
    for image in range(images):
        begin = at + image * apart + (place[0] + top) * width
        lying = (channels, padded, lanes)
        _turned(x, begin, (bottom - top) * width, height * width, run, lying)
        to = image * tall * broad * padded
        _nothing(made, to, top * broad * padded)
        for line in range(top, bottom):
            here = to + line * broad * padded
            source = ((line - top) * width + place[1] + low) * padded
            _nothing(made, here, low * padded)
            copy(run, source, made, here + low * padded, (high - low) * padded)
            _nothing(made, here + high * padded, (broad - high) * padded)
        _nothing(made, to + bottom * broad * padded, (tall - bottom) * broad * padded)


@inner
def _across(x: Array, at: int, right: int) -> Any:
    first, second = load(x, at), load(x, at + right)
    third, fourth = load(x, at + 2 * right), load(x, at + 3 * right)
    return first - third, second + third, third - second, second - fourth


@inner
def _down(made: Array, at: int, far: int, first: Any, second: Any, third: Any, fourth: Any) -> None:
    store(made, at, first - third)
    store(made, at + 4 * far, second + third)
    store(made, at + 8 * far, third - second)
    store(made, at + 12 * far, second - fourth)


@inner
def _patches(beside: Array, made: Array, of: Any) -> None:
    """Bᵀ patch B for all channels: patches by lines, images, positions in a line."""
    images, lines, wide, padded, lanes, far = of
    right, down = padded, (2 * wide + 2) * padded
    for patch in range(lines * images * wide):
        line, image, place = patch // wide // images, patch // wide % images, patch % wide
        begin = (image * (2 * lines + 2) + 2 * line) * down + 2 * place * right
        for at in range(begin, begin + padded, lanes):
            to = patch * padded + at - begin
            a, b, c, d = _across(beside, at, right)
            e, f, g, h = _across(beside, at + down, right)
            i, j, k, m = _across(beside, at + 2 * down, right)
            n, o, p, q = _across(beside, at + 3 * down, right)
            _down(made, to, far, a, e, i, n)
            _down(made, to + far, far, b, f, j, o)
            _down(made, to + 2 * far, far, c, g, k, p)
            _down(made, to + 3 * far, far, d, h, m, q)


@inner
def _spread(made: Array, at: int, far: int, upper: Any, lower: Any) -> None:
    """Expand two vertically adjacent numbers of a gradient to four places."""
    store(made, at, upper)
    store(made, at + 4 * far, upper + lower)
    store(made, at + 8 * far, upper - lower)
    store(made, at + 12 * far, everywhere(made, 0.0) - lower)


@inner
def _grads(grad: Array, at: int, size: Any, line: int, made: Array, to: int, of: Any) -> None:
    """A grad Aᵀ of one channel: patches in the same order."""
    height, width = size
    images, lines, wide, apart, near, lanes, far = of
    nothing = everywhere(made, 0.0)
    count = whole(images * wide, lanes)
    for nr in range(2 * lines):
        for image in range(images):
            where, y = 2 * (nr * count + image * wide), line + nr
            seen = width if y < height else 0
            copy(grad, at + image * apart + y * width, near, where, seen)
            for i in range(seen, 2 * wide):
                near[uint(where + i)] = 0
    for nr in range(lines):
        for i in range(0, images * wide, lanes):
            begin = 2 * (2 * nr * count + i)
            first, second = each_second(near, begin, 0), each_second(near, begin, 1)
            begin += 2 * count
            third, fourth = each_second(near, begin, 0), each_second(near, begin, 1)
            end = to + nr * images * wide + i
            _spread(made, end, far, first, third)
            _spread(made, end + far, far, first + second, third + fourth)
            _spread(made, end + 2 * far, far, first - second, third - fourth)
            _spread(made, end + 3 * far, far, nothing - second, nothing - fourth)


@inner
def _multiply(grads: Array, seen: Array, sums: Array, of: Any) -> None:
    """Add the products of some patches to the sums of each place."""
    patches, rows, room, padded, lanes, is_first = of
    vectors, far = padded // lanes, -(-rows // ROWS) * ROWS * padded
    wide = VECTORS if vectors % VECTORS != 1 else VECTORS - 1
    for place in range(PLACES):
        for row in range(0, rows, ROWS):
            first = (place * rows + min(row, rows - ROWS)) * room
            for vector in range(0, vectors, wide):
                begin = place * room * padded + vector * lanes
                matrices = (grads, first, room, 1), (seen, begin, padded), (0, patches)
                into = (sums, place * far + row * padded + vector * lanes, padded)
                if is_first:
                    make_products(*matrices, into, min(wide, vectors - vector), None)
                else:
                    add_products(*matrices, into, min(wide, vectors - vector))


@inner
def _gathered(sums: Array, at: int, far: int, half: Any) -> Any:
    """Gᵀ of four places with this distance."""
    first, fourth = load(sums, at), load(sums, at + 3 * far)
    second, third = load(sums, at + far) * half, load(sums, at + 2 * far) * half
    return first + second + third, second - third, second + third + fourth


@inner
def _put(sums: Array, at: int, far: int, made: Array, to: int, of: Any) -> Any:
    """Gᵀ sums G of one output channel, stored in its weights. Returns sums of them."""
    channels, padded, lines, taps, lanes = of
    half = everywhere(made, 0.5)
    for i in range(0, padded, lanes):
        for across in range(4):
            high, middle, low = _gathered(sums, at + across * far + i, 4 * far, half)
            weave_three(lines, (across * padded + i) * 3, (high, middle, low))
    for i in range(0, 3 * padded, lanes):
        left, middle, right = _gathered(lines, i, 3 * padded, half)
        weave_three(taps, 3 * i, (left, middle, right))
    copy(taps, 0, made, to, channels * 9)
    return summed(taps, channels * 9, everywhere(taps, 0.0))


@compiled
def convolve_to_weight(
    grad: Array,
    x: Array,
    made: Array,
    source: Any,
    target: Any,
    together: int,
    rows: Any,
    some: Any,
) -> Any:
    """Compute the weight gradient from some input channels for some rows of output channels.

    `source`: the number of images, of their channels, height, width, padding. `target`: the number
    of channels of an image of the gradient, height and width. `together` patches are processed at
    once. Returns a sum that is finite only if all results are.
    """
    count, count_in, height, width, padding = source
    all_out, high, broad = target
    lanes, few = BYTES // x.itemsize, rows[1] - rows[0]
    lines, wide = (high + 1) // 2, (broad + 1) // 2
    images, most = block(lines, wide, 0, count * lines, together)
    room = whole(images * most * wide, lanes) + lanes
    near = np.empty(4 * most * whole(images * wide, lanes), x.dtype)
    grads = np.empty(PLACES * few * room, x.dtype)
    total = everywhere(x, 0.0)
    for channel in range(some[0], some[1], CHANNELS):
        channels = min(CHANNELS, some[1] - channel)
        padded = whole(channels, lanes)
        far = -(-few // ROWS) * ROWS * padded
        sums = np.empty(PLACES * far, x.dtype)
        beside = np.zeros(images * (2 * most + 2) * (2 * wide + 2) * padded, x.dtype)
        run = np.zeros(min(height, 2 * most + 2) * width * padded, x.dtype)
        seen = np.empty(PLACES * room * padded, x.dtype)
        at = 0
        while at < count * lines:
            image, line = at // lines, at % lines
            several, tall = block(lines, wide, line, count * lines - at, together)
            at += several * tall
            begin, place = (image * count_in + channel) * height * width, 2 * line - padding[0]
            apart = count_in * height * width
            laid = (several, channels, 2 * tall + 2, 2 * wide + 2, apart, padded)
            _beside(x, begin, (height, width), (place, -padding[1]), beside, run, laid)
            _patches(beside, seen, (several, tall, wide, padded, lanes, room * padded))
            if channel == some[0] or several * tall < count * lines:  # else they exist already
                lying = (several, tall, wide, all_out * high * broad, near, lanes, few * room)
                for row in range(few):
                    begin = (image * all_out + rows[0] + row) * high * broad
                    _grads(grad, begin, (high, broad), 2 * line, grads, row * room, lying)
            sizes = (several * tall * wide, few, room, padded, lanes, image == line == 0)
            _multiply(grads, seen, sums, sizes)
        scratch = (np.empty(12 * padded, x.dtype), np.empty(9 * padded, x.dtype))
        for row in range(few):
            to = ((rows[0] + row) * count_in + channel) * 9
            of = (channels, padded, *scratch, lanes)
            total = total + _put(sums, of_row(row, few) * padded, far, made, to, of)
    return sum_of(total, np.empty(lanes, x.dtype))


def warm() -> None:
    """Call every kernel of this file once per dtype, to compile it."""
    for kind in (np.float32, np.float64):
        x, grad, made = np.ones(16, kind), np.ones(ROWS * 4, kind), np.empty(ROWS * 9, kind)
        source, target = (1, 1, 4, 4, (0, 0)), (ROWS, 2, 2)
        convolve_to_weight(grad, x, made, source, target, 1, (0, ROWS), (0, 1))
