"""Modules that drop: called by a function's name, or set to eval mode for good."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradscope.analysis.report import inspect
from tests.analysis.rules.test_snippets import recorded

CALLED_BY_NAME = """
class Adapter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.drops = torch.nn.ModuleDict({"one": torch.nn.Dropout(0.5)})
        self.a = torch.nn.Linear(4, 4)

    def forward(self, x):
        a, dropout = self.a, self.drops["one"]
        return a(dropout(x))

net = Adapter()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    net(torch.ones(3, 4)).pow(2).mean().backward()
    optimizer.step()
net.eval()
net(torch.ones(3, 4)).sum()
"""


def test_a_module_called_dropout_is_no_function_that_always_drops(tmp_path: Path) -> None:
    report = inspect(recorded(CALLED_BY_NAME, tmp_path), rules=["GS513"])

    assert report.checked == ("GS513",)
    assert [each.message for each in report.findings] == []


FROZEN = """
class Coder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.1))

    def encode(self, x):
        return self.net(x)

coder, other = Coder(), Coder()
x = torch.ones(5, 3)
optimizer = torch.optim.SGD(coder.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    coder.encode(x).pow(2).mean().backward()
    optimizer.step()
coder.requires_grad_(False).eval()
optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
coded = coder.encode(x)
for _ in range(2):
    optimizer.zero_grad()
    other.encode(coded).pow(2).mean().backward()
    optimizer.step()
"""


def test_a_model_that_stays_in_eval_mode_is_not_the_one_that_trains(tmp_path: Path) -> None:
    """As an autoencoder's, whose methods alone are called, while a diffusion model learns."""
    report = inspect(recorded(FROZEN, tmp_path), rules=["GS511"])

    assert report.checked == ("GS511",)
    assert [each.message for each in report.findings] == []


TEACHER = """
teacher = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Dropout(0.5))
class Both(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.student = torch.nn.Linear(2, 3)

    def forward(self, x):
        with torch.no_grad():
            wanted = teacher(x)
        return (self.student(x) - wanted).pow(2).mean()

x, both = torch.ones(4, 2), Both()
teacher.requires_grad_(False).eval()
teacher(x)
{}
optimizer = torch.optim.SGD(both.student.parameters(), lr=0.1)
for _ in range(2):
    both.train()
    optimizer.zero_grad()
    both(x).backward()
    optimizer.step()
"""


@pytest.mark.parametrize("after", ["", "teacher.train()"])
def test_a_part_that_train_does_not_reach_or_that_was_set_back_is_not_undone(
    after: str, tmp_path: Path
) -> None:
    report = inspect(recorded(TEACHER.format(after), tmp_path), rules=["GS520"])

    assert report.checked == ("GS520",)
    assert [each.message for each in report.findings] == []
