"""The gradients a node is still gathering, one place per input.

A buffer is a plain list, since one is made for every node of every backward.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np

UNDEFINED = 4
"""Added to one of the above, in what a watcher is told, when what arrived was None."""

sum_into = np.add

MADE, ADDED, ADDED_IN_PLACE = range(3)


def add(buffer: list[Any], nr: int, grad: Any, raw: bool) -> int:  # noqa: FBT001 -- hot
    """Add a gradient to what is there; says how.

    The sum goes into the old memory only when nobody else can see it: not under create_graph, not a
    view, not a gradient that somebody still holds.
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
    # The buffer, `before` and the argument of getrefcount are the three that are expected.
    if getrefcount(before) == 3 and before.base is None and before.ndim:
        sum_into(before, grad, before)
        return ADDED_IN_PLACE
    buffer[nr] = sum_into(before, grad)
    return ADDED
