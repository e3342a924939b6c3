"""Finds tensors with a second name that is read after a call with the tensor.

`identity = x`, `out = self.relu(x)`, `return out + identity`: the unchanged `x` is expected.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gradscope.analysis.source.functions import at_most, functions, is_named, own_statements


class OtherName(NamedTuple):
    """A call with a tensor that has another name, which is read later."""

    line: int
    name: str  # the other name
    read: int  # the line that reads it


@at_most(50)
def other_names(tree: ast.Module) -> Iterator[OtherName]:
    for _, body in functions(tree):
        yield from _of_a_function(body)


def _of_a_function(body: list[ast.stmt]) -> Iterator[OtherName]:
    plain: list[ast.stmt] = [each for each in own_statements(body) if isinstance(each, _SIMPLE)]
    plain.sort(key=lambda each: each.lineno)
    for place, statement in enumerate(plain):
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name):
            (target, *more), of = statement.targets, statement.value.id
            if isinstance(target, ast.Name) and not more and target.id != of:
                yield from _calls(plain[place + 1 :], target.id, of)


def _calls(later: list[ast.stmt], name: str, of: str) -> Iterator[OtherName]:
    """The first statement that calls something with it, while both names are the same tensor."""
    for place, statement in enumerate(later):
        given = any(_is_given(each, of) for each in ast.walk(statement))
        rest = later[place + 1 :]
        if given and name not in _names(statement, ast.Load):
            read = next((each for each in rest if name in _names(each, ast.Load)), None)
            if read is not None and not any(
                name in _names(each, ast.Store) for each in rest[: rest.index(read)]
            ):
                yield OtherName(statement.lineno, name, read.lineno)
            return
        if {name, of} & _names(statement, ast.Store):
            return


def _is_given(part: ast.AST, name: str) -> bool:
    """Whether this is a call with the name: `f(x)`, `x.relu_()`."""
    if not isinstance(part, ast.Call):
        return False
    owner = part.func.value if isinstance(part.func, ast.Attribute) else None
    return any(is_named(each, name) for each in (*part.args, owner))


def _names(statement: ast.stmt, context: type[ast.expr_context]) -> set[str]:
    every = (each for each in ast.walk(statement) if isinstance(each, ast.Name))
    return {each.id for each in every if isinstance(each.ctx, context)}


_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)
