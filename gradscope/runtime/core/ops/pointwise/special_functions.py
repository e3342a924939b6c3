"""Special functions of `torch.special`: Bessel's, normal tails, polynomials."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradscope.runtime.core.calls.declare import (
    ELEMENTWISE,
    FLOATS,
    FUNCTION_ONLY,
    INTERNAL,
    METHOD_ONLY,
    PROMOTES,
    UNKNOWN,
    family,
    inplace,
    numbers,
    op,
    refuses,
    w,
)
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.errors.dtypes import unknown_dtype
from gradscope.runtime.core.errors.numpy import invalid_combination
from gradscope.runtime.core.kernels.special import bessel, bessel_j_y, special as kernels, tails
from gradscope.runtime.core.kernels.special.polynomials import POLYNOMIALS
from gradscope.runtime.core.ops.in_formulas import (
    FormulaNumber,
    beside,
    function_alias,
    is_number,
    not_implemented,
    nothing,
    on_arrays,
    without,
)
from gradscope.runtime.core.ops.pointwise.arithmetic import add__Scalar, mul__Scalar
from gradscope.runtime.core.ops.pointwise.special import erf
from gradscope.runtime.core.rows.offered import FUNCTIONS
from gradscope.runtime.core.tensors.wrapping import wrapped_number

APART = (METHOD_ONLY, FUNCTION_ONLY)
"""Neither a method nor in the top module: only in `torch.special`."""
HALF = FormulaNumber(0.5)


def _refused(name):
    return refuses("c", f"\"{name}\" not implemented for '{{kind}}'")


def _special(node, kernel, name, *traits, **derivatives):
    return op(node, kernel, ELEMENTWISE, FLOATS, _refused(name), *traits, **derivatives)


def _i1_slope(grad, self, result):
    """I0 - I1 / x, and a half at zero."""
    small = w.abs(self) <= 1e-15
    divisor = w.where(small, nothing(self) + 1, self)
    slope = w.i0(self) - result / divisor
    return grad * w.where(small, HALF[slope.dtype] if _is_array(slope) else 0.5, slope)


def _i1e_slope(grad, self, result):
    small = w.abs(self) <= 1e-15
    divisor = w.where(small, nothing(self) + 1, self)
    slope = w.special_i0e(self) - result * (w.sgn(self) + w.reciprocal(divisor))
    return grad * w.where(small, HALF[slope.dtype] if _is_array(slope) else 0.5, slope)


def _is_array(value):
    return isinstance(value, np.ndarray | np.generic)


i0 = _special(
    "I0Backward0",
    lambda self: bessel.i0(self),
    "i0_vml_cpu",
    self=lambda grad, self: grad * w.special_i1(self),
)
i0_ = inplace(i0)
special_i0e = _special(
    "SpecialI0EBackward0",
    lambda self: bessel.i0e(self),
    "i0e_cpu",
    *APART,
    self=lambda grad, self, result: grad * (w.special_i1e(self) - w.sgn(self) * result),
)
special_i1 = _special(
    "SpecialI1Backward0", lambda self: bessel.i1(self), "i1_cpu", *APART, self=_i1_slope
)
special_i1e = _special(
    "SpecialI1EBackward0", lambda self: bessel.i1e(self), "i1e_cpu", *APART, self=_i1e_slope
)
special_entr = _special(
    "SpecialEntrBackward0",
    lambda self: tails.entr(self),
    "entr_cpu",
    *APART,
    self=lambda grad, self: grad * -(w.log(self) + beside(self, 1)),
)
special_ndtri = _special(
    "SpecialNdtriBackward0",
    lambda self: tails.ndtri(self),
    "ndtri_cpu",
    *APART,
    self=lambda grad, result: (
        grad * beside(grad, math.sqrt(2 * math.pi)) * w.exp(result * result / beside(result, 2))
    ),
)
special_log_ndtr = _special(
    "SpecialLogNdtrBackward0",
    lambda self: tails.log_ndtr(self),
    "log_ndtr_cpu",
    *APART,
    self=lambda grad, self, result: (
        grad
        / beside(grad, math.sqrt(2 * math.pi))
        * w.exp(-(result + self * self / beside(self, 2)))
    ),
)
special_erfcx = _special(
    "SpecialErfcxBackward0",
    lambda self: tails.erfcx(self),
    "erfcx_cpu",
    *APART,
    self=lambda grad, self, result: (
        (self * beside(self, 2.0) * result - beside(self, 2 / math.sqrt(math.pi))) * grad
    ),
)


def _xlog1py_slope(grad, self, other):
    slope = w.special_xlog1py(grad, other)
    return without(slope, (self == 0) & (other <= -1))


special_xlog1py__default = _special(
    "SpecialXlog1PyBackward0",
    lambda self, other: tails.xlog1py(self, other),
    "xlog1py_cpu",
    PROMOTES,
    INTERNAL,
    self=_xlog1py_slope,
    other=lambda grad, self, other: grad * self / (other + beside(other, 1)),
)
special_xlog1py__self_scalar = _special(
    "SpecialXlog1PyBackward1",
    lambda self, other: tails.xlog1py(np.asarray(self, other.dtype), other),
    "xlog1py_cpu",
    INTERNAL,
    numbers("self"),
    other=lambda grad, self, other: grad * beside(grad, self) / (other + beside(other, 1)),
)
special_xlog1py__other_scalar = _special(
    "SpecialXlog1PyBackward2",
    lambda self, other: tails.xlog1py(self, np.asarray(other, self.dtype)),
    "xlog1py_cpu",
    INTERNAL,
    self=lambda grad, self, other: (
        grad * beside(grad, math.log1p(other))
        if other > -1
        else without(grad * beside(grad, -math.inf if other == -1 else math.nan), self == 0)
    ),
)
special_zeta__default = op(
    "SpecialZetaBackward0",
    lambda self, other: tails.zeta(self, other),
    UNKNOWN,
    PROMOTES,
    FLOATS,
    INTERNAL,
    _refused("zeta_cpu"),
    self=not_implemented("zeta"),
    other=lambda grad, self, other: grad * -self * w.special_zeta(self + beside(self, 1.0), other),
)


def _zeta_slope(grad, self, other):
    if on_arrays(other):
        slope = tails.zeta(np.asarray(self + 1.0, other.dtype), other)
    else:
        slope = getattr(w, "special_zeta.self_scalar")(self + 1.0, other)
    return grad * beside(grad, -self) * slope


special_zeta__self_scalar = op(
    "SpecialZetaBackward1",
    lambda self, other: tails.zeta(np.asarray(self, other.dtype), other),
    UNKNOWN,
    FLOATS,
    INTERNAL,
    numbers("self"),
    other=_zeta_slope,
)
special_zeta__other_scalar = op(
    "SpecialZetaBackward2",
    lambda self, other: tails.zeta(self, np.asarray(other, self.dtype)),
    UNKNOWN,
    FLOATS,
    INTERNAL,
    self=not_implemented("zeta"),
)


def _mvlgamma(self, p):
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if self.dtype.kind == "c":
        raise unknown_dtype("arange_cpu", self)
    made = np.full(self.shape, p * (p - 1) / 4 * math.log(math.pi))
    for j in range(p):
        made = made + kernels.lgamma(self.astype(np.float64) - j / 2)
    return made.astype(self.dtype)


def _mvlgamma_slope(grad, self, p):
    total = w.digamma(self)
    for j in range(1, p):
        total = total + w.digamma(self - beside(self, j / 2))
    return grad * total


mvlgamma = op("MvlgammaBackward0", _mvlgamma, ELEMENTWISE, FLOATS, self=_mvlgamma_slope)
mvlgamma_ = inplace(mvlgamma)


def _plain(name, kernel):
    """A function without derivative in PyTorch."""
    return op(None, lambda self: kernel(self), FLOATS, _refused(f"{name}_cpu"), *APART)


BESSEL: dict[str, Callable[..., Any]] = {
    "airy_ai": bessel.airy_ai, "bessel_j0": bessel_j_y.j0, "bessel_j1": bessel_j_y.j1,
    "bessel_y0": bessel_j_y.y0, "bessel_y1": bessel_j_y.y1, "modified_bessel_i0": bessel.i0,
    "modified_bessel_i1": bessel.i1, "modified_bessel_k0": bessel.k0,
    "modified_bessel_k1": bessel.k1, "scaled_modified_bessel_k0": bessel.k0e,
    "scaled_modified_bessel_k1": bessel.k1e, "spherical_bessel_j0": bessel.spherical_j0,
}  # fmt: skip
for _name, _kernel in BESSEL.items():
    globals()[f"special_{_name}"] = _plain(_name, _kernel)


def _of_degree(kernel):
    return op(None, lambda self, other: kernel(self, other), PROMOTES, FLOATS, INTERNAL)


for _name, _kernel in POLYNOMIALS.items():
    globals()[f"special_{_name}"] = _of_degree(_kernel)
family(globals())


def _polynomial(name, row):
    def function(input, n):
        if is_number(input):
            if is_number(n):
                raise invalid_combination(f"special_{name}", (input, n))
            input = wrapped_number(input)
        return row(input, n)

    function.__name__ = function.__qualname__ = name
    return function


for _name in POLYNOMIALS:
    FUNCTIONS[f"special.{_name}"] = _polynomial(_name, globals()[f"special_{_name}"])
for _name in (*BESSEL, "entr", "erfcx", "i0e", "i1", "i1e", "log_ndtr", "ndtri"):
    FUNCTIONS[f"special.{_name}"] = globals()[f"special_{_name}"]


def _by_overload(name, both, first, second):
    def function(input, other):
        if is_number(other):
            if is_number(input):
                raise invalid_combination(f"special_{name}", (input, other))
            return second(input, other)
        return (first if is_number(input) else both)(input, other)

    function.__name__ = function.__qualname__ = name
    FUNCTIONS[f"special.{name}"] = function


_by_overload(
    "xlog1py",
    special_xlog1py__default,
    special_xlog1py__self_scalar,
    special_xlog1py__other_scalar,
)
_by_overload("zeta", special_zeta__default, special_zeta__self_scalar, special_zeta__other_scalar)


def ndtr(input):
    """The share of a normal distribution below each number."""
    if input._array.dtype.kind in "biu":
        input = input.to(dtypes.get_default_dtype())
    scaled = erf(mul__Scalar(input, math.sqrt(0.5)))
    return mul__Scalar(add__Scalar(scaled, 1), 0.5)


FUNCTIONS["special.ndtr"] = ndtr
function_alias(i0, "special.i0")
function_alias(mvlgamma, "special.multigammaln")
