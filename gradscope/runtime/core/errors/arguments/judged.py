"""Functions that are written out, so that what fails in them asks whether the call was right.

A road asks by itself. What else users call gets a function around it: a call that is right pays one
more frame, less than a tenth of a microsecond.
"""

from __future__ import annotations

from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType
from typing import TypeVar, cast

from gradscope.runtime.core.errors.arguments.blame import OR_BLAME, blame_the_call

Made = TypeVar("Made")

_codes: dict[str, CodeType] = {}


def judged(made: Made) -> Made:
    """A function around one that is written out, with the same parameters."""
    inner = cast("FunctionType", made)
    text = _text(inner.__code__)
    code = _codes.get(text)
    if code is None:
        module = compile(text, "<road>", "exec")
        code = _codes[text] = next(c for c in module.co_consts if isinstance(c, CodeType))
    name = inner.__name__
    code = code.replace(co_name=name, co_qualname=name, co_filename=f"<road of {name}>")
    scope = {"inner": inner, "blame_the_call": blame_the_call, "__builtins__": __builtins__}
    around = FunctionType(code, scope, name, inner.__defaults__)
    around.__kwdefaults__, around.__module__ = inner.__kwdefaults__, inner.__module__
    around.__doc__, around.__annotations__ = inner.__doc__, inner.__annotations__
    around.__qualname__ = inner.__qualname__
    around.__dict__.update(inner.__dict__)
    return cast("Made", around)


def _text(code: CodeType) -> str:
    names = list(code.co_varnames)
    by_place, by_name = (
        names[: code.co_argcount],
        names[code.co_argcount :][: code.co_kwonlyargcount],
    )
    rest = names[code.co_argcount + code.co_kwonlyargcount :]
    given, passed = list(by_place), list(by_place)
    if code.co_posonlyargcount:
        given.insert(code.co_posonlyargcount, "/")
    if code.co_flags & CO_VARARGS:
        star = f"*{rest.pop(0)}"
        given.append(star)
        passed.append(star)
    elif by_name:
        given.append("*")
    given += by_name
    passed += [f"{name}={name}" for name in by_name]
    if code.co_flags & CO_VARKEYWORDS:
        stars = f"**{rest.pop(0)}"
        given.append(stars)
        passed.append(stars)
    return (
        f"def road({', '.join(given)}):\n"
        "    try:\n"
        f"        return inner({', '.join(passed)})\n"
        f"{OR_BLAME}"
    )
