"""Views and other changes of shape."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.op import INTERNAL, family, op, view, w

select = view(
    "SelectBackward0",
    lambda self, dim, index: self[(slice(None),) * dim + (index, ...)],
    self=lambda grad, self_shape, dim, index: w.select_backward(grad, self_shape, dim, index),
)


def _select_backward(grad_output, input_sizes, dim, index):
    made = np.zeros(input_sizes, grad_output.dtype)
    made[(slice(None),) * dim + (index,)] = grad_output
    return made


select_backward = op(
    "SelectBackwardBackward0",
    _select_backward,
    INTERNAL,
    grad_output=lambda grad, dim, index: w.select(grad, dim, index),
)
clone = op("CloneBackward0", lambda self: self.copy(), self=lambda grad: grad)
family(globals())
