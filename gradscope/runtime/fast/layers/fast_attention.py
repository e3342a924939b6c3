"""Attention by register tiles: weights are computed for a few queries at a time, and used at once.

One call computes all that belongs to one head of the keys, so each thread has its own heads. Under
`causal`, products with keys that a tile's queries do not see are skipped. The plain twin is in
attention.py, by products of whole matrices.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.arrays.fast_math import ANY_ORDER, exp, greatest, sum_of
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
from gradscope.runtime.fast.tiles.vectors import copy, transpose

uint = np.uintp

TOGETHER = 64
"""Number of queries whose weights are computed together."""


def _exp(x: Any) -> Any:
    """The exponential of a number of either kind."""
    return math.exp(x)


@overload(_exp, strict=False, jit_options={"error_model": "numpy", "forceinline": True})
def _exp_of_kind(x: Any) -> Any:

    def of_float32(x: Any) -> Any:
        return exp(x)

    def of_float64(x: Any) -> Any:
        return math.exp(x)

    return of_float32 if x == types.float32 else of_float64


@inner
def _line(x: Array, at: int, far: int, made: Array, to: int, apart: int, count: int) -> None:
    if far == 1 and apart == 1:
        copy(x, at, made, to, count)
    else:
        for i in range(count):
            made[uint(to + i * apart)] = x[uint(at + i * far)]


@inner
def _rows(x: Array, at: int, far: Any, sizes: Any, made: Array, room: int) -> None:
    """Pack a matrix row by row, each padded to whole vectors."""
    for row in range(sizes[0]):
        _line(x, at + row * far[2], far[3], made, row * room, 1, sizes[1])


@inner
def _columns(x: Array, at: int, far: Any, sizes: Any, made: Array, room: int) -> None:
    """Pack a matrix column by column."""
    lanes = BYTES // x.itemsize
    for row in range(0, sizes[0], lanes):
        some = min(lanes, sizes[0] - row)
        squares = sizes[1] - sizes[1] % lanes if some == lanes and far[3] == 1 else 0
        for i in range(0, squares, lanes):
            transpose(x, at + row * far[2] + i, far[2], made, i * room + row, room)
        for nr in range(row, row + some):
            for i in range(squares, sizes[1]):
                made[uint(i * room + nr)] = x[uint(at + nr * far[2] + i * far[3])]


@inner
def _away(x: Array, room: int, made: Array, at: int, far: Any, sizes: Any) -> None:
    """Store a matrix of accumulated sums, row by row."""
    for row in range(sizes[0]):
        begin = of_row(row, sizes[0]) * room
        _line(x, begin, 1, made, at + row * far[2], far[3], sizes[1])


@inner
def _put(sums: Array, made: Array, at: int, far: Any, rows: int, width: int, room: int) -> None:
    """Store rows."""
    for row in range(rows):
        _line(sums, row * room, 1, made, at + row * far[2], far[3], width)


@inner
def _end(row: int, seen: Any) -> int:
    """The end of the keys that a tile of queries sees, whose first is this row."""
    start, _, keys, causal = seen
    return min(keys, start + row + ROWS) if causal else keys


@inner
def _with_keys(a: Array, at: Any, b: Array, of: Any, c: Array, seen: Any) -> None:
    """The products of some queries' rows with all keys that they see, which are columns of b.

    `at`: the offset of the first number, the distances of rows and of numbers.
    """
    few, wide, width, lanes = seen[1], of[0], of[2], of[3]
    for vector in range(0, wide // lanes, VECTORS):
        begin = vector * lanes
        for row in range(0, few, ROWS):
            first = min(row, few - ROWS)
            vectors = -(-_end(first, seen) // lanes) - vector
            if vectors > 0:
                rows, into = (a, at[0] + first * at[1], at[1], at[2]), first * wide + begin
                columns = (b, begin, wide)
                make_products(rows, columns, (0, width), (c, into, wide), vectors, None)


@inner
def _with_rows(a: Array, b: Array, of: Any, c: Array, seen: Any) -> None:
    """The products of some queries' weights with the rows of all keys that they see."""
    few, wide, broad, lanes = seen[1], of[0], of[1], of[3]
    for vector in range(0, broad // lanes, VECTORS):
        begin = vector * lanes
        for row in range(0, few, ROWS):
            first = min(row, few - ROWS)
            matrices = (a, first * wide, wide, 1), (b, begin, broad), (0, _end(first, seen))
            into = (c, first * broad + begin, broad)
            make_products(*matrices, into, broad // lanes - vector, None)


@inner
def _add_by_keys(a: Array, b: Array, of: Any, made: Array, seen: Any) -> None:
    """Add the contributions of some queries to each key, which has a column in `a`."""
    start, few, keys, causal = seen
    wide, broad, lanes = of[0], of[1], of[3]
    for row in range(0, keys, ROWS):
        key = min(row, keys - ROWS)
        first = max(0, key - start) if causal else 0
        if first < few:
            for vector in range(0, broad // lanes, VECTORS):
                begin = vector * lanes
                matrices = (a, key, 1, wide), (b, begin, broad), (first, few)
                into = (made, row * broad + begin, broad)
                add_products(*matrices, into, broad // lanes - vector)


@inner(fastmath=ANY_ORDER)
def _product(x: Array, at: int, y: Array, begin: int, apart: int, count: int) -> Any:
    total = x.dtype.type(0)
    if apart == 1:
        for i in range(count):
            total += x[uint(at + i)] * y[uint(begin + i)]
    else:
        for i in range(count):
            total += x[uint(at + i)] * y[uint(begin + i * apart)]
    return total


@inner
def _powers(x: Array, scale: Any, less: Any) -> None:
    for j in range(x.size):
        x[j] = _exp(x[j] * scale - less)


@inner
def _softmax(weights: Array, begin: int, sees: int, room: int, scale: Any) -> Any:
    """Softmax of the products, in place; returns the logarithm of the sum of exponentials."""
    row = weights[begin : begin + sees]
    top = greatest(row) if scale > 0 else -greatest(-row)
    top = top * scale
    top = row.dtype.type(0) if top == -np.inf else top
    _powers(row, scale, top)
    for j in range(begin + sees, begin + room):
        weights[uint(j)] = 0
    total = sum_of(row)
    total = row.dtype.type(1) if total == 0 else total
    share = row.dtype.type(1) / total
    for j in range(sees):
        row[j] *= share
    return top + row.dtype.type(math.log(total))


@inner
def parts_of(length: int) -> Any:
    """The number of parts of the queries, and the largest number of queries in one."""
    parts = -(-length // TOGETHER)
    return parts, -(-length // parts)


@compiled
def attention(
    query: Array, key: Array, value: Array, made: Array, logs: Array, far: Any, sizes: Any,
    scale: Any, causal: bool, some: Any,
) -> None:  # fmt: skip
    """Compute the results of some heads of the keys, counted over all samples.

    `far`: the distances of samples, heads, rows and numbers of each of the five arrays. `sizes`:
    the number of heads of the keys, of queries for each, of queries, of keys, and of numbers in
    each.
    """
    heads, each, length, keys, width = sizes
    lanes, like = BYTES // query.itemsize, query.dtype
    wide, broad = whole(keys, lanes), whole(width, lanes)
    parts, tall = parts_of(length)
    turned = np.zeros(width * wide + VECTORS * lanes, like)
    values = np.zeros(keys * broad + VECTORS * lanes, like)
    weights, sums = np.empty(tall * wide, like), np.empty(tall * broad, like)
    of = (wide, broad, width, lanes)
    for unit in range(some[0], some[1]):
        n, head = unit // heads, unit % heads
        _columns(key, n * far[1][0] + head * far[1][1], far[1], (keys, width), turned, wide)
        _rows(value, n * far[2][0] + head * far[2][1], far[2], (keys, width), values, broad)
        for nr in range(each * parts):
            one, part = head * each + nr // parts, nr % parts
            start = length * part // parts
            seen = (start, length * (part + 1) // parts - start, keys, causal)
            asked = n * far[0][0] + one * far[0][1] + start * far[0][2]
            _with_keys(query, (asked, far[0][2], far[0][3]), turned, of, weights, seen)
            log_at = n * far[4][0] + one * far[4][1]
            for i in range(seen[1]):
                sees = min(keys, start + i + 1) if causal else keys
                log = _softmax(weights, i * wide, sees, wide, scale)
                logs[uint(log_at + (start + i) * far[4][2])] = log
            _with_rows(weights, values, of, sums, seen)
            at = n * far[3][0] + one * far[3][1] + start * far[3][2]
            _put(sums, made, at, far[3], seen[1], width, broad)


@inner(fastmath=ANY_ORDER)
def _slopes(weights: Array, slopes: Array, begin: int, sees: int, room: int, by: Any) -> None:
    """Products to weights, and the gradients of weights to those of the products."""
    scale, log, along = by
    row, slope = weights[begin : begin + sees], slopes[begin : begin + sees]
    _powers(row, scale, log)
    for j in range(sees):
        slope[j] = (slope[j] - along) * row[j] * scale
    for j in range(begin + sees, begin + room):
        weights[uint(j)] = 0
        slopes[uint(j)] = 0


@inner
def _block(laid: Any, others: Any, made: Any, at: Any, seen: Any, of: Any) -> None:
    """The gradients of some queries, and their contributions to those of keys and values."""
    q_rows, g_rows, k_rows, turned_keys, turned_values = laid
    out, logs, to_query, weights, slopes, sums = others
    start, few, keys, causal = seen
    wide, broad, width, _ = of
    (o_at, o_far), (log_at, log_far), (q_at, q_far), scale = at
    _with_keys(q_rows, (0, broad, 1), turned_keys, of, weights, seen)
    _with_keys(g_rows, (0, broad, 1), turned_values, of, slopes, seen)
    for i in range(few):
        sees = min(keys, start + i + 1) if causal else keys
        o_begin = o_at + (start + i) * o_far[2]
        along = _product(g_rows, i * broad, out, o_begin, o_far[3], width)
        log = logs[uint(log_at + (start + i) * log_far[2])]
        _slopes(weights, slopes, i * wide, sees, wide, (scale, log, along))
    _with_rows(slopes, k_rows, of, sums, seen)
    _put(sums, to_query, q_at + start * q_far[2], q_far, few, width, broad)
    _add_by_keys(slopes, q_rows, of, made[0], seen)
    _add_by_keys(weights, g_rows, of, made[1], seen)


@compiled
def attention_backward(
    grad: Array, query: Array, key: Array, value: Array, out: Array, logs: Array,
    to_query: Array, to_key: Array, to_value: Array, far: Any, sizes: Any, scale: Any,
    causal: bool, some: Any,
) -> None:  # fmt: skip
    """Compute the gradients of some heads of the keys; `far` is for the nine arrays."""
    heads, each, length, keys, width = sizes
    lanes = BYTES // query.itemsize
    wide, broad = whole(keys, lanes), whole(width, lanes)
    parts, tall = parts_of(length)
    like, beyond = query.dtype, VECTORS * lanes
    turned_keys = np.zeros(width * wide + beyond, like)
    turned_values = turned_keys.copy()
    k_rows, q_rows = np.zeros(keys * broad + beyond, like), np.zeros(tall * broad + beyond, like)
    g_rows = q_rows.copy()
    weights, slopes = np.empty(tall * wide, like), np.empty(tall * wide, like)
    sums = np.empty(tall * broad, like)
    laid = (q_rows, g_rows, k_rows, turned_keys, turned_values)
    others = (out, logs, to_query, weights, slopes, sums)
    for unit in range(some[0], some[1]):
        n, head = unit // heads, unit % heads
        k_at, v_at = n * far[2][0] + head * far[2][1], n * far[3][0] + head * far[3][1]
        _columns(key, k_at, far[2], (keys, width), turned_keys, wide)
        _columns(value, v_at, far[3], (keys, width), turned_values, wide)
        _rows(key, k_at, far[2], (keys, width), k_rows, broad)
        made = np.zeros(whole(keys, ROWS) * broad, like), np.zeros(whole(keys, ROWS) * broad, like)
        for one in range(head * each, (head + 1) * each):
            o_at, log_at = n * far[4][0] + one * far[4][1], n * far[5][0] + one * far[5][1]
            to_at = n * far[6][0] + one * far[6][1]
            at = ((o_at, far[4]), (log_at, far[5]), (to_at, far[6]), scale)
            for part in range(parts):
                start = length * part // parts
                few = length * (part + 1) // parts - start
                q_at = n * far[1][0] + one * far[1][1] + start * far[1][2]
                g_at = n * far[0][0] + one * far[0][1] + start * far[0][2]
                _rows(query, q_at, far[1], (few, width), q_rows, broad)
                _rows(grad, g_at, far[0], (few, width), g_rows, broad)
                seen, of = (start, few, keys, causal), (wide, broad, width, lanes)
                _block(laid, others, made, at, seen, of)
        to_k, to_v = n * far[7][0] + head * far[7][1], n * far[8][0] + head * far[8][1]
        _away(made[0], broad, to_key, to_k, far[7], (keys, width))
        _away(made[1], broad, to_value, to_v, far[8], (keys, width))


def warm() -> None:
    """Call every kernel of this file once per dtype, to compile it."""
    for kind in (np.float32, np.float64):
        x, far, sizes = np.ones(ROWS, kind), (0, 0, 1, 1), (1, 1, ROWS, ROWS, 1)
        made = [x.copy() for _ in range(3)]
        attention(x, x, x, made[0], made[1], (far,) * 5, sizes, kind(1), True, (0, 1))
        arrays = (x, x, x, x, x, x, *made)
        attention_backward(*arrays, (far,) * 9, sizes, kind(1), True, (0, 1))
