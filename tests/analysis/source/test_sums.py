"""Sums are told with their additions in order, and where each term was computed."""

from __future__ import annotations

import ast

from gradscope.analysis.source.sums import ComputedOff, Sum, Term, computed_off, sums

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


OLD_AND_NEW = """\
def update(net, seen, done):
    with torch.no_grad():
        old = net(seen).log_prob(done)
        base = net(seen).mean()
    ratio = (net(seen).log_prob(done) - old).exp()
    base = 0
    return ratio / base
def rollout(net, seen):
    with torch.no_grad():
        done = net(seen).sample()
        old = net(seen).log_prob(done)
    return net(seen).log_prob(done) - old
"""


def test_a_name_that_only_a_block_without_gradients_assigns_is_found_with_its_uses() -> None:
    assert [*computed_off(ast.parse(OLD_AND_NEW))] == [ComputedOff(3, "old", 2, (5,))]
