"""Losses that measure a distance: mse, l1, smooth_l1, huber."""

from __future__ import annotations

import math

import numpy as np

from gradscope.runtime.core.calls.declare import (
    ELEMENTWISE,
    INTERNAL,
    PROMOTES,
    REDUCES,
    family,
    op,
    refuses,
    w,
)
from gradscope.runtime.core.ops.in_formulas import zeros_like
from gradscope.runtime.core.rows.offered import FUNCTIONS, nn_function
from gradscope.runtime.core.rows.reduction import MEAN, reduced, reduced_tensor, reduction_number
from gradscope.runtime.core.rows.traits import AS_OPERANDS
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def no_gradient_for(function, **inputs):
    """Refuse tensors that require a gradient that the function does not have."""
    for name, given in inputs.items():
        if isinstance(given, Tensor) and given.requires_grad and local.state.grad_enabled:
            raise RuntimeError(
                f"The function '{function}' is not differentiable with respect to argument "
                f"'{name}'. This input cannot have requires_grad True."
            )


def share(like, reduction):
    """The share of one element in the loss."""
    if reduction != MEAN:
        return 1.0
    size = like.size if isinstance(like, np.ndarray) else like.numel()
    return 1 / size if size else math.nan


def times(array, grad, number):
    """Array * grad * number, with the two numbers multiplied first."""
    if grad.ndim:
        return array * grad * number
    return np.multiply(array, np.asarray(grad.item() * number, array.dtype))


def _mse(self, target, reduction):
    far = self - target
    return reduced(far * far, reduction)


mse_loss__default = op(
    "MseLossBackward0",
    _mse,
    REDUCES,
    refuses("cbiu", "\"mse_cpu\" not implemented for '{kind}'"),
    PROMOTES,
    INTERNAL,
    AS_OPERANDS,
    self=lambda grad, self, target, reduction: w.mse_loss_backward(grad, self, target, reduction),
    target=lambda grad, self, target, reduction: w.mse_loss_backward(grad, target, self, reduction),
)
mse_loss_backward = op(
    "MseLossBackwardBackward0",
    lambda grad_output, self, target, reduction: times(
        self - target, grad_output, 2 * share(self, reduction)
    ),
    ELEMENTWISE,
    INTERNAL,
    grad_output=lambda grad, self, target, reduction: (
        grad * (self - target) * (2 * share(self, reduction))
    ),
    self=lambda grad, grad_output, self, reduction: (
        grad * grad_output * (2 * share(self, reduction))
    ),
    target=lambda grad, grad_output, target, reduction: (
        -(grad * grad_output * (2 * share(target, reduction)))
    ),
)


def _smooth_l1(self, target, reduction, beta):
    far = np.abs(self - target)
    if beta == 0:
        return reduced(far, reduction)
    losses = np.where(far < beta, far * far * (0.5 / beta), far - 0.5 * beta)
    return reduced(losses.astype(far.dtype, copy=False), reduction)


def _smooth_l1_slope(self, target, beta):
    """-1, 1, or linear in between where the two are closer than beta."""
    far = self - target
    if beta == 0:
        return w.sign(far)
    return w.clamp(far / beta, -1.0, 1.0)


def _bend(grad, grad_output, self, target, near):
    """The change of a loss's derivative where it is not constant."""
    both = grad * grad_output
    return w.where(w.abs(self - target) < near, both, zeros_like(both))


smooth_l1_loss__default = op(
    "SmoothL1LossBackward0",
    _smooth_l1,
    REDUCES,
    PROMOTES,
    INTERNAL,
    AS_OPERANDS,
    self=lambda grad, self, target, reduction, beta: w.smooth_l1_loss_backward(
        grad, self, target, reduction, beta
    ),
    target=lambda grad, self, target, reduction, beta: w.smooth_l1_loss_backward(
        grad, target, self, reduction, beta
    ),
)
smooth_l1_loss_backward = op(
    "SmoothL1LossBackwardBackward0",
    lambda grad_output, self, target, reduction, beta: times(
        _smooth_l1_slope(self, target, beta), grad_output, share(self, reduction)
    ),
    ELEMENTWISE,
    INTERNAL,
    grad_output=lambda grad, self, target, reduction, beta: (
        grad * _smooth_l1_slope(self, target, beta) * share(self, reduction)
    ),
    self=lambda grad, grad_output, self, target, reduction, beta: (
        _bend(grad, grad_output, self, target, beta) * (share(self, reduction) / (beta or 1))
    ),
    target=lambda grad, grad_output, self, target, reduction, beta: (
        _bend(grad, grad_output, self, target, beta) * (-share(self, reduction) / (beta or 1))
    ),
)


def _huber(self, target, reduction, delta):
    far = np.abs(self - target)
    losses = np.where(far <= delta, far * far * 0.5, (far - 0.5 * delta) * delta)
    return reduced(losses.astype(far.dtype, copy=False), reduction)


huber_loss__default = op(
    "HuberLossBackward0",
    _huber,
    REDUCES,
    PROMOTES,
    INTERNAL,
    AS_OPERANDS,
    self=lambda grad, self, target, reduction, delta: w.huber_loss_backward(
        grad, self, target, reduction, delta
    ),
    target=lambda grad, self, target, reduction, delta: w.huber_loss_backward(
        grad, target, self, reduction, delta
    ),
)
huber_loss_backward = op(
    "HuberLossBackwardBackward0",
    lambda grad_output, self, target, reduction, delta: times(
        w.clamp(self - target, -delta, delta), grad_output, share(self, reduction)
    ),
    ELEMENTWISE,
    INTERNAL,
    grad_output=lambda grad, self, target, reduction, delta: (
        grad * w.clamp(self - target, -delta, delta) * share(self, reduction)
    ),
    self=lambda grad, grad_output, self, target, reduction, delta: (
        _bend(grad, grad_output, self, target, delta) * share(self, reduction)
    ),
    target=lambda grad, grad_output, self, target, reduction, delta: (
        _bend(grad, grad_output, self, target, delta) * -share(self, reduction)
    ),
)
family(globals())


def pair(input, target, name):
    """Both tensors broadcast, with PyTorch's warning if their shapes differ."""
    if input._array.shape == target._array.shape:
        return input, target
    warn(
        f"Using a target size ({target.shape}) that is different to the input size "
        f"({input.shape}). This will likely lead to incorrect results due to broadcasting. Please "
        "ensure they have the same size."
    )
    return FUNCTIONS["broadcast_tensors"](input, target)


def weighted(losses, weight, reduction):
    """Losses times their weights; the mean is weighted."""
    losses = losses * weight
    if reduction == MEAN:
        return losses.sum() / weight.sum()
    return reduced_tensor(losses, reduction)


@nn_function
def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The squared difference of each element."""
    kind = reduction_number(reduction, size_average, reduce)
    first, second = pair(input, target, "mse_loss")
    if weight is not None:
        return weighted((first - second) ** 2, weight, kind)
    return mse_loss__default(first, second, kind)


@nn_function
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The absolute difference of each element."""
    kind = reduction_number(reduction, size_average, reduce)
    first, second = pair(input, target, "l1_loss")
    losses = (first - second).abs()
    return reduced_tensor(losses, kind) if weight is None else weighted(losses, weight, kind)


@nn_function
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Squared below beta, linear above."""
    kind = reduction_number(reduction, size_average, reduce)
    first, second = pair(input, target, "smooth_l1_loss")
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(input, target, reduction=reduction)
    return smooth_l1_loss__default(first, second, kind, beta)


@nn_function
def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Squared below delta, linear above, times delta."""
    kind = reduction_number(reduction)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    first, second = pair(input, target, "huber_loss")
    if weight is not None:
        return weighted(huber_loss__default(first, second, 0, delta), weight, kind)
    return huber_loss__default(first, second, kind, delta)
