from __future__ import annotations

from pathlib import Path

import pytest

import gradscope.runtime
from gradscope.analysis.findings import Severity
from gradscope.analysis.report import inspect
from tests.analysis.rules.test_snippets import recorded
from tests.record.running import House

UNDEFINED = """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, None

class Side(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        return Scale.apply(x, self.weight)

net = torch.nn.Sequential(torch.nn.Linear(2, 1), Side())
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.ones(3, 2)).sum().backward()
    optimizer.step()
"""


def test_what_a_loss_is_made_of_is_not_unused_where_no_gradient_came(tmp_path: Path) -> None:
    report = inspect(recorded(UNDEFINED, tmp_path), rules=["unused"])

    assert report.checked == ("GS411",)
    assert [each.message for each in report.findings] == []


PART = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.main = torch.nn.Linear(2, 1)
        self.pooler = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Tanh())

    def forward(self, x):
        pooled = self.pooler(x)
        return self.main(x)
"""

LIBRARY = f"""
library = {{'torch': torch, '__name__': 'library'}}
exec(compile({PART!r}, FILE, "exec"), library)
net = library["Model"]()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.ones(3, 2)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("file", "severity"),
    [  # as of a library whose frames are recorded, of one whose frames are not, and of the program
        ("/usr/lib/python3/site-packages/models.py", Severity.NOTE),
        (str(Path(gradscope.runtime.__file__).with_name("models.py")), Severity.NOTE),
        ("models.py", Severity.WARNING),
    ],
    ids=["installed", "unseen", "own"],
)
def test_an_unused_part_of_a_librarys_model_is_a_note(
    file: str, severity: Severity, tmp_path: Path
) -> None:
    trace = recorded(LIBRARY.replace("FILE", repr(file)), tmp_path)
    (found,) = inspect(trace, rules=["GS411"]).findings

    assert (found.severity, found.message[:8]) == (severity, "pooler.0")


OF_SLOPES = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
slope = torch.func.vmap(torch.func.grad(lambda x: net(x).squeeze()))
for _ in range(3):
    optimizer.zero_grad()
    slope(torch.ones(4, 2)).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.torch
def test_the_last_bias_of_an_energy_is_not_said_to_be_computed_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(OF_SLOPES, encoding="utf-8")
    house = House(tmp_path)
    house.trace("--on", "torch", "script.py")

    assert [each.message for each in inspect(house.recorded(), rules=["GS411"]).findings] == []
