"""The number of ranks in the source of a program: who divides by it, and what holds it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gradscope.analysis.source.functions import last_name

OF_RANKS = re.compile(
    r"world(_?size)?|(n|num)_?(ranks|replicas|procs|processes|gpus)|get_world_size", re.IGNORECASE
)
"""Names of the number of ranks."""

VARIABLE = "WORLD_SIZE"
"""The environment variable that launchers set."""

KEEPS = ("int", "float", "max")
"""Calls that give the number that they are given."""


def names_of_rank_counts(tree: ast.Module) -> frozenset[str]:
    """Names that the program gives to the number of ranks, whatever they are."""
    assigned = [each for each in ast.walk(tree) if isinstance(each, ast.Assign)]
    return frozenset(
        target.id
        for each in assigned
        for target, value in _pairs(each)
        if isinstance(target, ast.Name) and counts_ranks(value, frozenset())
    )


def counts_ranks(expression: ast.expr, named: frozenset[str]) -> bool:
    """Whether an expression is the number of ranks, or a product with it.

    `named`: see `names_of_rank_counts`.
    """
    match expression:
        case ast.BinOp(op=ast.Mult()):
            return any(counts_ranks(each, named) for each in (expression.left, expression.right))
        case ast.Subscript(slice=ast.Constant(value=key)):
            return key == VARIABLE
        case ast.Call(func=called, args=[ast.Constant(value=key), *_]) if key == VARIABLE:
            return last_name(called) in ("get", "getenv")
        case ast.Call(func=ast.Name(id=name)) if name in KEEPS:
            return any(counts_ranks(each, named) for each in expression.args)
    name = last_name(expression.func if isinstance(expression, ast.Call) else expression)
    return name in named or OF_RANKS.fullmatch(name) is not None


def _pairs(assigned: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What is assigned, and to what."""
    for target in assigned.targets:
        if isinstance(target, ast.Tuple) and isinstance(assigned.value, ast.Tuple):
            yield from zip(target.elts, assigned.value.elts, strict=False)
        else:
            yield target, assigned.value
