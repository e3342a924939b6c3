"""Finds sums in a program, and the lines that compute their terms: a loss is such a sum."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gradscope.analysis.source.functions import functions, is_named, last_name, own_statements

MOST = 200
"""Largest number of terms that are read from a file."""

DEFINITIONS = 3
"""Largest number of lines that assign to a term's name."""

OFF = frozenset(("no_grad", "inference_mode"))
CUTS = frozenset(("detach", "data", "item", "tolist", "numpy"))


class Term(NamedTuple):
    """One operand of an addition, which is not an addition itself."""

    name: str  # "" if the term is not a name
    line: int  # the line that assigns the name, or that of the sum
    place: int  # index of the addition
    side: int  # 0: left
    off: int = 0  # the line of a `with no_grad():` around the assignment


class Sum(NamedTuple):
    """A statement that adds and subtracts: `loss = a + 0.5 * b - c`."""

    line: int
    signs: str  # of its additions, in the order of evaluation: "+-"
    terms: tuple[Term, ...]


def sums(tree: ast.Module) -> Iterator[Sum]:
    """Sums of a file whose terms are computed by calls."""
    left = MOST
    for _, body in functions(tree):
        statements = list(own_statements(body))
        off = dict(_without_grad(statements))
        for each in statements:
            additions = _additions(each)
            if not additions or left <= 0:
                continue
            signs = "".join("+" if isinstance(sign, ast.Add) else "-" for sign, _ in additions)
            found = tuple(
                Term(name, line, place, side, 0 if each.lineno in off else off.get(line, 0))
                for place, (_, operands) in enumerate(additions)
                for side, operand in enumerate(operands)
                for name, line in _origins(operand, each, statements)
            )
            left -= len(found)
            if found:
                yield Sum(each.lineno, signs, found)


def _without_grad(statements: list[ast.stmt]) -> Iterator[tuple[int, int]]:
    """Lines inside of `with torch.no_grad():`, each with the line of the `with`."""
    for each in statements:
        if isinstance(each, ast.With):
            for item in each.items:
                call = item.context_expr
                named = call.func if isinstance(call, ast.Call) else call
                if last_name(named) in OFF:
                    last = each.end_lineno or each.lineno
                    yield from ((line, each.lineno) for line in range(each.lineno, last + 1))


Addition = tuple[ast.operator, tuple[ast.expr, ast.expr]]


def _additions(statement: ast.stmt) -> list[Addition]:
    """The additions of a statement, in order; none if there are others inside their terms."""
    found: list[Addition] = []
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add | ast.Sub):
        _collect(statement.value, found)
        found.append((statement.op, (statement.target, statement.value)))
    elif isinstance(statement, ast.Assign | ast.Return | ast.Expr) and statement.value is not None:
        _collect(_summed(statement.value), found)
    inside = sum(_adds(each) for each in ast.walk(statement))
    return found if inside == len(found) - isinstance(statement, ast.AugAssign) else []


def _summed(value: ast.expr) -> ast.expr:
    """`a + b` of `(a + b).backward()` and of `a + b`."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and not value.args:
        value = value.func.value
    return value


def _adds(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)


def _collect(value: ast.expr, found: list[Addition]) -> None:
    if isinstance(value, ast.BinOp) and _adds(value):
        _collect(value.left, found)
        _collect(value.right, found)
        found.append((value.op, (value.left, value.right)))


def _origins(
    term: ast.expr, within: ast.stmt, statements: list[ast.stmt]
) -> Iterator[tuple[str, int]]:
    """Names in a term, and the lines that assign them the result of a call; or its own line."""
    if _adds(term) or isinstance(term, ast.Constant):
        return
    if any(isinstance(each, ast.Attribute) and each.attr in CUTS for each in ast.walk(term)):
        yield "", within.lineno
        return
    for name in dict.fromkeys(each.id for each in ast.walk(term) if isinstance(each, ast.Name)):
        lines = [
            each.lineno
            for each in statements
            if isinstance(each, ast.Assign)
            and each is not within
            and any(is_named(to, name) for to in each.targets)
            and any(isinstance(part, ast.Call) for part in ast.walk(each.value))
        ]
        yield from ((name, line) for line in lines[:DEFINITIONS])
