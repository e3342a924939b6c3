"""The input buffer of a node: its accumulated gradients, one per input.

A buffer is a plain list, since each backward creates one for every node.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import getrefcount
from typing import Any

import numpy as np

MADE, ADDED, ADDED_IN_PLACE = range(3)
"""How a gradient was added: stored as the first, summed, or summed in place."""

UNDEFINED = 4
"""Added to one of these codes, for a watcher, if the gradient was None."""

sum_into = np.add
ndarray = np.ndarray


def _held_once() -> int:
    """The reference count of an array that only a list and a local variable hold.

    It differs between Python versions: since 3.14 an argument is often borrowed, not counted.
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
    """Add a gradient to the buffer. Returns how it was added.

    The sum is written in place only if nothing else can see the memory: not under create_graph, not
    to a view, not to a gradient that has other references. The caller still holds the gradients the
    running node received, `inputs`, and its first `outputs`, which were sent earlier; those
    references are not counted.
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
    buffer[nr] = made if made.__class__ is ndarray else np.asarray(made)  # 0-dim: a scalar
    return ADDED


def times(array: Any, among: Sequence[Any]) -> int:
    """How often this very array is in the sequence."""
    return sum([one is array for one in among])
