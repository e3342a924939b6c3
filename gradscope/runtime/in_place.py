"""Writes in place: which are refused, with what words, and how a result gets into its tensor."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.runtime import probe
from gradscope.runtime.autograd.node import operation_name
from gradscope.runtime.dtypes import from_numpy
from gradscope.runtime.meta import CreationMeta, ViewMeta
from gradscope.runtime.operation import REGISTRY
from gradscope.runtime.overlap import refuse_partial_overlap
from gradscope.runtime.state import ThreadState
from gradscope.runtime.storage import VersionCounter

if TYPE_CHECKING:
    from gradscope.runtime.tensor import Tensor

AMBIGUOUS = (
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
    "code by moving both the view and the inplace either both inside the {} block (if you don't "
    "want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
)
WHY_REFUSED = {
    CreationMeta.MULTI_OUTPUT_NODE: "This view is the output of a function that returns multiple "
    "views. Such functions do not allow the output views to be modified inplace. You should "
    "replace the inplace operation by an out-of-place one.",
    CreationMeta.IN_CUSTOM_FUNCTION: "This view was created inside a custom Function (or because "
    "an input was returned as-is) and the autograd logic to handle view+inplace would override the "
    "custom backward associated with the custom Function, leading to incorrect gradients. This "
    "behavior is forbidden. You can fix this by cloning the output of the custom Function.",
    CreationMeta.NO_GRAD_MODE: AMBIGUOUS.format("no_grad"),
    CreationMeta.INFERENCE_MODE: AMBIGUOUS.format("inference_mode"),
}


def refusal(meta: ViewMeta, what: str) -> str:
    """Why a view made like this cannot take part in a write (`what` is being modified)."""
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
    return f"{head} {WHY_REFUSED[meta.creation]}"


def check_inplace(target: Tensor, inputs: tuple[Any, ...], state: ThreadState) -> None:
    """Refuse writes that autograd cannot record."""
    if state.keeper is not None:
        state.keeper.before_write(target)
    meta = target._meta
    if meta is not None and state.grad_enabled:
        if meta.is_view:
            _check_view(target, inputs)
        elif meta.requires_grad and target._edge is None:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation."
            )
    _check_overlap(target)
    if target._storage is not None:
        refuse_partial_overlap(target, inputs)


def _check_view(target: Tensor, inputs: tuple[Any, ...]) -> None:
    if any(getattr(t, "requires_grad", False) for t in (target, *inputs)):
        check_rebase(target)


def check_rebase(target: Tensor) -> None:
    """Refuse a new history for a view whose base cannot have one, or that was made in odd ways."""
    meta = target._meta
    if not isinstance(meta, ViewMeta):
        return
    if meta.creation is not CreationMeta.DEFAULT:
        raise RuntimeError(refusal(meta, "is being"))
    if target.requires_grad and meta.base.is_leaf:
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation."
        )


def _check_overlap(target: Tensor) -> None:
    array = target._array
    if (
        0 in array.strides
        and array.size
        and any(
            step == 0 and size > 1 for step, size in zip(array.strides, array.shape, strict=True)
        )
    ):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )


def write(target: Tensor, result: Any) -> None:
    """Put the result of an operation into the tensor it is named to write to."""
    array = target._array
    if 0 in array.strides:
        _check_overlap(target)
    if result is not array:
        kinds = result.dtype.kind if isinstance(result, np.ndarray | np.generic) else None
        if kinds is not None and not _castable(result.dtype, array.dtype):
            raise RuntimeError(
                f"result type {from_numpy(result.dtype).scalar_name} can't be cast to the desired "
                f"output type {from_numpy(array.dtype).scalar_name}"
            )
        shape = getattr(result, "shape", ())
        if shape != array.shape and np.broadcast_shapes(shape, array.shape) != array.shape:
            raise RuntimeError(
                f"output with shape {list(array.shape)} doesn't match the broadcast shape "
                f"{list(np.broadcast_shapes(shape, array.shape))}"
            )
        np.copyto(array, result, casting="unsafe")
    count_write(target)


def count_write(target: Tensor) -> None:
    """One more write to a tensor and all its aliases."""
    versions = target._versions
    if versions is None:
        target._versions = VersionCounter(1)
    else:
        versions.value += 1


def _castable(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    ranks = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}
    return ranks.get(source.kind, 2) <= ranks.get(target.kind, 2)


def before_write(tensor: Tensor) -> Tensor:
    """A clone of a tensor that is about to be written to; the clone is a node, as in PyTorch."""
    begin = 0 if probe.here is None else perf_counter_ns()
    made: Tensor = REGISTRY["clone"].full(tensor, None, tensor._array, begin)
    return made
