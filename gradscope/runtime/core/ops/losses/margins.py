"""Losses of distances and margins: cosine_similarity, pairwise_distance, hinge, triplet."""

from __future__ import annotations

import math

import numpy as np

from gradscope.runtime.core.autograd.modes.grad_mode import no_grad
from gradscope.runtime.core.calls.declare import (
    INTERNAL,
    REDUCES,
    UNKNOWN,
    family,
    op,
    refuses,
    tensors,
    w,
)
from gradscope.runtime.core.errors.dtypes import other_dtype
from gradscope.runtime.core.errors.numpy import mismatch
from gradscope.runtime.core.ops.activations.functional import logsigmoid
from gradscope.runtime.core.ops.in_formulas import nn_alias, no_derivative, zeros_like
from gradscope.runtime.core.ops.losses.losses import no_gradient_for, share
from gradscope.runtime.core.ops.pointwise.arithmetic import (
    add__Scalar,
    mul__Scalar,
    sub__default,
    sub__Scalar,
)
from gradscope.runtime.core.ops.pointwise.choice import clamp_min__default, where__default
from gradscope.runtime.core.ops.reduce.norms import linalg_vector_norm, norm_kernel, norm_slope
from gradscope.runtime.core.ops.reduce.sums import sum__dim
from gradscope.runtime.core.rows.offered import function, nn_function
from gradscope.runtime.core.rows.reduction import reduced, reduced_tensor, reduction_number
from gradscope.runtime.core.rows.traits import AS_OPERANDS
from gradscope.runtime.core.tensors.questions import result_type
from gradscope.runtime.core.tensors.wrapping import wrapped_number

norm__ScalarOpt_dim = op(
    "NormBackward1",
    lambda self, p, dim, keepdim=False: norm_kernel(self, p, dim, keepdim),
    REDUCES,
    INTERNAL,
    self=lambda grad, self, p, dim, keepdim, result: norm_slope(
        grad, self, result, p, dim, keepdim
    ),
)


def _soft_margin(self, target, reduction):
    return reduced(np.log1p(np.exp(-target * self)), reduction)


def _soft_margin_slope(grad, self, target, reduction):
    steep = w.sigmoid(-target * self)
    return -target * steep * grad * share(self, reduction)


soft_margin_loss__default = op(
    "SoftMarginLossBackward0",
    _soft_margin,
    REDUCES,
    INTERNAL,
    tensors("target"),
    AS_OPERANDS,
    self=_soft_margin_slope,
)


def _check_classes(self, target, weight):
    """Check the arguments, with PyTorch's messages."""
    if self.ndim > 2 or (self.ndim and not self.shape[-1]):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(self.shape)}"
        )
    batch, classes = self.shape if self.ndim == 2 else (1, self.size)
    if target.ndim > 1 or target.size != batch:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected target size [{batch}], but got {list(target.shape)}. "
            f"Input has shape {list(self.shape)}."
        )
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {list(weight.shape)}"
        )
    if target.dtype != np.int64:
        raise other_dtype("Long", target)
    if target.size and not (target.min() >= 0 and target.max() < classes):
        raise RuntimeError("target out of range")


def _distances(self, target, p, margin, weight):
    """The margin violation of each wrong class."""
    rows = self if self.ndim == 2 else self.reshape(1, -1)
    right = np.expand_dims(target.reshape(-1), 1)
    near = np.maximum(margin - np.take_along_axis(rows, right, 1) + rows, 0)
    losses = near if p == 1 else near * near
    losses = losses if weight is None else losses * weight[right]
    np.put_along_axis(losses, right, 0, 1)
    return rows, right, near, losses


def _multi_margin(self, target, p=1, margin=1.0, weight=None, reduction=1):
    _check_classes(self, target, weight)
    rows, _, _, losses = _distances(self, target, p, margin, weight)
    each = losses.sum(1) / rows.dtype.type(rows.shape[1])
    return reduced(each if self.ndim == 2 else each[0], reduction)


def _multi_margin_backward(grad_output, self, target, p, margin, weight=None, reduction=1):
    rows, right, near, _ = _distances(self, target, p, margin, weight)
    slope = (near > 0).astype(rows.dtype) if p == 1 else 2 * near
    slope = slope if weight is None else slope * weight[right]
    np.put_along_axis(slope, right, 0, 1)
    np.put_along_axis(slope, right, -slope.sum(1, keepdims=True), 1)
    grad = grad_output if grad_output.ndim == 0 else grad_output[:, None]
    made = slope * grad * (share(np.empty(len(rows)), reduction) / rows.shape[1])
    return made.astype(rows.dtype).reshape(self.shape)


multi_margin_loss__default = op(
    "MultiMarginLossBackward0",
    _multi_margin,
    REDUCES,
    INTERNAL,
    tensors("target", "weight"),
    refuses("cbiu", "\"multi_margin_loss\" not implemented for '{kind}'"),
    self=lambda grad, self, target, p, margin, weight, reduction: w.multi_margin_loss_backward(
        grad, self, target, p, margin, weight, reduction
    ),
)


_once = no_derivative("multi_margin_loss_backward")
multi_margin_loss_backward = op(
    "NotImplemented",
    _multi_margin_backward,
    UNKNOWN,
    INTERNAL,
    tensors("target", "weight"),
    grad_output=_once,
    self=_once,
)
family(globals())


@function
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """The cosine of the angle between two vectors."""
    misfit = mismatch((x1.shape, x2.shape))
    if misfit:
        raise RuntimeError(misfit)
    if x1.dtype != x2.dtype or not (x1.is_floating_point() or x1.is_complex()):
        common = result_type(x1, x2)
        if not (common.is_floating_point or common.is_complex):
            raise RuntimeError(
                "expected common dtype to be floating point, yet common dtype is "
                f"{common.scalar_name}"
            )
        x1, x2 = x1.to(common), x2.to(common)
    shape = np.broadcast_shapes(x1.shape, x2.shape)
    if x1.shape != x2.shape:
        x1, x2 = x1.expand(shape), x2.expand(shape)
    lengths = [linalg_vector_norm(x, 2, (dim,), True).clone() for x in (x1, x2)]
    with no_grad():
        for length in lengths:
            length.clamp_min_(eps)
    other = x2 / lengths[1]  # before the first, as PyTorch numbers the nodes
    return sum__dim((x1 / lengths[0]) * other, (dim,), False)


@function
def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of the difference of two vectors."""
    last = max(x1.dim(), x2.dim()) - 1
    return norm__ScalarOpt_dim(add__Scalar(x1 - x2, eps), p, (last,), keepdim)


nn_alias(cosine_similarity, "cosine_similarity")
nn_alias(pairwise_distance, "pairwise_distance")


def _less(number, tensor):
    """`number - tensor` as a subtraction of two tensors."""
    return sub__default(wrapped_number(number), tensor)


@nn_function
def margin_ranking_loss(
    input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"
):
    """The margin violation of pairs with a given order."""
    kind = reduction_number(reduction, size_average, reduce)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    far = add__Scalar(-target * (input1 - input2), margin)
    return reduced_tensor(clamp_min__default(far, 0), kind)


@nn_function
def hinge_embedding_loss(
    input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"
):
    """The distance of similar pairs, the margin violation of dissimilar ones."""
    kind = reduction_number(reduction, size_average, reduce)
    nothing = zeros_like(input.detach())
    apart = where__default(target != 1, clamp_min__default(_less(margin, input), 0), nothing)
    return reduced_tensor(apart + where__default(target != -1, input, nothing), kind)


@nn_function
def cosine_embedding_loss(
    input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"
):
    """One minus the cosine of similar pairs, the margin violation of dissimilar ones."""
    kind = reduction_number(reduction, size_average, reduce)
    _check_cosine(input1, input2, target)
    dim = (target.dim(),)
    product = sum__dim(input1 * input2, dim, False)
    sizes = [add__Scalar(sum__dim(x * x, dim, False), 1e-12) for x in (input1, input2)]
    cosine = product / (sizes[0] * sizes[1]).sqrt()
    nothing = zeros_like(cosine.detach())
    far = _less(1.0, cosine)
    near = clamp_min__default(sub__Scalar(cosine, margin), 0)
    together = where__default(target == 1, far, nothing)
    return reduced_tensor(together + where__default(target == -1, near, nothing), kind)


def _check_cosine(input1, input2, target):
    """Check that there is one target for each pair of vectors."""
    if target.dim() > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    wanted = target.dim() + 1
    if not input1.dim() == input2.dim() == wanted:
        found = [str(list(x.shape)) for x in (input1, input2)]
        raise RuntimeError(
            f"{wanted - 1}D target tensor expects {wanted}D input tensors, but found inputs with "
            f"sizes {found[0]} and {found[1]}."
        )


@nn_function
def triplet_margin_loss(
    anchor,
    positive,
    negative,
    margin=1.0,
    p=2,
    eps=1e-6,
    swap=False,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    """The margin violation of the distances to the positive and the negative."""
    kind = reduction_number(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    dims = [x.dim() for x in (anchor, positive, negative)]
    if len(set(dims)) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {dims[0]}D, positive {dims[1]}D, and negative {dims[2]}D "
            "inputs"
        )
    near = pairwise_distance(anchor, positive, float(p), eps)
    far = pairwise_distance(anchor, negative, float(p), eps)
    if swap:
        far = far.minimum(pairwise_distance(positive, negative, float(p), eps))
    return reduced_tensor(clamp_min__default(add__Scalar(near, margin) - far, 0), kind)


@nn_function
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    return soft_margin_loss__default(
        input, target, reduction_number(reduction, size_average, reduce)
    )


@nn_function
def multilabel_soft_margin_loss(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean"
):
    """The mean binary cross entropy of several labels."""
    kind = reduction_number(reduction, size_average, reduce)
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    last = input.dim() - 1
    return reduced_tensor(loss.sum(dim=last) / input.size(last), kind)


@nn_function
def multi_margin_loss(
    input,
    target,
    p=1,
    margin=1.0,
    weight=None,
    size_average=None,
    reduce=None,
    reduction="mean",
):
    """The margin violation of wrong classes against the right one."""
    kind = reduction_number(reduction, size_average, reduce)
    if p not in {1, 2}:
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    no_gradient_for("multi_margin_loss", weight=weight)
    return multi_margin_loss__default(input, target, p, margin, weight, kind)


@nn_function
def poisson_nll_loss(
    input,
    target,
    log_input=True,
    full=False,
    size_average=None,
    eps=1e-8,
    reduce=None,
    reduction="mean",
):
    """The negative log likelihood of Poisson counts."""
    kind = reduction_number(reduction, size_average, reduce)
    if log_input:
        product = target * input  # before the other side, as PyTorch numbers the nodes
        loss = input.exp() - product
    else:
        loss = input - target * add__Scalar(input, eps).log()
    if full:
        rest = mul__Scalar(mul__Scalar(target, 2 * math.pi).log(), 0.5)
        stirling = target * target.log() - target + rest
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduced_tensor(loss, kind)


@nn_function
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """The negative log likelihood of normal numbers with given variances."""
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * input.new_ones(input.shape)
    elif (var < 0).any():
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        var = _per_element(input, var)
    if reduction not in {"none", "mean", "sum"}:
        raise ValueError(f"{reduction} is not valid")
    kind = reduction_number(reduction)
    var = var.clone()
    with no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced_tensor(loss, kind)


def _per_element(input, var):
    """A variance given once for the last dim, in broadcastable shape."""
    if input.size()[:-1] == var.size():
        return var.unsqueeze(-1)
    if input.size()[:-1] == var.size()[:-1] and var.size(-1) == 1:
        return var
    raise ValueError("var is of incorrect size")
