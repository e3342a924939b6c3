"""Memory layouts of results: PyTorch's rules, of which a row names one.

A rule takes a kernel's result and its operands, and returns the same values in the right layout.
Dims of size 1, and results without elements, have no order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Rule = Callable[[Any, Sequence[Any]], Any]


def each(rule: Rule) -> Rule:
    """Extend a rule for one result to several."""

    def of_all(made: Any, operands: Sequence[Any]) -> Any:
        if made.__class__ is tuple or made.__class__ is list:
            return tuple([rule(one, operands) for one in made])
        return rule(made, operands)

    return of_all


def ordered(made: Any, dims: Sequence[int]) -> Any:
    """The same values in memory, with the first of these dims slowest."""
    turned = made.transpose(dims)
    if turned.flags.c_contiguous:
        return made
    back = [0] * len(dims)
    for place, dim in enumerate(dims):
        back[dim] = place
    return turned.copy("C").transpose(back)


@each
def row_by_row(made: Any, operands: Sequence[Any]) -> Any:
    """Row-major, whatever the layout of the operands."""
    if made.__class__ is not np.ndarray or made.flags.c_contiguous:
        return made
    return made.copy("C")


@each
def as_operands(made: Any, operands: Sequence[Any]) -> Any:
    """The operands' layout; if they differ, that of the first one which orders two dims."""
    if made.__class__ is not np.ndarray or made.ndim < 2 or not made.size:
        return made
    first = operands[0]
    same = first.__class__ is np.ndarray and first.shape == made.shape
    if same and first.flags.c_contiguous and made.flags.c_contiguous:
        return made
    if any(a.ndim > made.ndim for a in operands if a.__class__ is np.ndarray):
        return made
    steps = [_steps(a, made.shape) for a in operands if a.__class__ is np.ndarray]
    return ordered(made, slowest_first(made.shape, steps))


@each
def as_the_first(made: Any, operands: Sequence[Any]) -> Any:
    """The first operand's layout, if the result has its shape."""
    if made.__class__ is not np.ndarray or made.shape != operands[0].shape:
        return made
    return as_operands(made, operands[:1])


def slowest_first(shape: Sequence[int], steps: Sequence[Sequence[int]]) -> list[int]:
    """The dims of a result of this shape from slowest to fastest, as PyTorch's TensorIterator.

    `steps` are the strides of each operand, 0 where it is broadcast.
    """
    count = len(shape)
    order = list(range(count - 1, -1, -1))
    for i in range(1, count):
        at = i
        for before in range(i - 1, -1, -1):
            found = _compared(order[before], order[at], shape, steps)
            if found < 0:
                break
            if found > 0:
                order[before], order[at] = order[at], order[before]
                at = before
    return order[::-1]


def _steps(array: Array, shape: Sequence[int]) -> list[int]:
    """The strides of an operand after broadcasting."""
    lead = len(shape) - array.ndim
    own = zip(array.shape, array.strides, shape[lead:], strict=True)
    return [0] * lead + [0 if n == 1 != wanted else step for n, step, wanted in own]


def _compared(one: int, other: int, shape: Sequence[int], steps: Sequence[Sequence[int]]) -> int:
    """Negative if the first of two dims varies faster, positive if the second, 0 if undefined."""
    for own in steps:
        first, second = own[one], own[other]
        if not first or not second:
            continue
        if first != second:
            return -1 if first < second else 1
        if shape[one] > shape[other]:
            return 1
    return 0


@each
def as_channels(made: Any, operands: Sequence[Any]) -> Any:
    """Channels last if the first operand is, else row-major. A sequence counts as a flat image."""
    if made.__class__ is not np.ndarray:
        return made
    if has_channels_last(operands[0].shape, operands[0].strides):
        return ordered(made, (0, *range(2, made.ndim), 1))
    return made if made.flags.c_contiguous else made.copy("C")


FASTEST_FIRST = {4: (1, 3, 2, 0), 5: (1, 4, 3, 2, 0)}


def has_channels_last(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether PyTorch treats a batch of images or volumes as channels last."""
    if len(shape) not in FASTEST_FIRST or not strides[1]:
        return False
    least = 0
    for dim in FASTEST_FIRST[len(shape)]:
        size, step = shape[dim], strides[dim]
        if not size or step < least or (dim == 0 and least == strides[1]):
            return False
        least = step * size if size > 1 else step
    return True
