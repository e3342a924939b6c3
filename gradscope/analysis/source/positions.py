"""Finds position tables that are cut to the size of a dim of the tensor they are added to.

`x + self.pe[: x.size(0)]`, `x = x + self.table[:, : x.shape[1]]`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from gradscope.analysis.source.functions import (
    all_statements,
    at_most,
    last_name,
)

OF_POSITIONS = re.compile(r"\bw?pe\b|pos|enc|sinus|table|emb", re.IGNORECASE)
"""Names of position tables: other slices may be noise, or a state for each sample."""


class Positions(NamedTuple):
    """A sum with a table that is cut in this way."""

    line: int
    name: str  # of the tensor, as written
    dim: int  # along which positions are counted


@at_most(20)
def positions(tree: ast.Module) -> Iterator[Positions]:
    for statement in all_statements(tree):
        yield from (Positions(each.lineno, name, dim) for each, name, dim in _sums(statement))


def _sums(statement: ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str, int]]:
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        yield from _counted(statement, [statement.target], statement.value)
    for child in ast.iter_child_nodes(statement):
        for each in ast.walk(child) if isinstance(child, ast.expr) else ():
            if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add):
                yield from _counted(each, [each.left], each.right)
                yield from _counted(each, [each.right], each.left)


def _counted(
    whole: ast.expr | ast.stmt, to: list[ast.expr], table: ast.expr
) -> Iterator[tuple[ast.expr | ast.stmt, str, int]]:
    """A table cut to the size of what it is added to, or of one of its operands."""
    names = {ast.unparse(each) for part in to for each in ast.walk(part) if last_name(each)}
    for each in ast.walk(table):
        if not isinstance(each, ast.Subscript) or not OF_POSITIONS.search(ast.unparse(each.value)):
            continue
        for part in ast.walk(each.slice):
            if isinstance(part, ast.Slice) and part.lower is None and part.upper is not None:
                name, dim = _size(part.upper)
                if name in names:
                    yield whole, name, dim


def _size(expression: ast.expr) -> tuple[str, int]:
    """`x` and 0 of `x.size(0)`, `x.shape[0]` and `len(x)`; "", -1 for other expressions."""
    match expression:
        case ast.Call(func=ast.Attribute(value=of, attr="size"), args=[ast.Constant(value=dim)]):
            return (ast.unparse(of), dim) if isinstance(dim, int) else ("", -1)
        case ast.Subscript(
            value=ast.Attribute(value=of, attr="shape"), slice=ast.Constant(value=dim)
        ):
            return (ast.unparse(of), dim) if isinstance(dim, int) else ("", -1)
        case ast.Call(func=ast.Name(id="len"), args=[of]):
            return ast.unparse(of), 0
    return "", -1
