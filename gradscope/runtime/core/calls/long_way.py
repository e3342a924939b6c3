"""The general path: promotion, numbers, modes.

A fast path that meets something unsupported (a Python number, mixed dtypes, a subclass, an active
mode) calls `call`, which converts the arguments and takes the full path.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from gradscope.runtime.core import probe
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.errors.arguments.raise_wrong_call import blame_the_call
from gradscope.runtime.core.errors.numpy import invalid_combination
from gradscope.runtime.core.rows.operation import Operation
from gradscope.runtime.core.rows.traits import FLOATS, Refused
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.thread import ThreadState, local
from gradscope.runtime.core.tensors import placement
from gradscope.runtime.core.tensors.tensor.overriding import overrides
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.views.in_place import check_inplace
from gradscope.runtime.core.tensors.views.inference import mark
from gradscope.runtime.core.tensors.wrapping import wrapped_number


def call(op: Operation, arguments: tuple[Any, ...]) -> Any:
    """Run the general path, for calls that the fast path does not support."""
    if arguments and _bare(arguments):
        return _on_bare(op, arguments)
    try:
        return take_road(op, arguments)
    except Stranger as stranger:
        return upward.offered_to_stranger(op, arguments, stranger)
    except NoOverload:
        blame_the_call()
        given = list(arguments)
        while given and op.plan.parameters[len(given) - 1].has_default:
            given.pop()
        raise invalid_combination(op.base_name, given) from None
    except Exception:
        blame_the_call()
        raise


class NoOverload(Exception):  # noqa: N818
    """The first argument fits no overload. The caller knows all arguments and raises the error."""


class Stranger(Exception):  # noqa: N818  (it is caught above, and never seen)
    """An argument is not a tensor, but of a class that overrides functions."""


@layout_only
def take_road(op: Any, arguments: tuple[Any, ...], *, above: bool = True) -> Any:
    """Promote, wrap and run; `above`: with users' kernels above autograd."""
    if local.state.autocast is not None and not local.state.formula:
        arguments = local.state.autocast.arguments(op, arguments)
    here = probe.here
    begin = perf_counter_ns() if here is not None else 0
    values = tensors_of(op, arguments)
    refusals = [t for t in op.traits if isinstance(t, Refused)]
    arrays = arrays_of(op, values)
    if refusals and op.plan.kind == "inplace":
        check_inplace(values[0], tuple(values), local.state, op.plan)
    if refusals:
        not_promoted = [p.not_promoted for p in op.plan.tensors]
        named = [array for array, no in zip(arrays, not_promoted, strict=True) if not no]
        _refuse(refusals, named, given=False)
        named = [
            v._array
            for v, p in zip(values, op.plan.parameters, strict=True)
            if isinstance(v, Tensor) and not p.not_promoted
        ]
        _refuse(refusals, named, given=True)
    where = placement.common(op, values) if ThreadState.devices else None
    state = local.state
    if ThreadState.routes is not None:
        return ThreadState.routes(op, values, arrays, begin, where, above=above)
    if state.dispatch_modes:
        op, state.dispatched = upward.observed(op), values
    return down(op, values, arrays, begin, where)


@layout_only
def down(op: Any, values: list[Any], arrays: list[Any], begin: int, where: Any) -> Any:
    """Run the full path of an operation, on any device, with tangents if there are any."""
    if ThreadState.with_tangents is not None:
        made = ThreadState.with_tangents(op, values, arrays, begin, where)
    elif where is not None:
        made = placement.on_device(op, values, arrays, begin, where)
    else:
        made = op.full(*values, *arrays, begin)
    if local.state.inference:
        mark(made)
    return made


def tensors_of(op: Operation, arguments: Sequence[Any]) -> list[Any]:
    """The arguments, with a tensor for each number where a tensor is allowed."""
    values = list(arguments)
    for i, p in enumerate(op.plan.parameters):
        if p.tensor:
            values[i] = _as_tensor(op, p, values[i])
    return values


def _bare(arguments: tuple[Any, ...]) -> bool:
    """Whether a formula is calling on plain arrays."""
    first = arguments[0]
    if isinstance(first, list | tuple) and first:
        first = first[0]
    if isinstance(first, np.ndarray | np.generic):
        return not any(isinstance(a, Tensor) for a in arguments)
    return False


def _on_bare(op: Operation, arguments: tuple[Any, ...]) -> Any:
    named = {
        p.name: value
        for p, value in zip(op.plan.parameters, arguments, strict=True)
        if p.keyword_only
    }
    return op.kernel(*arguments[: len(arguments) - len(named)], **named)


def _as_tensor(op: Operation, p: Any, value: Any) -> Any:
    if isinstance(value, Tensor) or (value is None and p.optional):
        return value
    if p.many and isinstance(value, list | tuple):
        return [_as_tensor_or_raise(op, p, item) for item in value]
    if isinstance(value, bool | int | float | complex | np.number | np.bool_):
        first = p.name == op.plan.parameters[0].name
        if (first and op.base_name not in TAKE_NUMBERS) or not op.plan.numbers:
            _wrong_type(op, p, value)
        return wrapped_number(value)
    return _as_tensor_or_raise(op, p, value)


TAKE_NUMBERS = frozenset({"add", "sub", "mul", "div", "floor_divide"})
"""Functions that also accept a number as their first operand."""


def _as_tensor_or_raise(op: Operation, p: Any, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value
    return _wrong_type(op, p, value)


def _wrong_type(op: Operation, p: Any, value: Any) -> Any:
    place = [q.name for q in op.plan.parameters].index(p.name)
    if not place and op.promotes and op.plan.numbers and len(op.plan.tensors) > 1:
        strange = overrides(type(value))  # no overload fits
        raise Stranger(op.base_name) if strange else NoOverload(value)
    position = 1 + place
    raise (Stranger if overrides(type(value)) else TypeError)(
        f"{op.base_name}(): argument '{p.public}' (position {position}) must be Tensor, "
        f"not {type(value).__name__}"
    )


@layout_only
def arrays_of(op: Operation, values: Sequence[Any]) -> list[Any]:
    """The arrays of all tensor arguments, in the dtype of the computation."""
    taken = [
        (v, p.not_promoted) for v, p in zip(values, op.plan.parameters, strict=True) if p.tensor
    ]
    if op.promotes:
        named = [v for v, aside in taken if not aside]
        flat = [t for v in named for t in (v if isinstance(v, list) else [v]) if t is not None]
        if not flat:  # an empty list, which the kernel refuses
            return [_cast(v, None) for v, _ in taken]
        kind = dtypes.result_type(*[_operand(t) for t in flat])
        if FLOATS in op.traits and not (kind.is_floating_point or kind.is_complex):
            kind = dtypes.get_default_dtype()
        return [_cast(v, None if aside else kind.numpy) for v, aside in taken]
    if FLOATS in op.traits:
        return [_cast(v, None) if aside else _floating(v) for v, aside in taken]
    return [_cast(v, None) for v, _ in taken]


def _refuse(refusals: Sequence[Refused], arrays: Sequence[Any], *, given: bool) -> None:
    """Raise the error for an unsupported dtype, if there is one."""
    for trait in refusals:
        for array in arrays if trait.given is given else ():
            if isinstance(array, np.ndarray) and array.dtype.kind in trait.kinds:
                kind = scalar_name(array)
                raise trait.error(trait.text.format(kind=kind))


@layout_only
def _operand(tensor: Any) -> tuple[Any, int]:
    array = tensor._array
    if array.ndim:
        return dtypes.from_numpy(array.dtype), dtypes.DIMENSIONED
    number = "wrapped_number" in tensor.__dict__
    return dtypes.from_numpy(array.dtype), dtypes.NUMBER if number else dtypes.ZERO_DIM


@layout_only
def _cast(value: Any, dtype: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_cast(v, dtype) for v in value]
    array = value._array
    return array if dtype is None or array.dtype == dtype else array.astype(dtype)


@layout_only
def _floating(value: Any) -> Any:
    if value is None or isinstance(value, list):
        return _cast(value, None)
    array = value._array
    return array if array.dtype.kind in "fcV" else array.astype(dtypes.get_default_dtype().numpy)
