"""Functions that compute with arrays and are no kernels of operations.

Whoever records what a step does with arrays (capture) has to see their calls, too: each takes
and gives arrays, and what else it depends on is in its arguments or drawn from a generator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

Function = TypeVar("Function", bound=Any)

ARRAY_CALLS: list[Any] = []
OPTIMIZER_STEPS: list[Any] = []


CAPTURED_AS: dict[str, str] = {}
"""The marks of functions that are no array calls, by module and name."""


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


def captured_as(
    how: Literal["layout", "answer", "index", "data", "constant", "drawn"],
) -> Callable[[Function], Function]:
    """Mark a function that looks into arrays and is no array call: captured steps may call it.

    A step that calls one without a mark is not replayed. Read the function before you mark it:

    - `layout`: it looks at shapes, dtypes, strides and owners, and never takes another way for
      other numbers;
    - `answer`: the same, but its result may change, so the program itself must not ask;
    - `index`, `data`: so it is for an index, or data, that has no tensors;
    - `constant`: it makes the same tensor each time;
    - `drawn`: it makes a tensor of random numbers, and is called again in each replay.
    """

    def mark(function: Function) -> Function:
        code = function.__code__
        CAPTURED_AS[f"{function.__globals__['__name__']}:{code.co_qualname}"] = how
        return function

    return mark


layout_only = captured_as("layout")
