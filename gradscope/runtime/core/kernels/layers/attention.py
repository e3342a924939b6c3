"""Attention: a weighted mean of values for each query, by how well it matches their keys.

Queries, keys and values are (batch, heads, length, width). Keys may have fewer heads, each for
several of the queries' heads. The matrix of weights is computed block by block and never stored:
forward saves the logarithm of each row's sum, from which backward recomputes the weights. Large
attention without a mask uses register tiles (fast_attention.py), otherwise NumPy's products.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np

from gradscope.runtime.core.kernels.layers.row_softmax import FAST
from gradscope.runtime.core.kernels.support import Array, kernels_of, pays_from, quiet

BLOCK: Final = 1 << 19
"""Approximate largest number of elements of a block of weights, which should fit in the cache."""
FEWEST: Final = 64
"""Smallest number of rows of a block: products of smaller ones are slow."""


MANY: Final = pays_from(1 << 20)
"""Number of products from which compiling the tiles pays off."""
FEWEST_ROWS: Final = 32
FEWEST_NUMBERS: Final = 8
"""Smallest number of queries, keys and numbers for tiles: less would waste too much of a tile."""


class How(NamedTuple):
    """Options of an attention."""

    scale: float
    causal: bool
    mask: Array | None = None  # added to the weights' logarithms, with broadcasting


class _Block(NamedTuple):
    """Some rows of weights: queries of some samples, with all keys up to `end`."""

    samples: slice
    rows: slice
    end: int

    @property
    def queries(self) -> tuple[slice, ...]:
        return (self.samples, slice(None), slice(None), self.rows)

    @property
    def keys(self) -> tuple[slice, ...]:
        return (self.samples, slice(None), slice(None), slice(0, self.end))


def attention(query: Array, key: Array, value: Array, how: How) -> tuple[Array, Array]:
    """Return each query's result, laid out like the queries, and the logarithms of the sums."""
    repeated = 0 in query.strides  # then row-major
    made = np.empty(query.shape, query.dtype) if repeated else np.empty_like(query)
    batch, heads, length = query.shape[:3]
    logs = np.empty((batch, length, heads), query.dtype).transpose(0, 2, 1)
    if _wins(query, key, value, how):
        tiles().attention((query, key, value, made, logs[..., None]), key, how)
        return made, logs
    queries, keys, values = _grouped(query, key, value)
    outs, sums = _split(made, key.shape[1]), _split(logs[..., None], key.shape[1])
    mask = _mask(how, queries, keys)
    for block in _blocks(queries, keys, how.causal):
        weights = np.matmul(queries[block.queries], _turned(keys[block.keys]))
        found = _softmax(weights, block, how, mask)
        np.matmul(weights, values[block.keys], out=outs[block.queries])
        sums[block.queries] = found
    return made, logs


def attention_backward(
    grad: Array, query: Array, key: Array, value: Array, out: Array, logs: Array, how: How
) -> tuple[Array, Array, Array]:
    """Return the gradients of queries, keys and values, each laid out like its tensor."""
    if _wins(query, key, value, how):
        given = (grad, query, key, value, out, logs[..., None])
        found = np.empty_like(query), np.empty_like(key), np.empty_like(value)
        tiles().attention_backward((*given, *found), key, how)
        return found
    made = np.empty_like(query), np.zeros_like(key), np.zeros_like(value)
    queries, keys, values = _grouped(query, key, value)
    to_query, to_key, to_value = _grouped(*made)
    grads, outs, sums = (_split(a, key.shape[1]) for a in (grad, out, logs[..., None]))
    mask = _mask(how, queries, keys)
    for block in _blocks(queries, keys, how.causal):
        incoming, asking = grads[block.queries], queries[block.queries]
        weights = np.matmul(asking, _turned(keys[block.keys]))
        slopes = np.matmul(incoming, _turned(values[block.keys]))
        along = np.sum(incoming * outs[block.queries], axis=-1, keepdims=True)
        _softmax_backward(weights, slopes, sums[block.queries], along, block, how, mask)
        np.matmul(slopes, keys[block.keys], out=to_query[block.queries])
        to_key[block.keys] += _over_groups(np.matmul(_turned(slopes), asking))
        to_value[block.keys] += _over_groups(np.matmul(_turned(weights), incoming))
    return made


tiles: Final = kernels_of("layers.attention")


def _wins(query: Array, key: Array, value: Array, how: How) -> bool:
    """Whether tiles compute this: it is large, and nothing but `causal` hides keys."""
    fit = how.mask is None and query.dtype == key.dtype == value.dtype and query.dtype.char in "fd"
    fit = fit and query.shape[3] == key.shape[3] == value.shape[3]
    enough = min(query.shape[2], key.shape[2]) >= FEWEST_ROWS and query.shape[3] >= FEWEST_NUMBERS
    return fit and enough and query.size * key.shape[2] >= MANY


def _split(array: Array, groups: int) -> Array:
    """Heads in groups that share a key: (batch, keys' heads, queries' heads for each, …)."""
    batch, heads, length, width = array.shape
    a, b, c, d = array.strides
    shape = (batch, groups, heads // groups, length, width)
    strides = (a, b * (heads // groups), b, c, d)
    return np.lib.stride_tricks.as_strided(array, shape, strides)


def _grouped(query: Array, key: Array, value: Array) -> tuple[Array, Array, Array]:
    return _split(query, key.shape[1]), key[:, :, None], value[:, :, None]


def _turned(array: Array) -> Array:
    return array.swapaxes(-1, -2)


def _over_groups(array: Array) -> Array:
    """The sum over the queries' heads that share a key."""
    return array if array.shape[2] == 1 else array.sum(2, keepdims=True)


def _blocks(queries: Array, keys: Array, causal: bool) -> Iterator[_Block]:
    batch, groups, each, length = queries.shape[:4]
    width = keys.shape[3]
    of_one = max(1, groups * each * width)
    rows = min(length, max(FEWEST, BLOCK // of_one))
    samples = max(1, BLOCK // (of_one * max(1, rows)))
    for first in range(0, batch, samples):
        for start in range(0, length, rows):
            stop = min(start + rows, length)
            end = min(width, stop) if causal else width
            yield _Block(slice(first, min(first + samples, batch)), slice(start, stop), end)


def _mask(how: How, queries: Array, keys: Array) -> Array | None:
    """The mask broadcast to all weights, to be cut into blocks."""
    if how.mask is None:
        return None
    batch, groups, each, length = queries.shape[:4]
    whole = np.broadcast_to(how.mask, (batch, groups * each, length, keys.shape[3]))
    return _split(whole, groups)


def _prepare(weights: Array, block: _Block, how: How, mask: Array | None) -> None:
    """Scale a block of products, and apply masks."""
    weights *= weights.dtype.type(how.scale)
    if how.causal:
        rows = np.arange(block.rows.start, block.rows.stop)
        weights[..., rows[:, None] < np.arange(block.end)] = -np.inf
    if mask is not None:
        weights += mask[(*block.queries, slice(0, block.end))]


@quiet
def _softmax(weights: Array, block: _Block, how: How, mask: Array | None) -> Array:
    """Turn a block of products into weights, in place; return the logarithms of the sums.

    A row that sees no keys has zero weights.
    """
    if weights.dtype == np.float32 and FAST.wins(weights.size):
        return _compiled(weights, block, how, mask)
    _prepare(weights, block, how, mask)
    top = np.max(weights, axis=-1, keepdims=True)
    top[top == -np.inf] = 0
    weights -= top
    np.exp(weights, out=weights)
    sums = np.sum(weights, axis=-1, keepdims=True)
    sums[sums == 0] = 1
    weights /= sums
    return np.asarray(top + np.log(sums))


def _masked(weights: Array, block: _Block, how: How, mask: Array | None) -> tuple[Any, ...]:
    """Apply the mask, and return what remains to be done: scale, first query, queries, causal."""
    start, rows = block.rows.start, weights.shape[-2]
    if mask is None:
        return weights.dtype.type(how.scale), start, rows, how.causal
    _prepare(weights, block, how, mask)
    return weights.dtype.type(1), start, rows, False


def _compiled(weights: Array, block: _Block, how: How, mask: Array | None) -> Array:
    """The same by a compiled kernel."""
    left = _masked(weights, block, how, mask)
    logs = np.empty((*weights.shape[:-1], 1), weights.dtype)
    FAST.kernels.attention(weights, logs.reshape(-1), left=left)
    return logs


@quiet
def _softmax_backward(
    weights: Array,
    slopes: Array,
    logs: Array,
    along: Array,
    block: _Block,
    how: How,
    mask: Array | None,
) -> None:
    """Turn products into weights and the weights' gradients into the products', in place."""
    if weights.dtype == np.float32 and FAST.wins(weights.size):
        left = _masked(weights, block, how, mask)
        if mask is not None:  # the products are scaled; so must be the gradient
            slopes *= slopes.dtype.type(how.scale)
            along = along * along.dtype.type(how.scale)
        flat = slopes.reshape(-1, slopes.shape[-1])
        sums = (np.ascontiguousarray(a).reshape(-1) for a in (logs, along))
        FAST.kernels.attention_backward(weights, flat, *sums, left=left)
        return
    _prepare(weights, block, how, mask)
    weights -= logs
    np.exp(weights, out=weights)
    slopes -= along
    slopes *= weights
    slopes *= slopes.dtype.type(how.scale)
