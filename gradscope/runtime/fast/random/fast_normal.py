"""The Numba twin of random.normal_blocks: the same operations, order and fused instructions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from gradscope.runtime.core.kernels.random.random import (
    BLOCK,
    COS_COEFFICIENTS,
    LANES,
    LOG_COEFFICIENTS,
    LOG_TWO,
    QUARTER_PI,
    SIN_COEFFICIENTS,
)
from gradscope.runtime.core.kernels.support import Array
from gradscope.runtime.fast.compiling.compiled import compiled, inner
from gradscope.runtime.fast.threads.spread import spread

f32 = np.float32
i32 = np.int32
L0, L1, L2, L3, L4, L5, L6, L7, L8 = (f32(c) for c in LOG_COEFFICIENTS)
E0, E1 = (f32(c) for c in LOG_TWO)
S0, S1, S2 = (f32(c) for c in SIN_COEFFICIENTS)
C0, C1, C2 = (f32(c) for c in COS_COEFFICIENTS)
P0, P1, P2 = (f32(c) for c in QUARTER_PI)
ZERO, HALF, ONE = f32(0.0), f32(0.5), f32(1.0)
TWO_PI, FOUR_OVER_PI, ROOT_HALF = f32(2.0 * math.pi), f32(4.0 / math.pi), f32(math.sqrt(0.5))


@intrinsic
def fma(_typing: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once: the machine's instruction."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float32(types.float32, types.float32, types.float32), generate


@intrinsic
def bits_of(_typing: Any, x: Any) -> Any:
    """Return the bits of a float32 as an int32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return types.int32(types.float32), generate


@intrinsic
def float_of(_typing: Any, bits: Any) -> Any:
    """Return the float32 of an int32's bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return types.float32(types.int32), generate


@inner
def _log(x: Any) -> Any:
    bits = bits_of(x)
    exponent = f32((bits >> i32(23)) - i32(126))
    mantissa = float_of((bits & i32(0x007FFFFF)) | i32(0x3F000000))
    low = mantissa < ROOT_HALF
    exponent -= ONE if low else ZERO
    t = (mantissa - ONE) + (mantissa if low else ZERO)
    square = t * t
    y = fma(fma(fma(fma(L0, t, L1), t, L2), t, L3), t, L4)
    y = fma(fma(fma(fma(y, t, L5), t, L6), t, L7), t, L8)
    y = fma(y * t, square, exponent * E0)
    y -= square * HALF
    return fma(exponent, E1, t + y)


@inner
def _cos_sin(angle: Any) -> Any:
    octant = (i32(angle * FOUR_OVER_PI) + i32(1)) & i32(-2)
    turned = f32(octant)
    x = fma(turned, P2, fma(turned, P1, fma(turned, P0, angle)))
    square = x * x
    cos = fma(fma(C0, square, C1), square, C2) * square
    cos = fma(cos, square, square * -HALF) + ONE
    sin = fma(fma(S0, square, S1), square, S2) * square
    sin = fma(sin, x, x)
    swapped = (octant & i32(2)) != i32(0)
    first, second = (sin, cos) if swapped else (cos, sin)
    first = -first if ((octant + i32(2)) & i32(4)) != i32(0) else first
    return first, (-second if (octant & i32(4)) != i32(0) else second)


@compiled
def _blocks_float32(unit: Array, out: Array) -> None:
    for start in range(0, unit.size, BLOCK):
        for lane in range(start, start + LANES):
            radius = np.sqrt(f32(-2.0) * _log(ONE - unit[lane]))
            cos, sin = _cos_sin(TWO_PI * unit[lane + LANES])
            out[lane] = radius * cos
            out[lane + LANES] = radius * sin


@compiled
def _blocks_float64(unit: Array, out: Array) -> None:
    for start in range(0, unit.size, BLOCK):
        for lane in range(start, start + LANES):
            radius = math.sqrt(-2.0 * math.log(1.0 - unit[lane]))
            angle = 2.0 * math.pi * unit[lane + LANES]
            out[lane] = radius * math.cos(angle)
            out[lane + LANES] = radius * math.sin(angle)


def normal_blocks(unit: Array) -> Array:
    """Return normal numbers in place of uniform ones, block by block."""
    out = np.empty_like(unit)
    kernel, cost = (_blocks_float32, 1.5) if unit.dtype == f32 else (_blocks_float64, 15.0)
    spread(
        lambda first, last: kernel(unit[first:last], out[first:last]),
        unit.size,
        cost,
        multiple=BLOCK,
    )
    return out


def warm() -> None:
    """Call every kernel of this file once per dtype, to compile it."""
    for kind in (np.float32, np.float64):
        normal_blocks(np.zeros(BLOCK, kind))
