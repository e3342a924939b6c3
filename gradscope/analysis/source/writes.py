"""Where a program writes in place while gradients are off: PyTorch does not record this."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gradscope.analysis.source.functions import all_statements, at_most

OFF = frozenset(("no_grad", "inference_mode"))


class UnseenWrite(NamedTuple):
    """A statement that writes in place."""

    line: int
    name: str  # the tensor that is written to, as written


@at_most(20)
def writes(tree: ast.Module) -> Iterator[UnseenWrite]:
    """The writes of a file under `no_grad()`, as a block or above a function."""
    blocks = [
        (line.lineno, line.end_lineno or line.lineno)
        for line in ast.walk(tree)
        if (isinstance(line, ast.With) and any(_is_off(each.context_expr) for each in line.items))
        or (isinstance(line, ast.FunctionDef) and any(map(_is_off, line.decorator_list)))
    ]  # fmt: skip
    for each in all_statements(tree):
        if (name := _written(each)) and any(a <= each.lineno <= b for a, b in blocks):
            yield UnseenWrite(each.lineno, name)


def _is_off(expression: ast.expr) -> bool:
    called = expression.func if isinstance(expression, ast.Call) else expression
    return isinstance(called, ast.Attribute) and called.attr in OFF


def _written(statement: ast.stmt) -> str:
    """`w` of `w.add_(1)`, `w -= 1` and `w[0] = 1`; "" if nothing is written in place."""
    target: ast.expr | None = None
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        if isinstance(called, ast.Attribute) and called.attr.endswith("_"):
            target = called.value if not called.attr.endswith("__") else None
    elif isinstance(statement, ast.AugAssign):
        target = statement.target
    elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        target = statement.targets[0]
    while isinstance(target, ast.Subscript | ast.Call):
        target = target.value if isinstance(target, ast.Subscript) else target.func
    return ast.unparse(target) if isinstance(target, ast.Name | ast.Attribute) else ""
