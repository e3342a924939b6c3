"""Each sample once more, with its operation in place: `x.mul(y)` as `x.clone().mul_(y)`.

A sample is run as it is written, while the names of its operation stand for the twin in place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any
from unittest.mock import patch

from gradscope import runtime
from tests.runtime.core.ops.op_db.families import Case, operation_of
from tests.runtime.oracle import Sample

Function = Callable[..., Any]
NO_TWIN = ("normal",)
"""`x.normal_(mean, std)` takes numbers, and `torch.normal(mean, std)` tensors."""
NOT_CALLED = "no twin in place is called"


def twins(calls: list[Case]) -> Iterator[Case]:
    """A sample for each whose operation has a twin."""
    for name, sample in calls:
        operation = operation_of(name).partition(".")[0]
        if any(twin_of(runtime, home, operation) for home in homes(runtime)):
            made = Sample(partial(in_place, operation, sample.call), *sample.inputs)
            for each in ("tolerance", "order", "grad", "family"):
                object.__setattr__(made, each, getattr(sample, each))
            yield name, made


def homes(torch: Any) -> tuple[Any, ...]:
    return torch.Tensor, torch, torch.nn.functional, torch.special


def twin_of(torch: Any, home: Any, operation: str) -> Function | None:
    """What does the same in place as an operation that is called by its name in `home`."""
    function = getattr(home, operation, None)
    if operation.endswith("_") or operation in NO_TWIN or function is None:
        return None
    if inspect.isfunction(function) and "inplace" in inspect.signature(function).parameters:
        return partial(function, inplace=True)
    found: Iterator[Function | None] = (
        getattr(each, f"{operation}_", None) for each in (home, torch.Tensor, torch)
    )
    return next(filter(None, found), None)


def in_place(operation: str, call: Function, torch: Any, *tensors: Any) -> Any:
    """The result of a call that runs the twin wherever it would run the operation."""
    busy = []
    calls = []

    def stand_in(function: Function, twin: Function) -> Function:
        def run(*args: Any, **kwargs: Any) -> Any:
            first = args[0] if args else kwargs.get("input")
            if busy or kwargs.keys() & {"inplace", "out"} or isinstance(first, int | float):
                return function(*args, **kwargs)
            busy.append(True)
            calls.append(operation)
            try:
                kwargs.pop("input", None)
                return written(first, lambda target: twin(target, *args[1:], **kwargs))
            finally:
                busy.pop()

        return run

    with ExitStack() as patched:
        for home in homes(torch):
            if twin := twin_of(torch, home, operation):
                function = getattr(home, operation)
                patched.enter_context(patch.object(home, operation, stand_in(function, twin)))
        result = call(torch, *tensors)
    return result if calls else NOT_CALLED


def written(given: Any, write: Callable[[Any], Any]) -> Any:
    """A copy of a tensor, or of a list of tensors, after it was written to."""
    if isinstance(given, list | tuple):
        copies = [each.clone() for each in given]
        write(copies)
        return copies
    copy = given.clone()
    assert write(copy) is copy
    return copy
