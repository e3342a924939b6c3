"""Finds the words that a program searches in names of parameters, and where it reads gradients."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gradscope.analysis.source.functions import (
    all_statements,
    at_most,
    functions,
    is_named,
    own_statements,
)

NAMED = frozenset(("named_parameters", "named_modules"))
METHODS = frozenset(("startswith", "endswith"))
Loop = ast.For | ast.comprehension


class Filter(NamedTuple):
    """A search for words in names: `"lora_" in name`."""

    line: int
    words: tuple[str, ...]
    how: str  # in, startswith, endswith, equal
    freezes: bool  # it decides which parameters require grad


class GradientRead(NamedTuple):
    """A statement that reads `.grad`, except to clear it."""

    line: int
    apart: bool  # in a function that does not call backward


@at_most(20)
def filters(tree: ast.Module) -> Iterator[Filter]:
    """The filters of a file, in loops over named_parameters or named_modules."""
    lists = _lists(tree)
    for statement in all_statements(tree):
        for loop, scope in _loops(statement):
            yield from _tests(loop, scope, lists)


def _lists(tree: ast.Module) -> dict[str, tuple[str, ...]]:
    """Names of lists of words, in the whole file."""
    return {
        target.id: words
        for each in ast.walk(tree)
        if isinstance(each, ast.Assign) and (words := _words(each.value, {}))
        for target in each.targets
        if isinstance(target, ast.Name)
    }


def _loops(statement: ast.stmt) -> Iterator[tuple[Loop, list[ast.AST]]]:
    """A loop over names, with the code that runs for each of them."""
    if isinstance(statement, ast.For) and _goes_over_names(statement.iter):
        yield statement, list(statement.body)
    if isinstance(statement, ast.For | ast.While | ast.If | ast.With | ast.Try):
        return  # nested statements are visited separately
    for each in ast.walk(statement):
        for loop in getattr(each, "generators", ()):
            if _goes_over_names(loop.iter):
                yield loop, list(loop.ifs)


def _goes_over_names(expression: ast.expr) -> bool:
    return any(
        isinstance(each, ast.Attribute) and each.attr in NAMED for each in ast.walk(expression)
    )


def _tests(loop: Loop, scope: list[ast.AST], lists: dict[str, tuple[str, ...]]) -> Iterator[Filter]:
    target = loop.target
    if not isinstance(target, ast.Tuple) or not isinstance(target.elts[0], ast.Name):
        return
    name = target.elts[0].id
    every = [each for part in scope for each in ast.walk(part)]
    freezes = any(
        isinstance(each, ast.Attribute) and each.attr.startswith("requires_grad") for each in every
    ) and isinstance(loop, ast.For)  # fmt: skip
    bound = dict(lists)
    for each in every:
        for inner in getattr(each, "generators", ()):  # any(word in name for word in words)
            if isinstance(inner.target, ast.Name):
                bound[inner.target.id] = _words(inner.iter, lists)
    for each in every:
        how, words = _sought(each, name, bound)
        if words:
            yield Filter(each.lineno, words, how, freezes)  # type: ignore[attr-defined]


def _sought(
    test: ast.AST, name: str, bound: dict[str, tuple[str, ...]]
) -> tuple[str, tuple[str, ...]]:
    """How a test searches for words in a name, and the words."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        left, right = test.left, test.comparators[0]
        if isinstance(test.ops[0], ast.In | ast.NotIn):
            if is_named(right, name):
                return "in", _words(left, bound)
            return "equal", _words(right, bound) if is_named(left, name) else ()
        if isinstance(test.ops[0], ast.Eq | ast.NotEq) and is_named(left, name):
            return "equal", _words(right, bound)
    called = test.func if isinstance(test, ast.Call) and test.args else None
    if (
        isinstance(called, ast.Attribute)
        and called.attr in METHODS
        and is_named(called.value, name)
    ):
        return called.attr, _words(test.args[0], bound)  # type: ignore[attr-defined]
    return "", ()


def _words(expression: ast.expr, bound: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    if isinstance(expression, ast.Name):
        return bound.get(expression.id, ())
    if isinstance(expression, ast.Constant):
        return (expression.value,) if isinstance(expression.value, str) else ()
    if isinstance(expression, ast.List | ast.Tuple | ast.Set):
        parts = [_words(each, {}) for each in expression.elts]
        return tuple(word for part in parts for word in part) if all(parts) else ()
    return ()


@at_most(20)
def reads(tree: ast.Module) -> Iterator[GradientRead]:
    """The lines of a file that read gradients, without those that clear them."""
    blocks = ast.FunctionDef | ast.ClassDef | ast.For | ast.If | ast.With
    for _, body in functions(tree):
        apart = not any(map(_calls_backward, body))
        for each in own_statements(body):
            if not isinstance(each, blocks) and _reads(each):
                yield GradientRead(each.lineno, apart)


def _calls_backward(statement: ast.stmt) -> bool:
    return any(
        isinstance(each, ast.Attribute) and each.attr == "backward" for each in ast.walk(statement)
    )


def _reads(statement: ast.stmt) -> bool:
    text = ast.unparse(statement)
    if "grad.zero_()" in text:
        return False
    return any(
        isinstance(each, ast.Attribute) and each.attr == "grad" and isinstance(each.ctx, ast.Load)
        for each in ast.walk(statement)
    )
