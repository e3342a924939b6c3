"""`out=`: writes the result of a call to an existing tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradscope.runtime.core.autograd.forward.forward_grad import fw_grad
from gradscope.runtime.core.autograd.modes.grad_mode import no_grad
from gradscope.runtime.core.calls.extra_arguments import out_rules as rules
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.names import c_name
from gradscope.runtime.core.errors.engine.dual_tensors import out_with_tangent
from gradscope.runtime.core.errors.engine.in_place import (
    write_overlaps_input,
    write_to_expanded,
    write_wrong_shape,
)
from gradscope.runtime.core.errors.engine.leaves import (
    out_elsewhere,
    out_of_count,
    out_of_dtype,
    out_with_grad,
)
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.state.warned import warn
from gradscope.runtime.core.tensors.making.factories import dtype_named
from gradscope.runtime.core.tensors.memory import overlap
from gradscope.runtime.core.tensors.views.in_place import count_told_write


def written(name: str, made: Any, out: Any, inputs: tuple[Any, ...] = ()) -> Any:
    """Write the result of a function to `out`, which is resized if its shape differs.

    `inputs` are the function's inputs, whose memory `out` may not overlap partially.
    """
    if out is None:
        return made
    if isinstance(made, tuple | list):
        return _all_written(name, made, out, inputs)
    if name in rules.OVER_A_DIM:
        raise TypeError(f'{name}() missing 1 required positional arguments: "dim"')
    return _one_written(name, made, out, inputs)


def _one_written(name: str, made: Any, out: Any, inputs: tuple[Any, ...]) -> Any:
    _check(name, made, out)
    recorded = made.requires_grad or out.requires_grad
    if recorded and name in rules.COPYING and out.shape == made.shape:
        return out.copy_(made)
    refuse_overlap(name, made, out, inputs)
    if out._array.shape == made._array.shape:
        np.copyto(out._array, made._array, casting="unsafe")
    else:
        _resize(name, out, made._array)
    count_told_write(out, name)
    return out


def dtype_inside(dtype: Any, out: Any) -> Any:
    """The dtype in which sums and products are computed that are written to `out`: its own."""
    own = getattr(out, "dtype", dtype)
    if dtype is None or own is dtype_named(dtype):
        return own
    wanted = c_name(np.empty(0, dtype_named(dtype).numpy))
    raise out_of_dtype(
        f"Expected out tensor to have dtype {wanted}, but got {c_name(out._array)} instead", out
    )


def _all_written(name: str, made: Sequence[Any], out: Any, inputs: tuple[Any, ...]) -> Any:
    """Write several results, each to its own tensor."""
    given = type(out).__name__
    if not isinstance(out, tuple | list):
        raise TypeError(f"{name}(): argument 'out' must be tuple of Tensors, not {given}")
    if len(out) != len(made) and name in rules.LISTED:
        raise out_of_count(rules.LISTED[name], len(made), len(out))
    if len(out) != len(made):
        raise TypeError(f"expected tuple of {len(made)} elements but got {len(out)}")
    if name in rules.OVER_A_DIM:
        _check_median(made, out)
    for one, into in zip(made, out, strict=True):
        if name == "split_copy":
            with no_grad():
                into.copy_(one)  # of any dtype
            continue
        _one_written(name, one, into, inputs)
    if name in rules.LISTED:
        return None
    return type(made)(*out) if hasattr(made, "_fields") else tuple(out)


def _check(name: str, made: Any, out: Any) -> None:
    if not hasattr(out, "_array"):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if local.state.grad_enabled:
        _check_gradients(name, made, out)
    if fw_grad(made) is not None or fw_grad(out) is not None:
        raise out_with_tangent(name, out)
    if made.device != out.device and name not in rules.FACTORIES:
        raise _elsewhere(name, made, out)
    if made.dtype is not out.dtype:
        _check_dtype(name, made, out)
    if name not in rules.REPEATED and overlap.repeats(out._array):
        raise write_to_expanded(out)
    keeper = local.state.keeper
    if keeper is not None:
        keeper.before_write(out)


def _check_gradients(name: str, made: Any, out: Any) -> None:
    if name in rules.UNRECORDED or name in rules.COPYING:
        return
    if out.requires_grad or (made.requires_grad and name not in rules.UNWATCHED):
        raise out_with_grad(rules.SAID_AS.get(name, name), out)


def _elsewhere(name: str, made: Any, out: Any) -> Exception:
    here, there = made.device.type, out.device.type
    if name in rules.EXACT_DEVICE:
        return out_elsewhere(
            f"Expected out tensor to have device {made.device}, but got {out.device} instead", out
        )
    if name in rules.ELSEWHERE:
        return out_elsewhere(rules.ELSEWHERE[name].format(made=here, out=there), out)
    return out_elsewhere(
        f"Attempting to copy from device {here} to device {there}, but cross-device copies are "
        "not allowed!",
        out,
    )


def _check_dtype(name: str, made: Any, out: Any) -> None:
    """Refuse a dtype that PyTorch's function of this name refuses."""
    said = rules.other_dtype(name)
    fits = dtypes.can_cast(made.dtype, out.dtype)
    if name.startswith("fft_"):
        fits = fits and made.dtype.is_complex == out.dtype.is_complex
    if said is None and fits:
        return
    text = (said or rules.unfit_dtype(name)).format(
        name=name,
        short=name.rpartition("linalg_")[2],
        made=made.dtype.scalar_name,
        out=out.dtype.scalar_name,
        made_c=c_name(made._array),
        out_c=c_name(out._array),
    )
    error = out_of_dtype(text, out)
    raise TypeError(*error.args) if name in rules.TYPE_ERRORS and not said else error


def _check_median(made: Sequence[Any], out: Sequence[Any]) -> None:
    values, indices = out
    which = "(while checking arguments for median)"
    if indices.dtype is not dtypes.int64:
        raise out_of_dtype(
            "Expected tensor for argument #1 'indices' to have scalar type Long; but got "
            f"{_class_name(indices)} instead {which}",
            indices,
        )
    if values.dtype is not made[0].dtype:
        raise out_of_dtype(
            "Expected tensor for 'values' to have the same type as tensor for argument #2 'self'; "
            f"but type {_class_name(values)} does not equal {_class_name(made[0])} {which}",
            values,
        )


def _class_name(tensor: Any) -> str:
    """PyTorch's C++ name for tensors of a dtype: the legacy class if there is one."""
    name = tensor.dtype.scalar_name
    return f"torch.{name}Tensor" if name in rules.OLD_CLASSES else f"CPU{name}Type"


def refuse_overlap(name: str, made: Any, out: Any, inputs: tuple[Any, ...]) -> None:
    """Refuse to write to memory that an input sees partially, where PyTorch checks."""
    if not inputs or name in rules.OVERLAPPING:
        return
    free = rules.OVERLAPPING_INPUTS.get(name, ())
    seen: list[Any] = []
    for place, given in enumerate(inputs):
        if place not in free:
            seen += given if isinstance(given, list | tuple) else (given,)
    if out.shape != made.shape and any(out is each for each in seen):
        raise (
            write_overlaps_input(out)
            if name in rules.REREADING
            else write_wrong_shape(out.shape, made.shape)
        )
    if out._storage is None and name not in rules.APART:
        return  # no other references to its memory
    overlap.refuse_partial_overlap(out, tuple(seen), apart=name in rules.APART)


def _resize(name: str, out: Any, array: Any) -> None:
    if out._array.size and name not in rules.UNSAID:
        warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(out._array.shape)}, which does not match the required output shape "
            f"{list(array.shape)}. This behavior is deprecated, and in a future PyTorch release "
            "outputs will not be resized unless they have zero elements. You can explicitly reuse "
            "an out tensor t by resizing it, inplace, to zero elements with t.resize_(0)."
        )
    again = out._array.size > 0 and name in rules.CONTIGUOUS_AGAIN
    order = "C" if again or name in rules.CONTIGUOUS else "K"
    out._array = array.astype(out._array.dtype, order)
    out._storage = None


upward.written = written
