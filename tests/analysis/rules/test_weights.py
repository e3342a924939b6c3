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


WORDS = """
words, head = torch.nn.Embedding(9, 4, padding_idx=0), torch.nn.Linear(4, 1)
torch.nn.init.normal_(words.weight)
text = torch.tensor([[3, 4, 0, 0], [5, 2, 7, 0]])
vectors = words(text)
head({}).pow(2).mean().backward()
"""


@pytest.mark.parametrize(
    ("pooled", "found"),
    [("vectors.mean(1)", 1), ("(vectors * (text != 0).unsqueeze(2)).sum(1)", 0), ("vectors", 0)],
)
def test_a_filled_padding_row_is_reported_only_where_it_is_added(
    pooled: str, found: int, tmp_path: Path
) -> None:
    report = inspect(recorded(WORDS.format(pooled), tmp_path), rules=["GS921"])

    assert report.checked == ("GS921",)
    assert len(report.findings) == found


AVERAGE = """
model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4))
average = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.rand(3, 2)).pow(2).mean().backward()
    optimizer.step()
    with torch.no_grad():
        {}
average.eval()
with torch.no_grad():
    average(torch.rand(3, 2))
"""
UPDATE = "for a, p in zip(average.parameters(), model.parameters()): a.lerp_(p, 0.1)"


@pytest.mark.parametrize(
    ("update", "found"),
    [(UPDATE, 1), (f"average(torch.rand(3, 2))\n        {UPDATE}", 0), ("pass", 0)],
)
def test_statistics_are_missed_in_a_copy_that_is_updated_and_never_ran_in_training(
    update: str, found: int, tmp_path: Path
) -> None:
    report = inspect(recorded(AVERAGE.format(update), tmp_path), rules=["GS922"])

    assert report.checked == ("GS922",)
    assert len(report.findings) == found
