"""Exponentials, logarithms, roots, trigonometric and hyperbolic functions."""

from __future__ import annotations

import math

import numpy as np

from gradscope.runtime.core.calls.declare import (
    ELEMENTWISE,
    FLOATS,
    UNKNOWN,
    family,
    inplace,
    op,
    w,
)
from gradscope.runtime.core.ops.in_formulas import (
    ONE,
    TWO,
    FormulaNumber,
    alias,
    function_alias,
    not_implemented,
    on_arrays,
)

LN2, LN10 = FormulaNumber(math.log(2)), FormulaNumber(math.log(10))
MINUS_HALF = FormulaNumber(-0.5)

exp = op("ExpBackward0", np.exp, ELEMENTWISE, FLOATS, self=lambda grad, result: grad * result)
exp2 = op(
    "Exp2Backward0",
    np.exp2,
    ELEMENTWISE,
    FLOATS,
    self=lambda grad, result: grad * result * LN2[result.dtype],
)
expm1 = op(
    "Expm1Backward0",
    np.expm1,
    ELEMENTWISE,
    FLOATS,
    self=lambda grad, result: grad * (result + ONE[result.dtype]),
)
log = op("LogBackward0", np.log, ELEMENTWISE, FLOATS, self=lambda grad, self: grad / self)
log2 = op(
    "Log2Backward0",
    np.log2,
    ELEMENTWISE,
    FLOATS,
    self=lambda grad, self: grad / (self * LN2[self.dtype]),
)
log10 = op(
    "Log10Backward0",
    np.log10,
    ELEMENTWISE,
    FLOATS,
    self=lambda grad, self: grad / (self * LN10[self.dtype]),
)
log1p = op(
    "Log1PBackward0",
    np.log1p,
    ELEMENTWISE,
    FLOATS,
    self=lambda grad, self: grad / (self + ONE[self.dtype]),
)
sqrt = op(
    "SqrtBackward0",
    np.sqrt,
    ELEMENTWISE,
    FLOATS,
    self=lambda grad, result: grad / (result * TWO[result.dtype]),
)


def _cube(x):
    return x * x * x if on_arrays(x) else x**3


rsqrt = op(
    "RsqrtBackward0",
    lambda self: np.reciprocal(np.sqrt(self)),
    ELEMENTWISE,
    FLOATS,
    self=lambda grad, result: grad * MINUS_HALF[grad.dtype] * _cube(result),
)

sin = op("SinBackward0", np.sin, ELEMENTWISE, FLOATS, self=lambda grad, self: grad * w.cos(self))
cos = op("CosBackward0", np.cos, ELEMENTWISE, FLOATS, self=lambda grad, self: grad * -w.sin(self))
tan = op(
    "TanBackward0",
    np.tan,
    ELEMENTWISE,
    FLOATS,
    self=lambda grad, result: grad * (result**2 + ONE[result.dtype]),
)
asin = op(
    "AsinBackward0",
    np.arcsin,
    ELEMENTWISE,
    FLOATS,
    self=lambda grad, self: grad * w.rsqrt(-self * self + ONE[self.dtype]),
)
acos = op(
    "AcosBackward0",
    np.arccos,
    ELEMENTWISE,
    FLOATS,
    self=lambda grad, self: grad * -w.rsqrt(-self * self + ONE[self.dtype]),
)
atan = op(
    "AtanBackward0",
    np.arctan,
    ELEMENTWISE,
    FLOATS,
    self=lambda grad, self: grad / (self * self + ONE[self.dtype]),
)
sinh = op(
    "SinhBackward0", np.sinh, ELEMENTWISE, FLOATS, self=lambda grad, self: grad * w.cosh(self)
)
cosh = op(
    "CoshBackward0", np.cosh, ELEMENTWISE, FLOATS, self=lambda grad, self: grad * w.sinh(self)
)
asinh = op(
    "AsinhBackward0",
    np.arcsinh,
    ELEMENTWISE,
    FLOATS,
    self=lambda grad, self: grad * w.rsqrt(self**2 + ONE[self.dtype]),
)
acosh = op(
    "AcoshBackward0",
    np.arccosh,
    ELEMENTWISE,
    FLOATS,
    self=lambda grad, self: grad * w.rsqrt(self * self - ONE[self.dtype]),
)
atanh = op(
    "AtanhBackward0",
    np.arctanh,
    ELEMENTWISE,
    FLOATS,
    self=lambda grad, self: grad * ONE[grad.dtype] / (ONE[self.dtype] - self**2),
)


def _without_derivative(name, ufunc):
    """An in-place function with a node but without derivative in PyTorch."""
    gradient = not_implemented(f"inplace version of {name}")
    return inplace(op(f"{name.capitalize()}Backward1", ufunc, UNKNOWN, FLOATS, self=gradient))


exp_ = inplace(exp)
exp2_ = inplace(exp2)
expm1_ = inplace(expm1)
log_ = inplace(log)
log2_ = inplace(log2)
log10_ = inplace(log10)
log1p_ = inplace(log1p)
sqrt_ = inplace(sqrt)
rsqrt_ = inplace(rsqrt)
sin_ = inplace(sin)
cos_ = inplace(cos)
tan_ = inplace(tan)
asin_ = inplace(asin)
acos_ = inplace(acos)
atan_ = inplace(atan)
sinh_ = inplace(sinh)
cosh_ = inplace(cosh)
asinh_ = _without_derivative("asinh", np.arcsinh)
acosh_ = _without_derivative("acosh", np.arccosh)
atanh_ = _without_derivative("atanh", np.arctanh)
family(globals())

alias(asin, "arcsin", twin=asin_)
alias(acos, "arccos", twin=acos_)
alias(atan, "arctan", twin=atan_)
alias(asinh, "arcsinh", twin=asinh_)
alias(acosh, "arccosh", twin=acosh_)
alias(atanh, "arctanh", twin=atanh_)
function_alias(exp2, "special.exp2")
function_alias(expm1, "special.expm1")
function_alias(log1p, "special.log1p")
