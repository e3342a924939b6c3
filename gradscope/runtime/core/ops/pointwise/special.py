"""Special functions, also of two numbers: erf, lgamma, logit, xlogy, atan2, logaddexp."""

from __future__ import annotations

import math

import numpy as np

from gradscope.runtime.core.calls.declare import (
    ELEMENTWISE,
    FLOATS,
    INTERNAL,
    PROMOTES,
    TENSORS_ONLY,
    family,
    inplace,
    joint,
    numbers,
    op,
    refuses,
    w,
)
from gradscope.runtime.core.errors.numpy import invalid_combination
from gradscope.runtime.core.kernels.arrays import elementwise as plain
from gradscope.runtime.core.kernels.special import special as kernels
from gradscope.runtime.core.ops.in_formulas import (
    ONE,
    FormulaNumber,
    alias,
    beside,
    function_alias,
    is_number,
    without,
    zeros_like,
)
from gradscope.runtime.core.rows.offered import METHODS, both, function, method

ERF_SLOPE, ERFC_SLOPE = (
    FormulaNumber(2 / math.sqrt(math.pi)),
    FormulaNumber(-2 / math.sqrt(math.pi)),
)
ERFINV_SLOPE = FormulaNumber(math.sqrt(math.pi) / 2)


def _no_complex(name):
    return refuses("c", f"\"{name}\" not implemented for '{{kind}}'")


erf = op(
    "ErfBackward0",
    lambda self: kernels.erf(self),
    ELEMENTWISE,
    FLOATS,
    _no_complex("erf_vml_cpu"),
    self=lambda grad, self: w.exp(-(self**2)) * ERF_SLOPE[self.dtype] * grad,
)
erfc = op(
    "ErfcBackward0",
    lambda self: kernels.erfc(self),
    ELEMENTWISE,
    FLOATS,
    _no_complex("erfc_vml_cpu"),
    self=lambda grad, self: w.exp(-(self**2)) * ERFC_SLOPE[self.dtype] * grad,
)


def _erfinv_slope(grad, self):
    return w.exp(w.erfinv(self) ** 2) * ERFINV_SLOPE[self.dtype] * grad


erfinv = op(
    "ErfinvBackward0",
    lambda self: kernels.erfinv(self),
    ELEMENTWISE,
    FLOATS,
    _no_complex("erfinv_vml_cpu"),
    self=_erfinv_slope,
)


def _polygamma(self, n):
    return getattr(w, "polygamma.n")(self, n)


lgamma = op(
    "LgammaBackward0",
    lambda self: kernels.lgamma(self),
    ELEMENTWISE,
    FLOATS,
    _no_complex("lgamma_vml_cpu"),
    self=lambda grad, self: grad * w.digamma(self),
)
digamma = op(
    "DigammaBackward0",
    lambda self: kernels.digamma(self),
    ELEMENTWISE,
    FLOATS,
    _no_complex("digamma"),
    self=lambda grad, self: grad * _polygamma(self, 1),
)


def _polygamma_of(self, n):
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return kernels.polygamma(self, n)


POLYGAMMA = {"self": lambda grad, self, n: grad * _polygamma(self, n + 1)}

polygamma__n = op(
    "PolygammaBackward0",
    _polygamma_of,
    ELEMENTWISE,
    FLOATS,
    _no_complex("trigamma"),
    **POLYGAMMA,
)
_polygamma__in_place = op(
    "PolygammaBackward1",
    _polygamma_of,
    ELEMENTWISE,
    FLOATS,
    INTERNAL,
    _no_complex("trigamma"),
    **POLYGAMMA,
)
_polygamma_ = inplace(_polygamma__in_place)


def _logit(self, eps=None):
    x = self
    if eps is not None:
        low, high = (np.asarray(bound, self.dtype) for bound in (eps, 1 - eps))
        x = np.minimum(np.maximum(self, low), high)
    return np.log(x / (1 - x))


def _logit_slope(grad, self, eps):
    if eps is None:
        inside = (self >= 0) & (self <= 1)
        slope = grad / (self * (ONE[self.dtype] - self))
        return w.where(inside, slope, zeros_like(grad) * float("nan"))
    outside = (self < eps) | (self > 1 - eps)
    return w.where(outside, zeros_like(grad), grad / (self * (ONE[self.dtype] - self)))


logit = op(
    "LogitBackward0", _logit, ELEMENTWISE, FLOATS, _no_complex("logit_cpu"), self=_logit_slope
)


def _sinc_slope(grad, self):
    """(cos(πx)πx - sin(πx)) / πx², and zero at zero."""
    turned = self * beside(self, math.pi)
    slope = (w.cos(turned) * turned - w.sin(turned)) / (self * self * beside(self, math.pi))
    return w.where(self == 0, zeros_like(grad), grad * slope)


sinc = op(
    "SincBackward0",
    lambda self: np.sinc(self).astype(self.dtype),
    ELEMENTWISE,
    FLOATS,
    self=_sinc_slope,
)


def _atan2_slopes(grad, self, other):
    """The other coordinate over the squared distance, zero at the origin."""
    square = self * self + other * other
    shrink = without(w.reciprocal(square), square == 0)
    return grad * (other * shrink), grad * (-self * shrink)


atan2 = op(
    "Atan2Backward0",
    np.arctan2,
    ELEMENTWISE,
    PROMOTES,
    FLOATS,
    TENSORS_ONLY,
    joint("self", "other", by=_atan2_slopes),
)
hypot = op(
    "HypotBackward0",
    np.hypot,
    ELEMENTWISE,
    PROMOTES,
    TENSORS_ONLY,
    refuses("biu", "\"hypot_cpu\" not implemented for '{kind}'"),
    self=lambda grad, self, result: grad * (self / result),
    other=lambda grad, other, result: grad * (other / result),
)
logaddexp = op(
    "LogaddexpBackward0",
    lambda self, other: plain.logaddexp(self, other),
    ELEMENTWISE,
    PROMOTES,
    refuses("biu", "\"logaddexp_cpu\" not implemented for '{kind}'"),
    TENSORS_ONLY,
    self=lambda grad, self, other: grad / (w.exp(other - self) + ONE[grad.dtype]),
    other=lambda grad, self, other: grad / (w.exp(self - other) + ONE[grad.dtype]),
)
logaddexp2 = op(
    "Logaddexp2Backward0",
    np.logaddexp2,
    ELEMENTWISE,
    PROMOTES,
    refuses("biu", "\"logaddexp2_cpu\" not implemented for '{kind}'"),
    TENSORS_ONLY,
    self=lambda grad, self, other: grad / (2 ** (other - self) + ONE[grad.dtype]),
    other=lambda grad, self, other: grad / (2 ** (self - other) + ONE[grad.dtype]),
)


def _xlogy_slope(grad, self, other):
    return without(getattr(w, "xlogy.Tensor")(grad, other), (self == 0) & (other <= 0))


def _xlogy_number_slope(grad, self, other):
    slope = getattr(w, "xlogy.Scalar_Other")(grad, other)
    return slope if other > 0 else without(slope, self == 0)


xlogy__Tensor = op(
    "XlogyBackward0",
    lambda self, other: plain.xlogy(self, other),
    ELEMENTWISE,
    _no_complex("xlogy_cpu"),
    PROMOTES,
    FLOATS,
    self=_xlogy_slope,
    other=lambda grad, self, other: grad * self / other,
)
xlogy__Scalar_Self = op(
    "XlogyBackward1",
    lambda self, other: plain.xlogy(np.asarray(self, other.dtype), other),
    ELEMENTWISE,
    FLOATS,
    _no_complex("xlogy_cpu"),
    numbers("self"),
    other=lambda grad, self, other: grad * beside(grad, self) / other,
)
xlogy__Scalar_Other = op(
    "XlogyBackward2",
    lambda self, other: plain.xlogy(self, np.asarray(other, self.dtype)),
    ELEMENTWISE,
    _no_complex("xlogy_cpu"),
    FLOATS,
    self=_xlogy_number_slope,
)

erf_ = inplace(erf)
erfc_ = inplace(erfc)
erfinv_ = inplace(erfinv)
lgamma_ = inplace(lgamma)
digamma_ = inplace(digamma)
logit_ = inplace(logit)
sinc_ = inplace(sinc)
atan2_ = inplace(atan2)
hypot_ = inplace(hypot)
xlogy___Tensor = inplace(xlogy__Tensor)
xlogy___Scalar_Other = inplace(xlogy__Scalar_Other)
family(globals())


@both
def xlogy(input, other):
    """`input * log(other)`, and zero where `input` is zero."""
    if is_number(other):
        if is_number(input):
            raise invalid_combination("xlogy", (input, other))
        return xlogy__Scalar_Other(input, other)
    return (xlogy__Scalar_Self if is_number(input) else xlogy__Tensor)(input, other)


@method
def xlogy_(self, other):
    return (xlogy___Scalar_Other if is_number(other) else xlogy___Tensor)(self, other)


@function
def polygamma(n, input):
    """The n-th derivative of digamma."""
    return polygamma__n(input, n)


def _polygamma_method(self, n):
    return polygamma__n(self, n)


@method
def polygamma_(self, n):
    return _polygamma_(self, n)


METHODS["polygamma"] = _polygamma_method


alias(atan2, "arctan2", twin=atan2_)
function_alias(lgamma, "special.gammaln")
function_alias(digamma, "special.digamma", "special.psi")
function_alias(polygamma, "special.polygamma")
function_alias(erf, "special.erf")
function_alias(erfc, "special.erfc")
function_alias(erfinv, "special.erfinv")
function_alias(logit, "special.logit")
function_alias(sinc, "special.sinc")
function_alias(xlogy, "special.xlogy")
