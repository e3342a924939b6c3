"""Maps a function over rows of tensors and stacks the results, as vmap does, by a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.core.tensors.making.factories import zeros_like
from gradscope.runtime.core.tensors.tensor.tensor import Tensor


def one_by_one(
    function: Callable[..., Sequence[Any]], given: Sequence[Any], name: str
) -> tuple[Any, ...]:
    """Call `function` with the first, second … row of all `given`, and stack each result.

    A result that is None for every row stays None. Without rows, the function is called once with
    zeros to find the shapes of its results. `name` is the function's name in errors.
    """
    count = _count(given, name)
    if count == 0:
        rows = [tensor.new_zeros(tensor.shape[1:]) for tensor in given]
        return tuple(None if r is None else _stack([r])[:0] for r in function(*rows))
    results = [function(*[tensor[i] for tensor in given]) for i in range(count)]
    return tuple(_column(column) for column in zip(*results, strict=True))


def _count(given: Sequence[Any], name: str) -> int:
    """The number of rows."""
    for tensor in given:
        if not isinstance(tensor, Tensor):
            raise ValueError(
                f"vmap({name}, in_dims=0, ...)(<inputs>): Got in_dim=0 for an input but the input "
                f"is of type {type(tensor)}. We cannot vmap over non-Tensor arguments, please use "
                "None as the respective in_dim"
            )
        if tensor.dim() == 0:
            raise ValueError(
                f"vmap({name}, in_dims=0, ...)(<inputs>): Got in_dim=0 for some input, but that "
                "input is a Tensor of dimensionality 0 so expected in_dim to satisfy "
                "0 <= in_dim < 0."
            )
    counts = [len(tensor) for tensor in given]
    if any(count != counts[0] for count in counts):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{counts} for the mapped dimension"
        )
    return counts[0]


def _column(results: Sequence[Any]) -> Any:
    """The results of all rows in one tensor. If only some are None, they count as zeros."""
    known = next((result for result in results if result is not None), None)
    if known is None:
        return None
    return _stack([zeros_like(known) if result is None else result for result in results])


def _stack(results: Sequence[Any]) -> Any:
    return REGISTRY["stack"].road(results)
