"""Parameters of functions: read from their code, and printed for generated functions.

`inspect.signature` takes ten times as long, and there are 1,400 functions to read when the runtime
is imported.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from types import CodeType, FunctionType
from typing import Any, NamedTuple

REQUIRED: Any = inspect.Parameter.empty
"""The default of a required parameter."""


BY_PLACE, EITHER, REST, BY_NAME, OTHERS = "by place", "either", "*", "by name", "**"
"""Kinds of parameters, in the order of `inspect`'s kinds."""

KINDS = (BY_PLACE, EITHER, REST, BY_NAME, OTHERS)
STARS = {REST: "*", OTHERS: "**"}


class FunctionParameter(NamedTuple):
    """One parameter of a function."""

    name: str
    kind: str = EITHER
    default: Any = REQUIRED

    @property
    def starred(self) -> str:
        return STARS.get(self.kind, "") + self.name


def parameters(function: Any) -> list[FunctionParameter]:
    """The parameters of a function, in order."""
    if not isinstance(function, FunctionType) or function.__dict__.keys() & _SHOWN_OTHERWISE:
        return [
            FunctionParameter(p.name, KINDS[p.kind], p.default)
            for p in inspect.signature(function).parameters.values()
        ]
    code, defaults, named = function.__code__, function.__defaults__, function.__kwdefaults__
    names, count = code.co_varnames, code.co_argcount
    last = count + code.co_kwonlyargcount
    given = (*(REQUIRED,) * (count - len(defaults or ())), *(defaults or ()))
    found = [
        FunctionParameter(name, EITHER, default)
        for name, default in zip(names[:count], given, strict=True)
    ]
    for i in range(code.co_posonlyargcount):
        found[i] = found[i]._replace(kind=BY_PLACE)
    if code.co_flags & inspect.CO_VARARGS:
        found.append(FunctionParameter(names[last], REST))
    found += [
        FunctionParameter(name, BY_NAME, (named or {}).get(name, REQUIRED))
        for name in names[count:last]
    ]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        found.append(
            FunctionParameter(names[last + bool(code.co_flags & inspect.CO_VARARGS)], OTHERS)
        )
    return found


_SHOWN_OTHERWISE = frozenset({"__signature__", "__wrapped__"})


def names_of(function: Any) -> tuple[str, ...]:
    """The names of a function's parameters."""
    if not isinstance(function, FunctionType) or function.__dict__ or _takes_any(function.__code__):
        return tuple([p.name for p in parameters(function)])
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _takes_any(code: CodeType) -> bool:
    return bool(code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS))


def declared(arguments: Iterable[FunctionParameter]) -> str:
    """A parameter list without defaults: a function gets these with its code."""
    parts: list[str] = []
    before = None
    for p in arguments:
        if before is BY_PLACE is not p.kind:
            parts.append("/")
        if p.kind is BY_NAME and before not in (REST, BY_NAME):
            parts.append("*")
        parts.append(p.starred)
        before = p.kind
    if before is BY_PLACE:
        parts.append("/")
    return ", ".join(parts)


def passed(arguments: Iterable[FunctionParameter]) -> str:
    """The arguments of a call that passes on all parameters."""
    return ", ".join(f"{p.name}={p.name}" if p.kind is BY_NAME else p.starred for p in arguments)


def give_defaults(function: FunctionType, arguments: Iterable[FunctionParameter]) -> None:
    """Set the defaults of a function's parameters."""
    having = [p for p in arguments if p.default is not REQUIRED]
    if having:
        function.__defaults__ = tuple([p.default for p in having if p.kind is not BY_NAME]) or None
        function.__kwdefaults__ = {p.name: p.default for p in having if p.kind is BY_NAME} or None
