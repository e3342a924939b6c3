"""Functions that compute with arrays and are no kernels of operations.

Whoever records what a step does with arrays (capture) has to see their calls, too: each takes
and gives arrays, and what else it depends on is in its arguments or drawn from a generator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

ARRAY_CALLS: list[Any] = []
OPTIMIZER_STEPS: list[Any] = []


def array_call(function: Function) -> Function:
    """Let calls of this function, by its name in its module, be seen."""
    ARRAY_CALLS.append(function)
    return function


def optimizer_step(function: Function) -> Function:
    """The same for a function that steps parameters.

    It takes the optimizer, a group, states and tensors as they are, and then lists of arrays; it
    reads the group's numbers when it is called, and counts the writes itself.
    """
    OPTIMIZER_STEPS.append(function)
    return function
