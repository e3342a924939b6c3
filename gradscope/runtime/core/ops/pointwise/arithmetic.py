"""Sums and products: add, sub, mul, div, neg, reciprocal, addcmul, addcdiv."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    ELEMENTWISE,
    FLOATS,
    INTERNAL,
    LINEAR,
    PROMOTES,
    family,
    inplace,
    op,
    refuses,
    shows,
)
from gradscope.runtime.core.calls.extra_arguments.out import written
from gradscope.runtime.core.errors.dtypes import unknown_dtype
from gradscope.runtime.core.kernels.arrays.stepping import multiply_add
from gradscope.runtime.core.kernels.support import HALVES
from gradscope.runtime.core.ops.in_formulas import alias, beside, with_number, zeros_like
from gradscope.runtime.core.rows.offered import both, method

NO_MASKS = (
    refuses(
        "b",
        "Subtraction, the `-` operator, with two bool tensors is not supported. "
        "Use the `^` or `logical_xor()` operator instead.",
        by_numpy=True,
        error=RuntimeError,
    ),
    refuses(
        "b",
        "Subtraction, the `-` operator, with a bool tensor is not supported. "
        "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
        given=True,
        by_numpy=True,
        error=RuntimeError,
    ),
)
add__default = op(
    "AddBackward0",
    np.add,
    ELEMENTWISE,
    PROMOTES,
    shows(alpha=1),
    self=lambda grad: grad,
    other=lambda grad: grad,
)
add__alpha = op(
    "AddBackward0",
    lambda self, other, alpha: _plus_times(self, other, alpha),
    ELEMENTWISE,
    PROMOTES,
    self=lambda grad: grad,
    other=lambda grad, alpha: grad * beside(grad, alpha),
)
add__Scalar = op(
    "AddBackward1",
    with_number(np.add, floats=False),
    ELEMENTWISE,
    INTERNAL,
    self=lambda grad: grad,
)
sub__Scalar = op(
    "SubBackward1",
    with_number(np.subtract, floats=False),
    ELEMENTWISE,
    INTERNAL,
    self=lambda grad: grad,
)
sub__default = op(
    "SubBackward0",
    np.subtract,
    ELEMENTWISE,
    PROMOTES,
    *NO_MASKS,
    shows(alpha=1),
    self=lambda grad: grad,
    other=lambda grad: -grad,
)
sub__alpha = op(
    "SubBackward0",
    lambda self, other, alpha: (
        _plus_times(self, other, -alpha) if self.dtype.kind == "f" else self - _times(other, alpha)
    ),
    ELEMENTWISE,
    PROMOTES,
    *NO_MASKS,
    self=lambda grad: grad,
    other=lambda grad, alpha: -grad * beside(grad, alpha),
)
rsub__Tensor = op(
    "RsubBackward0",
    lambda self, other, alpha=1: np.subtract(other, self if alpha == 1 else _times(self, alpha)),
    ELEMENTWISE,
    PROMOTES,
    *NO_MASKS,
    self=lambda grad, alpha: -grad if alpha == 1 else -grad * beside(grad, alpha),
    other=lambda grad: grad,
)
rsub__plain = op(
    "RsubBackward0",
    lambda self, other: np.subtract(other, self),
    ELEMENTWISE,
    INTERNAL,
    PROMOTES,
    *NO_MASKS,
    shows(alpha=1),
    self=lambda grad: -grad,
    other=lambda grad: grad,
)
# The other operand of 1 - x is a number, and has no edge.
rsub__Scalar = op(
    "RsubBackward1",
    lambda self, other: np.subtract(other, self),
    ELEMENTWISE,
    PROMOTES,
    *NO_MASKS,
    shows(alpha=1),
    self=lambda grad: -grad,
)
rsub__Scalar_alpha = op(
    "RsubBackward1",
    lambda self, other, alpha: np.subtract(other, _times(self, alpha)),
    ELEMENTWISE,
    PROMOTES,
    *NO_MASKS,
    self=lambda grad, alpha: -(grad * beside(grad, alpha)),
)
mul = op(
    "MulBackward0",
    np.multiply,
    ELEMENTWISE,
    PROMOTES,
    self=lambda grad, other: grad * other,
    other=lambda grad, self: grad * self,
)


mul__Scalar = op(
    "MulBackward1",
    with_number(np.multiply, floats=False),
    LINEAR,
    INTERNAL,
    self=lambda grad, other: grad * beside(grad, other),
)


def _divisor_slope(grad, self, other):
    slope = self / other / other  # before -grad: a double backward runs them in reverse
    return -grad * slope


div__default = op(
    "DivBackward0",
    np.true_divide,
    ELEMENTWISE,
    PROMOTES,
    FLOATS,
    self=lambda grad, other: grad / other,
    other=_divisor_slope,
)
div__Scalar = op(
    "DivBackward1",
    with_number(np.true_divide, floats=True),
    LINEAR,
    INTERNAL,
    self=lambda grad, other: grad / beside(grad, other),
)
neg = op(
    "NegBackward0",
    np.negative,
    LINEAR,
    refuses(
        "b",
        "Negation, the `-` operator, on a bool tensor is not supported. "
        "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
        by_numpy=True,
        error=RuntimeError,
    ),
    self=lambda grad: -grad,
)
reciprocal = op(
    "ReciprocalBackward0",
    np.reciprocal,
    ELEMENTWISE,
    FLOATS,
    self=lambda grad, result: -grad * (result * result),
)


def _times(array, number):
    """An operand times its alpha."""
    if array.dtype.kind in "iu" and isinstance(number, float):
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    if array.dtype.kind == "b" and not isinstance(number, bool):
        if isinstance(number, int):
            return array if number else array & False
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    return array * np.asarray(number).astype(array.dtype)


def _plus_times(self, other, alpha):
    if self.dtype == np.float32 and other.dtype == np.float32:
        return multiply_add(other, np.float32(alpha), self)
    return self + _times(other, alpha)


def _plus_times_in(self, other, alpha):
    """The same, written to self if possible, which must be contiguous for that."""
    if self.dtype == np.float32 and other.dtype == np.float32 and self.flags.c_contiguous:
        return multiply_add(other, np.float32(alpha), self, self)
    return _plus_times(self, other, alpha)


def floor_divided(self, other):
    no_zeros(self, other)
    return np.floor_divide(self, other)


def no_zeros(self, other):
    if other.dtype.kind in "iub" and self.size and not np.all(other):
        raise RuntimeError("ZeroDivisionError")


def _divide(self, other, rounding_mode):
    if rounding_mode is None:
        return np.true_divide(self, other)
    if self.dtype.kind in "bc" and rounding_mode in ("floor", "trunc"):
        raise unknown_dtype(f"div_{rounding_mode}_cpu", self)
    if rounding_mode == "floor":
        return floor_divided(self, other)
    if rounding_mode != "trunc":
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' "
            f"but found '{rounding_mode}'"
        )
    no_zeros(self, other)
    if self.dtype.kind not in "iu":
        return np.trunc(np.true_divide(self, other))
    return (self - np.fmod(self, other)) // other


div__Tensor_mode = op(
    "DivBackward2",
    _divide,
    ELEMENTWISE,
    PROMOTES,
    self=lambda grad, other, rounding_mode: (
        grad / other if rounding_mode is None else zeros_like(grad)
    ),
    other=lambda grad, self, other, rounding_mode: (
        -grad * (self / other / other) if rounding_mode is None else zeros_like(grad)
    ),
)


def _addcmul(self, tensor1, tensor2, *, value=1):
    if self.dtype in HALVES:
        wide = [array.astype(np.float32) for array in (self, tensor1, tensor2)]
        return _addcmul(*wide, value=value).astype(self.dtype)
    if value != 1:
        tensor1 = tensor1 * np.asarray(value).astype(tensor1.dtype)
    return multiply_add(tensor1, tensor2, self)


def _addcdiv(self, tensor1, tensor2, *, value=1):
    if tensor1.dtype.kind in "iub" and tensor2.dtype.kind in "iub":
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future  release "
            "addcdiv will perform a true division of tensor1 and tensor2. The historic addcdiv "
            "behavior can be implemented as (input + value * torch.trunc(tensor1 / "
            "tensor2)).to(input.dtype) for integer inputs and as (input + value * tensor1 / "
            "tensor2) for float inputs. The future addcdiv behavior is just the latter "
            "implementation: (input + value * tensor1 / tensor2), for all dtypes."
        )
    if self.dtype in HALVES:
        wide = [array.astype(np.float32) for array in (self, tensor1, tensor2)]
        return _addcdiv(*wide, value=value).astype(self.dtype)
    if value != 1:
        tensor1 = tensor1 * np.asarray(value).astype(tensor1.dtype)
    return self + tensor1 / tensor2


addcmul = op(
    "AddcmulBackward0",
    _addcmul,
    ELEMENTWISE,
    PROMOTES,
    refuses("b", "\"addcmul_cpu_out\" not implemented for '{kind}'"),
    self=lambda grad: grad,
    tensor1=lambda grad, tensor2, value: grad * (tensor2 * beside(tensor2, value)),
    tensor2=lambda grad, tensor1, value: grad * (tensor1 * beside(tensor1, value)),
)
addcdiv = op(
    "AddcdivBackward0",
    _addcdiv,
    ELEMENTWISE,
    PROMOTES,
    self=lambda grad: grad,
    tensor1=lambda grad, tensor2, value: grad * (beside(tensor2, value) / tensor2),
    tensor2=lambda grad, tensor1, tensor2, value: (
        -grad * (tensor1 * beside(tensor1, value) / (tensor2 * tensor2))
    ),
)

add___default = inplace(add__default)
add___alpha = inplace(add__alpha, _plus_times_in)
sub___default = inplace(sub__default)
sub___alpha = inplace(sub__alpha)
mul_ = inplace(mul)
div___default = inplace(div__default)
div___Tensor_mode = inplace(div__Tensor_mode)
neg_ = inplace(neg)
reciprocal_ = inplace(reciprocal)
addcmul_ = inplace(addcmul)
addcdiv_ = inplace(addcdiv)
family(globals())


@both
def add(input, other, *, alpha=1, out=None):
    made = add__default(input, other) if alpha == 1 else add__alpha(input, other, alpha)
    return made if out is None else written("add", made, out, (input, other))


@method
def add_(self, other, *, alpha=1):
    return add___default(self, other) if alpha == 1 else add___alpha(self, other, alpha)


@both
def sub(input, other, *, alpha=1, out=None):
    made = sub__default(input, other) if alpha == 1 else sub__alpha(input, other, alpha)
    return made if out is None else written("sub", made, out, (input, other))


@method
def sub_(self, other, *, alpha=1):
    return sub___default(self, other) if alpha == 1 else sub___alpha(self, other, alpha)


@both
def rsub(input, other, *, alpha=1):
    """`other - alpha * input`."""
    if hasattr(other, "_array"):
        return rsub__Tensor(input, other, alpha)
    return rsub__Scalar(input, other) if alpha == 1 else rsub__Scalar_alpha(input, other, alpha)


@both
def div(input, other, *, rounding_mode=None, out=None):
    if rounding_mode is None:
        made = div__default(input, other)
    else:
        made = div__Tensor_mode(input, other, rounding_mode)
    return made if out is None else written("div", made, out, (input, other))


@method
def div_(self, other, *, rounding_mode=None):
    if rounding_mode is None:
        return div___default(self, other)
    return div___Tensor_mode(self, other, rounding_mode)


@both
def positive(input):
    if input._array.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


alias(sub, "subtract", twin=sub_)
alias(mul, "multiply", twin=mul_)
alias(div, "divide", "true_divide", twin=div_)
alias(neg, "negative", twin=neg_)
