"""Softmax and similar kernels, compiled, in several threads."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from gradscope.runtime.core.kernels.layers.row_softmax import FLOAT32
from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.layers import fast_rows
from gradscope.runtime.fast.threads.spread import spread

COST: Final = 0.8
"""Nanoseconds per element."""


def _of_rows(kernel: Any, *arrays: Array) -> Array:
    shape = arrays[-1].shape
    out = np.empty(shape, FLOAT32)
    width = shape[-1]
    flat = [np.ascontiguousarray(a).reshape(-1, width) for a in (*arrays, out)]
    spread(lambda first, last: kernel(*[a[first:last] for a in flat]), len(flat[0]), width * COST)
    return out


def _of_heads(kernel: Any, weights: Array, *others: Array, left: tuple[Any, ...]) -> None:
    """Call a kernel for all rows of weights: heads are divided among threads."""
    width, queries = weights.shape[-1], weights.shape[-2]
    flat = [weights.reshape(-1, width), *others]
    spread(
        lambda first, last: kernel(*[a[first:last] for a in flat], *left),
        len(flat[0]),
        width * COST,
        multiple=queries,
    )


softmax = partial(_of_rows, fast_rows.softmax)
softmax_backward = partial(_of_rows, fast_rows.softmax_backward)
log_softmax = partial(_of_rows, fast_rows.log_softmax)
log_softmax_backward = partial(_of_rows, fast_rows.log_softmax_backward)
attention = partial(_of_heads, fast_rows.attention)
attention_backward = partial(_of_heads, fast_rows.attention_backward)
