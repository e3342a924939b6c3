"""Numba kernels of smooth activations, for float32. The plain twins are in elementwise.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.arrays.fast_math import HALF, ONE, erf, exp, f32, tanh
from gradscope.runtime.fast.compiling.compiled import compiled
from gradscope.runtime.fast.threads.spread import spread

SQRT_HALF = f32(math.sqrt(0.5))
DENSITY = f32(1.0 / math.sqrt(2.0 * math.pi))  # the normal density at zero
SLOPE, CUBIC = f32(math.sqrt(2.0 / math.pi)), f32(0.044715)
THREE_CUBIC = f32(3 * 0.044715)

# The share of a normal distribution beyond |x| is the exponential of -x²/2 times a polynomial of t
# = 1 / (1 + NEAR |x|), accurate to 1e-7 (Hastings; 7.1.26 of Abramowitz and Stegun for erfc).
NEAR = f32(0.3275911 * math.sqrt(0.5))
B1, B2, B3, B4, B5 = (
    f32(c / 2) for c in (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
)

COST = 0.7
"""Nanoseconds per element."""


@compiled
def _gelu(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = (erf(x[i] * SQRT_HALF) + ONE) * x[i] * HALF


@compiled
def _gelu_backward(grad: Array, x: Array, out: Array) -> None:
    """The share below x, from the share beyond it, and x times the density: one exponential."""
    for i in range(x.size):
        v = x[i]
        power = exp(v * v * -HALF)
        t = ONE / (ONE + NEAR * abs(v))
        beyond = ((((B5 * t + B4) * t + B3) * t + B2) * t + B1) * t * power
        below = beyond if v < 0 else ONE - beyond
        out[i] = grad[i] * (below + v * power * DENSITY)


@compiled
def _gelu_tanh(x: Array, out: Array) -> None:
    for i in range(x.size):
        v = x[i]
        out[i] = (tanh(SLOPE * (v + CUBIC * v * v * v)) + ONE) * v * HALF


@compiled
def _gelu_tanh_backward(grad: Array, x: Array, out: Array) -> None:
    for i in range(x.size):
        v = x[i]
        square = v * v
        y = tanh(SLOPE * (v + CUBIC * v * square))
        slope = SLOPE * (ONE + THREE_CUBIC * square)
        out[i] = grad[i] * HALF * ((ONE + y) + v * (ONE - y * y) * slope)


@compiled
def _silu(x: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = x[i] / (exp(-x[i]) + ONE)


@compiled
def _silu_backward(grad: Array, x: Array, out: Array) -> None:
    for i in range(x.size):
        share = ONE / (exp(-x[i]) + ONE)
        out[i] = grad[i] * share * (x[i] * (ONE - share) + ONE)


def _of_one(kernel: Any) -> Any:
    def function(x: Array) -> Array:
        out = np.empty(x.size, f32)
        flat = x.ravel("C" if 0 in x.strides else "K")
        spread(lambda first, last: kernel(flat[first:last], out[first:last]), x.size, COST)
        return _laid_like(out, x)

    return function


def _of_two(kernel: Any) -> Any:
    def function(grad: Array, x: Array) -> Array:
        out = np.empty(x.size, f32)
        alike = x.strides == grad.strides and 0 not in x.strides
        one, other = (a.ravel("K" if alike else "C") for a in (grad, x))
        spread(
            lambda first, last: kernel(one[first:last], other[first:last], out[first:last]),
            x.size,
            COST,
        )
        return _laid_like(out, x) if alike else out.reshape(x.shape)

    return function


def _laid_like(flat: Array, x: Array) -> Array:
    """Results in the memory order of the inputs, as an array with the same layout."""
    if x.flags.c_contiguous or 0 in x.strides:
        return flat.reshape(x.shape)
    return np.lib.stride_tricks.as_strided(flat, x.shape, np.empty_like(x).strides)


gelu, gelu_backward = _of_one(_gelu), _of_two(_gelu_backward)
gelu_tanh, gelu_tanh_backward = _of_one(_gelu_tanh), _of_two(_gelu_tanh_backward)
silu, silu_backward = _of_one(_silu), _of_two(_silu_backward)


def warm() -> None:
    """Call every kernel of this file once."""
    x = np.ones(4, f32)
    for function in (gelu, gelu_tanh, silu):
        function(x)
    for function in (gelu_backward, gelu_tanh_backward, silu_backward):
        function(x, x)
