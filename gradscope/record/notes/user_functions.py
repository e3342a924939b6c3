"""Describes a function without running code of the user.

A hook may be any callable: a Mock has every attribute, and others raise on access.
"""

from __future__ import annotations

import functools
import re
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from gradscope.watch.in_place.by_identity import CallableWrapper, is_a

_NAMED = (FunctionType, MethodType, BuiltinFunctionType, type)


LIBRARY = "torch.distributed."
"""Prefix of the modules with hooks that a program gets by sharding a model."""


def name_of(function: Any) -> str:
    """The qualified name of a callable, or that of its class.

    A function of PyTorch's distributed training is named with its package, as in
    "torch.distributed.fsdp.FSDPState._pre_forward".
    """
    if is_a(function, CallableWrapper):
        function = function.hook
    own = written(function)
    home = "" if own is None else own.__module__
    if own is not None and type(home) is str and home.startswith(LIBRARY):
        return f"{home.partition('._')[0]}.{own.__qualname__}"
    return str((function if is_a(function, _NAMED) else type(function)).__qualname__)


def written(function: Any) -> FunctionType | None:
    """The Python function that a call finally reaches, if there is one."""
    while is_a(function, (functools.partial, CallableWrapper)):
        function = function.hook if is_a(function, CallableWrapper) else function.func
    if not is_a(function, (FunctionType, MethodType)):
        function = getattr(type(function), "__call__", None)  # noqa: B004  (the class is asked)
    if is_a(function, MethodType):
        function = function.__func__
    return function if is_a(function, FunctionType) else None


_NODE = re.compile(r"(Backward\d*|\d+)$")
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def call_of(node: str) -> str:
    """The name of the call that creates nodes of this name: `mul` for MulBackward0."""
    short = _NODE.sub("", node)
    return _WORD.sub("_", short).lower() if short != node else node
