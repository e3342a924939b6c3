"""Losses of several labels, of custom distances, and of a linear layer with classes."""

from __future__ import annotations

import math
import warnings

import numpy as np

from gradscope.runtime.core.calls.declare import (
    INTERNAL,
    UNKNOWN,
    family,
    op,
    outputs,
    refuses,
    tensors,
    w,
)
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.errors.dtypes import other_dtype
from gradscope.runtime.core.ops.in_formulas import no_derivative
from gradscope.runtime.core.ops.losses.losses import share
from gradscope.runtime.core.rows.offered import FUNCTIONS, nn_function
from gradscope.runtime.core.rows.reduction import reduced, reduction_number
from gradscope.runtime.core.state import upward


def _target_mask(target):
    """A mask of the target classes: those listed before the first negative number."""
    mask = np.zeros(target.shape, bool)
    for row, named in zip(mask, target, strict=True):
        ends = np.flatnonzero(named < 0)
        row[named[: ends[0] if ends.size else None]] = True
    return mask


def _rows(self, target):
    if self.ndim > 2 or (self.ndim and not self.shape[-1]):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(self.shape)}"
        )
    if target.shape != self.shape:
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(self.shape)}"
        )
    if target.dtype != np.int64:
        raise other_dtype("Long", target)
    shape = self.shape if self.ndim == 2 else (1, self.size)
    if target.size and target.max() >= shape[1]:
        raise RuntimeError("argument #2 'target' is out of range")
    return self.reshape(shape), target.reshape(shape)


def _named(target):
    """A mask of the targets before the first negative number, for each row."""
    return np.logical_and.accumulate(target >= 0, 1)


def _near(rows, target, mask):
    """The margin violation of each other class for each target."""
    right = np.take_along_axis(rows, np.maximum(target, 0), 1)
    near = 1 - right[:, :, None] + rows[:, None, :]
    wanted = _named(target)[:, :, None] & ~mask[:, None, :]
    return np.where(wanted & (near > 0), near, 0), wanted & (near > 0)


def _multilabel(self, target, reduction):
    rows, named = _rows(self, target)
    mask = _target_mask(named)
    near, _ = _near(rows, named, mask)
    each = near.sum((1, 2)) / rows.dtype.type(rows.shape[1])
    made = reduced(each if self.ndim == 2 else each[0], reduction)
    return made, mask.reshape(self.shape).astype(self.dtype)


def _multilabel_back(grad_output, self, target, reduction, is_target):
    rows, named = _rows(self, target)
    _, inside = _near(rows, named, is_target.reshape(rows.shape) != 0)
    slope = inside.sum(1).astype(rows.dtype)
    less = inside.sum(2).astype(rows.dtype)
    sample, place = np.nonzero(_named(named))
    np.subtract.at(slope, (sample, named[sample, place]), less[sample, place])
    grad = grad_output if grad_output.ndim == 0 else grad_output[:, None]
    made = slope * grad * (share(np.empty(len(rows)), reduction) / rows.shape[1])
    return made.astype(rows.dtype).reshape(self.shape)


multilabel_margin_loss_forward = op(
    "MultilabelMarginLossBackward0",
    _multilabel,
    UNKNOWN,
    INTERNAL,
    tensors("target"),
    refuses("cbiu", "\"multilabel_margin_loss_forward_out_frame\" not implemented for '{kind}'"),
    outputs("output", "is_target", without=("is_target",)),
    self=lambda grads, self, target, reduction, is_target: w.multilabel_margin_loss_backward(
        grads[0], self, target, reduction, is_target
    ),
)
_once = no_derivative("multilabel_margin_loss_backward")
multilabel_margin_loss_backward = op(
    "NotImplemented",
    _multilabel_back,
    UNKNOWN,
    INTERNAL,
    tensors("target", "is_target"),
    grad_output=_once,
    self=_once,
)
family(globals())


@nn_function
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """The hinge loss of all pairs of a target class and another class."""
    kind = reduction_number(reduction, size_average, reduce)
    return multilabel_margin_loss_forward(input, target, kind)[0]


@nn_function
def triplet_margin_with_distance_loss(
    anchor,
    positive,
    negative,
    *,
    distance_function=None,
    margin=1.0,
    swap=False,
    reduction="mean",
):
    """triplet_margin_loss with a custom distance."""
    if reduction not in {"mean", "sum", "none"}:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    dims = [x.ndim for x in (anchor, positive, negative)]
    if len(set(dims)) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {dims[0]}D, positive {dims[1]}D, and negative {dims[2]}D "
            "inputs"
        )
    distance = distance_function or FUNCTIONS["pairwise_distance"]
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    loss = (margin + near - far).clamp_min(0)
    return loss if reduction == "none" else getattr(loss, reduction)()


@nn_function
def linear_cross_entropy(
    input,
    linear_weight,
    target,
    *,
    linear_bias=None,
    weight=None,
    reduction="mean",
    ignore_index=None,
    label_smoothing=0.0,
    options=None,
):
    """The cross entropy of the output of a linear layer.

    `options` choose to compute it a few rows at a time.
    """
    classes, outer = _check_linear(input, linear_weight, linear_bias)
    shape = (*input.shape[:-1], classes, *outer)
    if tuple(target.shape) == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignore_index = -100 if ignore_index is None else ignore_index
    known = target.dtype is dtypes.int64 and reduction in {"mean", "sum", "none"}
    if options is not None and known and label_smoothing == 0.0 and not outer:
        return upward.cross_entropy_in_pieces(
            input, linear_weight, target, linear_bias=linear_bias, weight=weight,
            reduction=reduction, ignore_index=ignore_index, options=options,
        )  # fmt: skip
    if options is not None:
        bias = None if linear_bias is None else tuple(linear_bias.shape)
        warnings.warn(
            "linear_cross_entropy: ``options`` ignored; chunked path needs reduction in "
            "{'mean','sum','none'}, label_smoothing == 0, target.dtype == int64, out_features == "
            f"(). Got reduction={reduction!r}, label_smoothing={label_smoothing}, "
            f"target.dtype={target.dtype}, out_features={outer}, tracing=False, "
            f"linear_bias.shape={bias}.",
            stacklevel=2,
        )
    if outer:
        count = math.prod(outer, start=classes)
        linear_weight = linear_weight.reshape(count, input.shape[-1])
        linear_bias = None if linear_bias is None else linear_bias.reshape(count)
    scores = _functional("linear")(input, linear_weight, linear_bias).reshape(shape)
    return _functional("cross_entropy")(
        scores,
        target,
        weight=weight,
        reduction=reduction,
        ignore_index=ignore_index,
        label_smoothing=label_smoothing,
    )


def _functional(name):
    from gradscope.runtime.core.rows.offered import NN_FUNCTIONS

    return NN_FUNCTIONS[name]


def _check_linear(input, linear_weight, linear_bias):
    """The number of classes, and the dims after them."""
    if not 1 <= input.dim() <= 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    classes, outer = linear_weight.shape[0], tuple(linear_weight.shape[1:-1])
    if linear_bias is not None and tuple(linear_bias.shape) != (classes, *outer):
        raise RuntimeError(
            f"expected linear_bias shape {(classes, *outer)}, got {tuple(linear_bias.shape)}"
        )
    if outer and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} "
            f"requires batched input, (N, {input.shape[-1]}), got unbatched input with shape "
            f"{tuple(input.shape)}"
        )
    return classes, outer
