"""What libraries do in a sound program's name is no fault of the program."""

from __future__ import annotations

from pathlib import Path

import pytest

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


SCHEDULE = """
def step(losses):
    for loss in losses:
        loss.backward()
"""
"""What a library does, in a file that somebody installed."""

PIPELINE = f"""
library = {{}}
exec(compile({SCHEDULE!r}, "/usr/lib/python3/site-packages/schedule.py", "exec"), library)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    library["step"](model(torch.ones(3, 2)).pow(2).mean() for _ in range(4))
    optimizer.step()
    optimizer.zero_grad()
"""

UNSEEN = """
step = torch.Tensor.backward
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    for _ in range(4):
        step(model(torch.ones(3, 2)).pow(2).mean())
    optimizer.step()
    optimizer.zero_grad()
"""
"""The recorded line says nothing of a backward, as where frames of libraries are left out."""

META = """
w = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    for task in range(4):
        loss = (w * task).pow(2).mean()
        (grad,) = torch.autograd.grad(loss, [w], create_graph=True)
        ((w - 0.1 * grad) * task).pow(2).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("program", [PIPELINE, UNSEEN], ids=["installed", "unseen"])
def test_a_line_that_calls_no_backward_is_not_told_to_divide(program: str, tmp_path: Path) -> None:
    assert told(program, tmp_path, "GS508") == []


def test_losses_behind_updates_of_their_own_are_a_sum_over_tasks(tmp_path: Path) -> None:
    assert told(META, tmp_path, "GS508") == []
