"""What libraries do in a sound program's name is no fault of the program."""

from __future__ import annotations

from pathlib import Path

from gradscope.analysis.report import inspect
from tests.analysis.rules.test_snippets import recorded

FLAT = """
class Flat(torch.nn.Module):
    def __init__(self):
        super().__init__()
        whole = torch.ones(4, requires_grad=True)
        self.params = [whole]
        self.first = torch.nn.Parameter(whole.detach()[:2])
        self.second = torch.nn.Parameter(whole.detach()[2:])

    def forward(self, x):
        return x * self.params[0]

net = Flat()
optimizer = torch.optim.SGD([net.first, net.second], lr=0.1)
for _ in range(3):
    net.params[0].grad = None
    net(torch.ones(4)).sum().backward()
    net.first.grad, net.second.grad = net.params[0].grad[:2], net.params[0].grad[2:]
    optimizer.step()
"""

SHARDED = """
class Sharded(torch.optim.SGD):
    def __init__(self, tensors, lr):
        super().__init__(tensors, lr=lr)
        self.part = torch.optim.SGD(tensors, lr=lr)

    def step(self):
        self.part.step()

w = torch.ones(3, requires_grad=True)
optimizer = Sharded([w], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    (w * 2).sum().backward()
    optimizer.step()
"""


def told(program: str, folder: Path, *rules: str) -> list[str]:
    """What these rules find."""
    report = inspect(recorded(program.lstrip(), folder), rules=rules)
    assert report.checked == rules
    return [f"{each.rule}: {each.message}" for each in report.findings]


def test_a_flat_parameter_stands_for_those_that_have_its_memory(tmp_path: Path) -> None:
    assert told(FLAT, tmp_path, "GS403", "GS411") == []


def test_an_optimizer_inside_anothers_step_does_not_step_twice(tmp_path: Path) -> None:
    assert told(SHARDED, tmp_path, "GS914") == []
