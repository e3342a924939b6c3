"""Finds the parameters that a forward has not used, and the tensors in what it returned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def reached(outputs: Sequence[Any]) -> set[Any]:
    """All nodes to which gradients of these tensors go."""
    waiting = [node for each in outputs if (node := _node(each)) is not None]
    found = set(waiting)
    while waiting:
        for following, _ in waiting.pop().next_functions:
            if following is not None and following not in found:
                found.add(following)
                waiting.append(following)
    return found


def _node(tensor: Any) -> Any:
    edge = tensor.gradient_edge() if tensor.requires_grad else None
    return None if edge is None else edge[0]


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in nested lists, tuples, dicts and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors_in(each)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from tensors_in(getattr(value, field.name))
