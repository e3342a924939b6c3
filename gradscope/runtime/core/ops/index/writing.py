"""Writes to a tensor: copy_, fill_, zero_."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import (
    ELEMENTWISE,
    FUNCTION_ONLY,
    INTERNAL,
    LINEAR,
    Memory,
    family,
    inplace,
    jvp,
    op,
    overload,
)
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.names import tp_name
from gradscope.runtime.core.ops.in_formulas import on_arrays, zeros_like
from gradscope.runtime.core.ops.shape.broadcasting import disagreement
from gradscope.runtime.core.rows.offered import METHODS, function, method
from gradscope.runtime.core.rows.traits import AS_THE_FIRST
from gradscope.runtime.core.tensors.dims import text
from gradscope.runtime.core.tensors.making.elements import element
from gradscope.runtime.core.tensors.making.reals import fitting
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.wrapping import wrap


def _copy_into(self, src, non_blocking=False):
    if src.ndim > self.ndim:  # NumPy would remove dims of size 1
        raise RuntimeError(_uncopyable(self, src))
    try:
        np.copyto(self, fitting(src, self.dtype), casting="unsafe")
    except ValueError:
        raise RuntimeError(_uncopyable(self, src)) from None
    return self


def _uncopyable(self, src):
    words = disagreement(self.shape, src.shape)
    if words:
        return words
    return (
        f"output with shape {text(self.shape)} doesn't match the broadcast shape "
        f"{text(np.broadcast_shapes(self.shape, src.shape))}"
    )


def _fill(self, value):
    _fill_in(made := np.empty_like(self), value)
    return made


def _fill_in(self, value):
    self[...] = element(value, self.dtype, by_double=self.size == 1)
    return self


def _fill_in_tensor(self, value):
    if value.ndim:
        raise RuntimeError(
            "fill_ only supports 0-dimension value tensor but got tensor with "
            f"{value.ndim} dimensions."
        )
    self[...] = value
    return self


NUMBER = {"self": lambda grad: zeros_like(grad)}
TENSOR = {"self": lambda grad: zeros_like(grad), "value": lambda grad: grad.sum()}


def _complex_again(grad, src_dtype):
    """The gradient of complex numbers that were copied to real ones."""
    if src_dtype.kind != "c" or (grad if on_arrays(grad) else grad._array).dtype.kind == "c":
        return grad
    return grad.astype(src_dtype) if on_arrays(grad) else grad.to(dtypes.from_numpy(src_dtype))


COPY = {
    "self": lambda grad: zeros_like(grad),
    "src": lambda grad, src_dtype: _complex_again(grad, src_dtype),
}


def _copied_tangent(self_t, src_t, self_shape):
    return zeros_like(self_t) if src_t is None else src_t.expand(self_shape)


copy = op(
    "CopyBackwards",
    lambda self, src, non_blocking=False: src,
    jvp(_copied_tangent),
    INTERNAL,
    **COPY,
)
copy_ = inplace(copy, _copy_into, Memory(itself=True))
zero = op("ZeroBackward0", lambda self: np.zeros_like(self), ELEMENTWISE, INTERNAL, **NUMBER)


def _zero_in(self):
    self.fill(0)
    return self


zero_ = inplace(zero, _zero_in, Memory(repeated=""))
fill__number = op(
    "FillBackward0", _fill, ELEMENTWISE, FUNCTION_ONLY, overload("Scalar"), AS_THE_FIRST, **NUMBER
)
fill__tensor = op(
    "FillBackward1", _fill, LINEAR, FUNCTION_ONLY, overload("Tensor"), AS_THE_FIRST, **TENSOR
)
# In-place writes have nodes with their own names.
_filled = op("FillBackward2", _fill, ELEMENTWISE, INTERNAL, overload("Scalar"), **NUMBER)
_filled_tensor = op("FillBackward3", _fill, LINEAR, INTERNAL, overload("Tensor"), **TENSOR)
fill___number = inplace(_filled, _fill_in, Memory(repeated=""))
fill___tensor = inplace(_filled_tensor, _fill_in_tensor, Memory(free=("self", "value")))
family(globals())


@function
def fill(input, value):
    return (fill__tensor if isinstance(value, Tensor) else fill__number)(input, value)


@method
def fill_(self, value):
    """Fill with a number, or with a tensor of one element."""
    return (fill___tensor if isinstance(value, Tensor) else fill___number)(self, value)


METHODS.update(copy_=copy_, zero_=zero_)


def wrapped_value(self, value):
    """The assigned value as a tensor. Python numbers take the dtype of the target."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, bool | int | float | complex | np.integer):
        kind = self._array.dtype
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError("Overflow when unpacking long long")
        return wrap(np.array(element(value, kind, by_double=True)).astype(kind))
    raise TypeError(f"can't assign a {tp_name(value)} to a {self.type()}")
