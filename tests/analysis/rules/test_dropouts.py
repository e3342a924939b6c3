"""Modules that drop, called by a name that a function might have."""

from __future__ import annotations

from pathlib import Path

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
