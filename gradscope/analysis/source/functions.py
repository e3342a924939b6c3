"""The functions of a file, and the statements of a function."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

Definition = ast.FunctionDef | ast.AsyncFunctionDef

ADDERS = frozenset(
    ("append", "appendleft", "extend", "add", "insert", "setdefault", "update", "put")
)
"""Methods that put something into a container."""


def functions(tree: ast.Module) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Every function, by the name its code has, with its statements; the file itself first."""
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
    """The statements of a function, those inside others too, but not those of inner functions."""
    for each in body:
        yield each
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = (child for child in ast.iter_child_nodes(each) if isinstance(child, ast.stmt))
            yield from own_statements(inner)
            for handler in getattr(each, "handlers", ()):
                yield from own_statements(handler.body)


def called(call: ast.Call) -> str:
    """The last name of what is called; "": it has none."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
