"""Which lines of a program's own functions matter, as its source says."""

from __future__ import annotations

import ast
import dis
import linecache
from functools import lru_cache
from types import CodeType, FunctionType

MOST = 3
"""So many other lines are told."""


@lru_cache(maxsize=64)
def parsed(file: str, first: str, many: int) -> ast.Module | None:
    """A file as it is now; `first` and `many` say of what it was read."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return None


def tree_of(file: str) -> ast.Module | None:
    """The source of a file; None where it cannot be read."""
    lines = linecache.getlines(file)
    return parsed(file, lines[0], len(lines)) if lines else None


def lines_of_gradient(backward: FunctionType, place: int) -> list[int]:
    """The line that makes what a backward returns at this place, then others that have part in it.

    That is where it returns, and what it assigns to names which stand there.
    """
    found = _definition(backward)
    if found is None:
        code = backward.__code__
        last = [line for start, _, line in code.co_lines() if start in _returns(code)]
        return [max((line for line in last if line), default=code.co_firstlineno)]
    inside = [each for part in found.body for each in _own_statements(part)]
    returns = [each for each in inside if isinstance(each, ast.Return) and each.value is not None]
    if not returns:
        return [found.lineno]
    last_one = max(returns, key=lambda each: each.lineno)
    value = last_one.value
    if isinstance(value, ast.Tuple) and place < len(value.elts):
        value = value.elts[place]
    assert value is not None
    names = {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}
    parts = {each.lineno for each in inside if names & _assigned(each)}  # type: ignore[attr-defined]
    lines = [last_one.lineno, *sorted(parts - {last_one.lineno}, reverse=True)[:MOST]]
    if isinstance(value, ast.Name) and len(lines) > 1:
        lines[:2] = lines[1::-1]
    return lines


def _returns(code: CodeType) -> set[int]:
    """Where lines begin in it that return."""
    starts = [start for start, _, _ in code.co_lines()]
    at = [each.offset for each in dis.get_instructions(code) if each.opname.startswith("RETURN")]
    return {max(start for start in starts if start <= offset) for offset in at}


def _definition(function: FunctionType) -> ast.FunctionDef | None:
    code = function.__code__
    tree = tree_of(code.co_filename)
    for each in ast.walk(tree) if tree is not None else ():
        if isinstance(each, ast.FunctionDef) and each.name == code.co_name:
            first = min([each.lineno, *(decorator.lineno for decorator in each.decorator_list)])
            if first == code.co_firstlineno:
                return each
    return None


def _own_statements(part: ast.AST) -> list[ast.AST]:
    """Those of a function, without what is inside functions in it."""
    if isinstance(part, ast.FunctionDef | ast.Lambda | ast.ClassDef):
        return []
    return [
        part,
        *(each for child in ast.iter_child_nodes(part) for each in _own_statements(child)),
    ]


def _assigned(statement: ast.AST) -> set[str]:
    """The names that this gives a value, other than one that was kept on ctx."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign) and not _is_kept(statement.value):
        targets = statement.targets
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
        targets = [statement.target]
    return {name for target in targets for name in _bound(target)}


def _is_kept(value: ast.expr) -> bool:
    while isinstance(value, ast.Attribute | ast.Subscript):
        value = value.value
    return isinstance(value, ast.Name) and value.id in {"ctx", "self"}


def _bound(target: ast.expr) -> set[str]:
    while isinstance(target, ast.Subscript | ast.Attribute | ast.Starred):
        target = target.value
    if isinstance(target, ast.Tuple | ast.List):
        return {name for each in target.elts for name in _bound(each)}
    return {target.id} if isinstance(target, ast.Name) else set()
