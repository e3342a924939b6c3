"""Functions around others: with more parameters, or asking what was wrong when a call fails."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

from gradscope.runtime.core.errors.arguments.raise_wrong_call import blame_the_call
from gradscope.runtime.core.generated.first_call import LazyFunction
from gradscope.runtime.core.rows.parameters import FunctionParameter, declared, parameters, passed


def around(
    inner: Any, lines: str, arguments: Sequence[FunctionParameter], label: str, **names: Any
) -> FunctionType:
    """A function around another; of `lines`, its body, `{call}` is the call of the other.

    It takes what the other takes, and perhaps more.
    """

    def text() -> str:
        call = f"inner({passed(parameters(inner))})"
        return f"def road({declared(arguments)}):\n{lines.replace('{call}', call)}"

    names |= {"inner": inner, "blame_the_call": blame_the_call}
    made = LazyFunction("short", lambda: f"{inner.__name__}, {label}", text, arguments).function(
        names
    )
    made.__name__, made.__qualname__ = inner.__name__, inner.__qualname__
    made.__module__, made.__doc__ = inner.__module__, inner.__doc__
    made.__annotations__ = inner.__annotations__
    return made
