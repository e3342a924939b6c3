"""3×3 convolutions with 16 products for four windows, not 36 (Winograd's F(2×2, 3×3)).

Four adjacent windows see a patch of 4×4. With matrices B, G and A of 0, ±1 and ½,

    made = Aᵀ ((G weight Gᵀ) * (Bᵀ patch B)) A

for each pair of channels, where * is element by element: so each of 16 *places* is a product of
matrices, channels by channels by patches, computed by register tiles. The gradient of the images is
the same with the weights rotated; that of the weights is in fast_winograd_weight.py.

As in the definition, a window's result depends only on what it sees: zeros give zeros. But where
infinities meet, it may be NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.compiling.compiled import compiled, inner
from gradscope.runtime.fast.tiles.tile import BYTES, ROWS, VECTORS, make_products, whole
from gradscope.runtime.fast.tiles.vectors import (
    copy,
    each_second,
    each_third,
    everywhere,
    load,
    store,
    weave_two,
)

uint = np.uintp

PLACES = 16


@inner
def _weights(weight: Array, of: Any, some: Any, room: Any, made: Array) -> None:
    """G weight Gᵀ of some output channels, from the first up to, excluding, the last.

    `of`: the number of input channels, the first and the number of those wanted; the distances of
    places and output channels in `made`.
    """
    all_in, first_in, count, far, row = of
    taps, half, lanes = room
    padded = whole(count, lanes)
    by_half = everywhere(weight, 0.5)
    for out in range(some[0], some[1]):
        copy(weight, (out * all_in + first_in) * 9, taps, 0, count * 9)
        for at in range(0, padded * 3, lanes):
            left, middle, right = (
                each_third(taps, at * 3, 0),
                each_third(taps, at * 3, 1),
                each_third(taps, at * 3, 2),
            )
            outer, middle = (left + right) * by_half, middle * by_half
            store(half, at, left)
            store(half, padded * 3 + at, outer + middle)
            store(half, padded * 6 + at, outer - middle)
            store(half, padded * 9 + at, right)
        for across in range(4):
            for at in range(0, padded, lanes):
                line = (across * padded + at) * 3
                high, middle, low = (
                    each_third(half, line, 0),
                    each_third(half, line, 1),
                    each_third(half, line, 2),
                )
                outer, middle = (high + low) * by_half, middle * by_half
                to = across * far + (out - some[0]) * row + at
                store(made, to, high)
                store(made, to + 4 * far, outer + middle)
                store(made, to + 8 * far, outer - middle)
                store(made, to + 12 * far, low)


@inner
def _line(x: Array, begin: int, size: Any, place: Any, line: Array, to: int, count: int) -> None:
    """Copy `count` numbers of a line, with zeros where it is outside the image."""
    height, width = size
    y, first = place
    low = min(count, max(0, -first))
    high = min(count, max(low, width - first)) if y >= 0 and y < height else low
    for i in range(low):
        line[uint(to + i)] = 0
    copy(x, begin + y * width + first + low, line, to + low, high - low)
    for i in range(high, count):
        line[uint(to + i)] = 0


@inner
def _patches(x: Array, at: int, size: Any, place: Any, of: Any, room: Any, to: int) -> None:
    """Bᵀ patch B of one channel: patches by lines, images, positions in a line."""
    lines, images, wide, apart = of
    near, beyond, half, seen, far, lanes = room
    count = images * wide
    padded = whole(count, lanes)
    tall = 2 * lines + 2
    for line in range(tall):
        for image in range(images):
            begin, where = at + image * apart, 2 * (line * padded + image * wide)
            nearest, further = (place[0] + line, place[1]), (place[0] + line, place[1] + 2)
            _line(x, begin, size, nearest, near, where, 2 * wide)
            _line(x, begin, size, further, beyond, where, 2 * wide)
    for i in range(0, tall * padded, lanes):
        first, second = each_second(near, 2 * i, 0), each_second(near, 2 * i, 1)
        third, fourth = each_second(beyond, 2 * i, 0), each_second(beyond, 2 * i, 1)
        store(half, i, first - third)
        store(half, i + tall * padded, second + third)
        store(half, i + 2 * tall * padded, third - second)
        store(half, i + 3 * tall * padded, second - fourth)
    for across in range(4):
        for line in range(lines):
            for i in range(0, count, lanes):
                begin = (across * tall + 2 * line) * padded + i
                first, second = load(half, begin), load(half, begin + padded)
                third, fourth = load(half, begin + 2 * padded), load(half, begin + 3 * padded)
                end = across * far + to + line * count + i
                store(seen, end, first - third)
                store(seen, end + 4 * far, second + third)
                store(seen, end + 8 * far, third - second)
                store(seen, end + 12 * far, second - fourth)


@inner
def _all_patches(x: Array, at: int, size: Any, place: Any, of: Any, room: Any, far: int) -> None:
    """The same for all channels, one after another in each place."""
    for channel in range(room[4] // far):
        begin = at + channel * size[0] * size[1]
        _patches(x, begin, size, place, of, room, channel * far)


@inner
def summed(x: Array, count: int, total: Any) -> Any:
    """Sums of the first numbers, in lanes: finite only if all numbers are."""
    lanes = BYTES // x.itemsize
    for i in range(0, count - count % lanes, lanes):
        total = total + load(x, i)
    for i in range(count - count % lanes, count):
        total = total + everywhere(x, x[uint(i)])
    return total


@inner
def sum_of(total: Any, room: Array) -> Any:
    """The sum of a vector's lanes, with the help of `room`."""
    store(room, 0, total)
    made = 0.0
    for i in range(BYTES // room.itemsize):
        made += room[i]
    return made


@inner
def _put(sums: Array, start: int, far: int, made: Array, at: Any, of: Any, room: Any) -> Any:
    """Aᵀ sums A of one channel, stored in its images. Returns sums of what is stored, or more."""
    lines, images, wide, apart = of
    begin, line = at
    upper, lower, height, width = room
    lanes = BYTES // sums.itemsize
    count = images * wide
    total = low = everywhere(sums, 0.0)
    for nr in range(lines):
        for i in range(0, count, lanes):
            place = start + nr * count + i
            first, second = _down(sums, place, far)
            third, fourth = _down(sums, place + far, far)
            fifth, sixth = _down(sums, place + 2 * far, far)
            seventh, eighth = _down(sums, place + 3 * far, far)
            weave_two(upper, 2 * i, (first + third + fifth, third - fifth - seventh))
            weave_two(lower, 2 * i, (second + fourth + sixth, fourth - sixth - eighth))
        total, low = summed(upper, 2 * count, total), summed(lower, 2 * count, low)
        y = line + 2 * nr
        for image in range(images):
            to, source = begin + image * apart + y * width, image * 2 * wide
            copy(upper, source, made, to, width)
            if y + 1 < height:
                copy(lower, source, made, to + width, width)
    return total + low


@inner
def _put_all(sums: Array, rows: int, far: int, made: Array, at: Any, of: Any, room: Any) -> Any:
    """The same for all channels that were computed."""
    total = everywhere(sums, 0.0)
    for row in range(rows):
        place = (at[0] + row * room[2] * room[3], at[1])
        total = total + _put(sums, row * far, rows * far, made, place, of, room)
    return total


@inner
def _down(sums: Array, at: int, far: int) -> Any:
    first, second = load(sums, at), load(sums, at + 4 * far)
    third, fourth = load(sums, at + 8 * far), load(sums, at + 12 * far)
    return first + second + third, second - third - fourth


@inner
def block(lines: int, wide: int, line: int, left: int, together: int) -> Any:
    """The number of images, and of lines of patches in each, that are processed together."""
    some = min(lines - line, left, max(1, together // wide))
    images = max(1, min(together // (lines * wide), left // lines)) if some == lines else 1
    return images, some


@inner
def _multiply(weights: Any, seen: Array, sums: Array, of: Any) -> None:
    """Matrix products, one for each place: rows of weights by all patches."""
    made, a_row, a_step, far, turned = weights
    count_in, rows, vectors, room, lanes = of
    for nr in range(PLACES):
        # Rotated weights have their outer places exchanged.
        down, across = nr // 4, nr % 4
        down = 3 - down if turned and down % 3 == 0 else down
        across = 3 - across if turned and across % 3 == 0 else across
        for vector in range(0, vectors, VECTORS):
            begin = nr * count_in * room + vector * lanes
            for row in range(0, rows, ROWS):
                first = min(row, rows - ROWS)
                left = (made, (down * 4 + across) * far + first * a_row, a_row, a_step)
                right = (seen, begin, room)
                into = (sums, (nr * rows + first) * room + vector * lanes, room)
                make_products(left, right, (0, count_in), into, vectors - vector, None)


@inner
def _zeros(like: Array, count: int) -> Array:
    return np.zeros(count, like.dtype)


@compiled
def convolve(
    x: Array, weight: Array, made: Array, source: Any, target: Any, turned: bool, together: Any,
    rows: Any, some: Any,
) -> Any:  # fmt: skip
    """Compute some lines of patches, from the first up to, excluding, the last, over all images.

    Returns a sum that is finite only if all results are. `source`: the number of channels of an
    image of x, height, width, padding. `target`: the same of `made` except for the padding.
    `turned`: the weights are rotated, and their input channels are those of `made`, of which the
    `rows` are computed. `together`: the numbers of patches and rows processed at once.
    """
    count_in, height, width, padding = source
    all_out, high, broad = target
    lanes = BYTES // x.itemsize
    lines, wide = (high + 1) // 2, (broad + 1) // 2
    images, tall = block(lines, wide, 0, some[1] - some[0], together[0])
    room = whole(images * tall * wide, lanes) + lanes
    count = whole(images * wide, lanes)
    parts = -(-(rows[1] - rows[0]) // together[1])
    most = -(-(rows[1] - rows[0]) // parts)
    near, half = _zeros(x, 2 * (2 * tall + 2) * count), _zeros(x, 4 * (2 * tall + 2) * count)
    beyond, upper, lower = near.copy(), _zeros(x, 2 * count), _zeros(x, 2 * count)
    seen = _zeros(x, PLACES * count_in * room + VECTORS * lanes)
    sums = np.empty(PLACES * most * room + VECTORS * lanes, x.dtype)
    side = whole(most if turned else count_in, lanes)
    taps, halves = _zeros(x, side * 9), _zeros(x, side * 12)
    far = (count_in if turned else most) * (side + lanes)
    weights = np.empty(PLACES * far, x.dtype)
    at, total = some[0], everywhere(x, 0.0)
    while at < some[1]:
        image, line = at // lines, at % lines
        images, tall = block(lines, wide, line, some[1] - at, together[0])
        at += images * tall
        lying = (tall, images, wide, count_in * height * width)
        begin, place = image * count_in * height * width, (2 * line - padding[0], -padding[1])
        to_see = (near, beyond, half, seen, count_in * room, lanes)
        _all_patches(x, begin, (height, width), place, lying, to_see, room)
        lying = (tall, images, wide, all_out * high * broad)
        for nr in range(parts):
            first = rows[0] + (rows[1] - rows[0]) * nr // parts
            few = rows[0] + (rows[1] - rows[0]) * (nr + 1) // parts - first
            columns = (count_in, 0, count_in, far, side + lanes)
            some_rows = (first, first + few)
            if turned:
                columns, some_rows = (all_out, first, few, far, side + lanes), (0, count_in)
            _weights(weight, columns, some_rows, (taps, halves, lanes), weights)
            row, step = (1, side + lanes) if turned else (side + lanes, 1)
            matrices = (weights, row, step, far, turned)
            vectors = -(-images * tall * wide // lanes)
            _multiply(matrices, seen, sums, (count_in, few, vectors, room, lanes))
            begin = (image * all_out + first) * high * broad
            to = (upper, lower, high, broad)
            total = total + _put_all(sums, few, room, made, (begin, 2 * line), lying, to)
    return sum_of(total, near)


def warm() -> None:
    """Call every kernel of this file once per dtype, to compile it."""
    for kind in (np.float32, np.float64):
        x, weight = np.ones(ROWS * 16, kind), np.ones(ROWS * ROWS * 9, kind)
        made = np.empty(ROWS * 4, kind)
        source, target = (ROWS, 4, 4, (0, 0)), (ROWS, 2, 2)
        convolve(x, weight, made, source, target, False, (1, ROWS), (0, ROWS), (0, 1))
