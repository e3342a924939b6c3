"""Losses of classes and of probabilities: nll_loss, cross_entropy, binary_cross_entropy, kl_div."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    ELEMENTWISE,
    INTERNAL,
    LINEAR,
    REDUCES,
    family,
    jvp,
    op,
    outputs,
    tensors,
    w,
)
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.errors.dtypes import other_dtype
from gradscope.runtime.core.kernels.layers import losses
from gradscope.runtime.core.ops.in_formulas import Scalar, beside, on_arrays, zeros_like
from gradscope.runtime.core.ops.losses.losses import share
from gradscope.runtime.core.rows.reduction import MEAN, NAMES, reduced
from gradscope.runtime.core.rows.traits import AS_OPERANDS

LOSS = outputs("output", "total_weight", without=("total_weight",))


def _rows(self, target, weight, ignore_index):
    """The positions of targets in a matrix of scores, if no class is ignored or weighted."""
    if self.ndim != 2 or weight is not None or not target.size or ignore_index >= 0:
        return None
    if target.dtype != np.int64 or target.ndim != 1 or not target.flags.c_contiguous:
        return None
    # A negative class, such as an ignored one, is a large unsigned number.
    if np.maximum.reduce(target.view(np.uint64)) >= self.shape[1]:
        return None
    return ROWS[: target.size] if target.size <= ROWS.size else np.arange(target.size)


ROWS = np.arange(256)


def _check_classes(self, target, weight):
    """Check that targets are one class for each row, or pixel, of scores."""
    classes = self.shape[1 if self.ndim > 1 else 0]
    rows = self.ndim < 3
    if rows and target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if not rows and target.ndim != 3:
        raise RuntimeError(
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: "
            f"{target.ndim}"
        )
    if weight is not None and (weight.size != classes or (rows and weight.ndim != 1)):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but "
            f"got weight tensor of shape: {list(weight.shape)}"
            if rows
            else "weight tensor should be defined either for all or no classes"
        )
    if target.dtype not in (np.int64, np.uint8):
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {scalar_name(target)}"
        )
    if weight is not None and weight.dtype != self.dtype:
        raise other_dtype(scalar_name(self), weight)


def _nll(self, target, weight=None, reduction=MEAN, ignore_index=-100):
    rows = _rows(self, target, weight, ignore_index)
    if rows is None:
        _check_classes(self, target, weight)
        made, total = losses.nll_loss(self, target, weight, NAMES[reduction], ignore_index)
        return made, total if reduction else np.zeros((), self.dtype)
    picked = np.negative(self[rows, target])
    count = np.asarray(target.size, self.dtype) if reduction else np.zeros((), self.dtype)
    return reduced(picked, reduction), count


def _nll_backward(
    grad_output, self, target, weight=None, reduction=MEAN, ignore_index=-100, total_weight=None
):
    rows = _rows(self, target, weight, ignore_index)
    if rows is None:
        name = NAMES[reduction]
        return losses.nll_loss_backward(grad_output, self, target, weight, name, ignore_index)
    made = np.zeros(self.shape, self.dtype)
    made[rows, target] = -(grad_output / target.size if reduction == MEAN else grad_output)
    return made


def _nll_rows(node, name):
    """Rows of a negative log likelihood and its gradient, for matrices and for images."""
    backward_name = f"{name}_backward"

    def slope(grads, self, target, weight, reduction, ignore_index, total_weight):
        back = getattr(w, backward_name)
        return back(grads[0], self, target, weight, reduction, ignore_index, total_weight)

    def turn(grad, target, weight, reduction, ignore_index):
        made = getattr(w, f"{name}_forward")(grad, target, weight, reduction, ignore_index)
        return made[0]

    def tangent(self_t, target, weight, reduction, ignore_index):
        return turn(self_t, target, weight, reduction, ignore_index), None

    loss = op(
        f"{node}Backward0",
        _nll,
        INTERNAL,
        jvp(tangent),
        LOSS,
        tensors("target", "weight"),
        self=slope,
    )
    backward = op(
        f"{node}BackwardBackward0",
        _nll_backward,
        LINEAR,
        INTERNAL,
        tensors("target", "weight", "total_weight"),
        grad_output=turn,
        self=zeros_like,
    )
    return loss, backward


nll_loss_forward, nll_loss_backward = _nll_rows("NllLoss", "nll_loss")
nll_loss2d_forward, nll_loss2d_backward = _nll_rows("NllLoss2D", "nll_loss2d")


def _bce(self, target, weight=None, reduction=MEAN):
    if self.size and (self.min() < 0 or self.max() > 1):
        raise RuntimeError("all elements of input should be between 0 and 1")
    if target.dtype != self.dtype:
        raise RuntimeError(f"Found dtype {scalar_name(target)} but expected {scalar_name(self)}")
    floor = self.dtype.type(-100)
    losses = (target - 1) * np.maximum(np.log1p(-self), floor) - target * np.maximum(
        np.log(self), floor
    )
    return reduced(losses if weight is None else losses * weight, reduction)


def _weighed(values, weight):
    return values if weight is None else values * weight


def _bce_slope(self, target):
    """(x - t) / x(1 - x)."""
    return (self - target) / w.clamp((1 - self) * self, 1e-12, None)


def _bce_curvature(self, target):
    both = w.clamp((1 - self) * self, 1e-12, None)
    return (self * self - 2 * self * target + target) / (both * both)


def _bce_backward(grad_output, self, target, weight=None, reduction=MEAN):
    slope = _weighed(_bce_slope(self, target), weight)
    return (slope * grad_output * share(self, reduction)).astype(self.dtype, copy=False)


binary_cross_entropy__default = op(
    "BinaryCrossEntropyBackward0",
    _bce,
    REDUCES,
    INTERNAL,
    tensors("weight"),
    AS_OPERANDS,
    self=lambda grad, self, target, weight, reduction: w.binary_cross_entropy_backward(
        grad, self, target, weight, reduction
    ),
    target=lambda grad, self, target, weight, reduction: _weighed(
        _mean_part(grad * -w.logit(self), self, reduction), weight
    ),
)
binary_cross_entropy_backward = op(
    "BinaryCrossEntropyBackwardBackward0",
    _bce_backward,
    ELEMENTWISE,
    INTERNAL,
    tensors("weight"),
    grad_output=lambda grad, self, target, weight, reduction: _weighed(
        grad * _bce_slope(self, target) * share(self, reduction), weight
    ),
    self=lambda grad, grad_output, self, target, weight, reduction: _weighed(
        grad * grad_output * _bce_curvature(self, target) * share(self, reduction), weight
    ),
    target=lambda grad, grad_output, self, weight, reduction: _weighed(
        grad * grad_output / (self * self - self) * share(self, reduction), weight
    ),
)


def _bce_with_logits(self, target, weight=None, pos_weight=None, reduction=MEAN):
    likelihood = np.minimum(self, 0) - np.log1p(np.exp(-np.abs(self)))
    if pos_weight is not None:
        likelihood = ((pos_weight - 1) * target + 1) * likelihood
    losses = (1 - target) * self - likelihood
    return reduced(_weighed(losses, weight).astype(self.dtype, copy=False), reduction)


def _logits_slope(grad, self, target, weight, pos_weight, reduction):
    if pos_weight is None:
        slope = (w.sigmoid(self) - target) * grad
    else:
        t = pos_weight * target
        slope = ((t + beside(t, 1) - target) * w.sigmoid(self) - t) * grad
    return _mean_part(_weighed(slope, weight), self, reduction)


def _mean_part(slope, self, reduction):
    if reduction != MEAN:
        return slope
    return slope / (self.size if on_arrays(self) else Scalar(self.numel()))


def _log_sigmoid(x):
    return w.log_sigmoid_forward(x)[0]


def _logits_target_slope(grad, self, target, weight, pos_weight, reduction):
    if pos_weight is None:
        slope = -self * grad
    else:
        slope = (_log_sigmoid(-self) - pos_weight * _log_sigmoid(self)) * grad
    return _mean_part(_weighed(slope, weight), self, reduction)


binary_cross_entropy_with_logits__default = op(
    "BinaryCrossEntropyWithLogitsBackward0",
    _bce_with_logits,
    REDUCES,
    INTERNAL,
    tensors("weight", "pos_weight"),
    self=_logits_slope,
    target=_logits_target_slope,
)
family(globals())
