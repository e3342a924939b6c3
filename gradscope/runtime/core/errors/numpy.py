"""NumPy's errors, translated to PyTorch's.

A kernel may let NumPy detect that shapes do not fit or that a dtype is not supported. The caller of
the kernel passes NumPy's error to this module, and the user sees PyTorch's message.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from gradscope.runtime.core.dtypes.names import scalar_name, tp_name
from gradscope.runtime.core.errors.arguments.raise_wrong_call import blame_the_call
from gradscope.runtime.core.errors.dtypes import unknown_dtype
from gradscope.runtime.core.errors.engine.in_place import write_wrong_shape
from gradscope.runtime.core.rows.operation import Operation
from gradscope.runtime.core.rows.traits import Refused


def refused(op: Operation, error: Exception, arrays: Sequence[Any]) -> None:
    """Raise PyTorch's error for an error of NumPy, or return if it is unknown."""
    blame_the_call()
    if isinstance(error, np.exceptions.AxisError):
        raise IndexError(out_of_range(error.axis, error.ndim)) from None
    given = [a for a in arrays if isinstance(a, np.ndarray)]
    text = str(error)
    if isinstance(error, ValueError):
        if "duplicate value in 'axis'" in text:
            raise RuntimeError("a dim appears multiple times in the list of dims") from None
        if "non-broadcastable output" in text:
            together = np.broadcast_shapes(*(a.shape for a in given))
            raise write_wrong_shape(given[0].shape, together) from None
        if "broadcast" in text:
            raise RuntimeError(mismatch([a.shape for a in given]) or text) from None
        if "negative integer powers" in text:
            raise RuntimeError("Integers to negative integer powers are not allowed.") from None
    elif "ufunc" in text or "numpy boolean" in text:
        raise not_implemented(op, given) from None


def out_of_range(dim: Any, ndim: Any) -> str:
    reach = ndim or 1
    return (
        f"Dimension out of range (expected to be in range of [{-reach}, {reach - 1}], "
        f"but got {dim})"
    )


def mismatch(shapes: Sequence[tuple[int, ...]]) -> str | None:
    """PyTorch's message for the first two sizes, from the last dimension, that do not match."""
    for first, second in combinations(shapes, 2):
        ndim = max(len(first), len(second))
        for back in range(1, min(len(first), len(second)) + 1):
            a, b = first[-back], second[-back]
            if a != b and 1 not in {a, b}:
                return (
                    f"The size of tensor a ({a}) must match the size of tensor b ({b}) "
                    f"at non-singleton dimension {ndim - back}"
                )
    return None


def not_implemented(op: Operation, arrays: Sequence[Any]) -> Exception:
    """The error for an operation that does not support a dtype."""
    for trait in op.traits:
        if isinstance(trait, Refused) and arrays[0].dtype.kind in trait.kinds:
            return trait.error(trait.text.format(kind=scalar_name(arrays[0])))
    return unknown_dtype(f"{op.base_name.rstrip('_')}_cpu", arrays[0])


def invalid_combination(name: str, arguments: Sequence[Any]) -> TypeError:
    """PyTorch's error when none of a function's overloads accepts these arguments."""
    given = ", ".join(map(tp_name, arguments))
    return TypeError(
        f"{name}() received an invalid combination of arguments - got ({given}), but expected one "
        "of:"
    )
