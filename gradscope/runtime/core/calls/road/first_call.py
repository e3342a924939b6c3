"""Roads that nobody has taken yet: their text is written and compiled at the first call.

A program uses some dozens of the operations there are; compiling all of them would take most of the
time that starting takes. Until then a road is a function that stands in for itself: when it is
called it is given its own code, and is called again.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from types import CodeType, FunctionType
from typing import Any

from gradscope.runtime.core.calls.road import forward as road
from gradscope.runtime.core.calls.road.forward import Plan
from gradscope.runtime.core.state.forking import renewed

_lock = renewed(RLock())


class Unbuilt:
    """One road of an operation, and all functions that are to have its code."""

    __slots__ = ("built", "defaults", "functions", "kind", "names", "text")

    def __init__(
        self,
        kind: str,
        text: Callable[..., str],
        defaults: Plan,
        names: Callable[[], dict[str, Any]],
    ) -> None:
        self.kind = kind
        self.text = text
        self.defaults = defaults
        self.names = names  # what the text needs besides, made as late as the code
        self.functions: list[FunctionType] = []
        self.built = False

    def function(self, scope: dict[str, Any]) -> FunctionType:
        """A function that will have this code and these globals."""
        made = FunctionType(_STAND_INS[self.kind], scope, "road")
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
            self.functions[self.functions.index(function)] = moved

    def build(self) -> None:
        """Give all functions their code; once more, if somebody interrupted that."""
        with _lock:
            for made in () if self.built else self.functions:
                self._complete(made)
            self.built = True

    def _complete(self, made: FunctionType) -> None:
        scope = made.__globals__
        scope.update(self.names())
        built = road.build(made.__name__, self.text(), scope, self.defaults)
        made.__defaults__, made.__kwdefaults__ = built.__defaults__, built.__kwdefaults__
        made.__code__ = built.__code__


def _stand_in(kind: str) -> CodeType:
    text = (
        "def road(*args, **kwargs):\n"
        f"    unbuilt_{kind}.build()\n"
        f"    return road_{kind}(*args, **kwargs)\n"
    )
    module = compile(text, "<road that nobody has taken yet>", "exec")
    return next(c for c in module.co_consts if isinstance(c, CodeType))


_STAND_INS = {kind: _stand_in(kind) for kind in ("fast", "number", "full")}
