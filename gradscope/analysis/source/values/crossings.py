"""Finds where a program creates tensors from data: lists, arrays, files.

Such calls are not operations on tensors, and have no stand-in (Note [A frame that is not there]).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gradscope.analysis.source.functions import (
    all_statements,
    at_most,
    is_named,
    last_name,
)
from gradscope.trace.schema import FROM_NUMBERS


class Crossing(NamedTuple):
    """A statement that creates a tensor from data."""

    line: int
    by: str  # from_numpy
    name: str  # of the variable or attribute that it is assigned to; ""


@at_most(50)
def crossings(tree: ast.Module) -> Iterator[Crossing]:
    """The crossings of a file, without tensors of literal numbers."""
    for statement in all_statements(tree):
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Return | ast.Expr):
            value = statement.value
            for by in dict.fromkeys(_made_by(value) if value is not None else ()):
                yield Crossing(statement.lineno, by, _name(statement))


def _made_by(value: ast.expr) -> Iterator[str]:
    for each in ast.walk(value):
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.args:
            of_torch = is_named(each.func.value, "torch")
            plain = all(isinstance(part, _PLAIN) for part in ast.walk(each.args[0]))
            if of_torch and each.func.attr in FROM_NUMBERS and not plain:
                yield each.func.attr


_PLAIN = (ast.Constant, ast.List, ast.Tuple, ast.UnaryOp, ast.USub, ast.Load)


def _name(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return ""
    return last_name(target)
