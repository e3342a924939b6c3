"""Wrappers around functions: with more parameters, or with a check after a failed call."""

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
    """A wrapper whose body is `lines`, where `{call}` is replaced by the call of `inner`.

    It takes the parameters of `inner`, and possibly more.
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
