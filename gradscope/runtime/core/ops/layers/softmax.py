"""softmax, log_softmax and softmin."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradscope.runtime.core.calls.declare import (
    ELEMENTWISE,
    FUNCTION_ONLY,
    INTERNAL,
    family,
    jvp,
    op,
    refuses,
    w,
)
from gradscope.runtime.core.kernels.layers import row_softmax as rows
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.ops.in_formulas import ONES, function_alias, nn_alias
from gradscope.runtime.core.rows.offered import both, nn_function
from gradscope.runtime.core.rows.traits import ROW_BY_ROW
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.dims import wrapped

max_reduce: Any = np.maximum.reduce
add_reduce: Any = np.add.reduce


def _refused(name):
    return refuses("cbiu", f"\"{name}\" not implemented for '{{kind}}'")


MANY, WIDE = 1024, 64
"""Largest size of a small matrix, and largest length of its rows."""


def square_of(array, dim):
    """A matrix of ones: the product with a small matrix has each row's sum in all its columns.

    NumPy takes three times as long to sum the rows, and as long again for the division.
    """
    if array.size > MANY or array.ndim != 2 or dim not in (-1, 1) or not array.size:
        return None
    width = array.shape[1]
    ones = ONES.get(array.dtype)
    return None if ones is None or width > WIDE else ones[width, width]


def _small_softmax(self, ones):
    """Softmax without subtracting each row's maximum, if no number is too large for that."""
    if not self.item(self.argmax()) < 60:
        return None
    made = np.exp(self)
    sums = made.dot(ones)
    return made / sums if sums.item(sums.argmin()) > 1e-4 else None


def _softmax(self, dim):
    ones = square_of(self, dim)
    if ones is not None and (made := _small_softmax(self, ones)) is not None:
        return made
    if rows.wins(self, dim):
        return rows.FAST.kernels.softmax(self)
    if self.dtype in HALVES:
        return _softmax(self.astype(np.float32), dim).astype(self.dtype)
    if not self.size or not self.ndim:
        wrapped(dim, self.ndim)
        return np.asarray(np.exp(self - self))  # one, unless it is not finite
    made = np.ascontiguousarray(self) - max_reduce(self, dim, None, None, True)
    np.exp(made, made)
    return np.divide(made, add_reduce(made, dim, None, None, True), made)


def _softmax_backward(grad_output, output, dim):
    ones = square_of(output, dim)
    if ones is not None:
        return (grad_output - (grad_output * output).dot(ones)) * output
    if rows.wins(output, dim) and grad_output.dtype == output.dtype:
        return rows.FAST.kernels.softmax_backward(grad_output, output)
    if output.dtype in HALVES or not output.ndim:
        wide = [x.astype(np.float32) for x in (grad_output, output)]
        made = (wide[0] - (wide[0] * wide[1]).sum(dim or None, keepdims=True)) * wide[1]
        return made.astype(output.dtype)
    grad_output = np.ascontiguousarray(grad_output)
    made = grad_output * output
    np.subtract(grad_output, add_reduce(made, dim, None, None, True), made)
    return np.multiply(made, output, made)


def _softmax_curvature(grad, grad_output, output, dim):
    whole = (output * grad_output).sum(dim, keepdims=True)
    return grad_output * grad - whole * grad - grad_output * (output * grad).sum(dim, keepdims=True)


def _softmax_backward_tangent(grad_output_t, output_t, grad_output, output, dim):
    made = None
    if grad_output_t is not None:
        made = w._softmax_backward_data(grad_output_t, output, dim)
    if output_t is None:
        return made
    spread = grad_output - (grad_output * output).sum(dim, keepdims=True)
    turned = output_t * spread - output * (grad_output * output_t).sum(dim, keepdims=True)
    return turned if made is None else made + turned


_softmax__default = op(
    "SoftmaxBackward0",
    _softmax,
    ELEMENTWISE,
    INTERNAL,
    _refused("softmax_lastdim_kernel_impl"),
    ROW_BY_ROW,
    self=lambda grad, result, dim: w._softmax_backward_data(grad, result, dim),
)
_softmax_backward_data = op(
    "SoftmaxBackwardDataBackward0",
    _softmax_backward,
    jvp(_softmax_backward_tangent),
    INTERNAL,
    grad_output=lambda grad, output, dim: w._softmax_backward_data(grad, output, dim),
    output=_softmax_curvature,
)


def _safe(self, dim, dtype=None):
    """Softmax with zeros for undefined rows, which see nothing."""
    made = _softmax(self, dim)
    hidden = max_reduce(self, dim, None, None, True) == -np.inf if self.size else False
    if np.any(hidden):
        made[np.broadcast_to(hidden, made.shape)] = 0
    return made


_safe_softmax = op(
    "SafeSoftmaxBackward0",
    _safe,
    ELEMENTWISE,
    FUNCTION_ONLY,
    _refused("softmax_lastdim_kernel_impl"),
    ROW_BY_ROW,
    self=lambda grad, result, dim: w._softmax_backward_data(grad, result, dim),
)


def _log_softmax(self, dim):
    if rows.wins(self, dim):
        return rows.FAST.kernels.log_softmax(self)
    if self.dtype in HALVES:
        return _log_softmax(self.astype(np.float32), dim).astype(self.dtype)
    if not self.size or not self.ndim:
        wrapped(dim, self.ndim)
        return np.asarray(self - self)  # zero, unless it is not finite
    made = np.ascontiguousarray(self) - max_reduce(self, dim, None, None, True)
    ones = square_of(self, dim)
    if ones is not None:
        return made - np.log(np.exp(made).dot(ones))
    return np.subtract(made, np.log(add_reduce(np.exp(made), dim, None, None, True)), made)


def _log_softmax_backward(grad_output, output, dim):
    if rows.wins(output, dim) and grad_output.dtype == output.dtype:
        return rows.FAST.kernels.log_softmax_backward(grad_output, output)
    if output.dtype in HALVES:
        grad, wide = grad_output.astype(np.float32), output.astype(np.float32)
        return _log_softmax_backward(grad, wide, dim).astype(output.dtype)
    ones = square_of(output, dim)
    if ones is not None:
        return grad_output - np.exp(output) * grad_output.dot(ones)
    if output.ndim:
        grad_output = np.ascontiguousarray(grad_output)
    return grad_output - np.exp(output) * add_reduce(grad_output, dim, None, None, True)


def _log_softmax_curvature(grad, grad_output, output, dim):
    return -grad_output.sum(dim, keepdims=True) * w.exp(output) * grad


def _log_softmax_backward_tangent(grad_output_t, output_t, grad_output, output, dim):
    made = None
    if grad_output_t is not None:
        made = w._log_softmax_backward_data(grad_output_t, output, dim)
    if output_t is None:
        return made
    turned = -(w.exp(output) * output_t * grad_output.sum(dim, keepdims=True))
    return turned if made is None else made + turned


def _log_softmax_turn(grad, output, dim):
    return grad - (grad * w.exp(output)).sum(dim, keepdims=True)


_log_softmax__default = op(
    "LogSoftmaxBackward0",
    _log_softmax,
    jvp(lambda self_t, result, dim: _log_softmax_turn(self_t, result, dim)),
    INTERNAL,
    _refused("log_softmax_lastdim_kernel_impl"),
    self=lambda grad, result, dim: w._log_softmax_backward_data(grad, result, dim),
)
_log_softmax_backward_data = op(
    "LogSoftmaxBackwardDataBackward0",
    _log_softmax_backward,
    jvp(_log_softmax_backward_tangent),
    INTERNAL,
    grad_output=_log_softmax_turn,
    output=_log_softmax_curvature,
)
family(globals())


def _implied_dim(input, dim, name):
    """The default dim of old programs, which passed none."""
    if dim is not None:
        return dim
    warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument."
    )
    return 0 if input.dim() in (0, 1, 3) else 1


def _prepared(input, dtype):
    if dtype is None or input.dtype is dtype:
        return input
    return input.to(dtype)


@both
def softmax(input, dim, dtype=None):
    """Exponentials along a dim, divided by their sum."""
    return _softmax__default(input if dtype is None else _prepared(input, dtype), dim)


@both
def log_softmax(input, dim, dtype=None):
    """The logarithm of softmax."""
    return _log_softmax__default(input if dtype is None else _prepared(input, dtype), dim)


def _nn_softmax(input, dim=None, _stacklevel=3, dtype=None):
    return softmax(input, _implied_dim(input, dim, "softmax"), dtype)


def _nn_log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    return log_softmax(input, _implied_dim(input, dim, "log_softmax"), dtype)


@nn_function
def softmin(input, dim=None, _stacklevel=3, dtype=None):
    return softmax(-input, _implied_dim(input, dim, "softmin"), dtype)


nn_alias(_nn_softmax, "softmax")
nn_alias(_nn_log_softmax, "log_softmax")
function_alias(softmax, "special.softmax")
function_alias(log_softmax, "special.log_softmax")
