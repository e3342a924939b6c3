"""native_dropout: dropout that also returns its mask."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    FUNCTION_ONLY,
    INTERNAL,
    UNKNOWN,
    family,
    op,
    outputs,
    w,
)
from gradscope.runtime.core.ops.in_formulas import is_whole, not_implemented, on_arrays
from gradscope.runtime.core.rows.traits import AS_THE_FIRST
from gradscope.runtime.core.tensors.default_generator import chosen


def _dropped(input, p, train):
    if train is False or p == 0 or not input.size:
        return input.copy(), np.ones(input.shape, bool)
    kept = chosen(None).bernoulli(1 - p, input.shape) != 0
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return input * kept * input.dtype.type(scale), kept


def _slope(grads, result1, p, train):
    scale = 1.0 if not train else 0.0 if p == 1 else 1 / (1 - p)
    if on_arrays(grads[0]):
        return w.native_dropout_backward(grads[0], result1, scale)
    return grads[0] * (result1.to(grads[0].dtype) * scale)


native_dropout = op(
    "NativeDropoutBackward0",
    _dropped,
    UNKNOWN,
    FUNCTION_ONLY,
    outputs("result0", "result1", without=("result1",)),
    AS_THE_FIRST,
    input=_slope,
)


def _scaled(grad_output, mask, scale):
    kind = np.dtype(np.float32) if is_whole(grad_output) else grad_output.dtype
    return grad_output.astype(kind, copy=False) * mask.astype(kind) * kind.type(scale)


native_dropout_backward = op(
    "NativeDropoutBackwardBackward0",
    _scaled,
    UNKNOWN,
    INTERNAL,
    grad_output=lambda grad, grad_output, mask, scale: w.native_dropout_backward(grad, mask, scale),
    mask=not_implemented("native_dropout_backward: mask"),
)
family(globals())
