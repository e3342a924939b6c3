"""Generated functions that are not compiled yet: their text is built at the first call.

A program uses a few dozen operations. Compiling all of them would dominate the start-up time. Until
then a function has stand-in code: when it is called, it gets its real code, and is called again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from inspect import CO_VARARGS, CO_VARKEYWORDS
from threading import RLock
from types import CodeType, FunctionType
from typing import Any

from gradscope.runtime.core.generated.texts import build
from gradscope.runtime.core.kernels.compile_notices import own_work
from gradscope.runtime.core.rows.description import description
from gradscope.runtime.core.rows.operation import Operation
from gradscope.runtime.core.rows.parameters import (
    BY_NAME,
    BY_PLACE,
    EITHER,
    OTHERS,
    REST,
    STARS,
    FunctionParameter,
    give_defaults,
)
from gradscope.runtime.core.state.forking import renewed
from gradscope.runtime.core.state.frames import WRITTEN

_roads: list[LazyFunction] = []

Names = Callable[[dict[str, Any]], None]

_lock = renewed(RLock())


class LazyFunction:
    """One generated path of an operation, and all functions that share its code."""

    __slots__ = ("add_names", "arguments", "built", "functions", "kind", "label", "text")

    def __init__(
        self,
        kind: str,
        label: Callable[[], str],
        text: Callable[[], str],
        arguments: Sequence[FunctionParameter],
        add_names: Names | None = None,
    ) -> None:
        self.kind = kind
        self.label = label
        self.text = text
        self.arguments = arguments
        self.add_names = add_names  # adds further globals of the text
        self.functions: list[FunctionType] = []
        self.built = False
        _roads.append(self)

    def function(self, scope: dict[str, Any]) -> FunctionType:
        """A function with this code and these globals."""
        made = FunctionType(_stand_in(self.kind, self.arguments), scope, "road")
        give_defaults(made, self.arguments)
        made.__module__ = "gradscope.runtime"
        scope[f"unbuilt_{self.kind}"] = self
        scope[f"road_{self.kind}"] = made
        with _lock:
            if self.built:
                self._complete(made)
            self.functions.append(made)
        return made

    def replace(self, function: FunctionType, moved: FunctionType) -> None:
        """Give the code to `moved` instead of `function`."""
        with _lock:
            scope = function.__globals__
            if scope.get(f"road_{self.kind}") is function:
                scope[f"road_{self.kind}"] = moved
            if function in self.functions:
                self.functions[self.functions.index(function)] = moved

    def first_call(self, function: FunctionType, given: dict[str, Any]) -> Any:
        """Build the code, and call the function again with the same arguments."""
        self.build()
        by_place: list[Any] = []
        by_name: dict[str, Any] = {}
        for p in self.arguments:
            if p.kind is BY_NAME:
                by_name[p.name] = given[p.name]
            elif p.kind is OTHERS:
                by_name |= given[p.name]
            else:
                by_place += given[p.name] if p.kind is REST else (given[p.name],)
        return function(*by_place, **by_name)

    def build(self) -> None:
        """Give all functions their code; again, if it was interrupted."""
        with _lock:
            if self.built:
                return
            with own_work(f"compiles {self.label()}"):
                for made in self.functions:
                    self._complete(made)
            self.built = True

    def _complete(self, made: FunctionType) -> None:
        scope = made.__globals__
        if self.add_names is not None:
            self.add_names(scope)
        built = build(made.__name__, self.text(), scope, self.arguments, label=self.label())
        made.__defaults__, made.__kwdefaults__ = built.__defaults__, built.__kwdefaults__
        if isinstance(op := scope.get("op"), Operation):
            made.__doc__ = description(op, formulas=True)
        made.__code__ = built.__code__


def scopes() -> list[dict[str, Any]]:
    """The globals of all generated paths, and of functions copied from others."""
    found = [function.__globals__ for road in _roads for function in road.functions]
    return list({id(scope): scope for scope in found}.values())


def road_of(
    kind: str,
    text: Callable[[], str],
    op: Operation,
    add_names: Names,
    arguments: Sequence[FunctionParameter],
) -> LazyFunction:
    """A generated path of an operation, which has a name by the time the path is built."""
    return LazyFunction(kind, lambda: f"{op.name}{LABELS[kind]}", text, arguments, add_names)


LABELS = {"short": "", "number": " by a number", "full": ", the long way"}
"""Labels of the paths of an operation, where their lines are shown."""


def _stand_in(kind: str, arguments: Sequence[FunctionParameter]) -> CodeType:
    """The code of a function before its first call. It has the final parameters."""
    kinds = [p.kind for p in arguments]
    names = [p.name for p in arguments if p.kind not in STARS]
    names += [p.name for p in arguments if p.kind in STARS]
    code = _of_no_parameters(kind)
    return code.replace(
        co_argcount=kinds.count(BY_PLACE) + kinds.count(EITHER),
        co_posonlyargcount=kinds.count(BY_PLACE),
        co_kwonlyargcount=kinds.count(BY_NAME),
        co_nlocals=len(names),
        co_varnames=tuple(names),
        co_flags=code.co_flags | CO_VARARGS * (REST in kinds) | CO_VARKEYWORDS * (OTHERS in kinds),
    )


@cache
def _of_no_parameters(kind: str) -> CodeType:
    text = f"def road():\n    return unbuilt_{kind}.first_call(road_{kind}, locals())\n"
    module = compile(text, f"{WRITTEN}not called yet>", "exec")
    return next(c for c in module.co_consts if isinstance(c, CodeType))
