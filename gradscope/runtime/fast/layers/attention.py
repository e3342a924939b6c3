"""Attention by tiles, in several threads. The plain twins are in core/kernels."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.kernels.layers.attention import How
from gradscope.runtime.core.kernels.linalg.products import COST as PRODUCT
from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.layers import fast_attention
from gradscope.runtime.fast.layers.row_softmax import COST
from gradscope.runtime.fast.threads.spread import spread


def attention(arrays: Any, key: Array, how: How) -> None:
    """Write the attention's results and the logarithms of the sums to the last two arrays."""
    _by_tiles(fast_attention.attention, arrays, key, how, 2)


def attention_backward(arrays: Any, key: Array, how: How) -> None:
    """Write the gradients of queries, keys and values to the last three arrays."""
    _by_tiles(fast_attention.attention_backward, arrays, key, how, 5)


def _by_tiles(kernel: Any, arrays: Any, key: Array, how: How, products: int) -> None:
    """Call a kernel that writes the last of these arrays, in any memory layout."""
    batch, heads, keys, width = key.shape
    queries = arrays[0]
    each, length = queries.shape[1] // heads, queries.shape[2]
    far = tuple([tuple([step // array.itemsize for step in array.strides]) for array in arrays])
    begins = [array[0, 0, 0, :1] for array in arrays]
    rest = (far, (heads, each, length, keys, width), key.dtype.type(how.scale), how.causal)
    cost = each * length * keys * (products * width * PRODUCT + 2 * COST)
    spread(
        lambda first, last: kernel(*begins, *rest, (first, last)),
        batch * heads,
        cost / 2 if how.causal else cost,
    )
