"""Softmax and its kin along the last dim, for float32 arrays that are worth compiled kernels.

The plain twins, for all other arrays, are in ops/layers/softmax.py.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from gradscope.runtime.core.kernels.spread import spread
from gradscope.runtime.core.kernels.support import Array, Family

FLOAT32: Final = np.dtype(np.float32)
FAST: Final = Family("layers.fast_rows", few=1 << 13)
COST: Final = 0.8
"""Nanoseconds for one element."""


def wins(x: Array, dim: int) -> bool:
    """Whether the compiled kernels are the faster ones for rows along this dim."""
    if x.dtype is not FLOAT32 or not FAST.wins(x.size) or dim not in (-1, x.ndim - 1):
        return False
    return x.shape[-1] > 1 and bool(x.flags.c_contiguous)


def softmax(x: Array) -> Array:
    return _of_rows(FAST.kernels.softmax, x)


def softmax_backward(grad: Array, output: Array) -> Array:
    return _of_rows(FAST.kernels.softmax_backward, grad, output)


def log_softmax(x: Array) -> Array:
    return _of_rows(FAST.kernels.log_softmax, x)


def log_softmax_backward(grad: Array, output: Array) -> Array:
    return _of_rows(FAST.kernels.log_softmax_backward, grad, output)


def _of_rows(kernel: Any, *arrays: Array) -> Array:
    shape = arrays[-1].shape
    out = np.empty(shape, FLOAT32)
    width = shape[-1]
    flat = [np.ascontiguousarray(a).reshape(-1, width) for a in (*arrays, out)]
    spread(lambda first, last: kernel(*[a[first:last] for a in flat]), len(flat[0]), width * COST)
    return out
