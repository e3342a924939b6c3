"""Which dimension is meant: negative numbers count from the last, others are refused in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index as whole
from typing import Any


def wrapped(dim: Any, ndim: int) -> int:
    """The dimension counted from the first. A tensor without dimensions counts as having one."""
    reach = ndim or 1
    if -reach <= dim < reach:
        return int(dim + reach if dim < 0 else dim)
    raise IndexError(
        f"Dimension out of range (expected to be in range of [{-reach}, {reach - 1}], "
        f"but got {dim})"
    )


def wrapped_all(dims: Iterable[Any], ndim: int) -> tuple[int, ...]:
    """Several dimensions, each of which may be named once."""
    found = tuple(wrapped(dim, ndim) for dim in dims)
    if len(set(found)) < len(found):
        twice = next(dim for i, dim in enumerate(found) if dim in found[:i])
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return found


def sizes(given: tuple[Any, ...]) -> tuple[int, ...]:
    """The sizes of `view(2, 3)`, `view((2, 3))` and `view(torch.Size([2, 3]))`."""
    if len(given) == 1 and isinstance(given[0], tuple | list):
        given = tuple(given[0])
    return tuple(map(whole, given))


def text(numbers: Sequence[int]) -> str:
    """Sizes as PyTorch writes them in its errors."""
    return str(list(numbers))
