"""The globals of roads."""

from __future__ import annotations

from collections.abc import Sequence
from sys import _getframe as getframe
from time import perf_counter_ns
from typing import Any
from weakref import ref

import numpy as np

from gradscope.runtime.core import probe
from gradscope.runtime.core.calls.long_way import call
from gradscope.runtime.core.errors.anomaly_lines import remember_writer
from gradscope.runtime.core.errors.numpy import refused
from gradscope.runtime.core.graph.new_node import above, finish
from gradscope.runtime.core.graph.node import NOWHERE, Node, device_of, new
from gradscope.runtime.core.rows.operation import Operation
from gradscope.runtime.core.rows.traits import attaches, rule_of
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
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.views.in_place import (
    before_write,
    check_inplace,
    count_write,
    write,
)
from gradscope.runtime.core.tensors.views.views import (
    attach_view,
    attach_views,
    edge_of,
    rebase_history,
)
from gradscope.runtime.core.tensors.wrapping import wrap_all

FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)
NUMBERS32: dict[float, Any] = {}
NUMBERS64: dict[float, Any] = {}
"""Python numbers as arrays: NumPy takes twice as long to compute with the number itself."""


NO_OUTPUT: tuple[tuple[int, ...], Any] = ((0,), np.dtype(np.bool_))
"""Metadata of an output that its operation left out; its gradient stays undefined."""


def number_array(number: float, dtype: Any, known: dict[float, Any]) -> Any:
    """A number as an array without dims, cached."""
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
        "last_meta": [((None, None),)],  # of the last call, which is mostly the same
        "op": op,
    }


@layout_only
def connect(node: Node, made: Sequence[Any], without: tuple[int, ...]) -> None:
    """Make `node` the history of several outputs. It receives no gradient for trailing indices."""
    count = 0
    for nr, one in enumerate(made):
        if one is not None and nr not in without and one._array.dtype.kind in "fcV":
            one._edge = (node, nr)
            count = nr + 1
    node.input_metadata = tuple(
        NO_OUTPUT if one is None else (one._array.shape, one._array.dtype) for one in made[:count]
    )


def save_results(node: Any, target: Any, state: ThreadState) -> None:
    """Save the result of an in-place operation, after it is written."""
    kept = list(node._saved)
    for place, slot in enumerate(node.op.plan.slots):
        if slot.kind == "output":
            kept[place] = saved = save_output(target, node, slot.nr, state)
            if target._edge is None:  # a view: its history leads through its base's
                saved.edge = ref(target._meta.edge[0])
    node._saved = tuple(kept)


def defined_arrays(node: Node, grads: Sequence[Any]) -> Sequence[Any] | None:
    """Incoming gradients with zeros for undefined ones; None if all are undefined."""
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
    """Whether all arrays have the same dtype."""
    return all(array.dtype is arrays[0].dtype for array in arrays)


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
"""Globals of the roads of all operations."""
