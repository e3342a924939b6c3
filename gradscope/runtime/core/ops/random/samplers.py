"""Gamma, Dirichlet, Poisson, binomial and Cauchy numbers, from the same streams as PyTorch's."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    ELEMENTWISE,
    FUNCTION_ONLY,
    INTERNAL,
    UNKNOWN,
    family,
    inplace,
    op,
    tensors,
    w,
)
from gradscope.runtime.core.kernels.random import reparameterized
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.ops.in_formulas import zeros_like
from gradscope.runtime.core.ops.random.random import NOTHING, as_it_lies
from gradscope.runtime.core.rows.offered import METHODS
from gradscope.runtime.core.rows.traits import ROW_BY_ROW
from gradscope.runtime.core.tensors.default_generator import chosen


def _least(array):
    """The replacement of samples that were rounded to zero."""
    kind = np.float32 if array.dtype in HALVES else array.dtype
    return np.finfo(kind).tiny


def _gamma(self, generator=None):
    drawn = chosen(generator).gamma(self.astype(np.float32) if self.dtype in HALVES else self)
    return np.maximum(drawn.astype(self.dtype), _least(self).astype(self.dtype))


def _dirichlet(self, generator=None):
    drawn = np.maximum(chosen(generator).gamma(self.astype(np.float64)), np.finfo(np.float64).tiny)
    shares = (drawn / drawn.sum(-1, keepdims=True)).astype(self.dtype)
    most = np.nextafter(np.float32(1), np.float32(0))
    return np.clip(shares, _least(self), most.astype(self.dtype))


def _poisson(self, generator=None):
    if not np.all(self >= 0):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return chosen(generator).poisson(self).astype(self.dtype)


def _binomial(count, prob, generator=None):
    if count.dtype != prob.dtype:
        raise RuntimeError(f"Found dtype {_name(prob)} but expected {_name(count)}")
    return chosen(generator).binomial(count, prob).astype(count.dtype)


def _name(array):
    return {"f8": "Double", "f4": "Float", "i8": "Long"}.get(array.dtype.str[1:], str(array.dtype))


def _cauchy(self, median=0.0, sigma=1.0, *, generator=None):
    if not sigma > 0.0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    target = as_it_lies(self)
    unit = chosen(generator).uniform(target.shape, np.float64)
    target[...] = median + sigma * np.tan(np.pi * (unit - 0.5))
    return self


def _log_normal(self, mean=1.0, std=2.0, *, generator=None):
    if not std > 0.0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    target = as_it_lies(self)
    normal = chosen(generator).normal(
        target.shape, np.float64, float(mean), float(std), contiguous=False
    )
    target[...] = np.exp(normal)
    return self


def _geometric(self, p, *, generator=None):
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    target = as_it_lies(self)
    unit = chosen(generator).uniform(target.shape, np.float64)
    target[...] = np.ceil(np.log(unit) / np.log1p(-p))
    return self


_standard_gamma = op(
    "StandardGammaBackward0",
    _gamma,
    UNKNOWN,
    FUNCTION_ONLY,
    self=lambda grad, self, result: grad * w._standard_gamma_grad(self, result),
)
_standard_gamma_grad = op(
    None,
    lambda self, output: reparameterized.standard_gamma_grad(self, output),
    tensors("output"),
    FUNCTION_ONLY,
)
_sample_dirichlet = op(None, _dirichlet, FUNCTION_ONLY)
_dirichlet_grad = op(
    None,
    lambda x, alpha, total: reparameterized.dirichlet_grad(x, alpha, total),
    tensors("x", "alpha", "total"),
    FUNCTION_ONLY,
)
poisson = op(
    "PoissonBackward0",
    _poisson,
    ELEMENTWISE,
    FUNCTION_ONLY,
    ROW_BY_ROW,
    self=lambda grad: zeros_like(grad),
)
binomial = op(
    "BinomialBackward0",
    _binomial,
    ELEMENTWISE,
    FUNCTION_ONLY,
    ROW_BY_ROW,
    count=lambda grad: zeros_like(grad),
    prob=lambda grad: zeros_like(grad),
)
_drawn_cauchy = op("CauchyBackward0", _cauchy, ELEMENTWISE, INTERNAL, **NOTHING)
_drawn_log_normal = op("LogNormalBackward0", _log_normal, ELEMENTWISE, INTERNAL, **NOTHING)
_drawn_geometric = op("GeometricBackward0", _geometric, ELEMENTWISE, INTERNAL, **NOTHING)
cauchy_ = inplace(_drawn_cauchy)
log_normal_ = inplace(_drawn_log_normal)
geometric_ = inplace(_drawn_geometric)
family(globals())
METHODS.update(cauchy_=cauchy_, log_normal_=log_normal_, geometric_=geometric_)
