"""Helpers for formulas of several families, on arrays and tensors alike."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import Any

import numpy as np

from gradscope.runtime.core.calls.declare import w
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.kernels.support import BFLOAT16, HALVES
from gradscope.runtime.core.rows.offered import FUNCTIONS, METHODS, NN_FUNCTIONS
from gradscope.runtime.core.tensors.making import factories
from gradscope.runtime.core.tensors.wrapping import wrapped_number

ndarray = np.ndarray


class Scalar:
    """A number next to a tensor in a formula, where PyTorch's node is that of a C++ scalar."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __radd__(self, tensor: Any) -> Any:
        return getattr(w, "add.Scalar")(tensor, self.value)

    def __rsub__(self, tensor: Any) -> Any:
        return getattr(w, "sub.Scalar")(tensor, self.value)

    def __rmul__(self, tensor: Any) -> Any:
        return getattr(w, "mul.Scalar")(tensor, self.value)

    def __rtruediv__(self, tensor: Any) -> Any:
        return getattr(w, "div.Scalar")(tensor, self.value)

    def __sub__(self, tensor: Any) -> Any:
        return w.sub(wrapped_number(self.value), tensor)

    def __truediv__(self, tensor: Any) -> Any:
        return w.div(wrapped_number(self.value), tensor)


class FormulaNumber(dict[Any, Any]):
    """A number in any dtype: `x * TWO[x.dtype]`.

    For an array it is an array without dims, with which NumPy multiplies in half the time.
    """

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def __missing__(self, kind: Any) -> Any:
        made: Any = Scalar(self.value)
        if isinstance(kind, np.dtype):
            made = np.array(self.value, kind)
            made.flags.writeable = False
        self[kind] = made
        return made


ZERO, ONE, TWO, MINUS_TWO = map(FormulaNumber, (0, 1, 2, -2))


def on_arrays(value: Any) -> bool:
    """Whether a formula runs on arrays. NumPy returns plain numbers for those without dims."""
    return value.__class__ is ndarray or isinstance(value, np.generic)


def zeros_like(grad: Any) -> Any:
    """The zero gradient of a constant, detached."""
    return np.zeros_like(grad) if on_arrays(grad) else factories.zeros_like(grad)


def named(function: Any, names: str) -> Any:
    """Give a function of any arguments this signature; a name with `?` is optional."""
    function.__signature__ = Signature(
        [
            Parameter(
                name.removesuffix("?"),
                Parameter.POSITIONAL_OR_KEYWORD,
                default=None if name.endswith("?") else Parameter.empty,
            )
            for name in names.split()
        ]
    )
    return function


def handed_on(operation: str, words: str) -> Any:
    """A derivative that is an operation on these words; given `grads`, on the first one."""

    def formula(grad: Any, *others: Any) -> Any:
        return getattr(w, operation)(grad[0] if words.startswith("grads ") else grad, *others)

    return named(formula, words)


class Ones(dict[Any, Any]):
    """Arrays of ones by shape: BLAS sums small arrays with them in a third of NumPy's time."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.kind = kind

    def __missing__(self, shape: Any) -> Any:
        made = np.ones(shape, self.kind)
        made.flags.writeable = False
        self[shape] = made
        return made


ONES = {np.dtype(kind): Ones(kind) for kind in (np.float32, np.float64)}
"""Used with `get`: other dtypes are summed by NumPy."""


def beside(value: Any, number: Any) -> Any:
    """A number in the form needed next to an array or a tensor in a formula."""
    return number if on_arrays(value) else Scalar(number)


def total(terms: Any) -> Any:
    """The sum of one or more arrays or tensors."""
    made = terms[0]
    for term in terms[1:]:
        made = made + term
    return made


def nothing(grad: Any) -> Any:
    """The value that `where` uses for a gradient that does not arrive."""
    return ZERO[grad.dtype] if on_arrays(grad) else 0


def without(grad: Any, mask: Any) -> Any:
    """A gradient with zeros where the mask is True."""
    if not on_arrays(grad):
        return grad.masked_fill(mask, 0)
    if grad.__class__ is not ndarray or grad.shape != mask.shape:
        return np.where(mask, ZERO[grad.dtype], grad)
    made = grad.copy()
    np.putmask(made, mask, ZERO[made.dtype])
    return made


def no_derivative(name: str) -> Any:
    """The formula of an operation with a node but without derivative in PyTorch."""

    def formula(grad):
        raise RuntimeError(f"derivative for aten::{name} is not implemented")

    return formula


def alias(made: Any, *names: str, twin: Any = None) -> Any:
    """Add further names of a function or row, wherever it is available; `twin`: in place."""
    for name in names:
        FUNCTIONS[name] = METHODS[name] = made
        if twin is not None:
            METHODS[f"{name}_"] = twin
    return made


def function_alias(made: Any, *names: str) -> Any:
    """The same for functions only; a dotted name is in a submodule (`special.expit`)."""
    for name in names:
        FUNCTIONS[name] = made
    return made


def nn_alias(made: Any, *names: str) -> Any:
    for name in names:
        NN_FUNCTIONS[name] = made
    return made


def is_whole(array: Any) -> bool:
    """Whether an array holds integers or bools."""
    return array.dtype.kind in "iub"


def promoted(array: Any, number: Any) -> Any:
    """An array in the dtype of its promotion with a Python number."""
    category = dtypes.DIMENSIONED if array.ndim else dtypes.ZERO_DIM
    kind = dtypes.result_type(
        (dtypes.from_numpy(array.dtype), category), (dtypes.number_dtype(number), dtypes.NUMBER)
    )
    return array if array.dtype == kind.numpy else array.astype(kind.numpy)


SCALARS: dict[Any, dict[Any, Any]] = {}


def scalar(number: Any, kind: Any) -> Any:
    """A number as an array of this dtype; it wraps if it does not fit."""
    known = SCALARS.get(kind)
    if known is None:
        known = SCALARS[kind] = {}
    made = known.get(number)
    if made is None:
        made = np.asarray(number).astype(kind)
        made.flags.writeable = False
        if number and len(known) < 1024:  # 0.0 and -0.0 are one key
            known[number] = made
    return made


def times(grad: Any, factor: Any) -> Any:
    """A gradient times `alpha` or `beta`, which is mostly one."""
    return grad if factor == 1 else grad * factor


def sortable(array: Any) -> Any:
    """An array that NumPy can sort and search."""
    return array.astype(np.float32) if array.dtype == BFLOAT16 else array


def is_complex(value: Any) -> Any:
    return value.dtype.kind == "c" if on_arrays(value) else value.is_complex()


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | complex | np.number | np.bool_)


def not_implemented(name: str) -> Any:
    """The formula of an operation with a node, whose derivative is not implemented."""

    def formula(grads):
        raise NotImplementedError(f"the derivative for '{name}' is not implemented.")

    return formula


def with_number(ufunc: Any, *, floats: bool) -> Any:
    """A function of a tensor and a number, in the tensor's dtype if possible."""

    def kernel(self, other):
        made = promoted(self, other)
        if floats and made.dtype.kind in "iub":
            made = made.astype(dtypes.get_default_dtype().numpy)
        if made.dtype in HALVES:
            return ufunc(made.astype(np.float32), np.float32(other)).astype(made.dtype)
        return ufunc(made, scalar(other, made.dtype))

    return kernel
