"""Sums are told with their additions in order, and where each term was computed."""

from __future__ import annotations

import ast

from gradscope.analysis.source.sums import Sum, Term, sums

SCRIPT = """\
import torch
def step(model, x, y):
    fit = model(x)
    side = model(y)
    loss = fit - 0.5 * (side * 2) + x.detach().mean()
    loss += side
    return (fit + side).mean()
def others(a, b):
    both = f(a + 1) + b
    return a + b
"""


def test_additions_are_in_the_order_in_which_they_are_done() -> None:
    assert list(sums(ast.parse(SCRIPT))) == [
        Sum(5, "-+", (Term("fit", 3, 0, 0), Term("side", 4, 0, 1), Term("", 5, 1, 1))),
        Sum(6, "+", (Term("loss", 5, 0, 0), Term("side", 4, 0, 1))),
        Sum(7, "+", (Term("fit", 3, 0, 0), Term("side", 4, 0, 1))),
    ]
