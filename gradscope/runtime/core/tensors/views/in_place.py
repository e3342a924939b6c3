"""In-place writes: which are refused, the errors, and how a result is written."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.runtime.core import probe
from gradscope.runtime.core.dtypes.dtypes import from_numpy
from gradscope.runtime.core.errors.engine import in_place as errors
from gradscope.runtime.core.graph.node import operation_name
from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.core.rows.plan import Memory, RoadPlan
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.state.thread import ThreadState
from gradscope.runtime.core.tensors.memory.overlap import (
    check_memory,
    refuse_partial_overlap,
    refuse_repeated,
)
from gradscope.runtime.core.tensors.memory.storage import VersionCounter
from gradscope.runtime.core.tensors.tensor.autograd_meta import CreationMeta, ViewMeta

if TYPE_CHECKING:
    from gradscope.runtime.core.tensors.tensor.tensor import Tensor

REFUSED = {
    CreationMeta.MULTI_OUTPUT_NODE: errors.view_of_several,
    CreationMeta.IN_CUSTOM_FUNCTION: errors.view_of_custom_function,
    CreationMeta.NO_GRAD_MODE: errors.view_from_no_grad,
    CreationMeta.INFERENCE_MODE: errors.view_from_inference_mode,
}


def refusal(view: Tensor, meta: ViewMeta, what: str) -> Exception:
    """The error for a view that cannot take part in a write (`what` is being modified)."""
    node, nr = meta.edge or (None, 0)
    made = "" if node is None else f"Output {nr} of {operation_name(node)} is a view"
    modes = {
        CreationMeta.INFERENCE_MODE: ("inference", "in normal mode"),
        CreationMeta.NO_GRAD_MODE: ("no_grad", "with grad mode enabled"),
    }
    if node is None or meta.creation in modes:
        mode, where = modes.get(meta.creation, ("no_grad", "with grad mode enabled"))
        made = f"{made} of a view which was" if made else "A view was"
        head = f"{made} created in {mode} mode and {what} modified inplace {where}."
    else:
        head = f"{made} and {what} modified inplace."
    return REFUSED[meta.creation](head, view)


ANYWHERE = RoadPlan(
    (), (), (), 1, "inplace", same_dtype=False, float_only=False, memory=Memory(repeated="")
)
"""The plan of a change to the tensor itself, which writes no values."""


def check_inplace(
    target: Tensor, inputs: tuple[Any, ...], state: ThreadState, plan: RoadPlan | None = None
) -> None:
    """Refuse writes that autograd cannot record; with a plan, those that its `memory` refuses."""
    if state.keeper is not None:
        state.keeper.before_write(target)
    meta = target._meta
    if meta is not None and state.grad_enabled:
        if meta.is_view:
            _check_view(target, inputs)
        elif meta.requires_grad and target._edge is None:
            raise errors.leaf_in_place(target)
    if plan is not None and plan.memory is not None:
        check_memory(target, inputs, plan)
        return
    refuse_repeated(target)
    if target._storage is not None:
        refuse_partial_overlap(target, inputs)


def _check_view(target: Tensor, inputs: tuple[Any, ...]) -> None:
    if any(getattr(t, "requires_grad", False) for t in (target, *inputs)):
        check_rebase(target)
        if (
            target.requires_grad and target.is_leaf_so_far()
        ):  # not yet updated after writes to its base
            raise errors.leaf_in_place(target)


def check_rebase(target: Tensor) -> None:
    """Refuse a new history for a view whose base cannot have one, or that was created specially."""
    meta = target._meta
    if not isinstance(meta, ViewMeta):
        return
    if meta.creation is not CreationMeta.DEFAULT:
        raise refusal(target, meta, "is being")
    if target.requires_grad and meta.base.is_leaf_so_far():
        raise errors.leaf_view_in_place(target)


@layout_only
def write(target: Tensor, result: Any, writer: Any) -> None:
    """Write the result of an operation to its target."""
    array = target._array
    if result is not array:
        kinds = result.dtype.kind if isinstance(result, np.ndarray | np.generic) else None
        if kinds is not None and not _castable(result.dtype, array.dtype):
            kind, wanted = from_numpy(result.dtype), from_numpy(array.dtype)
            raise errors.write_wrong_dtype(kind.scalar_name, wanted.scalar_name, target)
        shape = getattr(result, "shape", ())
        if shape != array.shape:
            together = np.broadcast_shapes(shape, array.shape)
            if together != array.shape:
                name = getattr(writer, "name", "")
                raise errors.write_wrong_shape(array.shape, together, name)
        np.copyto(array, result, casting="unsafe")
    count_write(target, writer)


def count_write(target: Tensor, writer: Any) -> None:
    """Increment the version of a tensor and its aliases; `writer` is an operation or a name."""
    versions = target._versions
    if versions is None:
        versions = target._versions = VersionCounter(1)
    else:
        versions.value += 1
    versions.writer = writer


def count_told_write(target: Tensor, writer: str) -> None:
    """The same for a write outside of any call, which is reported separately."""
    count_write(target, writer)
    if probe.here is not None:
        probe.here.touched(target)


def _castable(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    ranks = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}
    return ranks.get(source.kind, 2) <= ranks.get(target.kind, 2)


@layout_only
def before_write(tensor: Tensor) -> Tensor:
    """A clone of a tensor that is about to be modified; the clone has a node, as in PyTorch."""
    begin = 0 if probe.here is None else perf_counter_ns()
    clone = REGISTRY["clone"]
    if ThreadState.with_tangents is not None:
        made: Tensor = ThreadState.with_tangents(
            clone, [tensor, None], [tensor._array], begin, None
        )
    else:
        made = clone.full(tensor, None, tensor._array, begin)
    return made
