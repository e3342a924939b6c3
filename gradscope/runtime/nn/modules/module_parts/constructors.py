"""Constructors that several modules share, each under its module's own name."""

from __future__ import annotations

from types import FunctionType
from typing import Any, TypeVar

Kind = TypeVar("Kind", bound=type)


def with_own_constructor(kind: Kind) -> Kind:
    """Give the class its own copy of the constructor, so that errors name the class."""
    shared: Any = kind.__init__  # type: ignore[misc]
    own = FunctionType(
        shared.__code__, shared.__globals__, "__init__", shared.__defaults__, shared.__closure__
    )
    own.__kwdefaults__, own.__module__ = shared.__kwdefaults__, kind.__module__
    own.__doc__, own.__annotations__ = shared.__doc__, shared.__annotations__
    own.__qualname__ = f"{kind.__qualname__}.__init__"
    if "__init__" not in vars(kind):
        kind.__init__ = own  # type: ignore[misc]
    return kind
