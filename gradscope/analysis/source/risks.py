"""Finds calls and operators in the source that produce a NaN or Inf for some inputs.

They are reported if one was observed, because calls without gradients may not be recorded. Guarded
ones (`x + eps`, `clamp`, also in a previous assignment) are left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gradscope.analysis.source.functions import at_most, functions, last_name, own_statements

CALLED = frozenset((
    "log", "log2", "log10", "log1p", "logit", "reciprocal", "rsqrt", "sqrt", "acos", "arccos",
    "asin", "arcsin", "acosh", "atanh", "arctanh", "std",
))  # fmt: skip
PLAIN = {"arccos": "acos", "arcsin": "asin", "arctanh": "atanh"}
"""Other names of these functions."""

OF_NUMBERS = frozenset(("math", "cmath"))
"""Modules whose functions do not accept tensors."""

MAY_BE_ZERO = frozenset(("norm", "sum", "std", "var", "mean", "max", "min", "amax", "amin", "abs"))
"""Calls whose result may be 0 in a division."""

GUARDS = frozenset((
    "clamp", "clamp_", "clamp_min", "clip", "maximum", "softplus", "nan_to_num", "exp", "where",
    "masked_fill",
))  # fmt: skip
SMALL = re.compile(r"eps|tiny|delta|smooth", re.IGNORECASE)
"""Names of small numbers that are added as a guard."""


class Risk(NamedTuple):
    """A risky call or operator."""

    line: int
    function: str
    name: str  # "log", "div", "pow"


Values = dict[str, ast.expr]
"""The last value assigned to each name of a function."""


@at_most(30)
def risks(tree: ast.Module) -> Iterable[Risk]:
    """The risks of a file, each name of a line once."""
    found = (
        Risk(each.lineno, function, name)
        for function, body in functions(tree)
        for each, name in _of_function(list(own_statements(body)))
    )
    return dict.fromkeys(found)


def _of_function(statements: list[ast.stmt]) -> Iterator[tuple[ast.expr, str]]:
    values: Values = {}
    for statement in statements:
        for expression in _expressions(statement):
            for each in ast.walk(expression):
                if isinstance(each, ast.expr) and (name := _risk(each, values)):
                    yield each, name
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            values[statement.targets[0].id] = statement.value


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement, without those of nested statements."""
    if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield from (e for e in ast.iter_child_nodes(statement) if isinstance(e, ast.expr))


def _risk(expression: ast.expr, values: Values) -> str:
    """The name of the risk; "": none."""
    match expression:
        case ast.BinOp(op=ast.Div(), right=divisor):
            return "div" if _may_be_zero(divisor, values) else ""
        case ast.BinOp(op=ast.Pow(), left=base, right=exponent):
            return "pow" if _is_no_power(exponent) and not _is_safe(base, values) else ""
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=given):
            if isinstance(owner, ast.Name) and owner.id in OF_NUMBERS:
                return ""
            if name == "pow" and given:
                base = given[0] if len(given) > 1 else owner
                return "pow" if _is_no_power(given[-1]) and not _is_safe(base, values) else ""
            of = given[0] if _is_module(owner) and given else owner
            return PLAIN.get(name, name) if name in CALLED and not _is_safe(of, values) else ""
    return ""


def _is_module(owner: ast.expr) -> bool:
    return isinstance(owner, ast.Name) and owner.id in {"torch", "F", "np", "numpy"}


def _is_no_power(exponent: ast.expr) -> bool:
    """Whether it is a negative or fractional number."""
    negative = isinstance(exponent, ast.UnaryOp) and isinstance(exponent.op, ast.USub)
    number = exponent.operand if isinstance(exponent, ast.UnaryOp) else exponent
    if not isinstance(number, ast.Constant) or not isinstance(number.value, int | float):
        return False
    return negative or number.value != int(number.value)


def _may_be_zero(divisor: ast.expr, values: Values) -> bool:
    """Whether it is a norm, sum or difference that is not guarded against 0."""
    if _is_safe(divisor, values):
        return False
    return any(
        (isinstance(each, ast.Attribute) and each.attr in MAY_BE_ZERO)
        or (isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub) and _is_of_names(each))
        for each in ast.walk(_stands_for(divisor, values))
    )


def _is_of_names(expression: ast.expr) -> bool:
    """Whether it contains names that may be tensors, and no sizes."""
    parts = [each for each in ast.walk(expression) if isinstance(each, ast.Name | ast.Attribute)]
    counted = {"size", "shape", "numel", "len", "math"}
    return bool(parts) and counted.isdisjoint(map(last_name, parts))


def _is_safe(expression: ast.expr, values: Values) -> bool:
    """Whether it is constant, or kept away from critical values."""
    expression = _stands_for(expression, values)
    if not _is_of_names(expression):
        return True
    for each in ast.walk(expression):
        if isinstance(each, ast.Attribute) and each.attr in GUARDS:
            return each.attr != "exp" or each is getattr(expression, "func", None)
        added = isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add)
        if added and any(_is_small(side) for side in (each.left, each.right)):  # type: ignore[attr-defined]
            return True
    return False


def _is_small(term: ast.expr) -> bool:
    if isinstance(term, ast.Constant):
        return isinstance(term.value, int | float) and term.value > 0
    return SMALL.search(last_name(term)) is not None


def _stands_for(expression: ast.expr, values: Values) -> ast.expr:
    if isinstance(expression, ast.Name):
        return values.get(expression.id, expression)
    return expression
