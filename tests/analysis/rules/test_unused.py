from __future__ import annotations

from pathlib import Path

from gradscope.analysis.report import inspect
from tests.analysis.rules.test_snippets import recorded

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
