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

from gradscope.runtime.core import probe
from gradscope.runtime.core.calls.road import forward as road
from gradscope.runtime.core.calls.road.forward import Plan
from gradscope.runtime.core.state.forking import renewed

_lock = renewed(RLock())


class Unbuilt:
    """One road of an operation, and all functions that are to have its code."""

    __slots__ = ("defaults", "functions", "kind", "names", "text")

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
        self.functions: list[FunctionType] | None = []

    def function(self, scope: dict[str, Any]) -> FunctionType:
        """A function that will have this code and these globals."""
        made = FunctionType(_STAND_INS[self.kind], scope, "road")
        made.__module__ = "gradscope.runtime"
        scope[f"unbuilt_{self.kind}"] = self
        scope[f"road_{self.kind}"] = made
        with _lock:
            if self.functions is None:
                self._complete(made)
            else:
                self.functions.append(made)
        return made

    def replace(self, function: FunctionType, moved: FunctionType) -> None:
        """Give the code to `moved` instead of `function`."""
        with _lock:
            scope = function.__globals__
            if scope.get(f"road_{self.kind}") is function:
                scope[f"road_{self.kind}"] = moved
            if self.functions is not None and function in self.functions:
                self.functions[self.functions.index(function)] = moved

    def build(self) -> None:
        """Give all functions their code; once more, if somebody interrupted that."""
        with _lock:
            for made in self.functions or ():
                self._complete(made)
            self.functions = None

    def _complete(self, made: FunctionType) -> None:
        scope = made.__globals__
        scope.update(self.names())
        plain, watched = (
            road.build(made.__name__, self.text(probed=probed), scope, self.defaults)
            for probed in (False, True)
        )
        made.__defaults__, made.__kwdefaults__ = plain.__defaults__, plain.__kwdefaults__
        probe.roads.append((made, plain.__code__, watched.__code__))
        made.__code__ = watched.__code__ if probe.calls_told else plain.__code__


def _stand_in(kind: str) -> CodeType:
    text = (
        "def road(*args, **kwargs):\n"
        f"    unbuilt_{kind}.build()\n"
        f"    return road_{kind}(*args, **kwargs)\n"
    )
    module = compile(text, "<road that nobody has taken yet>", "exec")
    return next(c for c in module.co_consts if isinstance(c, CodeType))


_STAND_INS = {kind: _stand_in(kind) for kind in ("fast", "number", "full")}
