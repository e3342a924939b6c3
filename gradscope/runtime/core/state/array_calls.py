"""Marks functions that compute with arrays but are not kernels of operations.

Capture records what a step does with arrays, so it must see calls of these functions, too: each
takes and returns arrays, and depends on nothing but its arguments and generators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

Function = TypeVar("Function", bound=Any)

ARRAY_CALLS: list[Any] = []
OPTIMIZER_STEPS: list[Any] = []


CAPTURED_AS: dict[str, str] = {}
"""The marks of functions that are not array calls, by module and name."""


def array_call(function: Function) -> Function:
    """Let capture record calls of this function, found by its name in its module."""
    ARRAY_CALLS.append(function)
    return function


def optimizer_step(function: Function) -> Function:
    """The same for a function that updates parameters.

    It takes the optimizer, a group, states and tensors, and then lists of arrays. It reads the
    group's options when it is called, and increments version counters itself.
    """
    OPTIMIZER_STEPS.append(function)
    return function


def captured_as(
    how: Literal["layout", "answer", "index", "data", "constant", "drawn"],
) -> Callable[[Function], Function]:
    """Mark a function that inspects arrays and is not an array call: captured steps may call it.

    A step that calls one without a mark is not replayed. Read the function before you mark it:

    - `layout`: it reads shapes, dtypes, strides and owners, and never branches on values;
    - `answer`: the same, but its result may change, so the program itself must not call it;
    - `index`, `data`: the same, provided that the index, or the data, contains no tensors;
    - `constant`: it returns the same tensor each time;
    - `drawn`: it returns a tensor of random numbers, and is called again in each replay.
    """

    def mark(function: Function) -> Function:
        code = function.__code__
        CAPTURED_AS[f"{function.__globals__['__name__']}:{code.co_qualname}"] = how
        return function

    return mark


layout_only = captured_as("layout")
