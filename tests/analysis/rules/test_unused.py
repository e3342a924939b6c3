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


GATE = """
class Gate(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(2))
        self.layer = torch.nn.Linear(2, 2)
        self.never = torch.nn.Linear(2, 2)

    def forward(self, x):
        return torch.sigmoid(self.layer(x)) * self.scale.data

net = Gate()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    optimizer.zero_grad()
    net(torch.ones(3, 2)).sum().backward()
    optimizer.step()
"""


def test_each_parameter_without_a_gradient_is_named_with_the_reason_if_known(
    tmp_path: Path,
) -> None:
    cut, others = inspect(recorded(GATE, tmp_path)).findings

    assert (cut.rule, cut.site.line) == ("GS401", 10)
    assert "scale gets no gradient: .data cut the graph after it" in cut.message
    assert cut.fix == "if it should learn, write `return torch.sigmoid(self.layer(x)) * self.scale`"
    assert (others.rule, others.severity) == ("GS420", Severity.NOTE)
    assert "3 of 5 parameters of Adam" in others.message
    assert others.message.endswith(
        "had no gradient in any of 3 recorded steps: never.weight, never.bias; for the other see "
        "GS401"
    )
    assert others.why.endswith("; `never` was not called")


UPDATED = """
class Codes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.ones(2))
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        out = self.layer(x)
        self.table.data.mul_(0.9)
        return out * self.table.data

net = Codes()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    optimizer.zero_grad()
    net(torch.ones(3, 2)).sum().backward()
    optimizer.step()
"""


def test_a_parameter_that_the_forward_updates_itself_is_a_note(tmp_path: Path) -> None:
    (only,) = inspect(recorded(UPDATED, tmp_path)).findings

    assert (only.rule, only.severity) == ("GS420", Severity.NOTE)
    assert "table" in only.message


PHASES = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.one, self.two = (torch.nn.Linear(2, 2) for _ in range(3))

    def forward(self, x, head):
        return head(self.body(x))

net = Model()
optimizer = torch.optim.Adam(net.parameters())
for step in range(4):
    optimizer.zero_grad()
    net(torch.ones(3, 2), net.one if step else net.two).sum().backward()
    optimizer.step()
"""


def test_a_head_that_one_step_used_is_not_named(tmp_path: Path) -> None:
    assert inspect(recorded(PHASES, tmp_path)).findings == ()


A_PARAMETER = """
class Half(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(2))
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x)

net = Half()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    optimizer.zero_grad()
    net(torch.ones(3, 2)).sum().backward()
    optimizer.step()
"""


def test_a_parameter_that_no_call_used_is_not_said_to_be_used(tmp_path: Path) -> None:
    (only,) = inspect(recorded(A_PARAMETER, tmp_path)).findings

    assert only.rule == "GS420"
    assert ": scale" in only.message
