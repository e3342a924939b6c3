"""Piecewise linear activations: relu, leaky_relu, hardtanh, threshold, shrinkage, prelu.

The derivative of each selects the pieces; it is linear in the gradient and constant in the input.
"""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    ELEMENTWISE,
    INTERNAL,
    Memory,
    family,
    inplace,
    joint,
    jvp,
    op,
    outputs,
    refuses,
    w,
)
from gradscope.runtime.core.kernels.arrays import elementwise as plain
from gradscope.runtime.core.ops.in_formulas import ZERO, scalar, zeros_like
from gradscope.runtime.core.tensors.making.elements import element


def _refused(name, kinds="cb"):
    return refuses(kinds, f"\"{name}\" not implemented for '{{kind}}'")


def _threshold(self, threshold, value):
    return np.where(self <= threshold, np.asarray(element(value, self.dtype), self.dtype), self)


relu = op(
    "ReluBackward0",
    lambda self: plain.relu(self) if self.size >= plain.FEW else np.maximum(self, ZERO[self.dtype]),
    ELEMENTWISE,
    refuses("b", "Boolean inputs not supported for relu", error=RuntimeError),
    refuses("c", "clamp is not supported for complex types"),
    self=lambda grad, result: w.threshold_backward(grad, result, 0),
)
threshold = op(
    "ThresholdBackward0",
    _threshold,
    ELEMENTWISE,
    INTERNAL,
    _refused("threshold_cpu"),
    self=lambda grad, self, threshold: w.threshold_backward(grad, self, threshold),
)
threshold__in_place = op(
    "ThresholdBackward1",
    _threshold,
    ELEMENTWISE,
    INTERNAL,
    _refused("threshold_cpu"),
    self=lambda grad, self, threshold: w.threshold_backward(grad, self, threshold),
)
threshold_backward = op(
    "ThresholdBackwardBackward0",
    lambda grad_output, self, threshold: plain.threshold_backward(grad_output, self, threshold),
    ELEMENTWISE,
    INTERNAL,
    grad_output=lambda grad, self, threshold: w.threshold_backward(grad, self, threshold),
    self=zeros_like,
)
leaky_relu = op(
    "LeakyReluBackward0",
    lambda self, negative_slope=0.01: np.where(
        self > ZERO[self.dtype], self, self * scalar(negative_slope, self.dtype)
    ),
    ELEMENTWISE,
    INTERNAL,
    _refused("leaky_relu_cpu", "cbiu"),
    self=lambda grad, self, negative_slope: w.leaky_relu_backward(grad, self, negative_slope),
)
leaky_relu__from_result = op(
    "LeakyReluBackward1",
    leaky_relu.op.kernel,
    ELEMENTWISE,
    INTERNAL,
    _refused("leaky_relu_cpu", "cbiu"),
    self=lambda grad, result, negative_slope: w.leaky_relu_backward(grad, result, negative_slope),
)
leaky_relu_backward = op(
    "LeakyReluBackwardBackward0",
    lambda grad_output, self, negative_slope: np.where(
        self > ZERO[self.dtype],
        grad_output,
        grad_output * scalar(negative_slope, grad_output.dtype),
    ),
    ELEMENTWISE,
    INTERNAL,
    grad_output=lambda grad, self, negative_slope: w.leaky_relu_backward(
        grad, self, negative_slope
    ),
    self=zeros_like,
)
hardtanh = op(
    "HardtanhBackward0",
    lambda self, min_val=-1, max_val=1: np.minimum(
        np.maximum(self, scalar(min_val, self.dtype)), scalar(max_val, self.dtype)
    ),
    ELEMENTWISE,
    INTERNAL,
    refuses("b", "Bool inputs not supported for hardtanh", error=RuntimeError),
    refuses("c", "clamp is not supported for complex types"),
    self=lambda grad, self, min_val, max_val: w.hardtanh_backward(grad, self, min_val, max_val),
)
hardtanh_backward = op(
    "HardtanhBackwardBackward0",
    lambda grad_output, self, min_val, max_val: np.where(
        (self <= min_val) | (self >= max_val), ZERO[grad_output.dtype], grad_output
    ),
    ELEMENTWISE,
    INTERNAL,
    grad_output=lambda grad, self, min_val, max_val: w.hardtanh_backward(
        grad, self, min_val, max_val
    ),
    self=zeros_like,
)
hardsigmoid = op(
    "HardsigmoidBackward0",
    lambda self: (np.clip(self + 3, 0, 6) / 6).astype(self.dtype),
    ELEMENTWISE,
    INTERNAL,
    _refused("hardsigmoid_cpu", "cbiu"),
    self=lambda grad, self: w.hardsigmoid_backward(grad, self),
)
hardsigmoid_backward = op(
    "HardsigmoidBackwardBackward0",
    lambda grad_output, self: np.where(
        (self > -3) & (self < 3), grad_output / 6, ZERO[grad_output.dtype]
    ),
    ELEMENTWISE,
    INTERNAL,
    grad_output=lambda grad, self: w.hardsigmoid_backward(grad, self),
    self=zeros_like,
)


def _hardswish_backward(grad_output, self):
    middle = grad_output * (self / 3 + 0.5)
    return np.where(self < -3, ZERO[self.dtype], np.where(self <= 3, middle, grad_output))


hardswish = op(
    "HardswishBackward0",
    lambda self: (self * (np.clip(self + 3, 0, 6) / 6)).astype(self.dtype),
    ELEMENTWISE,
    INTERNAL,
    _refused("hardswish_cpu", "cbiu"),
    self=lambda grad, self: w.hardswish_backward(grad, self),
)
hardswish_backward = op(
    "HardswishBackwardBackward0",
    _hardswish_backward,
    ELEMENTWISE,
    INTERNAL,
    grad_output=lambda grad, self: w.hardswish_backward(grad, self),
    self=lambda grad, grad_output, self: w.where(
        (self < -3) | (self > 3), zeros_like(grad), grad * grad_output / 3
    ),
)


def _shrunk(grad_output, self, lambd):
    inside = (self >= -lambd) & (self <= lambd)
    return np.where(inside, ZERO[grad_output.dtype], grad_output)


hardshrink = op(
    "HardshrinkBackward0",
    lambda self, lambd=0.5: _shrunk(self, self, lambd),
    ELEMENTWISE,
    INTERNAL,
    _refused("hardshrink_cpu", "cbiu"),
    self=lambda grad, self, lambd: w.hardshrink_backward(grad, self, lambd),
)
hardshrink_backward = op(
    "HardshrinkBackwardBackward0",
    _shrunk,
    ELEMENTWISE,
    INTERNAL,
    grad_output=lambda grad, self, lambd: w.hardshrink_backward(grad, self, lambd),
    self=zeros_like,
)
softshrink = op(
    "SoftshrinkBackward0",
    lambda self, lambd=0.5: (self - np.clip(self, -lambd, lambd)).astype(self.dtype),
    ELEMENTWISE,
    INTERNAL,
    _refused("softshrink_cpu", "cbiu"),
    self=lambda grad, self, lambd: w.softshrink_backward(grad, self, lambd),
)
softshrink_backward = op(
    "SoftshrinkBackwardBackward0",
    _shrunk,
    ELEMENTWISE,
    INTERNAL,
    grad_output=lambda grad, self, lambd: w.softshrink_backward(grad, self, lambd),
    self=zeros_like,
)


def _prelu_slopes(grad, self, weight):
    return w._prelu_kernel_backward(grad, self, weight)


def _prelu_slope_slopes(grads, grad_output, self, weight):
    """The gradients of prelu's backward: by the incoming gradient, the input and the weight."""
    kept = self > 0
    first, second = grads
    zero = zeros_like(first)
    return (
        w.where(kept, first, first * weight + second * self),
        w.where(kept, zero, second * grad_output),
        w.where(kept, zero, first * grad_output),
    )


def _prelu_pieces(grad_output, self, weight):
    kept = self > 0
    return (
        np.where(kept, grad_output, grad_output * weight),
        np.where(kept, ZERO[self.dtype], grad_output * self),
    )


def _prelu_turns(grad_output_t, self_t, weight_t, grad_output, self, weight):
    """The tangents of prelu's backward: each result is a product of two of its inputs."""
    kept, zero = self > 0, zeros_like(grad_output)
    turned = zero if grad_output_t is None else grad_output_t
    first, second = turned * weight, turned * self
    if weight_t is not None:
        first = first + grad_output * weight_t
    if self_t is not None:
        second = second + grad_output * self_t
    return w.where(kept, turned, first), w.where(kept, zero, second)


_prelu_kernel_backward = op(
    "PreluKernelBackwardBackward0",
    _prelu_pieces,
    jvp(_prelu_turns),
    INTERNAL,
    outputs("grad_self", "grad_weight"),
    joint("grad_output", "self", "weight", by=_prelu_slope_slopes),
)


_prelu_kernel = op(
    "PreluKernelBackward0",
    lambda self, weight: np.where(self > 0, self, self * weight),
    ELEMENTWISE,
    INTERNAL,
    joint("self", "weight", by=_prelu_slopes),
)


relu_ = inplace(relu)
threshold_ = inplace(threshold__in_place, memory=Memory(repeated=""))
leaky_relu_ = inplace(leaky_relu__from_result)
hardtanh_ = inplace(hardtanh)
hardswish_ = inplace(hardswish)
hardsigmoid_ = inplace(hardsigmoid)
family(globals())
