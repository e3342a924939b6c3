"""Graphs without a backward: told where they are made again and again, or held together."""

from __future__ import annotations

from pathlib import Path

from gradscope.analysis.findings import Severity
from gradscope.analysis.report import inspect
from tests.analysis.rules.test_snippets import recorded

TRAINED = """
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(6, 3)

def look():
    return [model(x[i : i + 1]).item() for i in range(5)]

for _ in range(4):
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
"""


def unused(code: str, folder: Path) -> list[Severity]:
    return [each.severity for each in inspect(recorded(code, folder), rules=["GS602"]).findings]


def test_numbers_printed_after_training_are_not_told(tmp_path: Path) -> None:
    assert unused(f"{TRAINED}print(look())\n", tmp_path) == []


def test_numbers_read_in_every_round_are_a_note(tmp_path: Path) -> None:
    assert unused(f"{TRAINED}    look()\n", tmp_path) == [Severity.NOTE]


def test_graphs_held_together_after_training_are_told(tmp_path: Path) -> None:
    held = "print([float(each) for each in [model(x[i : i + 1]) for i in range(5)]])\n"

    assert unused(TRAINED + held, tmp_path) == [Severity.WARNING]
