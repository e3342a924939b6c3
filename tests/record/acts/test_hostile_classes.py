"""What a program's classes say of themselves is never asked: they may raise, or do work."""

from __future__ import annotations

import pytest

from gradscope.trace.schema import Module, Node
from tests.record.running import House

PROGRAM = """\
import torch
from torch import nn

class Unasked:
    def refuse(self, *given):
        nn.Linear(1, 1)  # of which nobody is to be told
        raise RuntimeError("somebody asked")

    __eq__ = __ne__ = __hash__ = __bool__ = __len__ = __repr__ = refuse
    shown = property(refuse)

class Net(Unasked, nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = []
        self.first = nn.Linear(2, 2)

    def __getattr__(self, name):
        if name in self.__dict__["_modules"]:
            return self.__dict__["_modules"][name]
        return self.refuse()

    def forward(self, given):
        return self.first(given).relu()

class Steps(Unasked, torch.optim.SGD):
    def __getattr__(self, name):
        if name in ("grad_scale", "found_inf"):  # PyTorch asks
            raise AttributeError(name)
        return self.refuse()

class Marked(torch.Tensor):
    __len__ = __repr__ = __bool__ = Unasked.refuse

    def __getattr__(self, name):
        raise RuntimeError(name)

torch.manual_seed(0)
net = Net()
net.kept.append(nn.Linear(2, 2))
optimizer = Steps(net.first.parameters(), lr=0.1)
for step in range(3):
    given = torch.ones(3, 2).as_subclass(Marked)
    loss = net(given).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), net.first.weight.grad.abs().sum().item())
"""


@pytest.mark.torch
@pytest.mark.parametrize("level", ["graph", "engine", "values"])
def test_a_program_whose_classes_answer_nothing_runs_as_alone(house: House, level: str) -> None:
    house.write(PROGRAM)
    alone = house.python("script.py")
    traced = house.gradscope("trace", "--on", "torch", "--level", level, "script.py")
    trace = house.recorded()

    assert alone.code == 0, alone.err
    assert (traced.code, traced.out) == (0, alone.out), traced.err
    assert "fault of gradscope" not in traced.err
    assert len(trace.table(Node)) > 10
    assert {row.type for row in trace.rows(Module)} == {"Net", "Linear"}
