"""Losses of classes and of probabilities in `nn.functional`."""

from __future__ import annotations

from gradscope.runtime.core.ops.layers.softmax import _log_softmax__default
from gradscope.runtime.core.ops.losses.classification import (
    binary_cross_entropy__default,
    binary_cross_entropy_with_logits__default,
    nll_loss2d_forward,
    nll_loss_forward,
)
from gradscope.runtime.core.ops.losses.losses import no_gradient_for
from gradscope.runtime.core.ops.pointwise.arithmetic import add__Scalar, div__Scalar, mul__Scalar
from gradscope.runtime.core.ops.pointwise.special import xlogy__Tensor
from gradscope.runtime.core.rows.offered import nn_function
from gradscope.runtime.core.rows.reduction import MEAN, NONE, reduced_tensor, reduction_number
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def _likelihood(input, target, weight, kind, ignore_index):
    """The negative log likelihood of classes at dim 1, which may be followed by any dims."""
    dims = input._array.ndim
    if dims != 2 or target._array.shape != input._array.shape[:1]:
        _check_batch(input, target)
    if weight is not None:
        no_gradient_for("nll_loss_forward" if dims <= 2 else "nll_loss2d_forward", weight=weight)
    if dims <= 2:
        return nll_loss_forward(input, target, weight, kind, ignore_index)[0]
    if dims == 4:
        return nll_loss2d_forward(input, target, weight, kind, ignore_index)[0]
    shape, classes = input.shape, input.shape[1]
    if target.shape != (shape[0], *shape[2:]):
        raise RuntimeError(
            f"Expected target size {[shape[0], *shape[2:]]}, got {list(target.shape)}"
        )
    flat = input.reshape(shape[0], classes, 1, -1)
    places = target.reshape(shape[0], 1, -1)
    made = nll_loss2d_forward(flat, places, weight, kind, ignore_index)[0]
    return made.reshape(shape[0], *shape[2:]) if kind == NONE else made


def _check_batch(input, target):
    if input.dim() < 1:
        raise ValueError(f"Expected 1 or more dimensions (got {input.dim()})")
    if input.dim() > 1 and target.dim() and input.shape[0] != target.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({input.shape[0]}) to match target batch_size "
            f"({target.shape[0]})."
        )


@nn_function
def nll_loss(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
):
    """The negative log likelihood of the target classes."""
    kind = reduction_number(reduction, size_average, reduce)
    return _likelihood(input, target, weight, kind, ignore_index)


@nn_function
def cross_entropy(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    """The cross entropy of scores; targets are classes, or a probability of each."""
    kind = reduction_number(reduction, size_average, reduce)
    if target.__class__ is not Tensor and not isinstance(target, Tensor):
        raise TypeError(
            "cross_entropy_loss(): argument 'target' (position 2) must be Tensor, not "
            f"{type(target).__name__}"
        )
    if label_smoothing > 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")
    dim = 0 if input.dim() == 1 else 1
    of_probabilities = input._array.shape == target._array.shape
    if of_probabilities and not target.is_floating_point():
        raise RuntimeError(
            "Expected floating point type for target with class probabilities, got "
            f"{target.dtype.scalar_name}"
        )
    scores = _log_softmax__default(input, dim)
    if of_probabilities:
        return _of_probabilities(scores, target, weight, kind, label_smoothing, dim)
    if label_smoothing > 0:
        return _smoothed(scores, target, weight, kind, ignore_index, label_smoothing, dim)
    return _likelihood(scores, target, weight, kind, ignore_index)


def _of_probabilities(scores, target, weight, kind, label_smoothing, dim):
    classes = scores.shape[dim]
    if label_smoothing:
        target = add__Scalar(mul__Scalar(target, 1 - label_smoothing), label_smoothing / classes)
    products = scores * target
    if weight is not None:
        products = products * _per_class(weight, scores, dim)
    if kind == NONE:
        return -products.sum(dim)
    total = -products.sum()
    return div__Scalar(total, scores.numel() // max(classes, 1)) if kind == MEAN else total


def _per_class(weight, scores, dim):
    shape = [1] * scores.dim()
    shape[dim] = weight.shape[0]
    return weight.view(shape)


def _smoothed(scores, target, weight, kind, ignore_index, label_smoothing, dim):
    """Label smoothing: a part of the likelihood is spread over all classes."""
    classes = scores.shape[dim]
    sharp = _likelihood(scores, target, weight, kind, ignore_index)
    spread = scores if weight is None else scores * _per_class(weight, scores, dim)
    spread = -spread.sum(dim)
    ignored = target == ignore_index
    spread = spread.masked_fill(ignored, 0)
    if kind == MEAN:
        kept = ~ignored
        count = kept if weight is None else weight[target.masked_select(kept)]
        spread = spread.sum() / count.sum()
    else:
        spread = reduced_tensor(spread, kind)
    # The right side first, as PyTorch numbers the nodes.
    spread = mul__Scalar(spread, label_smoothing / classes)
    return mul__Scalar(sharp, 1 - label_smoothing) + spread


@nn_function
def binary_cross_entropy(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """The cross entropy of probabilities and targets between 0 and 1."""
    kind = reduction_number(reduction, size_average, reduce)
    if target.shape != input.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    if weight is not None:
        no_gradient_for("binary_cross_entropy", weight=weight)
        weight = weight.expand(target.shape)
    return binary_cross_entropy__default(input, target, weight, kind)


@nn_function
def binary_cross_entropy_with_logits(
    input,
    target,
    weight=None,
    size_average=None,
    reduce=None,
    reduction="mean",
    pos_weight=None,
):
    """The same for scores, whose sigmoid is the probability."""
    kind = reduction_number(reduction, size_average, reduce)
    if target.shape != input.shape:
        raise ValueError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    if not target.is_floating_point():
        raise RuntimeError(_no_probabilities(input, target))
    no_gradient_for("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    return binary_cross_entropy_with_logits__default(input, target, weight, pos_weight, kind)


def _no_probabilities(input, target):
    if target.dtype.scalar_name == "Bool":
        return (
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    return (
        f"result type {input.dtype.scalar_name} can't be cast to the desired output type "
        f"{target.dtype.scalar_name}"
    )


@nn_function
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """The Kullback-Leibler divergence of the target from the distribution `exp(input)`."""
    batch = reduction == "batchmean"
    if reduction == "mean" and size_average is None and reduce is None:
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next major "
            "release."
        )
    if not input.is_floating_point():
        kind = "Complex" if input.is_complex() else "Integral"
        raise RuntimeError(f"kl_div: {kind} inputs not supported.")
    number = reduction_number("sum" if batch else reduction, size_average, reduce)
    if log_target:
        losses = target.exp() * (target - input)
    else:
        losses = xlogy__Tensor(target, target) - target * input
    made = reduced_tensor(losses, number)
    return made / input.shape[0] if batch and input.dim() else made
