"""Functions with an argument `out=`, made of those without."""

from __future__ import annotations

import inspect
from functools import partial
from types import CodeType, FunctionType
from typing import Any

from gradscope.runtime.core.calls.declare import node_class
from gradscope.runtime.core.calls.offered.out import written
from gradscope.runtime.core.calls.road import forward as road
from gradscope.runtime.core.calls.road.first_call import Unbuilt
from gradscope.runtime.core.errors.arguments.blame import OR_BLAME, blame_the_call
from gradscope.runtime.core.rows.operation import Operation


def taking_out(name: str, made: Any) -> Any:
    """The same function with an argument `out=`, if it has none yet."""
    if isinstance(getattr(made, "op", None), Operation) and "unbuilt_fast" in made.__globals__:
        return _row_taking_out(made)
    if "out" in inspect.signature(made).parameters:
        return made
    return _function_taking_out(name, made)


def put_into(op: Operation, arguments: tuple[Any, ...], out: Any) -> Any:
    """What a road does with `out=`: the call without it, then the write."""
    return written(op.base_name, op.call_with(*arguments), out)


def _row_taking_out(row: Any) -> FunctionType:
    """A road whose text has `out=`: a call without it pays one comparison."""
    op: Operation = row.op
    scope = {**row.__globals__, "put_into": put_into}

    def names() -> dict[str, Any]:
        return {"Node": node_class(op)}

    text = partial(road.fast, op.plan, out=True)
    made = Unbuilt("fast", text, road.with_out(op.plan), names).function(scope)
    made.__name__ = made.__qualname__ = row.__name__
    made.op = op  # type: ignore[attr-defined]
    return made


def _function_taking_out(name: str, made: FunctionType) -> FunctionType:
    """A function around one that is built of operations, with its parameters and `out=`."""
    short = made.__name__
    parameters = list(inspect.signature(made).parameters.values())
    given: list[str] = []
    passed: list[str] = []
    starred = False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not starred:
            given.append("*")
        starred = starred or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        star = "*" if p.kind is p.VAR_POSITIONAL else ""
        given.append(star + p.name + ("" if p.default is p.empty else "=None"))
        passed.append(f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else star + p.name)
    given += ["out=None"] if starred else ["*", "out=None"]
    text = (
        f"def {short}({', '.join(given)}):\n"
        "    try:\n"
        f"        made = inner({', '.join(passed)})\n"
        f"{OR_BLAME}"
        f"    return made if out is None else written({short!r}, made, out)\n"
    )
    module = compile(text, f"<road of {name}>", "exec")
    code = next(c for c in module.co_consts if isinstance(c, CodeType))
    scope = {"inner": made, "written": written, "blame_the_call": blame_the_call}
    function = FunctionType(code, scope, short, made.__defaults__)
    function.__kwdefaults__ = {**(made.__kwdefaults__ or {}), "out": None}
    function.__module__, function.__doc__ = made.__module__, made.__doc__
    return function
