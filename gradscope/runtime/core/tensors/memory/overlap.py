"""Checks for writes to overlapping memory: within the target, or with an input."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.runtime.core.errors.engine import in_place as errors
from gradscope.runtime.core.rows.plan import RoadPlan
from gradscope.runtime.core.state.array_calls import layout_only
from gradscope.runtime.core.tensors.memory.storage import dense

if TYPE_CHECKING:
    from gradscope.runtime.core.tensors.tensor.autograd_meta import TensorFields


def repeats(array: Any) -> bool:
    """Whether an element has several indices because a dim has stride 0, as after `expand`."""
    return (
        0 in array.strides
        and array.size > 0
        and any(
            step == 0 and size > 1 for step, size in zip(array.strides, array.shape, strict=True)
        )
    )


@layout_only
def refuse_repeated(target: TensorFields) -> None:
    """Refuse a write to a tensor that shows an element several times."""
    if repeats(target._array):
        raise errors.write_to_expanded(target)


@layout_only
def check_memory(target: TensorFields, inputs: tuple[Any, ...], plan: RoadPlan) -> None:
    """The memory checks of a write, as its plan declares them."""
    memory = plan.memory
    assert memory is not None
    if memory.itself and _same_data(target._array, inputs[-1]):
        return
    if memory.repeated is None:
        refuse_repeated(target)
    elif memory.repeated and repeats(target._array):
        besides = "indices] = tensor" if memory.repeated == "index_put_" else "mask] = scalar"
        warnings.warn(
            f"Use of {memory.repeated} on expanded tensors is deprecated. Please clone() the "
            "tensor before performing this operation. This also applies to advanced indexing e.g. "
            f"tensor[{besides}",
            UserWarning,
            stacklevel=5,
        )
    if target._storage is None:
        return
    for p, given in zip(plan.tensors, inputs, strict=False):
        if p.name not in memory.free:
            several = tuple(given) if isinstance(given, list | tuple) else (given,)
            refuse_partial_overlap(target, several, apart=p.name in memory.apart)


@layout_only
def refuse_partial_overlap(
    target: TensorFields, inputs: tuple[Any, ...], *, apart: bool = False
) -> None:
    """Refuse a write to memory that an input sees partially or in another order.

    As in PyTorch, only memory without holes is checked. `apart`: an input may not share the memory
    in any order.
    """
    written = target._array
    for source in inputs:
        array = getattr(source, "_array", None)
        if array is None or (array is written and not apart):
            continue
        if not np.may_share_memory(array, written):
            continue
        if not (dense(array) and dense(written)) or not (array.size and written.size):
            continue
        if not apart and array.strides == written.strides and _bounds(array) == _bounds(written):
            continue
        raise errors.write_overlaps_input(target)


@layout_only
def _same_data(written: Any, source: Any) -> bool:
    """Whether source and target are the same memory with the same sizes and strides."""
    array = getattr(source, "_array", None)
    return array is written or (
        array is not None
        and array.shape == written.shape
        and array.dtype == written.dtype
        and _steps(array) == _steps(written)
        and array.__array_interface__["data"] == written.__array_interface__["data"]
    )


def _steps(array: Any) -> list[int]:
    """The strides of dims with more than one element."""
    return [step for step, size in zip(array.strides, array.shape, strict=True) if size > 1]


def _bounds(array: Any) -> tuple[int, int]:
    low, high = np.lib.array_utils.byte_bounds(array)
    return int(low), int(high)
