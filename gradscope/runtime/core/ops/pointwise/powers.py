"""Powers and remainders: pow, square, float_power, remainder, fmod, floor_divide."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    ELEMENTWISE,
    PROMOTES,
    UNKNOWN,
    family,
    inplace,
    numbers,
    op,
    refuses,
    w,
)
from gradscope.runtime.core.calls.extra_arguments.out import written
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.errors.numpy import invalid_combination
from gradscope.runtime.core.ops.in_formulas import (
    TWO,
    beside,
    is_complex,
    is_number,
    no_derivative,
    on_arrays,
    promoted,
    zeros_like,
)
from gradscope.runtime.core.ops.pointwise.arithmetic import floor_divided, no_zeros
from gradscope.runtime.core.rows.offered import METHODS, both, function, method
from gradscope.runtime.core.rows.traits import AS_OPERANDS, ROW_BY_ROW


def _power_of(self, exponent):
    """A tensor to a number; small exponents have special, exact functions."""
    kind = self.dtype.kind
    if kind in "iu" and exponent < 0 and exponent.__class__ is int:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    if kind in "iub" or (exponent.__class__ is complex and kind != "c"):
        self = promoted(self, exponent)
    if self.dtype.kind == "b":
        return self | (not exponent)
    if exponent == 2:
        return np.square(self)
    if exponent == 0.5:
        return np.sqrt(self)
    if exponent == 3:
        return self * self * self
    return np.power(self, np.asarray(exponent, self.dtype))


def _power(self, exponent):
    """Powers of integers: negative exponents give 0, 1 or -1."""
    if self.dtype.kind not in "iu" or not (exponent < 0).any():
        return np.power(self, exponent)
    made = np.power(self, np.maximum(exponent, 0))
    odd = np.where(exponent % 2 == 0, 1, -1)
    cut = np.where(self == 1, 1, np.where(self == -1, odd, 0))
    return np.where(exponent < 0, cut, made).astype(self.dtype)


def _power_slope(grad, self, exponent):
    """The incoming gradient times exponent * self ** (exponent - 1)."""
    if exponent == 2 and grad.__class__ is np.ndarray:
        return grad * (self * TWO[self.dtype])
    if exponent == 0:
        return zeros_like(grad)
    return grad * (self ** (exponent - 1) * beside(self, exponent))


def _not_below_zero(exponent):
    """Where a power of zero is constant in its exponent, which must be real if complex."""
    if not is_complex(exponent):
        return exponent >= 0
    return (exponent.real >= 0) & (exponent.imag == 0)


def _exponent_slope(grad, self, exponent, result):
    base = self
    if is_complex(exponent):  # so that a negative base has a logarithm
        base = self.astype(result.dtype) if on_arrays(self) else self.to(result.dtype)
    slope = result * w.log(base)
    return grad * w.where((self == 0) & _not_below_zero(exponent), zeros_like(slope), slope)


def _logarithm(number):
    """The logarithm of a base: NaN for a negative one, complex for a complex one."""
    if isinstance(number, complex):
        return complex(np.log(number))
    return float(np.log(float(number)))


def _number_slope(grad, self, exponent, result):
    turns = is_complex(exponent) and self != 0  # so that every base has a logarithm
    slope = result * beside(result, _logarithm(complex(self) if turns else self))
    if self:
        return grad * slope
    return grad * w.where(_not_below_zero(exponent), zeros_like(slope), slope)


NO_FLOOR = refuses("bc", "\"div_floor_cpu\" not implemented for '{kind}'")


def _divided(self, other, rounding_mode):
    return getattr(w, "div.Tensor_mode")(self, other, rounding_mode)


def _remainder(self, other):
    """The remainder with the sign of `other`."""
    no_zeros(self, other)
    return np.remainder(self, other)


def _fmod(self, other):
    """The remainder with the sign of `self`."""
    no_zeros(self, other)
    return np.fmod(self, other)


pow__Tensor_Scalar = op("PowBackward0", _power_of, ELEMENTWISE, self=_power_slope)
pow__Tensor_Tensor = op(
    "PowBackward1",
    _power,
    ELEMENTWISE,
    PROMOTES,
    refuses("b", "\"pow\" not implemented for '{kind}'"),
    self=lambda grad, self, exponent: w.where(
        exponent == 0,
        zeros_like(grad),
        grad * (exponent * self ** (exponent - beside(exponent, 1))),
    ),
    exponent=_exponent_slope,
)
pow__Scalar = op(
    "PowBackward2",
    lambda self, exponent: _power(
        np.asarray(self, promoted(exponent, self).dtype), promoted(exponent, self)
    ),
    ELEMENTWISE,
    numbers("self"),
    ROW_BY_ROW,
    exponent=_number_slope,
)
remainder__Scalar = op(
    "RemainderBackward0",
    _remainder,
    ELEMENTWISE,
    PROMOTES,
    refuses("b", "\"remainder_cpu\" not implemented for '{kind}'"),
    self=lambda grad: grad,
)
remainder__Tensor = op(
    "RemainderBackward1",
    _remainder,
    ELEMENTWISE,
    PROMOTES,
    refuses("b", "\"remainder_cpu\" not implemented for '{kind}'"),
    self=lambda grad: grad,
    other=lambda grad, self, other: -grad * _divided(self, other, "floor"),
)
remainder__Scalar_Tensor = op(
    "NotImplemented",
    lambda self, other: _remainder(np.asarray(self, promoted(other, self).dtype), other),
    UNKNOWN,
    numbers("self"),
    other=no_derivative("remainder"),
)
fmod__Scalar = op(
    "FmodBackward0",
    _fmod,
    ELEMENTWISE,
    PROMOTES,
    refuses("b", "\"fmod_cpu\" not implemented for '{kind}'"),
    self=lambda grad: grad,
)
fmod__Tensor = op(
    "FmodBackward1",
    _fmod,
    ELEMENTWISE,
    PROMOTES,
    refuses("b", "\"fmod_cpu\" not implemented for '{kind}'"),
    self=lambda grad: grad,
    other=lambda grad, self, other: -grad * _divided(self, other, "trunc"),
)
floor_divide__Scalar = op(
    "NotImplemented", floor_divided, UNKNOWN, PROMOTES, NO_FLOOR, self=no_derivative("floor_divide")
)
floor_divide__Tensor = op(
    "NotImplemented",
    floor_divided,
    UNKNOWN,
    PROMOTES,
    NO_FLOOR,
    AS_OPERANDS,
    self=no_derivative("floor_divide"),
    other=no_derivative("floor_divide"),
)


pow___Tensor_Scalar = inplace(pow__Tensor_Scalar)
pow___Tensor_Tensor = inplace(pow__Tensor_Tensor)
remainder___Scalar = inplace(remainder__Scalar)
remainder___Tensor = inplace(remainder__Tensor)
fmod___Scalar = inplace(fmod__Scalar)
fmod___Tensor = inplace(fmod__Tensor)
floor_divide___Scalar = inplace(floor_divide__Scalar)
floor_divide___Tensor = inplace(floor_divide__Tensor)
family(globals())


@function
def pow(input, exponent, *, out=None):
    if is_number(exponent):
        if is_number(input):
            raise invalid_combination("pow", (input, exponent))
        made = pow__Tensor_Scalar(input, exponent)
    elif is_number(input):
        made = pow__Scalar(input, exponent)
    else:
        made = pow__Tensor_Tensor(input, exponent)
    return made if out is None else written("pow", made, out, (input, exponent))


def _pow(self, exponent):
    """`x.pow(2)` and `x ** 2`."""
    kind = exponent.__class__
    if kind is int or kind is float or is_number(exponent):
        return pow__Tensor_Scalar(self, exponent)
    return pow__Tensor_Tensor(self, exponent)


METHODS["pow"] = _pow


@method
def pow_(self, exponent):
    if is_number(exponent):
        return pow___Tensor_Scalar(self, exponent)
    return pow___Tensor_Tensor(self, exponent)


@both
def square(input):
    return pow__Tensor_Scalar(input, 2)


@method
def square_(self):
    return pow___Tensor_Scalar(self, 2)


@both
def float_power(input, exponent):
    """A power computed in double precision."""
    if is_number(input) and is_number(exponent):
        raise invalid_combination("float_power", (input, exponent))
    whole = (x for x in (input, exponent) if hasattr(x, "_array"))
    wide = dtypes.complex128 if any(x.is_complex() for x in whole) else dtypes.float64
    if is_number(input):
        return pow__Scalar(input, exponent.to(wide))
    if is_number(exponent):
        return pow__Tensor_Scalar(input.to(wide), exponent)
    return pow__Tensor_Tensor(input.to(wide), exponent.to(wide))


@method
def float_power_(self, exponent):
    wide = dtypes.float64
    if self.is_complex() or isinstance(exponent, complex) or _is_complex(exponent):
        wide = dtypes.complex128
    if self.dtype is not wide:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {self.dtype.scalar_name} but the "
            f"operation's result requires dtype {wide.scalar_name}"
        )
    if is_number(exponent):
        return pow___Tensor_Scalar(self, exponent)
    return pow___Tensor_Tensor(self, exponent.to(wide))


def _is_complex(given):
    return not is_number(given) and given.is_complex()


@both
def remainder(input, other, *, out=None):
    """The remainder of a division, with the sign of `other`."""
    if is_number(other):
        made = remainder__Scalar(input, other)
    elif is_number(input):
        made = remainder__Scalar_Tensor(input, other)
    else:
        made = remainder__Tensor(input, other)
    return made if out is None else written("remainder", made, out, (input, other))


@method
def remainder_(self, other):
    return (remainder___Scalar if is_number(other) else remainder___Tensor)(self, other)


@both
def fmod(input, other, *, out=None):
    """The remainder of a division, with the sign of `input`."""
    made = (fmod__Scalar if is_number(other) else fmod__Tensor)(input, other)
    return made if out is None else written("fmod", made, out, (input, other))


@method
def fmod_(self, other):
    return (fmod___Scalar if is_number(other) else fmod___Tensor)(self, other)


@both
def floor_divide(input, other, *, out=None):
    made = (floor_divide__Scalar if is_number(other) else floor_divide__Tensor)(input, other)
    return made if out is None else written("floor_divide", made, out, (input, other))


@method
def floor_divide_(self, other):
    return (floor_divide___Scalar if is_number(other) else floor_divide___Tensor)(self, other)
