"""Roads that nobody has taken yet: their text is written and compiled at the first call.

A program uses some dozens of the operations there are; compiling all of them would take most of the
time that starting takes. Until then a road is a function that stands in for itself: when it is
called it is given its own code, and is called again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from threading import RLock
from types import CodeType, FunctionType
from typing import Any

from gradscope.runtime.core.generated.texts import build
from gradscope.runtime.core.kernels.compile_notices import own_work
from gradscope.runtime.core.rows.description import description
from gradscope.runtime.core.rows.operation import Operation
from gradscope.runtime.core.rows.parameters import (
    BY_NAME,
    OTHERS,
    REST,
    STARS,
    Argument,
    declared,
    give_defaults,
)
from gradscope.runtime.core.state.forking import renewed
from gradscope.runtime.core.state.frames import WRITTEN

_roads: list[LazyFunction] = []

Names = Callable[[dict[str, Any]], None]

_lock = renewed(RLock())


class LazyFunction:
    """One road of an operation, and all functions that are to have its code."""

    __slots__ = ("add_names", "arguments", "built", "functions", "kind", "label", "text")

    def __init__(
        self,
        kind: str,
        label: Callable[[], str],
        text: Callable[[], str],
        arguments: Sequence[Argument],
        add_names: Names | None = None,
    ) -> None:
        self.kind = kind
        self.label = label
        self.text = text
        self.arguments = arguments
        self.add_names = add_names  # puts what the text needs besides into the globals
        self.functions: list[FunctionType] = []
        self.built = False
        _roads.append(self)

    def function(self, scope: dict[str, Any]) -> FunctionType:
        """A function that will have this code and these globals."""
        made = FunctionType(_stand_in(self.kind, self.arguments), scope, "road")
        if self.kind == "fast":
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

    def first_call(
        self,
        function: FunctionType,
        by_place: Iterable[Any],
        by_name: Iterable[Any],
        others: dict[str, Any],
    ) -> Any:
        """Build, and call the function again."""
        self.build()
        names = (p.name for p in self.arguments if p.kind is BY_NAME)
        return function(*by_place, **dict(zip(names, by_name, strict=True)), **others)

    def build(self) -> None:
        """Give all functions their code; once more, if somebody interrupted that."""
        with _lock:
            if self.built:
                return
            with own_work(f"writes {self.label()}"):
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
    """The globals of all roads, of functions made like another, too."""
    found = [function.__globals__ for road in _roads for function in road.functions]
    return list({id(scope): scope for scope in found}.values())


def road_of(
    kind: str,
    text: Callable[[], str],
    op: Operation,
    add_names: Names,
    arguments: Sequence[Argument],
) -> LazyFunction:
    """A road of an operation, which has a name by the time the road is built."""
    return LazyFunction(kind, lambda: f"{op.name}{LABELS[kind]}", text, arguments, add_names)


LABELS = {"fast": "", "number": " by a number", "full": ", the long way"}
"""What the roads of an operation are called, where their lines are shown."""


def _stand_in(kind: str, arguments: Sequence[Argument]) -> CodeType:
    """The code of a function that nobody has called yet; users see the parameters it will have."""
    if kind != "fast":
        return _stand_in_of(kind, (REST, OTHERS))
    code = _stand_in_of(kind, tuple([p.kind for p in arguments]))
    names = [p.name for p in arguments if p.kind not in STARS]
    names += [p.name for p in arguments if p.kind in STARS]
    return code.replace(co_varnames=tuple(names))


@cache
def _stand_in_of(kind: str, kinds: tuple[str, ...]) -> CodeType:
    arguments = [Argument(f"p_{i}", each) for i, each in enumerate(kinds)]
    by_place = "".join(f"{p.starred}, " for p in arguments if p.kind not in (BY_NAME, OTHERS))
    by_name = "".join(f"{p.name}, " for p in arguments if p.kind is BY_NAME)
    others = next((p.name for p in arguments if p.kind is OTHERS), "{}")
    text = (
        f"def road({declared(arguments)}):\n"
        f"    return unbuilt_{kind}.first_call(road_{kind}, ({by_place}), ({by_name}), {others})\n"
    )
    module = compile(text, f"{WRITTEN}not called yet>", "exec")
    return next(c for c in module.co_consts if isinstance(c, CodeType))
