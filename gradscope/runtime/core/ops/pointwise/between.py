"""Interpolation: lerp."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import ELEMENTWISE, family, inplace, op, refuses
from gradscope.runtime.core.dtypes.names import c_name
from gradscope.runtime.core.kernels.arrays.stepping import multiply_add
from gradscope.runtime.core.ops.in_formulas import beside
from gradscope.runtime.core.rows.offered import both, method


def _lerp(self, end, weight):
    """From the nearer end, as in PyTorch: exactly `end` for weight 1."""
    for name, array in (("end", end), ("weight", weight)):
        if isinstance(array, np.ndarray) and array.dtype != self.dtype:
            raise RuntimeError(
                f"expected dtype {c_name(self)} for `{name}` but got dtype {c_name(array)}"
            )
    weight = np.asarray(weight, self.dtype)
    if weight.ndim == 0:
        if abs(weight) < 0.5:
            return multiply_add(end - self, weight, self)
        return multiply_add(end - self, weight - weight.dtype.type(1), end)
    near = np.abs(weight) < 0.5
    share = np.where(near, weight, weight - weight.dtype.type(1))
    return multiply_add(end - self, share, np.where(near, self, end))


lerp__Scalar = op(
    "LerpBackward0",
    _lerp,
    ELEMENTWISE,
    refuses("biu", "\"lerp_kernel_scalar\" not implemented for '{kind}'"),
    self=lambda grad, weight: grad * beside(grad, 1 - weight),
    end=lambda grad, weight: grad * beside(grad, weight),
)
lerp__Tensor = op(
    "LerpBackward1",
    _lerp,
    ELEMENTWISE,
    refuses("biu", "\"lerp_kernel_tensor\" not implemented for '{kind}'"),
    self=lambda grad, weight: grad * (beside(weight, 1) - weight),
    end=lambda grad, weight: grad * weight,
    weight=lambda grad, self, end: grad * (end - self),
)
lerp___Scalar = inplace(lerp__Scalar)
lerp___Tensor = inplace(lerp__Tensor)
family(globals())


@both
def lerp(input, end, weight):
    """`input` for weight 0, `end` for weight 1, linear in between."""
    if hasattr(weight, "_array"):
        return lerp__Tensor(input, end, weight)
    return lerp__Scalar(input, end, weight)


@method
def lerp_(self, end, weight):
    if hasattr(weight, "_array"):
        return lerp___Tensor(self, end, weight)
    return lerp___Scalar(self, end, weight)
