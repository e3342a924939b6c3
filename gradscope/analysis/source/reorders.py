"""Finds views that name the dims of a tensor in another order."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gradscope.analysis.source.functions import all_statements, at_most, functions, own_statements

VIEWS = frozenset(("view", "reshape"))


class Reordered(NamedTuple):
    """`x.view(b, h * w, c)` where `b, c, h, w = x.shape`."""

    line: int
    name: str  # name of the tensor
    dims: tuple[str, ...]  # the names of its dims


@at_most(20)
def reorders(tree: ast.Module) -> Iterator[Reordered]:
    """The reorders of a file, if neither the tensor nor a dim was reassigned in between."""
    for _, body in functions(tree):
        yield from _of_a_function(list(own_statements(body)))


class Inferred(NamedTuple):
    """A view whose first dim is inferred from the others: `x.view(-1, 784)`."""

    line: int


@at_most(20)
def inferred(tree: ast.Module) -> Iterable[Inferred]:
    found = (
        Inferred(each.lineno)
        for statement in all_statements(tree)
        for expression in ast.iter_child_nodes(statement)
        if isinstance(expression, ast.expr)
        for each in ast.walk(expression)
        if isinstance(each, ast.Call) and _infers_the_first(each)
    )
    return dict.fromkeys(found)


def _infers_the_first(call: ast.Call) -> bool:
    named = isinstance(call.func, ast.Attribute) and call.func.attr in VIEWS
    return named and len(call.args) > 1 and ast.unparse(call.args[0]) == "-1"


def _of_a_function(statements: list[ast.stmt]) -> Iterator[Reordered]:
    shapes: dict[str, tuple[str, ...]] = {}
    for statement in sorted(statements, key=lambda each: each.lineno):
        if not isinstance(statement, ast.For | ast.While | ast.If | ast.With | ast.Try):
            for call in ast.walk(statement):
                name = _viewed(call)
                if name in shapes and _is_reordered(call, shapes[name]):  # type: ignore[arg-type]
                    yield Reordered(call.lineno, name, shapes[name])  # type: ignore[attr-defined]
        given = {
            each.id
            for each in ast.walk(statement)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
        }
        shapes = {
            name: dims
            for name, dims in shapes.items()
            if name not in given and given.isdisjoint(dims)
        }
        taken = _taken_apart(statement)
        if taken is not None:
            shapes[taken[0]] = taken[1]


def _taken_apart(statement: ast.stmt) -> tuple[str, tuple[str, ...]] | None:
    """`b, c, h, w = x.shape`, or `= x.size()`: the tensor, and the names of its dims."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    if isinstance(value, ast.Call) and not value.args:
        value = value.func
    if not isinstance(value, ast.Attribute) or value.attr not in {"shape", "size"}:
        return None
    if not isinstance(target, ast.Tuple) or not isinstance(value.value, ast.Name):
        return None
    names = [each.id for each in target.elts if isinstance(each, ast.Name) and each.id != "_"]
    if len(names) != len(target.elts) or len({*names}) != len(names):
        return None
    return value.value.id, tuple(names)


def _viewed(call: ast.AST) -> str:
    """The name of the tensor in `x.view(…)`."""
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        owner = call.func.value
        if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Attribute):
            owner = owner.func.value if owner.func.attr == "contiguous" else owner
        if call.func.attr in VIEWS and isinstance(owner, ast.Name):
            return owner.id
    return ""


def _is_reordered(call: ast.Call, dims: tuple[str, ...]) -> bool:
    """Whether it names each dim once, in another order."""
    parts = [each for argument in call.args for each in ast.walk(argument)]
    if any(isinstance(each, ast.Subscript | ast.Attribute | ast.Call) for each in parts):
        return False
    names = [each for argument in call.args for each in _names(argument)]
    places = [dims.index(each) for each in names if each in dims]
    return len(names) == len(places) == len(dims) == len({*places}) and places != sorted(places)


def _names(argument: ast.expr) -> list[str]:
    found = [each for each in ast.walk(argument) if isinstance(each, ast.Name)]
    return [each.id for each in sorted(found, key=lambda each: (each.lineno, each.col_offset))]
