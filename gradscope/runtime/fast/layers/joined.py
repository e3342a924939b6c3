"""Several operations of a step in one pass, for plans that are replayed.

Shapes and dtypes are known when a plan is made, so nothing is checked here. The plain twins are the
operations themselves.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from gradscope.runtime.core.kernels.arrays import elementwise
from gradscope.runtime.core.kernels.linalg.products import product
from gradscope.runtime.core.kernels.support import LARGE, Array, kernels_of

kernels: Final = kernels_of("layers.fast_joined")


def linear_relu(bias: Array, left: Array, right: Array) -> Array:
    """The product of two matrices plus a vector in each row, with negative numbers set to zero."""
    made = product(left, right, None, bias)
    kernels().clip(made.reshape(-1))
    return made


def threshold_backward(grad: Array, result: Array) -> Array:
    """The gradient where the result is above zero or NaN, otherwise zero."""
    if result.size >= LARGE:
        return elementwise.threshold_backward(grad, result, 0)
    made = np.empty_like(result)
    kernels().keep_above(grad.reshape(-1), result.reshape(-1), made.reshape(-1))
    return made


def sum_of_rows(x: Array) -> Array:
    """The sum of a matrix's rows."""
    made = np.empty(x.shape[1], x.dtype)
    kernels().add_rows(x, made)
    return made


def cross_entropy(x: Array, target: Array, ignored: int) -> tuple[Array, Array, Array] | None:
    """The mean loss of scores, the count, and the scores' gradient; None if a class is invalid."""
    slope = np.empty_like(x)
    total, kept = kernels().cross_entropy(x, target, ignored, slope)
    if kept < 0:
        return None
    mean = total / kept if kept else np.nan
    return np.asarray(mean, x.dtype), np.asarray(kept, x.dtype), slope
