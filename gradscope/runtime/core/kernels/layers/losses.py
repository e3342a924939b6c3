"""The negative log likelihood of classes, and its gradient."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.kernels.arrays.reduce import sum_to_size
from gradscope.runtime.core.kernels.support import Array


def nll_loss(
    log_probabilities: Array,
    target: Array,
    weight: Array | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> tuple[Array, Array]:
    """Return the loss of classes at dim 1 (dim 0 without a batch), and the sum of their weights."""
    weights = _weights(log_probabilities, target, weight, ignore_index)
    dim = min(1, log_probabilities.ndim - 1)
    places = np.expand_dims(np.where(target == ignore_index, 0, target), dim)
    picked = np.squeeze(np.take_along_axis(log_probabilities, places, dim), dim)
    losses = np.where(weights == 0, weights, -picked * weights)
    total = sum_to_size(weights, ())
    if reduction == "none":
        return losses, total
    loss = sum_to_size(losses, ())
    if reduction == "mean":
        with np.errstate(invalid="ignore"):  # a batch of ignored targets has no mean
            loss = np.asarray(loss / total)
    return loss, total


def nll_loss_backward(
    grad: Array,
    log_probabilities: Array,
    target: Array,
    weight: Array | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Array:
    """Return the gradient of the log probabilities."""
    weights = _weights(log_probabilities, target, weight, ignore_index)
    if reduction == "mean":
        with np.errstate(invalid="ignore", divide="ignore"):
            grad = np.asarray(grad / sum_to_size(weights, ()))
    dim = min(1, log_probabilities.ndim - 1)
    places = np.expand_dims(np.where(target == ignore_index, 0, target), dim)
    values = np.where(weights == 0, weights, -grad * weights)
    result = np.zeros_like(log_probabilities)
    np.put_along_axis(result, places, np.expand_dims(values, dim), dim)
    return result


def _weights(
    log_probabilities: Array, target: Array, weight: Array | None, ignore_index: int
) -> Array:
    """Return the weight of each target: that of its class, zero if it is ignored."""
    kept: Array = target != ignore_index
    classes = log_probabilities.shape[min(1, log_probabilities.ndim - 1)]
    outside = kept & ((target < 0) | (target >= classes))
    if outside.any():
        raise IndexError(f"Target {target[outside].flat[0]} is out of bounds.")
    if weight is None:
        return kept.astype(log_probabilities.dtype)
    counts: Array = weight[np.where(kept, target, 0)]
    return np.asarray(np.where(kept, counts, np.zeros((), weight.dtype)))
