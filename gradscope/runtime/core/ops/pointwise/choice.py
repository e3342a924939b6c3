"""Selection: maximum, minimum, clamp, where, masked_fill."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    ELEMENTWISE,
    LINEAR,
    PROMOTES,
    TENSORS_ONLY,
    Memory,
    family,
    inplace,
    op,
    refuses,
    tensors,
    w,
)
from gradscope.runtime.core.calls.extra_arguments.out import written
from gradscope.runtime.core.dtypes.names import c_name, scalar_name
from gradscope.runtime.core.errors.numpy import invalid_combination
from gradscope.runtime.core.ops.in_formulas import (
    TWO,
    alias,
    is_number,
    nothing,
    on_arrays,
    promoted,
    scalar,
    without,
)
from gradscope.runtime.core.rows.offered import METHODS, both, function, method
from gradscope.runtime.core.rows.traits import ROW_BY_ROW
from gradscope.runtime.core.tensors.making.elements import element


def _where(condition, self, other):
    if condition.dtype.kind != "b":
        kind = scalar_name(condition)
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {kind}"
        )
    return np.where(condition, self, other)


where__default = op(
    "WhereBackward0",
    _where,
    ELEMENTWISE,
    PROMOTES,
    tensors("condition"),
    self=lambda grad, condition: w.where(condition, grad, nothing(grad)),
    other=lambda grad, condition: w.where(condition, nothing(grad), grad),
)


def _fill(self, mask, value):
    if mask.dtype.kind != "b":
        raise RuntimeError(
            f"masked_fill_ only supports boolean masks, but got mask with dtype {c_name(mask)}"
        )
    return np.where(mask, np.asarray(element(value, self.dtype)).astype(self.dtype), self)


def _fill_with_tensor(self, mask, value):
    if value.ndim:
        raise RuntimeError(
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)."
        )
    return _fill(self, mask, value.item())


masked_fill__Scalar = op(
    "MaskedFillBackward0",
    _fill,
    ELEMENTWISE,
    tensors("mask"),
    ROW_BY_ROW,
    self=lambda grad, mask: without(grad, mask),
)
masked_fill__Tensor = op(
    "MaskedFillBackward1",
    _fill_with_tensor,
    LINEAR,
    tensors("mask"),
    ROW_BY_ROW,
    self=lambda grad, mask: without(grad, mask),
    value=lambda grad, mask: w.masked_select(grad, mask).sum(),
)


def _compared(grad, mine, other):
    """Two inputs in the result's dtype, in which PyTorch compares them."""
    if not on_arrays(grad):
        return mine, other
    return mine.astype(grad.dtype, copy=False), other.astype(grad.dtype, copy=False)


def _larger(grad, mine, other):
    """The gradient where `mine` is larger, half of it where both are equal."""
    mine, other = _compared(grad, mine, other)
    return without(w.where(mine == other, grad / TWO[grad.dtype], grad), mine < other)


def _smaller(grad, mine, other):
    mine, other = _compared(grad, mine, other)
    return without(w.where(mine == other, grad / TWO[grad.dtype], grad), mine > other)


maximum = op(
    "MaximumBackward0",
    np.maximum,
    ELEMENTWISE,
    PROMOTES,
    TENSORS_ONLY,
    refuses("c", "maximum not implemented for complex tensors.", error=RuntimeError),
    self=lambda grad, self, other: _larger(grad, self, other),
    other=lambda grad, self, other: _larger(grad, other, self),
)
minimum = op(
    "MinimumBackward0",
    np.minimum,
    ELEMENTWISE,
    PROMOTES,
    TENSORS_ONLY,
    refuses("c", "minimum not implemented for complex tensors.", error=RuntimeError),
    self=lambda grad, self, other: _smaller(grad, self, other),
    other=lambda grad, self, other: _smaller(grad, other, self),
)


def _kept(grad, keeps):
    if on_arrays(grad):
        return without(grad, ~keeps)
    return w.where(keeps, grad, 0)


def _at_least(grad, self, other):
    """Where fmax returns `self`."""
    self, other = _compared(grad, self, other)
    return (self >= other) | (other != other)


def _at_most(grad, self, other):
    self, other = _compared(grad, self, other)
    return (self <= other) | (other != other)


fmax = op(
    "FmaxBackward0",
    np.fmax,
    ELEMENTWISE,
    PROMOTES,
    TENSORS_ONLY,
    refuses("c", "fmax not implemented for complex tensors.", error=RuntimeError),
    self=lambda grad, self, other: without(grad, ~_at_least(grad, self, other)),
    other=lambda grad, self, other: without(grad, _at_least(grad, self, other)),
)
fmin = op(
    "FminBackward0",
    np.fmin,
    ELEMENTWISE,
    PROMOTES,
    TENSORS_ONLY,
    refuses("c", "fmin not implemented for complex tensors.", error=RuntimeError),
    self=lambda grad, self, other: without(grad, ~_at_most(grad, self, other)),
    other=lambda grad, self, other: without(grad, _at_most(grad, self, other)),
)


def _clamped(self, min=None, max=None):
    """Clamp to two numbers."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if self.dtype.kind != "f":
        for bound in (min, max):
            self = self if bound is None else promoted(self, bound)
    if self.dtype.kind == "c":
        raise NotImplementedError("clamp is not supported for complex types")
    if self.dtype.kind == "b":
        raise NotImplementedError("\"clamp_scalar_cpu\" not implemented for 'Bool'")
    if min is not None:
        self = np.maximum(self, scalar(min, self.dtype))
    return self if max is None else np.minimum(self, scalar(max, self.dtype))


def _inside(self, min, max):
    """Where an element is not clamped. The bounds are tensors or numbers."""
    if on_arrays(self):
        min, max = (scalar(b, self.dtype) if is_number(b) else b for b in (min, max))
    if min is None:
        return self <= max
    return self >= min if max is None else (self >= min) & (self <= max)


def _bounded(self, min=None, max=None):
    """Clamp to two tensors; the upper bound wins if it is below the lower one."""
    if self.dtype.kind == "b" and min is not None and max is not None:
        raise NotImplementedError("\"clamp_cpu\" not implemented for 'Bool'")
    made = self if min is None else np.maximum(self, min)
    return made if max is None else np.minimum(made, max)


def _under(grad, self, min, max):
    """The lower bound's gradient: where it is the result."""
    below = self < min
    return _kept(grad, below if max is None else below & (min < max))


def _over(grad, self, min, max):
    above = self > max
    return _kept(grad, above if min is None else above | (max < min))


clamp__default = op(
    "ClampBackward1",
    _clamped,
    ELEMENTWISE,
    self=lambda grad, self, min, max: _kept(grad, _inside(self, min, max)),
)
clamp__Tensor = op(
    "ClampBackward0",
    _bounded,
    ELEMENTWISE,
    PROMOTES,
    refuses("c", "clamp is not supported for complex types"),
    self=lambda grad, self, min, max: _kept(grad, _inside(self, min, max)),
    min=lambda grad, self, min, max: _under(grad, self, min, max),
    max=lambda grad, self, min, max: _over(grad, self, min, max),
)
clamp_min__default = op(
    "ClampMinBackward0",
    lambda self, min: _clamped(self, min, None),
    ELEMENTWISE,
    self=lambda grad, self, min: _kept(grad, self >= min),
)
clamp_min__Tensor = op(
    "ClampMinBackward1",
    lambda self, min: np.maximum(self, min),
    ELEMENTWISE,
    PROMOTES,
    refuses("c", "clamp is not supported for complex types"),
    self=lambda grad, self, min: _kept(grad, self >= min),
    min=lambda grad, self, min: _kept(grad, self < min),
)
clamp_max__default = op(
    "ClampMaxBackward0",
    lambda self, max: _clamped(self, None, max),
    ELEMENTWISE,
    self=lambda grad, self, max: _kept(grad, self <= max),
)
clamp_max__Tensor = op(
    "ClampMaxBackward1",
    lambda self, max: np.minimum(self, max),
    ELEMENTWISE,
    PROMOTES,
    refuses("c", "\"minimum_cpu\" not implemented for '{kind}'"),
    self=lambda grad, self, max: _kept(grad, self <= max),
    max=lambda grad, self, max: _kept(grad, self > max),
)

_MASKED = Memory(repeated="masked_fill_", free=("self", "value"))
masked_fill___Scalar = inplace(masked_fill__Scalar, memory=_MASKED)
masked_fill___Tensor = inplace(masked_fill__Tensor, memory=_MASKED)
clamp___default = inplace(clamp__default)
clamp___Tensor = inplace(clamp__Tensor)
clamp_min___default = inplace(clamp_min__default)
clamp_min___Tensor = inplace(clamp_min__Tensor)
clamp_max___default = inplace(clamp_max__default)
clamp_max___Tensor = inplace(clamp_max__Tensor)
family(globals())


@function
def where(condition, input=None, other=None):
    """Elements of `input` where the condition holds, else of `other`; or the indices of True."""
    if input is None:
        return condition.nonzero(as_tuple=True)
    return where__default(condition, input, other)


def _where_method(self, condition, other):
    return where__default(condition, self, other)


METHODS["where"] = _where_method


@both
def masked_fill(input, mask, value):
    """`value` where the mask is True."""
    return (masked_fill__Scalar if is_number(value) else masked_fill__Tensor)(input, mask, value)


@method
def masked_fill_(self, mask, value):
    return (masked_fill___Scalar if is_number(value) else masked_fill___Tensor)(self, mask, value)


def _has_tensor(min, max):
    return hasattr(min, "_array") or hasattr(max, "_array")


@both
def clamp(input, min=None, max=None, *, out=None):
    made = (clamp__Tensor if _has_tensor(min, max) else clamp__default)(input, min, max)
    return made if out is None else written("clamp", made, out, (input, min, max))


@method
def clamp_(self, min=None, max=None):
    return (clamp___Tensor if _has_tensor(min, max) else clamp___default)(self, min, max)


@both
def clamp_min(input, min):
    if is_number(input):
        raise invalid_combination("clamp_min", (input, min))
    return (clamp_min__default if is_number(min) else clamp_min__Tensor)(input, min)


@method
def clamp_min_(self, min):
    return (clamp_min___default if is_number(min) else clamp_min___Tensor)(self, min)


@both
def clamp_max(input, max):
    if is_number(input):
        raise invalid_combination("clamp_max", (input, max))
    return (clamp_max__default if is_number(max) else clamp_max__Tensor)(input, max)


@method
def clamp_max_(self, max):
    return (clamp_max___default if is_number(max) else clamp_max___Tensor)(self, max)


alias(clamp, "clip")
METHODS["clip_"] = clamp_
