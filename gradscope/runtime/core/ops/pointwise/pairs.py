"""Functions of two numbers, and their parts: copysign, heaviside, gcd, ldexp, frexp, nextafter."""

from __future__ import annotations

import math

import numpy as np

from gradscope.runtime.core.calls import return_types
from gradscope.runtime.core.calls.declare import (
    ELEMENTWISE,
    FLOATS,
    PROMOTES,
    TENSORS_ONLY,
    UNKNOWN,
    family,
    inplace,
    jvp,
    op,
    outputs,
    refuses,
    w,
)
from gradscope.runtime.core.errors.numpy import invalid_combination
from gradscope.runtime.core.kernels.support import BFLOAT16
from gradscope.runtime.core.ops.in_formulas import (
    beside,
    is_number,
    no_derivative,
    nothing,
    on_arrays,
    zeros_like,
)
from gradscope.runtime.core.ops.pointwise.powers import pow__Scalar
from gradscope.runtime.core.rows.offered import both, method
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def _copysign(self, other):
    return np.copysign(self, other)


def _copysign_slope(grad, self, result):
    """The factor by which the sign changed, zero at zero."""
    ratio = result / self
    return grad * w.where(self == 0, nothing(ratio), ratio)


NO_SIGNS = refuses("c", "\"copysign_cpu\" not implemented for '{kind}'")
copysign__Tensor = op(
    "CopysignBackward0",
    _copysign,
    ELEMENTWISE,
    PROMOTES,
    FLOATS,
    NO_SIGNS,
    self=_copysign_slope,
    other=lambda grad: zeros_like(grad),
)
copysign__Scalar = op(
    "CopysignBackward1",
    lambda self, other: np.copysign(self, np.asarray(other, self.dtype)),
    ELEMENTWISE,
    FLOATS,
    NO_SIGNS,
    self=_copysign_slope,
)
copysign___Tensor = inplace(copysign__Tensor)
copysign___Scalar = inplace(copysign__Scalar)


def _heaviside(self, other):
    if self.dtype.kind == "c" or other.dtype.kind == "c":
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if self.dtype != other.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return np.where(self == 0, other, (self > 0).astype(self.dtype))


heaviside = op(
    "NotImplemented",
    lambda self, values: _heaviside(self, values),
    UNKNOWN,
    TENSORS_ONLY,
    self=no_derivative("heaviside"),
    values=no_derivative("heaviside"),
)
heaviside_ = inplace(heaviside)


def _whole(name, ufunc):
    return op(
        None,
        ufunc,
        PROMOTES,
        TENSORS_ONLY,
        refuses("bfcV", f"\"{name}_cpu\" not implemented for '{{kind}}'"),
    )


gcd = _whole("gcd", np.gcd)
lcm = _whole("lcm", np.lcm)
gcd_ = inplace(gcd)
lcm_ = inplace(lcm)


def _nextafter(self, other):
    if self.dtype != BFLOAT16:
        return np.nextafter(self, other)
    bits = self.view(np.int16).astype(np.int32)
    ordered = np.where(bits < 0, -(bits & 0x7FFF), bits)  # in the floats' order
    step = np.sign(other.astype(np.float32) - self.astype(np.float32))
    moved = ordered + np.where(np.isnan(step), 0, step).astype(np.int32)
    back = np.where(moved < 0, -moved | 0x8000, moved).astype(np.uint16).view(BFLOAT16)
    same = self == other
    return np.where(np.isnan(step) & ~same, np.nan, np.where(same, other, back)).astype(BFLOAT16)


nextafter = op(
    "NextafterBackward0",
    _nextafter,
    ELEMENTWISE,
    PROMOTES,
    TENSORS_ONLY,
    refuses("biuc", "\"nextafter_cpu\" not implemented for '{kind}'"),
    self=lambda grad, self, other: w.where(self != other, grad, nothing(grad)),
    other=lambda grad: zeros_like(grad),
)
nextafter_ = inplace(nextafter)


def _frexp(self):
    if self.dtype.kind not in "fV":
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    mantissa, exponent = np.frexp(self.astype(np.float32) if self.dtype == BFLOAT16 else self)
    return mantissa.astype(self.dtype), exponent.astype(np.int32)


def _frexp_slope(grads, exponent):
    power = w.exp2(exponent)
    return grads[0] / (power.astype(grads[0].dtype) if on_arrays(power) else power)


frexp__Tensor = op(
    "FrexpBackward0",
    _frexp,
    outputs("mantissa", "exponent", without=("exponent",)),
    jvp(lambda self_t, exponent: (self_t / w.exp2(exponent), None)),
    self=_frexp_slope,
)
LN2 = math.log(2)


def _power_of_two(other):
    return np.power(2.0, other) if on_arrays(other) else pow__Scalar(2, other)


ldexp = op(
    "LdexpBackward0",
    lambda self, other: self * np.power(np.asarray(2, self.dtype), other),
    ELEMENTWISE,
    PROMOTES,
    FLOATS,
    TENSORS_ONLY,
    self=lambda grad, other: grad * _power_of_two(other),
    other=lambda grad, result: grad * (result * beside(result, LN2)),
)
ldexp_ = inplace(ldexp)
family(globals())


@both
def copysign(input, other):
    """The size of one number with the sign of another."""
    if not isinstance(input, Tensor):
        raise invalid_combination("copysign", (input, other))
    return (copysign__Scalar if is_number(other) else copysign__Tensor)(input, other)


@method
def copysign_(self, other):
    return (copysign___Scalar if is_number(other) else copysign___Tensor)(self, other)


@both
def frexp(input):
    """Each number as a mantissa between a half and one, and a power of two."""
    return return_types.frexp(*frexp__Tensor(input))
