"""Functions that take `axis=` for `dim=`, and `keepdims=` for `keepdim=`, as in NumPy."""

from __future__ import annotations

import inspect
from types import CodeType, FunctionType
from typing import Any

from gradscope.runtime.core.errors.arguments.blame import OR_BLAME, blame_the_call

REQUIRED: Any = object()
"""Stands for a `dim` that has no default."""

_SCOPE = {"REQUIRED": REQUIRED, "blame_the_call": blame_the_call}


def taking_axis(name: str, made: FunctionType) -> FunctionType:
    """A function around one with a `dim`, with its parameters and NumPy's names for two of them."""
    parameters = _parameters(made)
    names = {p.name for p in parameters}
    before = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    others = {"axis": "dim", "keepdims": "keepdim"}
    extra = [new for new, old in others.items() if old in names]
    given = [_shown(p) for p in before]
    given += ["*", *(f"{new}=None" for new in extra)]
    given += [_shown(p) for p in parameters if p.kind is p.KEYWORD_ONLY]
    passed = [p.name if p.kind is not p.KEYWORD_ONLY else f"{p.name}={p.name}" for p in parameters]
    text = f"def {name}({', '.join(given)}):\n"
    for new in extra:
        text += f"    if {new} is not None:\n        {others[new]} = {new}\n"
    text += (
        "    if dim is REQUIRED:\n"
        f"        raise TypeError('{name}() missing 1 required positional arguments: \"dim\"')\n"
        "    try:\n"
        f"        return inner({', '.join(passed)})\n"
        f"{OR_BLAME}"
    )
    module = compile(text, f"<road of {name}>", "exec")
    code = next(c for c in module.co_consts if isinstance(c, CodeType))
    function = FunctionType(code, {**_SCOPE, "inner": made}, name)
    defaults = [_default(p) for p in before]
    function.__defaults__ = tuple(d for d in defaults if d is not inspect.Parameter.empty)
    function.__kwdefaults__ = dict.fromkeys(extra) | {
        p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY
    }
    function.__module__, function.__doc__ = made.__module__, made.__doc__
    return function


def _parameters(made: Any) -> list[inspect.Parameter]:
    op = getattr(made, "op", None)
    if op is None:
        return list(inspect.signature(made).parameters.values())
    none = inspect.Parameter.empty
    return [
        inspect.Parameter(
            p.public,
            inspect.Parameter.KEYWORD_ONLY
            if p.keyword_only
            else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=p.default if p.has_default else none,
        )
        for p in op.plan.parameters
    ]


def _default(p: inspect.Parameter) -> Any:
    return REQUIRED if p.name == "dim" and p.default is p.empty else p.default


def _shown(p: inspect.Parameter) -> str:
    return p.name if _default(p) is p.empty else f"{p.name}=None"
