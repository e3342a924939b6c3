"""Flattens structures of tensors and restores them, for functions older than `apply`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gradscope.runtime.core.dtypes.names import typename
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def _unknown(value: Any, accepted: str) -> ValueError:
    return ValueError(
        "Auto nesting doesn't know how to process an input object of type "
        f"{typename(value)}. Accepted types: {accepted}, or lists/tuples of them"
    )


def flat(value: Any, *, with_none: bool = False) -> Iterator[Any]:
    """The tensors of a structure, in order."""
    if isinstance(value, Tensor) or (value is None and with_none):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from flat(item, with_none=with_none)
    elif value is not None:
        raise _unknown(value, "Tensors or None" if with_none else "Tensors")


def data_of(value: Any) -> Any:
    """The same structure with detached tensors."""
    if isinstance(value, Tensor):
        return value.data
    if isinstance(value, dict):
        return {key: data_of(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [data_of(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if value is None:
        return None
    raise _unknown(value, "Tensors")


def unflattened(values: Sequence[Any], like: Any) -> Any:
    """Values in the structure of others."""
    left = list(values)

    def next_of(part: Any) -> Any:
        if not isinstance(part, list | tuple):
            return left.pop(0)
        return type(part)([None if item is None else next_of(item) for item in part])

    return next_of(like)
