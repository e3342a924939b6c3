"""`out=`: the result of a call in a tensor that was there before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradscope.runtime.core.autograd.forward.forward_grad import fw_grad
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.names import c_name
from gradscope.runtime.core.errors.engine.dual_tensors import out_with_tangent
from gradscope.runtime.core.errors.engine.in_place import write_to_expanded
from gradscope.runtime.core.errors.engine.leaves import out_of_dtype, out_with_grad
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.memory import overlap
from gradscope.runtime.core.tensors.views.in_place import count_told_write

EXACT = frozenset({"aminmax", "gather"})
"""Functions whose `out` has to be of the very dtype of the result."""


def written(name: str, made: Any, out: Any) -> Any:
    """Put the result of a function into `out`, which takes its shape if it has another."""
    if out is None:
        return made
    if isinstance(made, tuple | list):
        return _all_written(name, made, out)
    _check(name, made, out)
    if out._array.shape == made._array.shape:
        np.copyto(out._array, made._array, casting="unsafe")
    else:
        _resize(out, made._array)
    count_told_write(out, name)
    return out


def _all_written(name: str, made: Sequence[Any], out: Sequence[Any]) -> Any:
    """Several results, each into its own tensor."""
    if not isinstance(out, tuple | list) or len(out) != len(made):
        raise TypeError(f"{name}() expects out= to be a tuple of {len(made)} tensors")
    for one, into in zip(made, out, strict=True):
        written(name, one, into)
    return type(made)(*out) if hasattr(made, "_fields") else tuple(out)


def _check(name: str, made: Any, out: Any) -> None:
    if not hasattr(out, "_array"):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if made.requires_grad or out.requires_grad:
        raise out_with_grad(name, out)
    if fw_grad(made) is not None or fw_grad(out) is not None:
        raise out_with_tangent(name, out)
    if overlap.repeats(out._array):
        raise write_to_expanded(out)
    if name in ("amax", "amin") and made.dtype is not out.dtype:
        raise out_of_dtype(
            "Expected the dtype for input and out to match, but got "
            f"{made.dtype.scalar_name} for input's dtype and {out.dtype.scalar_name} for out's "
            "dtype.",
            out,
        )
    if name in EXACT and made.dtype is not out.dtype:
        raise out_of_dtype(
            f"Expected out tensor to have dtype {c_name(made._array)}, but got "
            f"{c_name(out._array)} instead",
            out,
        )
    if not dtypes.can_cast(made.dtype, out.dtype):
        raise out_of_dtype(
            f"result type {made.dtype.scalar_name} can't be cast to the desired output type "
            f"{out.dtype.scalar_name}",
            out,
        )


def _resize(out: Any, array: Any) -> None:
    if out._array.size:
        warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(out._array.shape)}, which does not match the required output shape "
            f"{list(array.shape)}. This behavior is deprecated, and in a future PyTorch release "
            "outputs will not be resized unless they have zero elements. You can explicitly reuse "
            "an out tensor t by resizing it, inplace, to zero elements with t.resize_(0)."
        )
    out._array = array.astype(out._array.dtype)
    out._storage = None


upward.written = written
