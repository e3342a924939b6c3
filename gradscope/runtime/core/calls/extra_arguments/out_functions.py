"""Adds the argument `out=` to functions."""

from __future__ import annotations

from functools import partial
from types import FunctionType
from typing import Any

from gradscope.runtime.core.calls.extra_arguments import out_rules as rules
from gradscope.runtime.core.calls.extra_arguments.out import dtype_inside, written
from gradscope.runtime.core.calls.late import add_names
from gradscope.runtime.core.calls.road_text import call_text
from gradscope.runtime.core.errors.arguments.raise_wrong_call import OR_BLAME
from gradscope.runtime.core.errors.arguments.wrappers import around
from gradscope.runtime.core.generated.first_call import LazyFunction
from gradscope.runtime.core.rows.operation import Operation
from gradscope.runtime.core.rows.parameters import BY_NAME, FunctionParameter, names_of, parameters

OUT = FunctionParameter("out", BY_NAME, None)

LINES = f"""\
    try:
        made = {{call}}
{OR_BLAME}\
    return made if out is None else written(name, made, out, ({{given}}))
"""


LINES_IN_ITS_DTYPE = f"""\
    try:
        if out is None:
            return {{call}}
        dtype = dtype_inside(dtype, out)
        made = {{call}}
{OR_BLAME}\
    return written(name, made, out, ({{given}}))
"""


def taking_out(made: Any) -> Any:
    """The same function with an argument `out=`, if it has none yet."""
    if isinstance(getattr(made, "op", None), Operation) and "unbuilt_short" in made.__globals__:
        return _row_taking_out(made)
    return made if "out" in names_of(made) else _function_taking_out(made)


def put_into(op: Operation, arguments: tuple[Any, ...], out: Any) -> Any:
    """Call an operation without `out=`, then write its result to `out`."""
    return written(op.base_name, op.call_with(*arguments), out, arguments)


def _row_taking_out(row: Any) -> FunctionType:
    """The generated function of a row with `out=`: a call without it costs one comparison."""
    op: Operation = row.op
    scope = {**row.__globals__, "put_into": put_into}

    def label() -> str:
        return f"{op.name} with out="

    text = partial(call_text.short, op.plan, out=True)
    arguments = call_text.with_out(op.plan).arguments
    made = LazyFunction("short", label, text, arguments, partial(add_names, op)).function(scope)
    made.__name__ = made.__qualname__ = row.__name__
    made.__doc__ = row.__doc__
    made.op = op  # type: ignore[attr-defined]
    return made


def _function_taking_out(inner: FunctionType) -> FunctionType:
    """A function around a composite one, with its parameters and `out=`."""
    arguments = parameters(inner)
    given = "".join(f"{p.starred}, " for p in arguments if p.kind is not BY_NAME)
    lines = LINES_IN_ITS_DTYPE if inner.__name__ in rules.IN_ITS_DTYPE else LINES
    return around(
        inner,
        lines.replace("{given}", given),
        [*arguments, OUT],
        "with out=",
        written=written,
        dtype_inside=dtype_inside,
        name=inner.__name__,
    )
