"""Weights that two modules share, or no longer share."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.analysis.report import inspect
from tests.analysis.rules.test_snippets import recorded

TIED = """
model = torch.nn.Module()
model.embed, model.head = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5)
model.head.weight = model.embed.weight
{}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    model.head(model.embed(torch.arange(5))).pow(2).mean().backward()
    optimizer.step()
"""
BOTH = "model.embed, model.head = torch.nn.Embedding(9, 3), torch.nn.Linear(3, 9)"
ANOTHER = "model.embed, model.head = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 7)"
ONE = "model.head = torch.nn.Linear(3, 5)"


@pytest.mark.parametrize(("replaced", "found"), [("", 0), (ONE, 0), (ANOTHER, 0), (BOTH, 1)])
def test_a_tie_is_lost_where_both_sides_are_replaced_by_like_ones(
    replaced: str, found: int, tmp_path: Path
) -> None:
    report = inspect(recorded(TIED.format(replaced), tmp_path), rules=["GS920"])

    assert report.checked == ("GS920",)
    assert len(report.findings) == found
