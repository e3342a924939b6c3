"""Rounding, signs, absolute values, and replacing NaN."""

from __future__ import annotations

import math

import numpy as np

from gradscope.runtime.core.calls.declare import (
    BY_HAND,
    ELEMENTWISE,
    FLOATS,
    LINEAR,
    REDUCES,
    family,
    inplace,
    jvp,
    op,
    refuses,
    w,
)
from gradscope.runtime.core.kernels.arrays import elementwise as plain
from gradscope.runtime.core.ops.in_formulas import (
    ZERO,
    alias,
    beside,
    is_complex,
    is_whole,
    zeros_like,
)
from gradscope.runtime.core.rows.offered import both, method


def _on_fractions(step):
    """A rounding function, which leaves integers unchanged."""

    def kernel(self):
        return self.copy() if is_whole(self) else step(self)

    return kernel


def _round_decimals(self, decimals):
    scale = 10.0 ** math.fabs(decimals)
    made = np.rint(self * scale if decimals >= 0 else self / scale)
    return (made / scale if decimals >= 0 else made * scale).astype(self.dtype)


def _sign(self):
    """-1, 0 or 1; zero for NaN, as in PyTorch. For a complex number z / |z|."""
    if self.dtype.kind == "b":
        return self.copy()
    made = np.sign(self)
    return made if self.dtype.kind in "iu" else np.where(np.isnan(made), ZERO[made.dtype], made)


def _sgn_slope(grad, self, result):
    """Zero for a real sign; for z / |z| the part along the circle."""
    if not is_complex(self):
        return zeros_like(grad)
    size = w.abs(self)
    turned = grad - result * (result.conj() * grad).real
    return w.where(size == 0, zeros_like(grad), turned / w.where(size == 0, size + 1, size))


def _no_complex(name):
    return refuses("cb", f"\"{name}_vml_cpu\" not implemented for '{{kind}}'")


def _not(name):
    """Messages of rounding functions for bools and complex numbers."""
    return (
        refuses("b", f"\"{name}_vml_cpu\" not implemented for '{{kind}}'"),
        refuses("c", f"{name} is not supported for complex inputs"),
    )


floor = op("FloorBackward0", _on_fractions(np.floor), ELEMENTWISE, *_not("floor"), self=zeros_like)
ceil = op("CeilBackward0", _on_fractions(np.ceil), ELEMENTWISE, *_not("ceil"), self=zeros_like)
trunc = op("TruncBackward0", _on_fractions(np.trunc), ELEMENTWISE, *_not("trunc"), self=zeros_like)
round__default = op(
    "RoundBackward0", _on_fractions(np.rint), ELEMENTWISE, _no_complex("round"), self=zeros_like
)
round__decimals = op(
    "RoundBackward1",
    _round_decimals,
    ELEMENTWISE,
    refuses("cbiu", "\"round_cpu\" not implemented for '{kind}'"),
    self=zeros_like,
)
frac = op(
    "FracBackward0",
    lambda self: self - np.trunc(self),
    ELEMENTWISE,
    refuses("cbiu", "\"frac_cpu\" not implemented for '{kind}'"),
    self=lambda grad: grad,
)
sign = op(
    "SignBackward0",
    _sign,
    ELEMENTWISE,
    refuses(
        "c",
        "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn "
        "instead.",
    ),
    self=zeros_like,
)
sgn = op(
    "SgnBackward0",
    _sign,
    BY_HAND,
    jvp(lambda self_t, self, result: _sgn_slope(self_t, self, result)),
    self=_sgn_slope,
)


def _abs_in(self):
    if self.dtype.kind == "c":
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    return np.absolute(self)


abs = op(
    "AbsBackward0",
    np.absolute,
    REDUCES,
    BY_HAND,
    refuses("b", "\"abs_cpu\" not implemented for '{kind}'"),
    self=lambda grad, self: grad * w.sgn(self),
)
deg2rad = op(
    "Deg2RadBackward0",
    lambda self: self * np.asarray(math.pi / 180, self.dtype),
    LINEAR,
    FLOATS,
    refuses("c", "deg2rad is not supported for complex tensors.", error=RuntimeError),
    self=lambda grad: grad * beside(grad, math.pi / 180),
)
rad2deg = op(
    "Rad2DegBackward0",
    lambda self: self * np.asarray(180 / math.pi, self.dtype),
    LINEAR,
    FLOATS,
    refuses("c", "rad2deg is not supported for complex tensors.", error=RuntimeError),
    self=lambda grad: grad * beside(grad, 180 / math.pi),
)
nan_to_num = op(
    "NanToNumBackward0",
    lambda self, nan=None, posinf=None, neginf=None: plain.nan_to_num(self, nan, posinf, neginf),
    ELEMENTWISE,
    self=lambda grad, self: grad * w.isfinite(self),
)

floor_ = inplace(floor)
ceil_ = inplace(ceil)
trunc_ = inplace(trunc)
round___default = inplace(round__default)
round___decimals = inplace(round__decimals)
frac_ = inplace(frac)
sign_ = inplace(sign)
sgn_ = inplace(sgn)
abs_ = inplace(abs, _abs_in)
deg2rad_ = inplace(deg2rad)
rad2deg_ = inplace(rad2deg)
nan_to_num_ = inplace(nan_to_num)
family(globals())


@both
def round(input, *, decimals=None):
    """Round to the nearest integer, ties to even."""
    return round__default(input) if decimals is None else round__decimals(input, decimals)


@method
def round_(self, *, decimals=None):
    return round___default(self) if decimals is None else round___decimals(self, decimals)


alias(trunc, "fix", twin=trunc_)
alias(abs, "absolute", twin=abs_)
