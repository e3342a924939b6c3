"""Common parts of normalizations: dtypes, tangents, and second derivatives.

Each normalizes values over some dims, then scales and shifts them: normal = (x - mean) * rstd, made
= normal * weight + bias. The formulas here run on arrays and on tensors alike; weight and bias are
broadcastable to x.
"""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.ops.in_formulas import on_arrays, total, zeros_like

FLOAT32 = np.dtype(np.float32)


def parameter_dtype(input, *parameters):
    """The dtype of mean and rstd: halves may have parameters in single precision."""
    kinds = [p.dtype for p in parameters if p is not None]
    if all(kind == input.dtype for kind in kinds):
        return input.dtype
    if any(kind != FLOAT32 for kind in kinds):
        raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
    if input.dtype not in HALVES:
        raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")
    return FLOAT32


def wide(*arrays):
    """Arrays in the dtype of the computation: halves in single precision, None stays None."""
    return [a.astype(FLOAT32) if a is not None and a.dtype in HALVES else a for a in arrays]


def laid(array):
    """A contiguous batch, row-major or channels last, as in PyTorch."""
    if array.flags.c_contiguous or (array.ndim in (4, 5) and channels_last(array)):
        return array
    return np.ascontiguousarray(array)


def laid_like(array, other):
    """The same values in the layout of another array that `laid` returned."""
    if array is None or array.strides == other.strides:
        return array
    made = np.empty_like(other, dtype=array.dtype)
    made[...] = array
    return made


def channels_last(array):
    return np.moveaxis(array, 1, -1).flags.c_contiguous


def like_inputs(grads, *inputs):
    """Gradients in the dtypes of their inputs."""
    return tuple(
        None if g is None else g.astype(i.dtype, copy=False)
        for g, i in zip(grads, inputs, strict=True)
    )


def moments(input, dims, eps):
    """Mean and rstd of a tensor, with the history for further derivatives."""
    mean = input.mean(dims, keepdims=True)
    centred = input - mean
    return mean, ((centred * centred).mean(dims, keepdims=True) + eps) ** -0.5


def kept_moments(input, dims, mean, rstd):
    """The saved moments; on tensors with the history for further derivatives."""
    if on_arrays(input):
        return mean, rstd
    made = input.mean(dims, keepdims=True)
    centred = input - made
    variance = (centred * centred).mean(dims, keepdims=True)
    added = (rstd**-2 - variance).detach()  # eps, which was not saved
    return made, (variance + added) ** -0.5


def turned(grad, normal, rstd, dims):
    """The gradient of the input; also the tangent of the normalized values."""
    along = (grad * normal).mean(dims, keepdims=True)
    return (grad - grad.mean(dims, keepdims=True) - normal * along) * rstd


def tangent(tangents, normal, rstd, weight, dims):
    """The tangent of the result: `tangents` are those of x, weight and bias, or None."""
    to_x, to_weight, to_bias = tangents
    terms = [] if to_bias is None else [to_bias]
    if to_weight is not None:
        terms.append(normal * to_weight)
    if to_x is not None:
        moved = to_x * rstd if dims is None else turned(to_x, normal, rstd, dims)
        terms.append(moved if weight is None else moved * weight)
    return total(terms)


def three(grads):
    """The incoming gradients of a backward; trailing outputs may be missing."""
    return (*grads, None, None)[:3]


def curvature(grads, grad, normal, rstd, weight, dims):
    """The gradients of a backward by its inputs: the incoming gradient, x, and weight.

    `grads` are those of its results for x, weight and bias, or None; that of weight is returned in
    the shape of x. If mean and rstd are constants, `dims` is None.
    """
    of_x, of_weight, of_bias = three(grads)
    to_grad, to_x, to_weight = [], [], None
    if of_x is not None:
        moved = of_x * rstd if dims is None else turned(of_x, normal, rstd, dims)
        to_grad.append(moved if weight is None else moved * weight)
        to_weight = None if weight is None else grad * moved
        if dims is not None:
            scaled = grad if weight is None else grad * weight
            to_x.append(_bent(of_x, scaled, moved, normal, rstd, dims))
    if of_weight is not None:
        to_grad.append(normal * of_weight)
        pulled = grad * of_weight
        to_x.append(pulled * rstd if dims is None else turned(pulled, normal, rstd, dims))
    if of_bias is not None:
        to_grad.append(zeros_like(grad) + of_bias)
    return (total(to_grad) if to_grad else None, total(to_x) if to_x else None, to_weight)


def _bent(of_x, scaled, moved, normal, rstd, dims):
    """The derivative of x's gradient by x."""

    def mean(value):
        return value.mean(dims, keepdims=True)

    first, second = mean(of_x * normal), mean(scaled * normal)
    shared = mean(of_x * scaled) - mean(of_x) * mean(scaled) - first * second
    pulled = second * moved + first * turned(scaled, normal, rstd, dims)
    return -rstd * (rstd * normal * shared + pulled)
