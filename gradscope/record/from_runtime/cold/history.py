"""The current node of a tensor, and whether it follows from the tensor's number."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.graph.node import BEING_MADE
from gradscope.runtime.core.tensors.saved.saved_variable import SavedVariable
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.trace.schema import NONE


def present_edge(tensor: Any) -> Any:
    """Where a tensor's gradient goes; a leaf that nobody has asked for it gets no node by this."""
    if not tensor.requires_grad or not tensor.is_leaf:
        edge = tensor.gradient_edge()
        made = edge is not None and edge[0] is not None and edge[0].record_nr != BEING_MADE
        return edge if made else None
    held = tensor._meta.accumulator
    node = held() if held is not None else None
    return None if node is None else (node, 0)


def version_of(tensor: Any) -> int:
    """The version of a tensor; 0 if it has none, as in inference mode."""
    versions = tensor._versions
    return versions.value if versions is not None and versions.tracks else 0


def odd(tensor: Any) -> bool:
    """Whether a tensor's history or version may not follow from its number."""
    versions = tensor._versions
    # One that was made by a node and has none now was detached in place.
    return versions is not None and bool(
        versions.value or (tensor._edge is None and tensor.record_nr & 1)
    )


def hooked(node: Any) -> bool:
    return any(isinstance(v, SavedVariable) and v.hooks is not None for v in node._saved or ())


def place_of_saved(node: Any, value: Any, slot: int | None) -> int:
    """The how-manieth of the tensors that a node keeps this is; `slot`: the one it stands in."""
    place = 0
    for index, kept in enumerate(node._saved or ()):
        for each in kept if isinstance(kept, list) else (kept,):
            if each is value and slot in (None, index):
                return place
            place += isinstance(each, SavedVariable | Tensor)
    return NONE
