"""Comparison, logic, bits, isnan and similar functions, equality of tensors."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    COMPARES,
    PROMOTES,
    TENSORS_ONLY,
    family,
    inplace,
    op,
    refuses,
    tensors,
)
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.ops.in_formulas import alias
from gradscope.runtime.core.rows.offered import both, function
from gradscope.runtime.core.tensors.placement import read, wrapped_on


def _ordered(name, ufunc):
    """A comparison of order, which complex numbers do not have."""
    return op(None, ufunc, COMPARES, refuses("c", f"\"{name}_cpu\" not implemented for '{{kind}}'"))


eq = op(None, np.equal, COMPARES)
ne = op(None, np.not_equal, COMPARES)
lt = _ordered("lt", np.less)
le = _ordered("le", np.less_equal)
gt = _ordered("gt", np.greater)
ge = _ordered("ge", np.greater_equal)

logical_and = op(None, np.logical_and, COMPARES, TENSORS_ONLY)
logical_or = op(None, np.logical_or, COMPARES, TENSORS_ONLY)
logical_xor = op(None, np.logical_xor, COMPARES, TENSORS_ONLY)
logical_not = op(None, np.logical_not)

bitwise_and = op(None, np.bitwise_and, PROMOTES)
bitwise_or = op(None, np.bitwise_or, PROMOTES)
bitwise_xor = op(None, np.bitwise_xor, PROMOTES)
bitwise_not = op(None, np.invert)
bitwise_left_shift = op(
    None, np.left_shift, PROMOTES, refuses("b", "\"lshift_cpu\" not implemented for '{kind}'")
)
bitwise_right_shift = op(
    None, np.right_shift, PROMOTES, refuses("b", "\"rshift_cpu\" not implemented for '{kind}'")
)


def _never(array):
    return np.zeros(array.shape, np.bool_)


def _is_nan(self):
    return _never(self) if self.dtype.kind in "iub" else np.isnan(self)


def _is_inf(self):
    return _never(self) if self.dtype.kind in "iub" else np.isinf(self)


def _is_finite(self):
    return ~_never(self) if self.dtype.kind in "iub" else np.isfinite(self)


def _is_close(self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    if self.dtype != other.dtype:
        one, two = (scalar_name(array) for array in (self, other))
        raise RuntimeError(f"{one} did not match {two}")
    for name, given in (("rtol", rtol), ("atol", atol)):
        if given < 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {given:g}")
    close = self == other
    if equal_nan and self.dtype.kind not in "iub":
        close |= np.isnan(self) & np.isnan(other)
    if rtol == 0 and atol == 0:
        return close
    wide = self.dtype.kind not in "iub"
    mine, theirs = (self, other) if wide else (self.astype(float), other.astype(float))
    reach = atol + np.abs(rtol * theirs)
    distance = np.abs(mine - theirs)
    return close | (np.isfinite(distance) & (distance <= reach))


isnan = op(None, _is_nan)
isinf = op(None, _is_inf)
isfinite = op(None, _is_finite)
isposinf = op(
    None,
    lambda self: self == np.inf,
    refuses("c", "isposinf does not support complex inputs.", error=RuntimeError),
)
isneginf = op(
    None,
    lambda self: self == -np.inf,
    refuses("c", "isneginf does not support complex inputs.", error=RuntimeError),
)
isreal = op(None, lambda self: np.isreal(self))
signbit = op(
    None,
    lambda self: np.signbit(self) if self.dtype.kind in "fV" else self < 0,
    refuses("c", "signbit is not implemented for complex tensors."),
)
isclose = op(None, _is_close, tensors("other"), TENSORS_ONLY)

bitwise_and_ = inplace(bitwise_and)
bitwise_or_ = inplace(bitwise_or)
bitwise_xor_ = inplace(bitwise_xor)
bitwise_not_ = inplace(bitwise_not)
bitwise_left_shift_ = inplace(bitwise_left_shift)
bitwise_right_shift_ = inplace(bitwise_right_shift)
logical_and_ = inplace(logical_and)
logical_or_ = inplace(logical_or)
logical_xor_ = inplace(logical_xor)
logical_not_ = inplace(logical_not)
eq_ = inplace(eq)
ne_ = inplace(ne)
lt_ = inplace(lt)
le_ = inplace(le)
gt_ = inplace(gt)
ge_ = inplace(ge)
family(globals())


@both
def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    return bool(isclose(input, other, rtol, atol, equal_nan)._array.all())


@both
def equal(input, other):
    """Whether two tensors have the same shape and the same elements."""
    for each in (input, other):
        read(each)
    return bool(np.array_equal(input._array, other._array))


@function
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Which of `elements` are among `test_elements`."""
    first, second = (x._array if hasattr(x, "_array") else x for x in (elements, test_elements))
    found = np.isin(first, second, assume_unique=assume_unique, invert=invert)
    return wrapped_on(found, getattr(elements, "device", None))


alias(ne, "not_equal", twin=ne_)
alias(lt, "less", twin=lt_)
alias(le, "less_equal", twin=le_)
alias(gt, "greater", twin=gt_)
alias(ge, "greater_equal", twin=ge_)
