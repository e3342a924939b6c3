"""Finds converted integers that are interpolated, and then made into integers again.

`mask = F.interpolate(mask.float(), size, mode="bilinear")`, `return mask[0].long()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gradscope.analysis.source.functions import at_most, functions, last_name, own_statements

BETWEEN = frozenset(("linear", "bilinear", "bicubic", "trilinear", "area"))
"""Modes of `interpolate` that compute values between those of the input."""

TO_FLOATS = frozenset(("float", "double", "half", "to", "type"))
WHOLE = frozenset(("long", "int"))
SAME = frozenset((
    "squeeze", "unsqueeze", "view", "reshape", "flatten", "permute", "transpose", "contiguous",
    "clone", "detach", "cpu", "flip",
))  # fmt: skip
"""Methods that return the same values."""


class Interpolated(NamedTuple):
    """A line that makes interpolated values into integers."""

    line: int
    at: int  # the line that interpolates
    mode: str


@at_most(20)
def interpolated(tree: ast.Module) -> Iterator[Interpolated]:
    for _, body in functions(tree):
        known: dict[str, tuple[int, str]] = {}  # names of interpolated tensors
        for statement in sorted(own_statements(body), key=lambda each: each.lineno):
            if isinstance(statement, ast.For | ast.While | ast.If | ast.With | ast.Try):
                continue
            for each in ast.walk(statement):
                if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
                    whole = each.func.attr in WHOLE
                    found = _interpolation(each.func.value, known) if whole else None
                    if found is not None:
                        yield Interpolated(each.lineno, *found)
            if isinstance(statement, ast.Assign):
                made = _interpolation(statement.value, known)
                for target in statement.targets:
                    for name in ast.walk(target):
                        known.pop(last_name(name), None)
                    if made is not None and isinstance(target, ast.Name):
                        known[target.id] = made


def _interpolation(value: ast.expr, known: dict[str, tuple[int, str]]) -> tuple[int, str] | None:
    """The line and mode of the interpolation whose values these are; None: of none."""
    while True:
        if isinstance(value, ast.Name):
            return known.get(value.id)
        if isinstance(value, ast.Subscript):
            value = value.value
        elif isinstance(value, ast.Call) and last_name(value.func) == "interpolate":
            mode = next((each.value for each in value.keywords if each.arg == "mode"), None)
            if not isinstance(mode, ast.Constant) or mode.value not in BETWEEN:
                return None
            return (value.lineno, str(mode.value)) if _is_converted(value) else None
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and (
            value.func.attr in SAME
        ):  # fmt: skip
            value = value.func.value
        else:
            return None


def _is_converted(interpolation: ast.Call) -> bool:
    """Whether the input is converted to floats in the call, so that it held integers."""
    given = [
        *interpolation.args[:1],
        *(e.value for e in interpolation.keywords if e.arg == "input"),
    ]
    calls = (each for one in given for each in ast.walk(one) if isinstance(each, ast.Call))
    return any(isinstance(e.func, ast.Attribute) and e.func.attr in TO_FLOATS for e in calls)
