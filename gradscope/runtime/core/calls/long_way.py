"""What the roads of calls need at hand, and the long way round: promotion, numbers, modes.

A road that meets something it was not written for (a Python number, mixed dtypes, a subclass, an
active mode) calls `call`, which makes the arguments ordinary and takes the full road.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import _getframe as getframe
from time import perf_counter_ns
from typing import Any
from weakref import ref

import numpy as np

from gradscope.runtime.core import probe
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.dtypes.names import scalar_name
from gradscope.runtime.core.errors.anomaly_lines import remember_writer
from gradscope.runtime.core.errors.arguments.raise_wrong_call import blame_the_call
from gradscope.runtime.core.errors.numpy import invalid_combination, refused
from gradscope.runtime.core.graph.new_node import above, finish
from gradscope.runtime.core.graph.node import NOWHERE, Node, device_of, new
from gradscope.runtime.core.rows.operation import Operation
from gradscope.runtime.core.rows.traits import FLOATS, Refused, attaches, rule_of
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.thread import ThreadState, local
from gradscope.runtime.core.tensors import placement
from gradscope.runtime.core.tensors.memory.storage import VersionCounter
from gradscope.runtime.core.tensors.saved.saved_variable import (
    SavedVariable,
    save_input,
    save_output,
    unpack_array,
    unpack_tensor,
    without_saved,
)
from gradscope.runtime.core.tensors.tensor.overriding import overrides
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.views.in_place import (
    before_write,
    check_inplace,
    count_write,
    write,
)
from gradscope.runtime.core.tensors.views.inference import mark
from gradscope.runtime.core.tensors.views.views import (
    attach_view,
    attach_views,
    edge_of,
    rebase_history,
)
from gradscope.runtime.core.tensors.wrapping import wrap_all, wrapped_number

FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)
NUMBERS32: dict[float, Any] = {}
NUMBERS64: dict[float, Any] = {}
"""Python numbers as arrays: NumPy takes twice as long to compute with the number itself."""


NO_OUTPUT: tuple[tuple[int, ...], Any] = ((0,), np.dtype(np.bool_))
"""What a node knows of an output that its operation left out; no gradient of it is made up."""


def number_array(number: float, dtype: Any, known: dict[float, Any]) -> Any:
    """A number as an array without dimensions, remembered for the next time."""
    made = np.asarray(number, dtype)
    made.flags.writeable = False
    if number and len(known) < 1024:  # 0.0 and -0.0 are one key
        known[number] = made
    return made


def scope_of(op: Operation) -> dict[str, Any]:
    """The globals of an operation's roads."""
    return {
        **_SHARED,
        "attach_view": attaches(op.traits) or attach_view,
        "kernel": op.kernel,
        "lie": rule_of(op.traits),
        "last_meta": [((None, None),)],  # of the last call: mostly it is this one's, too
        "op": op,
    }


@layout_only
def connect(node: Node, made: Sequence[Any], without: tuple[int, ...]) -> None:
    """Make `node` the history of several outputs; it takes no gradient for indices at the end."""
    count = 0
    for nr, one in enumerate(made):
        if one is not None and nr not in without and one._array.dtype.kind in "fcV":
            one._edge = (node, nr)
            count = nr + 1
    node.input_metadata = tuple(
        NO_OUTPUT if one is None else (one._array.shape, one._array.dtype) for one in made[:count]
    )


def save_results(node: Any, target: Any, state: ThreadState) -> None:
    """Keep what an in-place operation wrote, now that it is written."""
    kept = list(node._saved)
    for place, slot in enumerate(node.op.plan.slots):
        if slot.kind == "output":
            kept[place] = saved = save_output(target, node, slot.nr, state)
            if target._edge is None:  # a view: its history leads through its base's
                saved.edge = ref(target._meta.edge[0])
    node._saved = tuple(kept)


def defined_arrays(node: Node, grads: Sequence[Any]) -> Sequence[Any] | None:
    """Incoming gradients with zeros for those that never came; None if none came."""
    if all(grad is None for grad in grads):
        return None
    return [
        np.zeros(shape, dtype) if grad is None and dtype.kind in "fcV" else grad
        for grad, (shape, dtype) in zip(grads, node.input_metadata, strict=True)
    ]


def defined_tensors(node: Node, grads: Sequence[Any]) -> Sequence[Any] | None:
    """The same for tensors."""
    if all(grad is None for grad in grads):
        return None
    return [
        placement.wrapped_on(np.zeros(shape, dtype), device_of(node))
        if grad is None and dtype.kind in "fcV"
        else grad
        for grad, (shape, dtype) in zip(grads, node.input_metadata, strict=True)
    ]


def one_dtype(arrays: Sequence[Any]) -> bool:
    """Whether all arrays hold the same kind of number."""
    return all(array.dtype is arrays[0].dtype for array in arrays)


def call(op: Operation, arguments: tuple[Any, ...]) -> Any:
    """The long way round: whatever the short road would not take."""
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
    """The first argument fits no overload; who knows all arguments says so."""


class Stranger(Exception):  # noqa: N818  (it is caught above, and never seen)
    """An argument is no tensor, but of a class that handles functions itself."""


@layout_only
def take_road(op: Any, arguments: tuple[Any, ...], *, above: bool = True) -> Any:
    """Promote, wrap and run; `above`: whatever users have registered above autograd."""
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
    """Run the full road of an operation, on whatever device, with tangents if there are any."""
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
    """The arguments, with a tensor for each number that stands where a tensor may."""
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
"""Functions that take a number as their first operand, too."""


def _as_tensor_or_raise(op: Operation, p: Any, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value
    return _wrong_type(op, p, value)


def _wrong_type(op: Operation, p: Any, value: Any) -> Any:
    place = [q.name for q in op.plan.parameters].index(p.name)
    if not place and op.promotes and op.plan.numbers and len(op.plan.tensors) > 1:
        strange = overrides(type(value))  # of several overloads, none fits
        raise Stranger(op.base_name) if strange else NoOverload(value)
    position = 1 + place
    raise (Stranger if overrides(type(value)) else TypeError)(
        f"{op.base_name}(): argument '{p.public}' (position {position}) must be Tensor, "
        f"not {type(value).__name__}"
    )


@layout_only
def arrays_of(op: Operation, values: Sequence[Any]) -> list[Any]:
    """The arrays of all tensor arguments, in the dtype they are computed in."""
    taken = [
        (v, p.not_promoted) for v, p in zip(values, op.plan.parameters, strict=True) if p.tensor
    ]
    if op.promotes:
        named = [v for v, aside in taken if not aside]
        flat = [t for v in named for t in (v if isinstance(v, list) else [v]) if t is not None]
        if not flat:  # a list of none, which the kernel refuses
            return [_cast(v, None) for v, _ in taken]
        kind = dtypes.result_type(*[_operand(t) for t in flat])
        if FLOATS in op.traits and not (kind.is_floating_point or kind.is_complex):
            kind = dtypes.get_default_dtype()
        return [_cast(v, None if aside else kind.numpy) for v, aside in taken]
    if FLOATS in op.traits:
        return [_cast(v, None) if aside else _floating(v) for v, aside in taken]
    return [_cast(v, None) for v, _ in taken]


def _refuse(refusals: Sequence[Refused], arrays: Sequence[Any], *, given: bool) -> None:
    """Say which dtypes the operation does not know, if one of them is here."""
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


_SHARED: dict[str, Any] = {
    "FLOAT32": FLOAT32,
    "FLOAT64": FLOAT64,
    "NOWHERE": NOWHERE,
    "NUMBERS32": NUMBERS32,
    "NUMBERS64": NUMBERS64,
    "Tensor": Tensor,
    "above": above,
    "asarray": np.asarray,
    "attach_views": attach_views,
    "before_write": before_write,
    "call": call,
    "check_inplace": check_inplace,
    "clock": perf_counter_ns,
    "connect": connect,
    "defined_arrays": defined_arrays,
    "defined_tensors": defined_tensors,
    "edge_of": edge_of,
    "finish": finish,
    "getframe": getframe,
    "local": local,
    "ndarray": np.ndarray,
    "new": new,
    "number_array": number_array,
    "one_dtype": one_dtype,
    "probe": probe,
    "rebase_history": rebase_history,
    "refused": refused,
    "remember_writer": remember_writer,
    "SavedVariable": SavedVariable,
    "VersionCounter": VersionCounter,
    "save_input": save_input,
    "save_output": save_output,
    "save_results": save_results,
    "unpack_array": unpack_array,
    "unpack_tensor": unpack_tensor,
    "without_saved": without_saved,
    "wrap_all": wrap_all,
    "count_write": count_write,
    "write": write,
}
"""What the roads of all operations name."""
