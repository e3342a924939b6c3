"""How a fault is planted: one line of a function is written otherwise until the test is over."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

import gradscope.runtime
from gradscope.runtime.core import probe
from gradscope.runtime.core.autograd.engine import engine, evaluate, evaluators
from gradscope.runtime.core.calls.late import node_class
from gradscope.runtime.core.rows.operation import REGISTRY

HOME = Path(gradscope.runtime.__file__).parent
Plant = Callable[[pytest.MonkeyPatch], None]


def line(where: str, right: str, wrong: str) -> Plant:
    """In the source of a function of the runtime, `wrong` where it says `right`.

    The function itself gets the other code, so that whoever has imported it runs the wrong one.
    """

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        found = function_at(where)
        monkeypatch.setattr(found, "__code__", rewritten(found, right, wrong))
        if found is evaluate.evaluate_function:  # each class of nodes has a copy of the code
            for table in ("watched", "unwatched"):
                monkeypatch.setattr(engine, table, evaluators.Watched())

    return plant


def function_at(where: str) -> FunctionType:
    """`autograd.engine.Engine.execute`, below `gradscope.runtime`; of a property, what reads it."""
    parts = where.split(".")
    count = sum(part.islower() for part in parts)  # so many may be modules
    while not _is_module(parts[:count]):
        count -= 1
    found: Any = importlib.import_module(".".join(["gradscope.runtime", *parts[:count]]))
    for part in parts[count:]:
        found = inspect.getattr_static(found, part)
    found = getattr(found, "fget", None) or getattr(found, "__func__", found)
    return inspect.unwrap(found)


def _is_module(parts: list[str]) -> bool:
    path = HOME.joinpath(*parts)
    return path.is_dir() or path.with_suffix(".py").is_file()


def together(*plants: Plant) -> Plant:
    """The same mistake in several places."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        for each in plants:
            each(monkeypatch)

    return plant


def rewritten(function: FunctionType, right: str, wrong: str) -> CodeType:
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(right) == 1, f"{function.__qualname__} has {source.count(right)} x {right}"
    # Names of an enclosing scope, `__class__` among them, have to be free in the new code, too.
    free = "".join(f"    {name} = None\n" for name in function.__code__.co_freevars)
    body = textwrap.indent(source.replace(right, wrong), "    ")
    around = f"def around():\n    global {function.__name__}\n{free}{body}"
    module = compile(around, inspect.getfile(function), "exec")
    return next(code for code in codes_in(module) if code.co_name == function.__name__)


def codes_in(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes_in(constant)


def derivative(op: str, change: Callable[..., tuple[Any, ...]]) -> Plant:
    """What the node of an operation with two inputs returns, changed."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        cls: Any = node_class(REGISTRY[op])
        for name in ("run_arrays", "run_tensors"):
            right = getattr(cls, name)
            monkeypatch.setattr(cls, name, lambda n, grads, right=right: change(*right(n, grads)))

    return plant


ROADS = ("short", "number", "full")


def in_roads(right: str, wrong: str, *names: str, roads: tuple[str, ...] = ROADS) -> Plant:
    """The same in the text from which the calls of these operations are made."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        for unbuilt in [each for name in names for each in _roads_of(name, roads)]:
            unbuilt.build()
            text = unbuilt.text()
            assert text.count(right) == 1, f"no {right} in {text}"
            code = next(codes_in(compile(text.replace(right, wrong), "<wrong road>", "exec")))
            for function in unbuilt.functions:
                monkeypatch.setattr(function, "__code__", code)

    return plant


def in_evaluations(right: str, wrong: str) -> Plant:
    """The same in the texts by which nodes are evaluated while nobody watches.

    A recording that has just ended leaves somebody who stands in for a moment (Note [In the middle
    of a call] in record/from_runtime/paused.py): he is sent away.
    """

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        probe.leave(None)
        rightly = evaluators.text

        def wrongly(count: int) -> str:
            text = rightly(count)
            assert right in text
            return text.replace(right, wrong)

        monkeypatch.setattr(evaluators, "text", wrongly)
        monkeypatch.setattr(engine, "unwatched", evaluators.Unwatched())

    return plant


def _roads_of(name: str, roads: tuple[str, ...]) -> list[Any]:
    """Where the texts of an operation's roads come from, and the functions that have their code."""
    op = REGISTRY[name]
    scope = op.road.__globals__
    scope["unbuilt_short"].build()  # which makes the road for numbers
    assert op.full
    return [scope[f"unbuilt_{kind}"] for kind in roads if f"unbuilt_{kind}" in scope]
