"""The incomplete gamma functions, igamma and igammac."""

from __future__ import annotations

from gradscope.runtime.core.calls.declare import (
    FLOATS,
    PROMOTES,
    TENSORS_ONLY,
    UNKNOWN,
    family,
    inplace,
    op,
    w,
)
from gradscope.runtime.core.kernels.special import gamma_function
from gradscope.runtime.core.ops.in_formulas import function_alias, not_implemented


def _density(self, other):
    """The derivative of the lower share by the point."""
    return w.exp((self - 1) * w.log(other) - other - w.lgamma(self))


igamma = op(
    "IgammaBackward0",
    lambda self, other: gamma_function.gammainc(self, other),
    UNKNOWN,
    PROMOTES,
    FLOATS,
    TENSORS_ONLY,
    self=not_implemented("igamma: input"),
    other=lambda grad, self, other: grad * _density(self, other),
)
igammac = op(
    "IgammacBackward0",
    lambda self, other: gamma_function.gammaincc(self, other),
    UNKNOWN,
    PROMOTES,
    FLOATS,
    TENSORS_ONLY,
    self=not_implemented("igammac: input"),
    other=lambda grad, self, other: -grad * _density(self, other),
)
igamma_ = inplace(igamma)
igammac_ = inplace(igammac)
family(globals())
function_alias(igamma, "special.gammainc")
function_alias(igammac, "special.gammaincc")
