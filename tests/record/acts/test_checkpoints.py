"""A recompute is compared with the forward of its checkpoint: its calls, and the weights."""

from __future__ import annotations

import pytest

from gradscope.analysis.report import inspect
from tests.record.conftest import House

ENGINES = ["gradscope", pytest.param("torch", marks=pytest.mark.torch)]

BLOCK = """import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
torch.manual_seed(0)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.calls = nn.Linear(4, 4), 0

    def forward(self, x):
        self.calls += 1
        h = self.fc(x)
        {body}

block = Block()
x = torch.randn(2, 4, requires_grad=True)
checkpoint(block, x, use_reentrant=False).sum().backward()
print(x.grad.norm().item())
"""

CHANGED = """import torch
from torch.utils.checkpoint import checkpoint
torch.manual_seed(0)
fc = torch.nn.Linear(4, 4)
opt = torch.optim.SGD(fc.parameters(), lr=0.5)
x = torch.randn(2, 4)
def forward():
    return checkpoint({function}, {given}, use_reentrant=False).tanh().sum()
first, second = forward(), forward()
first.backward()
opt.step()
second.backward()
"""

HEALTHY = """import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
torch.manual_seed(0)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.norm, self.table = nn.Linear(4, 4), nn.LayerNorm(4), None

    def forward(self, x, scale=1.0):
        if self.table is None:
            self.table = torch.arange(4.0).cos()
        return x + nn.functional.dropout(self.fc(self.norm(x) * self.table), 0.5) * scale

block = Block()
opt = torch.optim.SGD(block.parameters(), lr=0.1)
for step in range(3):
    for reentrant in (True, False):
        for amp in (True, False):
            x = torch.randn(2, 4, requires_grad=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=amp):
                y = checkpoint(block, x, use_reentrant=reentrant)
                y = checkpoint(lambda y: checkpoint(block, y, use_reentrant=False) * 2, y,
                               use_reentrant=False)
                y = checkpoint(block, y, scale=0.5, use_reentrant=False)
                y = checkpoint(function=block, x=y, use_reentrant=False)
            loss = y.float().square().mean()
            if not reentrant:
                loss.backward(retain_graph=True)
            loss.backward()
            opt.step()
            opt.zero_grad()
parts = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Tanh())
checkpoint_sequential(parts, 2, x, use_reentrant=False).sum().backward()
"""


def found(house: House, engine: str, program: str) -> list[tuple[int, str]]:
    """The line and the message of each finding about a recompute."""
    house.write(program)
    house.trace("--on", engine, "script.py")
    every = inspect(house.recorded()).findings
    return [(each.site.line, each.message) for each in every if each.slug == "recompute-differs"]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("body", "line", "said"),
    [
        pytest.param(
            "return h.tanh() if self.calls % 2 else h.relu() * 2",
            14, "called tanh at script.py:14, its recompute calls relu", id="another branch",
        ),
        pytest.param(
            "return (h.exp() if self.calls % 2 else h.exp().sin()).exp()",
            14, "called exp at script.py:14, its recompute calls sin", id="one call more",
        ),
        pytest.param("return h.exp().sin() if self.calls % 2 else h.exp().exp()",
                     14, "called sin at script.py:14, its recompute calls exp", id="the last call"),
    ],
)  # fmt: skip
def test_the_call_where_a_recompute_parts_from_its_forward_is_named(
    house: House, body: str, line: int, said: str
) -> None:
    ((where, message),) = found(house, "torch", BLOCK.format(body=body))

    assert where == line
    assert said in message


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("function", ["fc", "fc.forward", "lambda x: fc(x)", "function=fc"])
def test_weights_that_change_before_the_recompute_are_named(
    house: House, engine: str, function: str
) -> None:
    ((line, message),) = found(
        house,
        engine,
        CHANGED.format(function=function, given="input=x" if "=" in function else "x"),
    )

    assert line == 8
    assert "changed after the forward of the checkpoint at script.py:8" in message


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_said_of_a_recompute_that_is_its_forward(house: House, engine: str) -> None:
    assert found(house, engine, HEALTHY) == []


@pytest.mark.torch
def test_errors_of_a_checkpointed_function_have_the_traceback_they_have_alone(house: House) -> None:
    house.write(BLOCK.format(body="return h / self.nothing"))

    alone, watched = house.python("script.py"), house.trace("--on", "torch", "script.py")

    assert "AttributeError" in alone.err
    assert "of_checkpoints.py" not in watched.err
    assert watched.err.startswith(alone.err)
