"""One number in, one number out: arithmetic."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.op import FLOATS, PROMOTES, family, inplace, op, w

mul = op(
    "MulBackward0",
    np.multiply,
    PROMOTES,
    self=lambda grad, other: grad * other,
    other=lambda grad, self: grad * self,
)
mul_ = inplace(mul)
add = op("AddBackward0", np.add, PROMOTES, self=lambda grad: grad, other=lambda grad: grad)
tanh = op(
    "TanhBackward0",
    np.tanh,
    FLOATS,
    self=lambda grad, result: w.tanh_backward(grad, result),
)
ONES = {np.dtype(kind): np.ones((), kind) for kind in ("f", "d", "e", "F", "D")}


def _tanh_backward(grad_output, result):
    made = result * result
    np.subtract(ONES[made.dtype], made, out=made)
    return np.multiply(made, grad_output, out=made)


tanh_backward = op(
    "TanhBackwardBackward0",
    _tanh_backward,
    PROMOTES,
    grad_output=lambda grad, result: w.tanh_backward(grad, result),
    result=lambda grad, grad_output, result: grad * grad_output * result * -2,
)
family(globals())
