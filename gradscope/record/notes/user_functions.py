"""What is known of a function of the user's, without running any code of theirs.

A hook may be any callable: a Mock has every attribute there is, and others raise when asked.
"""

from __future__ import annotations

import functools
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

_NAMED = (FunctionType, MethodType, BuiltinFunctionType, type)


def name_of(function: Any) -> str:
    """Its qualified name, or that of its class."""
    return str((function if isinstance(function, _NAMED) else type(function)).__qualname__)


def written(function: Any) -> FunctionType | None:
    """The function in Python that a call comes to, if there is one."""
    while isinstance(function, functools.partial):
        function = function.func
    if not isinstance(function, FunctionType | MethodType):
        function = getattr(type(function), "__call__", None)  # noqa: B004  (the class is asked)
    if isinstance(function, MethodType):
        function = function.__func__
    return function if isinstance(function, FunctionType) else None
