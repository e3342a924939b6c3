"""Gradients that are small by construction, and learn all the same."""

from __future__ import annotations

from pathlib import Path

from gradscope.analysis.report import inspect
from tests.analysis.rules.test_snippets import recorded

LORA = """
class Adapted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.base = torch.nn.Linear(4, 4).requires_grad_(False)
        self.a = torch.nn.Linear(4, 2, bias=False)
        self.b = torch.nn.Linear(2, 4, bias=False)
        torch.nn.init.zeros_(self.b.weight)

    def forward(self, x):
        return self.base(x) + 0.5 * self.b(self.a(x))

net = torch.nn.Sequential(Adapted(), Adapted(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=1e-9)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.ones(3, 4)).pow(2).mean().backward()
    optimizer.step()
"""


def test_a_weight_before_one_that_begins_at_zero_has_no_vanishing_gradient(tmp_path: Path) -> None:
    report = inspect(recorded(LORA, tmp_path), rules=["GS801"])

    assert report.checked == ("GS801",)
    assert [each.message for each in report.findings] == []
