"""The functions and statements of a file, and helpers for searches in it."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeGuard, TypeVar

T = TypeVar("T")
Find = Callable[[ast.Module], Iterable[T]]
Definition = ast.FunctionDef | ast.AsyncFunctionDef

ADDERS = frozenset(
    ("append", "appendleft", "extend", "add", "insert", "setdefault", "update", "put")
)
"""Methods that add something to a container."""


def parsed(text: str) -> ast.Module | None:
    """The tree of a file, or a line; None where this Python cannot read it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)  # for "\d", before Python 3.12
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def at_most(many: int) -> Callable[[Find[T]], Find[T]]:
    """Limit the number of results of a search in one file."""
    return lambda find: lambda tree: islice(find(tree), many)


def functions(tree: ast.Module) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Every function, by the name of its code object, with its statements; the file first."""
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    yield "<module>", tree.body
    while waiting:
        path, parent = waiting.pop()
        for each in ast.iter_child_nodes(parent):
            inner = path
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path}{each.name}", each.body
                inner = f"{path}{each.name}.<locals>."
            elif isinstance(each, ast.ClassDef):
                inner = f"{path}{each.name}."
            waiting.append((inner, each))


def own_statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a function, including nested ones, but not those of inner functions."""
    for each in body:
        yield each
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = (child for child in ast.iter_child_nodes(each) if isinstance(child, ast.stmt))
            yield from own_statements(inner)
            for handler in getattr(each, "handlers", ()):
                yield from own_statements(handler.body)


def all_statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a file, inside functions and outside."""
    return (each for _, body in functions(tree) for each in own_statements(body))


def is_named(expression: ast.AST | None, name: str) -> TypeGuard[ast.Name]:
    return isinstance(expression, ast.Name) and expression.id == name


def last_name(expression: ast.AST | None) -> str:
    """`c` of `a.b.c` and of `c`; "" for other expressions."""
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else ""
