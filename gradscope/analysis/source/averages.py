"""Finds moving averages in a program, and the factor of their old values in each update.

`ema.mul_(m).add_(new, alpha=1 - m)`, `ema.lerp_(new, 1 - m)`, `ema = m * ema + (1 - m) * new`:
found if both factors are numbers, defaults or options in the file, and add up to 1.
"""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from gradscope.analysis.source.functions import (
    all_statements,
    at_most,
    last_name,
)

HOPS = 3
"""Largest number of names that are followed: a name may refer to another name."""

SAME = frozenset(("data", "detach", "clone"))
"""Attributes and methods that return the same tensor."""

Numbers = dict[str, list[ast.expr | None]]
"""The values assigned to each name in the file; None: a value that is not an expression."""


class Average(NamedTuple):
    """A statement that updates a moving average."""

    line: int
    name: str  # of the average, as written
    new: str  # the new value, as written
    kept: float  # the factor of the old value
    in_place: bool  # written by an in-place method, or as `.data`
    swapped: str  # the statement with its factors swapped


class _Parts(NamedTuple):
    average: ast.expr
    new: ast.expr
    kept: ast.expr  # factors; for lerp: 1 minus the weight, and the weight
    taken: ast.expr


@at_most(20)
def averages(tree: ast.Module) -> Iterator[Average]:
    known = _numbers(tree)
    found = (_average(statement, known) for statement in all_statements(tree))
    return (each for each in found if each is not None)


def _average(statement: ast.stmt, known: Numbers) -> Average | None:
    parts, in_place = _parts(statement)
    if parts is None:
        return None
    kept = _value(parts.kept, known)
    taken = _value(parts.taken, known)
    if math.isnan(kept) or not math.isclose(kept + taken, 1.0, abs_tol=1e-6):
        return None
    swapped = _swapped(statement, parts.kept, parts.taken)
    name, new = _plain(parts.average), _plain(parts.new)
    return Average(statement.lineno, name, new, kept, in_place, swapped)


# Forms of updates -------------------------------------------------------------------------------


def _parts(statement: ast.stmt) -> tuple[_Parts | None, bool]:
    if isinstance(statement, ast.Expr):
        return _of_call(statement.value), True
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        of_data = isinstance(target, ast.Attribute) and target.attr == "data"
        return _of_sum(target, statement.value) or _of_lerp(target, statement.value), of_data
    return None, False


def _of_call(call: ast.expr) -> _Parts | None:
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or not call.args:
        return None
    owner, name, given = call.func.value, call.func.attr, call.args
    if name == "copy_":
        return _of_sum(owner, given[0]) or _of_lerp(owner, given[0])
    if name == "lerp_" and len(given) > 1:
        return _Parts(owner, given[0], _one_less(given[1]), given[1])
    inner = owner.func if isinstance(owner, ast.Call) else None
    multiplied = isinstance(inner, ast.Attribute) and inner.attr == "mul_"
    if name != "add_" or not multiplied or not isinstance(owner, ast.Call) or not owner.args:
        return None
    assert isinstance(inner, ast.Attribute)
    alpha = next((each.value for each in call.keywords if each.arg == "alpha"), None)
    pairs = [(given[0], alpha)] if alpha is not None else _product(given[0])
    new, taken = pairs[0] if pairs else (given[0], None)
    if taken is None:
        return None
    number = next((each for each in pairs if _is_number(each[1])), (new, taken))
    return _Parts(inner.value, number[0], owner.args[0], number[1])


def _of_sum(target: ast.expr, value: ast.expr) -> _Parts | None:
    """`m * ema + (1 - m) * new`, in any order."""
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
        return None
    for own, other in ((value.left, value.right), (value.right, value.left)):
        mine = [factor for of, factor in _product(own) if _plain(of) == _plain(target)]
        rest = [(of, factor) for of, factor in _product(other) if _plain(of) != _plain(target)]
        if mine and rest:
            new, taken = next((each for each in rest if _is_number(each[1])), rest[0])
            return _Parts(target, new, mine[0], taken)
    return None


def _of_lerp(target: ast.expr, value: ast.expr) -> _Parts | None:
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return None
    of, given = value.func.value, value.args
    if value.func.attr != "lerp":
        return None
    operands = given if isinstance(of, ast.Name) and of.id == "torch" else [of, *given]
    if len(operands) != 3 or _plain(operands[0]) != _plain(target):
        return None
    return _Parts(target, operands[1], _one_less(operands[2]), operands[2])


def _product(value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """The two factors of a product, in both orders."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        return [(value.right, value.left), (value.left, value.right)]
    return []


def _one_less(weight: ast.expr) -> ast.expr:
    return ast.BinOp(ast.Constant(1), ast.Sub(), weight)


def _is_number(factor: ast.expr) -> bool:
    """Whether it may be a factor, and not a tensor that is averaged."""
    return not any(isinstance(each, ast.Call | ast.Subscript) for each in ast.walk(factor))


def _plain(expression: ast.expr) -> str:
    """The expression as written, without `.data` and similar."""
    while True:
        if isinstance(expression, ast.Attribute) and expression.attr in SAME:
            expression = expression.value
        elif isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute) and (
            expression.func.attr in SAME
        ):  # fmt: skip
            expression = expression.func.value
        else:
            return ast.unparse(expression)


class _Swap(ast.NodeTransformer):
    """Swaps two expressions."""

    def __init__(self, one: ast.expr, other: ast.expr) -> None:
        self._instead: dict[ast.AST, ast.AST] = {one: other, other: one}

    def visit(self, node: ast.AST) -> ast.AST:
        instead = self._instead.get(node)
        return instead or self.generic_visit(node)


def _swapped(statement: ast.stmt, kept: ast.expr, taken: ast.expr) -> str:
    text = ast.unparse(_Swap(kept, taken).visit(statement))
    _Swap(kept, taken).visit(statement)  # swap back
    return text


# Values of names --------------------------------------------------------------------------------


def _numbers(tree: ast.Module) -> Numbers:
    """All values that are assigned to names, attributes and parameters."""
    known: Numbers = defaultdict(list)
    for each in ast.walk(tree):
        if isinstance(each, ast.Assign):
            for target in each.targets:
                _note(known, target, each.value)
        elif isinstance(each, ast.AnnAssign) and each.value is not None:
            _note(known, each.target, each.value)
        elif isinstance(each, ast.AugAssign | ast.For):
            _note(known, each.target, None)
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            every = [*each.args.posonlyargs, *each.args.args]
            for argument, default in zip(
                reversed(every), reversed(each.args.defaults), strict=False
            ):
                known[argument.arg].append(default)
            for argument, value in zip(each.args.kwonlyargs, each.args.kw_defaults, strict=True):
                known[argument.arg] += [] if value is None else [value]
        elif isinstance(each, ast.Call):
            _note_call(known, each)
    return known


def _note(known: Numbers, target: ast.expr, value: ast.expr | None) -> None:
    if isinstance(target, ast.Tuple | ast.List):
        values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
        whole = len(values) == len(target.elts)
        for place, each in enumerate(target.elts):
            _note(known, each, values[place] if whole else None)
    elif isinstance(target, ast.Attribute | ast.Name):
        known[last_name(target)].append(value)


def _note_call(known: Numbers, call: ast.Call) -> None:
    """Keyword arguments, as in `EMA(net, decay=0.999)`, and command-line options."""
    given = {each.arg: each.value for each in call.keywords if each.arg}
    for name, value in given.items():
        known[name].append(value)
    called = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if called == "add_argument" and "default" in given:
        for each in call.args:
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                known[each.value.lstrip("-").replace("-", "_")].append(given["default"])


def _value(expression: ast.expr, known: Numbers, hops: int = HOPS) -> float:
    """The value of an expression; NaN if it is unknown, or there are several."""
    if isinstance(expression, ast.Constant):
        number = expression.value
        return float(number) if isinstance(number, int | float) else math.nan
    if isinstance(expression, ast.BinOp):
        one, other = (_value(each, known, hops) for each in (expression.left, expression.right))
        if isinstance(expression.op, ast.Sub):
            return one - other
        return one + other if isinstance(expression.op, ast.Add) else math.nan
    if isinstance(expression, ast.Name | ast.Attribute) and hops:
        name = last_name(expression)  # `self.decay = decay` has no information
        given = [each for each in known.get(name, []) if last_name(each) != name]
        values = {math.nan if e is None else _value(e, known, hops - 1) for e in given}
        return values.pop() if len(values) == 1 else math.nan
    return math.nan
