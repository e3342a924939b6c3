"""The current node of a tensor, and whether it follows from the tensor's number."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.graph.node import BEING_MADE
from gradscope.runtime.core.tensors.saved.saved_variable import SavedVariable
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.trace.schema import NONE


def present_edge(tensor: Any) -> Any:
    """The edge of a tensor. A leaf without an accumulation node does not get one by this."""
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
    """Whether a tensor's node or version may not follow from its number."""
    versions = tensor._versions
    # It was created by a node and has none now, so it was detached in place.
    return versions is not None and bool(
        versions.value or (tensor._edge is None and tensor.record_nr & 1)
    )


def hooked(node: Any) -> bool:
    return any(isinstance(v, SavedVariable) and v.hooks is not None for v in node._saved or ())


def place_of_saved(node: Any, value: Any, slot: int | None) -> int:
    """The index of this saved tensor among those of its node; `slot`: its slot."""
    place = 0
    for index, kept in enumerate(node._saved or ()):
        for each in kept if isinstance(kept, list) else (kept,):
            if each is value and slot in (None, index):
                return place
            place += isinstance(each, SavedVariable | Tensor)
    return NONE
