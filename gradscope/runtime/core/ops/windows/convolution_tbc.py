"""conv_tbc: a convolution over time, of (time, batch, channels)."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import INTERNAL, family, joint, jvp, op, w
from gradscope.runtime.core.errors.dtypes import unlike_dtypes
from gradscope.runtime.core.ops.in_formulas import total
from gradscope.runtime.core.ops.windows.convolution import _convolution
from gradscope.runtime.core.rows.offered import FUNCTIONS, NN_FUNCTIONS
from gradscope.runtime.core.tensors.dims import text

LINE = ((1,), (0,), (1,), False, (0,), 1)


def _checked(self, weight, bias, pad):
    if self.ndim != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.ndim != 3:
        raise RuntimeError(
            "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels."
        )
    if bias.ndim != 1:
        raise RuntimeError("Bias must be 1-D")
    if self.shape[2] != weight.shape[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if weight.shape[2] != bias.shape[0]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    long = self.shape[0] - weight.shape[0] + 1 + 2 * pad
    if long < 0:
        sizes = text((long, self.shape[1], bias.shape[0]))
        raise RuntimeError(f"Trying to create tensor with negative dimension {long}: {sizes}")
    if self.dtype != weight.dtype:
        raise unlike_dtypes("self", self, weight)


def _forward(self, weight, bias, pad=0):
    _checked(self, weight, bias, pad)
    series = self.transpose(1, 2, 0)
    if pad < 0:
        series, pad = series[:, :, -pad:pad], 0
    made = _convolution(series, weight.transpose(2, 1, 0), bias, (1,), (pad,), *LINE[2:])
    return np.ascontiguousarray(made.transpose(2, 0, 1))


def _backward(grad, self, weight, bias, pad, needs):
    """The gradients of the corresponding convolution over (batch, channels, time)."""
    series, rows = w.permute(self, (1, 2, 0)), w.permute(weight, (2, 1, 0))
    grads, cut = w.permute(grad, (1, 2, 0)), max(0, -pad)
    if cut:
        series, pad = w.constant_pad_nd(series, (-cut, -cut)), 0
    options = ((1,), (pad,), *LINE[2:])
    found = list(w.convolution_backward(grads, series, rows, (1,), *options, needs))
    if cut and found[0] is not None:
        found[0] = w.constant_pad_nd(found[0], (cut, cut))
    orders = ((2, 0, 1), (2, 1, 0), (0,))
    return tuple(
        None if one is None else w.permute(one, order)
        for one, order in zip(found, orders, strict=True)
    )


def _tangent(self_t, weight_t, bias_t, self, weight, bias, pad):
    terms = [] if bias_t is None else [bias_t]
    nothing = bias * 0
    if self_t is not None:
        terms.append(w.conv_tbc(self_t, weight, nothing, pad))
    if weight_t is not None:
        terms.append(w.conv_tbc(self, weight_t, nothing, pad))
    return total(terms)


conv_tbc__default = op(
    "ConvTbcBackward0",
    _forward,
    INTERNAL,
    jvp(_tangent),
    joint("self", "weight", "bias", by=_backward),
)
family(globals())


def conv_tbc(input, weight, bias, pad=0):
    """A convolution over time; the weight is (width, channels, out channels)."""
    return conv_tbc__default(input, weight, bias, pad)


FUNCTIONS["conv_tbc"] = NN_FUNCTIONS["conv_tbc"] = conv_tbc
