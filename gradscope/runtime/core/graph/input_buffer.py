"""The gradients a node is still gathering, one place per input.

A buffer is a plain list, since one is made for every node of every backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import numpy as np

MADE, ADDED, ADDED_IN_PLACE = range(3)
"""What adding a gradient did: kept it as the first, summed, or summed into the memory there."""

UNDEFINED = 4
"""Added to one of these, in what a watcher is told, when what arrived was None."""

sum_into = np.add
ndarray = np.ndarray


def _held_once() -> int:
    """How many references to an array are counted where only a list and a local variable hold it.

    Pythons differ in this: since 3.14 an argument is often lent, not counted.
    """
    buffer = [np.zeros(1)]
    before = buffer[0]
    return getrefcount(before)


ALONE = _held_once()


def add(
    buffer: list[Any],
    nr: int,
    grad: Any,
    raw: bool,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    sent: int = 0,
) -> int:
    """Add a gradient to what is there; says how.

    The sum goes into the old memory only when nobody else can see it: not under create_graph, not a
    view, not a gradient that somebody still holds. Whoever runs a node still has the gradients it
    took, its `inputs`, and the first of its `outputs`, which were sent on before this one; they are
    looked at no more.
    """
    if grad is None:
        return ADDED
    before = buffer[nr]
    if before is None:
        buffer[nr] = grad
        return MADE
    if not raw:
        buffer[nr] = before + grad
        return ADDED
    if before.base is None:
        held = getrefcount(before) - ALONE
        if not held or held == times(before, inputs) + times(before, outputs[:sent]):
            sum_into(before, grad, before)
            return ADDED_IN_PLACE
    made = sum_into(before, grad)
    buffer[nr] = made if made.__class__ is ndarray else np.asarray(made)  # without dims: a number
    return ADDED


def times(array: Any, among: Sequence[Any]) -> int:
    """How often this very array is among others."""
    return sum([one is array for one in among])
