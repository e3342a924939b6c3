"""Python's operators between tensors: `+`, `==`, `@` and others."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls import long_way as call
from gradscope.runtime.core.calls.declare import like
from gradscope.runtime.core.calls.late import number_road
from gradscope.runtime.core.ops.pointwise.arithmetic import mul, neg, positive, reciprocal
from gradscope.runtime.core.ops.pointwise.comparison import (
    bitwise_left_shift,
    bitwise_not,
    bitwise_right_shift,
)
from gradscope.runtime.core.ops.pointwise.powers import (
    floor_divide,
    floor_divide_,
    pow,
    pow_,
    pow__Tensor_Scalar,
    pow__Tensor_Tensor,
    remainder,
    remainder_,
)
from gradscope.runtime.core.ops.pointwise.rounding import abs
from gradscope.runtime.core.ops.products.linalg import mm
from gradscope.runtime.core.rows.offered import METHODS
from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.core.state.asking_modes import NotTaken
from gradscope.runtime.core.tensors.making.factories import from_numpy
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.wrapping import wrapped_number

NUMBERS = (bool, int, float, complex, np.number, np.bool_)
OPERANDS = (Tensor, *NUMBERS)
EQUAL = REGISTRY["eq"]
REVERSED = {
    "add": "__radd__",
    "bitwise_and": "__rand__",
    "bitwise_or": "__ror__",
    "bitwise_xor": "__rxor__",
    "mul": "__rmul__",
}
"""Commutative operators, by their reflected names."""


def _or_give_way(op, arguments):
    """The general path, unless the other operand's class may handle the operator."""
    if not isinstance(arguments[0], Tensor):
        name = REVERSED.get(op.name) or f"__{op.name}__"
        raise TypeError(
            f"descriptor '{name}' for 'torch._C.TensorBase' objects doesn't apply to a "
            f"'{type(arguments[0]).__name__}' object"
        )
    for argument in arguments:
        if not isinstance(argument, OPERANDS):
            if op is EQUAL and isinstance(argument, np.ndarray):
                return op.road(arguments[0], from_numpy(argument))
            return NotImplemented
    try:
        return call.call(op, arguments)
    except NotTaken:
        return NotImplemented


def operator(name):
    """An operation's own road, which returns NotImplemented for foreign classes.

    The road's code is copied with another `call`: an operator costs no more than the operation.
    """
    return like(REGISTRY[name].road, call=_or_give_way)


def _rsub_or_give_way(op, arguments):
    """`__rsub__`, the general path: a number has another node than a tensor."""
    if not isinstance(arguments[1], Tensor):
        op = REGISTRY["rsub.Scalar"]
    return _or_give_way(op, arguments)


def _wrapped(function):
    """An operator that is a function of several rows."""

    def operate(self, other):
        if not isinstance(other, OPERANDS):
            return NotImplemented
        return function(self, other)

    return operate


def _reversed(function):
    def operate(self, other):
        if not isinstance(other, OPERANDS):
            return NotImplemented
        return function(other, self)

    return operate


def _power(self, exponent):
    kind = exponent.__class__
    if kind is int or kind is float or isinstance(exponent, NUMBERS):
        return pow__Tensor_Scalar(self, exponent)
    return pow__Tensor_Tensor(self, exponent) if isinstance(exponent, Tensor) else NotImplemented


def _divided_by_this(self, other):
    if not isinstance(other, NUMBERS):
        return NotImplemented
    return mul(reciprocal(self), other)


def _divided_by_anything(self, other):
    """`__rdiv__`, which Python 3 does not call."""
    return mul(self.reciprocal(), other)


def _matmul_or_give_way(op, arguments):
    """`@` of operands that are not two matrices."""
    left, right = arguments
    return left.matmul(right) if isinstance(right, Tensor) else NotImplemented


def _from_left(function):
    """`2 << x`: the number becomes a tensor."""

    def operate(self, other):
        if not isinstance(other, NUMBERS):
            return NotImplemented
        return function(wrapped_number(other), self)

    return operate


def _inverted(self):
    if self._array.dtype.kind not in "iub":
        raise TypeError(
            "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
        )
    return bitwise_not(self)


_RSUB = REGISTRY["rsub.Scalar"]

METHODS.update(
    __add__=operator("add"),
    __radd__=operator("add"),
    __iadd__=operator("add_"),
    __sub__=operator("sub"),
    __rsub__=like(
        REGISTRY["rsub.plain"].road,
        call=_rsub_or_give_way,
        by_number=number_road(_RSUB).function(_RSUB.road.__globals__),
    ),
    __isub__=operator("sub_"),
    __mul__=operator("mul"),
    __rmul__=operator("mul"),
    __imul__=operator("mul_"),
    __truediv__=operator("div"),
    __rtruediv__=_divided_by_this,
    __rdiv__=_divided_by_anything,
    __itruediv__=operator("div_"),
    __floordiv__=_wrapped(floor_divide),
    __rfloordiv__=_from_left(floor_divide),
    __ifloordiv__=_wrapped(floor_divide_),
    __mod__=_wrapped(remainder),
    __rmod__=_reversed(remainder),
    __imod__=_wrapped(remainder_),
    __pow__=_power,
    __rpow__=_reversed(pow),
    __ipow__=_wrapped(pow_),
    __matmul__=like(mm, call=_matmul_or_give_way),
    __neg__=neg,
    __pos__=positive,
    __abs__=abs,
    __invert__=_inverted,
    __and__=operator("bitwise_and"),
    __rand__=operator("bitwise_and"),
    __iand__=operator("bitwise_and_"),
    __or__=operator("bitwise_or"),
    __ror__=operator("bitwise_or"),
    __ior__=operator("bitwise_or_"),
    __xor__=operator("bitwise_xor"),
    __rxor__=operator("bitwise_xor"),
    __ixor__=operator("bitwise_xor_"),
    __lshift__=operator("bitwise_left_shift"),
    __rlshift__=_from_left(bitwise_left_shift),
    __ilshift__=operator("bitwise_left_shift_"),
    __rshift__=operator("bitwise_right_shift"),
    __rrshift__=_from_left(bitwise_right_shift),
    __irshift__=operator("bitwise_right_shift_"),
    __eq__=operator("eq"),
    __ne__=operator("ne"),
    __lt__=operator("lt"),
    __le__=operator("le"),
    __gt__=operator("gt"),
    __ge__=operator("ge"),
)
