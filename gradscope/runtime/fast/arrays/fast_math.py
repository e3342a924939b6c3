"""Functions of one float32, and of a row of numbers, for compiled kernels.

They are written so that they are vectorized: no branches, no calls. Each is accurate to a few units
in the last place, also in kernels whose sums may be reordered. Where that would spoil a result, the
machine's fused instruction is used explicitly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradscope.runtime.core.kernels.special.special import ERF_DENOMINATOR, ERF_NUMERATOR
from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.compiling.compiled import inner
from gradscope.runtime.fast.random.fast_normal import float_of, fma

f32, i32 = np.float32, np.int32

# exp(r) = 1 + r + r² * (a polynomial), relative error below 4e-9 for |r| <= log(2) / 2. Fitted for
# gradscope: Lawson's iteration on 400 Chebyshev points.
E0, E1, E2, E3, E4 = (
    f32(c)
    for c in (
        0.0013814466848805053,
        0.008368780418322634,
        0.04166839421512592,
        0.16666520107742383,
        0.4999999341248117,
    )
)
LOG2_E = f32(1.4426950408889634)
LOG_TWO = f32(0.693359375)  # few bits, so that small multiples are exact …
LOG_TWO_REST = f32(math.log(2.0) - 0.693359375)  # … and the rest of the logarithm
LEAST, MOST = f32(-87.0), f32(88.5)
ZERO, HALF, ONE = f32(0.0), f32(0.5), f32(1.0)

ANY_ORDER = {"reassoc", "contract", "nsz"}
"""Fast-math flags: sums may be reordered and vectorized."""


@inner
def exp(x: Any) -> Any:
    """The exponential. Zero below 1e-38, at most 2.7e38."""
    clipped = LEAST if x < LEAST else x  # noqa: FURB136 -- keeps NaN
    clipped = MOST if clipped > MOST else clipped  # noqa: FURB136
    whole = np.floor(fma(clipped, LOG2_E, HALF))
    r = fma(-whole, LOG_TWO_REST, fma(-whole, LOG_TWO, clipped))
    y = (((E0 * r + E1) * r + E2) * r + E3) * r + E4
    y = y * r * r + r + ONE
    power = float_of((i32(whole) + i32(127)) << i32(23))
    made = y * power
    return ZERO if x < LEAST else made


@inner
def exp_of_each(x: Array) -> None:
    for i in range(x.size):
        x[i] = exp(x[i])


@inner(fastmath={*ANY_ORDER, "nnan"})
def greatest(row: Array) -> Any:
    top = row[0]
    for j in range(row.size):
        top = row[j] if row[j] > top else top  # noqa: FURB136 -- becomes vector instructions
    return top


@inner(fastmath=ANY_ORDER)
def sum_of(row: Array) -> Any:
    total = row.dtype.type(0)
    for j in range(row.size):
        total += row[j]
    return total


N0, N1, N2, N3, N4, N5, N6 = (f32(c) for c in ERF_NUMERATOR)
D0, D1, D2, D3, D4, D5 = (f32(c) for c in ERF_DENOMINATOR)
FOUR = f32(4.0)
ALMOST_ONE = f32(3.9)  # erf is one here, up to float32 precision


@inner
def erf(x: Any) -> Any:
    """The error function, accurate enough if 1 is added to it."""
    clipped = FOUR if x > FOUR else x  # noqa: FURB136 -- keeps NaN
    clipped = -FOUR if clipped < -FOUR else clipped  # noqa: FURB136
    s = clipped * clipped
    numerator = (((((s * N0 + N1) * s + N2) * s + N3) * s + N4) * s + N5) * s + N6
    denominator = ((((s * D0 + D1) * s + D2) * s + D3) * s + D4) * s + D5
    made = clipped * numerator / denominator
    made = ONE if x > ALMOST_ONE else made
    return -ONE if x < -ALMOST_ONE else made


@inner
def tanh(x: Any) -> Any:
    """The hyperbolic tangent, accurate enough if 1 is added to it."""
    return ONE - f32(2.0) / (exp(f32(2.0) * x) + ONE)


def warm() -> None:
    """Do nothing: these are parts of other files' kernels, compiled with them."""
