"""Dimension arguments: negative ones count from the last; invalid ones raise an error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from operator import index as whole
from typing import Any

from gradscope.runtime.core.errors.arguments.raise_wrong_call import blame_the_call


def wrapped(dim: Any, ndim: int) -> int:
    """The dim counted from the first. A tensor without dims counts as having one."""
    reach = ndim or 1
    try:
        if -reach <= dim < reach:
            return int(dim + reach if dim < 0 else dim)
    except TypeError:
        blame_the_call()
        raise
    raise IndexError(
        f"Dimension out of range (expected to be in range of [{-reach}, {reach - 1}], "
        f"but got {dim})"
    )


def wrapped_all(dims: Iterable[Any], ndim: int) -> tuple[int, ...]:
    """Several dims, without repetitions."""
    found = tuple(wrapped(dim, ndim) for dim in dims)
    if len(set(found)) < len(found):
        twice = next(dim for i, dim in enumerate(found) if dim in found[:i])
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return found


def sizes(given: tuple[Any, ...], function: str = "") -> tuple[int, ...]:
    """The sizes of `view(2, 3)`, `view((2, 3))` and `view(torch.Size([2, 3]))`.

    `function` is the name in errors; the caller's name if it is empty.
    """
    if len(given) == 1 and isinstance(given[0], tuple | list):
        given = tuple(given[0])
    try:
        return tuple(map(whole, given))
    except TypeError:
        blame_the_call()
        raise no_sizes(given, function or sys._getframe(1).f_code.co_name) from None


SIZE_NAMES = {"permute": "dims", "repeat": "repeats", "reshape": "shape"}


def no_sizes(given: tuple[Any, ...], function: str) -> TypeError:
    """The error for a size that is not an integer."""
    place, wrong = next(x for x in enumerate(given, 1) if not hasattr(x[1], "__index__"))
    name, said = (
        type(wrong).__name__,
        f"{function}(): argument '{SIZE_NAMES.get(function, 'size')}'",
    )
    if len(given) == 1 and function == "view":
        return TypeError(
            f"view() received an invalid combination of arguments - got ({name}), but expected one "
            "of:\n * (torch.dtype dtype)\n * (tuple of ints size)"
        )
    if len(given) == 1:
        return TypeError(f"{said} (position 1) must be tuple of ints, not {name}")
    return TypeError(
        f"{said} failed to unpack the object at pos {place} with error "
        f'"type must be tuple of ints,but got {name}"'
    )


def text(numbers: Sequence[int]) -> str:
    """Sizes as PyTorch's errors show them."""
    return str(list(numbers))
