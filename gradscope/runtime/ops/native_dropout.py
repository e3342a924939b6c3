"""Dropout that also gives what it kept: native_dropout."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.op import FUNCTION_ONLY, UNKNOWN, family, op, outputs, tensors, w
from gradscope.runtime.random import chosen


def _dropped(input, p, train):
    if train is False or p == 0 or not input.size:
        return input.copy(), np.ones(input.shape, bool)
    kept = chosen(None).bernoulli(1 - p, input.shape) != 0
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return input * kept * input.dtype.type(scale), kept


native_dropout = op(
    "NativeDropoutBackward0",
    _dropped,
    UNKNOWN,
    FUNCTION_ONLY,
    outputs("result0", "result1", without=("result1",)),
    input=lambda grads, result1, p, train: w.native_dropout_backward(
        grads[0], result1, 1.0 if not train else 0.0 if p == 1 else 1 / (1 - p)
    ),
)
native_dropout_backward = op(
    "NativeDropoutBackwardBackward0",
    lambda grad_output, mask, scale: grad_output * mask * grad_output.dtype.type(scale),
    UNKNOWN,
    FUNCTION_ONLY,
    tensors("mask"),
    grad_output=lambda grad, mask, scale: w.native_dropout_backward(grad, mask, scale),
)
family(globals())
