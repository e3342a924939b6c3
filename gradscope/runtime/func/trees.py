"""Tensors in tuples, lists and dicts: as one list, and back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from gradscope.runtime.tensor import Tensor

Leaves = list[Any]


def leaves(value: Any) -> Leaves:
    """Everything in a nest of tuples, lists and dicts that is none itself, in order."""
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in leaves(item)]
    return [] if value is None else [value]


def refilled(shape: Any, given: Iterator[Any]) -> Any:
    """The same nest with other leaves."""
    if isinstance(shape, dict):
        pairs = ((key, refilled(item, given)) for key, item in shape.items())
        return OrderedDict(pairs) if isinstance(shape, OrderedDict) else dict(pairs)
    if isinstance(shape, tuple | list):
        made = [refilled(item, given) for item in shape]
        if hasattr(shape, "_fields"):
            return type(shape)(*made)
        return tuple(made) if isinstance(shape, tuple) else made
    return None if shape is None else next(given)


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """A nest with each leaf as `function` makes it."""
    return refilled(value, iter([function(leaf) for leaf in leaves(value)]))


def is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def tensors_in(value: Any) -> list[Any]:
    return [leaf for leaf in leaves(value) if isinstance(leaf, Tensor)]


def same_shape(first: Any, second: Any) -> bool:
    """Whether two nests differ in their leaves only."""
    if isinstance(first, dict):
        return isinstance(second, dict) and list(first) == list(second) and _all(first, second)
    if isinstance(first, tuple | list):
        return type(first) is type(second) and len(first) == len(second) and _all(first, second)
    return not isinstance(second, dict | tuple | list)


def _all(first: Any, second: Any) -> bool:
    pairs = zip(
        first.values() if isinstance(first, dict) else first,
        second.values() if isinstance(second, dict) else second,
        strict=True,
    )
    return all(same_shape(a, b) for a, b in pairs)
