"""`gradscope trace --on torch script.py`: a script with its own PyTorch, unedited."""

from __future__ import annotations

import pytest

from gradscope.trace.schema import GraphTask, Node, Step
from tests.record.running import House, Ran

pytestmark = pytest.mark.torch

SCRIPT = """
import sys
import torch

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
print(torch.__name__, any(name.startswith("gradscope.runtime") for name in sys.modules))
sys.exit(3)
"""


def test_a_script_runs_on_its_own_pytorch_and_is_recorded(house: House) -> None:
    house.write(SCRIPT)

    ran = house.python("-m", "gradscope", "trace", "--on", "torch", "script.py")
    trace = house.recorded()

    assert (ran.code, ran.out) == (3, "torch False\n")
    assert trace.meta["producer"] == "pytorch"
    assert len(trace.table(GraphTask)) == 3
    assert len(trace.table(Step)) == 4
    assert {trace.site(stack) for stack in trace.table(Node)["stack"].tolist()} == {"script.py:9"}


def test_a_level_that_pytorch_does_not_have_is_refused_and_nothing_is_written(house: House) -> None:
    house.write(SCRIPT)

    ran = house.gradscope("trace", "--on", "torch", "--level", "values", "script.py")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("gradscope: error: level values cannot be recorded of PyTorch yet")
    assert [path.name for path in house.folder.iterdir()] == ["script.py"]


def test_record_watches_the_pytorch_that_a_program_has_imported(house: House) -> None:
    house.write(
        """
import gradscope
import torch

with gradscope.record("trace.json"):
    torch.ones(2, requires_grad=True).exp().sum().backward()
"""
    )

    assert house.python("script.py") == Ran(0, "", "")
    trace = house.recorded()
    names = trace.texts(trace.table(Node)["name"])
    assert sorted(names) == ["AccumulateGrad", "ExpBackward0", "SumBackward0"]
    assert trace.meta["producer"] == "pytorch"
