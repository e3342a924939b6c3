"""Weight normalization: weights as direction and length."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    INTERNAL,
    REDUCES,
    UNKNOWN,
    family,
    joint,
    op,
    outputs,
)
from gradscope.runtime.core.ops.in_formulas import on_arrays
from gradscope.runtime.core.ops.losses.margins import norm__ScalarOpt_dim
from gradscope.runtime.core.ops.reduce.norms import norm_kernel, norm_slope
from gradscope.runtime.core.rows.offered import function

norm__Scalar = op(
    "NormBackward0",
    lambda self, p: norm_kernel(self, p, None, False),
    REDUCES,
    INTERNAL,
    self=lambda grad, self, p, result: norm_slope(grad, self, result, p, None, False),
)


def _scaled(v, g, dim=0):
    others = tuple(range(1, v.ndim)) if dim == 0 else tuple(range(v.ndim - 1))
    norms = np.sqrt((v * v).sum(others, keepdims=True))
    return v * (g / norms), norms


def _shaped(value, shape):
    return value.reshape(shape) if on_arrays(value) else value.view(shape)


def _scaled_backward(grads, v, g, result1, dim):
    """The gradients of direction and length.

    Under create_graph the norms have no graph, as in PyTorch: a second derivative lacks their part.
    """
    grad, first = grads[0], dim == 0
    size = v.shape[0 if first else -1]
    flat, spread = ((size, -1), (size, *(1,) * (v.ndim - 1)))
    if not first:
        flat, spread = flat[::-1], spread[::-1]
    along = _shaped(_shaped(grad * v, flat).sum(1 if first else 0), spread)
    to_v = (g / result1) * (grad - v * (along / (result1 * result1)))
    return to_v, along / result1


_weight_norm_interface = op(
    "WeightNormInterfaceBackward0",
    _scaled,
    UNKNOWN,
    INTERNAL,
    outputs("result0", "result1", without=("result1",)),
    joint("v", "g", by=_scaled_backward),
)
family(globals())


@function
def norm_except_dim(v, pow=2, dim=0):
    """The norm over all dims but one."""
    if dim == -1:
        return norm__Scalar(v, pow)
    size = v.size(dim)
    if dim == 0:
        shape = (size, *(1 for _ in range(v.dim() - 1)))
        return norm__ScalarOpt_dim(v.contiguous().view(size, -1), pow, (1,), False).view(shape)
    if dim == v.dim() - 1:
        shape = (*(1 for _ in range(v.dim() - 1)), size)
        return norm__ScalarOpt_dim(v.contiguous().view(-1, size), pow, (0,), False).view(shape)
    return norm_except_dim(v.transpose(0, dim), pow, 0).transpose(0, dim)


@function
def _weight_norm(v, g, dim=0):
    """`v` scaled to norms `g` over all dims but one."""
    if dim in {0, v.dim() - 1}:
        return _weight_norm_interface(v.contiguous(), g.contiguous(), dim)[0]
    return v * (g / norm_except_dim(v, 2, dim))
