"""What makes a NaN or Inf of some numbers is told, unless it is kept off that edge."""

from __future__ import annotations

import ast

from gradscope.analysis.source.risks import risks

RISKY = """\
import math, torch
def forward(self, x, a):
    d = x.sum(1).pow(-0.5)  # pow
    r = x ** 0.5  # pow
    n = x.norm(dim=1)
    x = x / n  # div
    s = a / (1 - a)  # div
    t = torch.atanh(a) + x.log()  # atanh log
    return (x - x.mean()) / (x.std() + 1e-8)  # std
"""

SOUND = """\
import math, torch
def forward(self, x, a, k):
    d = x.sum(1).clamp(min=1).pow(-0.5)
    r = (x + self.eps) ** 0.5 / math.sqrt(64)
    n = x.norm(dim=1) + 1e-6
    x = x / n / len(x) / (x.size(0) - 1)
    y = torch.log(x + 1e-9) + torch.log1p(torch.exp(-x)) + x ** 2
    z = (x * x + 1).sqrt() / k
    return 1 / (1 + torch.exp(-z))
"""


def told(text: str) -> list[tuple[int, str]]:
    return [(each.line, each.name) for each in risks(ast.parse(text))]


def test_calls_and_operators_are_told_with_their_lines() -> None:
    lines = enumerate(RISKY.splitlines(), 1)
    wanted = [(at, name) for at, line in lines for name in line.partition("  # ")[2].split()]

    assert sorted(told(RISKY)) == sorted(wanted)


def test_what_is_kept_off_the_edge_is_not() -> None:
    assert told(SOUND) == []
