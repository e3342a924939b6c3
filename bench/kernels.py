"""Each kernel on each shape that the models have, against what it replaced: no one slower.

A step of each model is run, and wherever a kernel is chosen (`wins` and its kin) the call is kept,
with what it was given. Then each call is made in turn with the kernel and, that choice turned
down, by what was there before: NumPy, BLAS, or another kernel. CPU time, one thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path
from statistics import median
from time import process_time_ns
from types import FunctionType
from typing import Any
from unittest.mock import patch

import numpy as np

from bench.measure import report
from bench.models import MODELS

ROOMS = ("gradscope.runtime.core.kernels", "gradscope.runtime.core.ops", "gradscope.runtime.fast")
CHOOSE = {"wins", "wins_by_now", "_way", "_wins", "_pays", "_tiles_pay", "_are_compiled"}
LIMIT = 1.05
"""As much is noise of two ways that take the same time."""
ROUNDS, ENOUGH = 9, 3_000_000
"""Rounds of each, of at least so many nanoseconds."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a kernel is chosen: a function that says whether."""

    owner: Any
    name: str
    what: str

    def turned_down(self) -> Any:
        return patch.object(self.owner, self.name, lambda *_: False)


@dataclass(frozen=True, slots=True)
class Kept:
    """A call in which a kernel was chosen."""

    choice: Choice
    function: FunctionType
    given: tuple[Any, ...]
    named: dict[str, Any]

    def run(self) -> None:
        self.function(*self.given, **self.named)


def choices() -> list[Choice]:
    """All of them."""
    from gradscope.runtime.core.kernels.layers import attention, lstm
    from gradscope.runtime.core.kernels.linalg import products
    from gradscope.runtime.core.kernels.support import Family
    from gradscope.runtime.core.kernels.windows import convolution
    from gradscope.runtime.fast.windows import winograd

    return [
        Choice(Family, "wins", "compiled"),
        Choice(Family, "wins_by_now", "compiled"),
        Choice(products, "_way", "tiles"),
        Choice(attention, "_wins", "tiles"),
        Choice(convolution, "_tiles_pay", "tiles"),
        Choice(winograd, "wins", "Winograd"),
        Choice(lstm, "_are_compiled", "compiled"),
    ]


def told(value: Any) -> str:
    """An argument, as it is shown and told apart."""
    if isinstance(value, np.ndarray):
        order = "" if value.flags.c_contiguous else "'"
        return f"{'×'.join(map(str, value.shape))}{order} {value.dtype}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(told, value))})"
    return str(value) if isinstance(value, int | float | str | None) else type(value).__name__


@contextmanager
def keeping(kept: dict[str, Kept]) -> Iterator[None]:
    """Keep each call in which a kernel is chosen, the first of its kind."""
    with ExitStack() as stack:
        for choice in choices():
            stack.enter_context(patch.object(choice.owner, choice.name, _asked(choice, kept)))
        yield


def _asked(choice: Choice, kept: dict[str, Kept]) -> Callable[..., Any]:
    real = getattr(choice.owner, choice.name)

    def asked(*given: Any) -> Any:
        wins = real(*given)
        if wins:
            call = _call_of(choice, sys._getframe(1))
            if call is not None:
                arguments = ", ".join(map(told, (*call.given, *call.named.values())))
                kept.setdefault(f"{_name(call)}({arguments}), {choice.what}", _copied(call))
        return wins

    return asked


def _call_of(choice: Choice, frame: Any) -> Kept | None:
    """The outermost function of kernels and rows that is being run, and what it was given."""
    found = function = None
    while frame is not None and frame.f_globals.get("__name__", "").startswith(ROOMS):
        code = frame.f_code
        if code.co_name not in CHOOSE and not code.co_freevars:
            found, function = frame, FunctionType(code, frame.f_globals)
        frame = frame.f_back
    if function is None:
        return None
    given, named = [], {}
    for name, parameter in signature(function).parameters.items():
        value = found.f_locals[name]
        if parameter.kind == Parameter.VAR_POSITIONAL:
            given += value
        elif parameter.kind == Parameter.KEYWORD_ONLY:
            named[name] = value
        else:
            given.append(value)
    return Kept(choice, function, tuple(given), named)


def _name(call: Kept) -> str:
    """The function's name, or where it stands if it has none."""
    code = call.function.__code__
    nameless = code.co_name.startswith("<")
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if nameless else code.co_name


def _copied(call: Kept) -> Kept:
    given = tuple([v.copy(order="K") if isinstance(v, np.ndarray) else v for v in call.given])
    return Kept(call.choice, call.function, given, call.named)


def ratio(call: Kept) -> tuple[float, float]:
    """How many times the time of what it replaced a kernel takes; and its time, in µs."""
    ours, before = [], []
    call.run()
    with call.choice.turned_down():
        call.run()
    often = max(1, ENOUGH // max(1, _nanoseconds(call.run, 1)))
    for _ in range(ROUNDS):
        ours.append(_nanoseconds(call.run, often))
        with call.choice.turned_down():
            before.append(_nanoseconds(call.run, often))
    return median(ours) / median(before), median(ours) / 1e3 / often


def _nanoseconds(run: Callable[[], None], often: int) -> int:
    begin = process_time_ns()
    for _ in range(often):
        run()
    return process_time_ns() - begin


def main() -> None:
    """Print the ratio of each kernel on each shape."""
    import gradscope.runtime as ours

    ours.set_num_threads(1)
    for name, model in MODELS.items():
        step, kept = model.step(ours), {}
        for _ in range(3):  # what is read late is read
            step()
        with keeping(kept):
            step()
        print(f" {name}:")
        for what, call in kept.items():
            found, took = ratio(call)
            report(f"{what}: {took:.0f} µs; over what it replaced", found, LIMIT, "×")
