"""Writes that would read what they have just written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.runtime.errors import in_place as errors
from gradscope.runtime.storage import dense

if TYPE_CHECKING:
    from gradscope.runtime.tensor import Tensor


def refuse_partial_overlap(target: Tensor, inputs: tuple[Any, ...]) -> None:
    """Refuse a write into memory of which an input sees another part, or sees it in another order.

    As in PyTorch, only memory that both fill without holes is looked at.
    """
    written = target._array
    for source in inputs:
        array = getattr(source, "_array", None)
        if array is None or array is written or not np.may_share_memory(array, written):
            continue
        if not (dense(array) and dense(written)) or not (array.size and written.size):
            continue
        if array.strides == written.strides and _bounds(array) == _bounds(written):
            continue
        raise errors.write_overlaps_input(target)


def _bounds(array: Any) -> tuple[int, int]:
    low, high = np.lib.array_utils.byte_bounds(array)
    return int(low), int(high)
