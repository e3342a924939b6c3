"""Level `values` says how far each step moved each parameter, on both engines."""

from __future__ import annotations

import pytest

from gradscope.trace.schema import StepAct
from tests.record.running import House
from tests.shared.forked_starts import GRADSCOPE

SCRIPT = """\
import torch

w = torch.tensor([[3.0, 4.0]], requires_grad=True)
still = torch.ones(2, requires_grad=True)
large = torch.full((2,), 3e38, requires_grad=True)
half = torch.ones(4, dtype=torch.bfloat16, requires_grad=True)
optimizer = torch.optim.SGD([w, still, large, half], lr=0.5)
for _ in range(2):
    optimizer.zero_grad()
    ((w * 2).sum() + large.sum() + half.float().sum()).backward()
    optimizer.step()
print(w.tolist())
"""


@pytest.mark.parametrize("engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)])
def test_what_a_step_added_is_told_and_nothing_changes_by_looking(
    house: House, engine: str
) -> None:
    house.write(SCRIPT)

    ran = house.trace("--on", engine, "--level", "values", "script.py")

    assert ran.out.splitlines()[0] == "[[1.0, 2.0]]"
    assert house.violations() == []
    steps = [*house.recorded().rows(StepAct)]
    # of w; without a gradient; too large to be squared; of bfloat16
    assert [repr(step.moved) for step in steps] == ["(1.414, nan, 0.0, 1.0)"] * 2
    assert [repr(step.size) for step in steps] == ["(5.0, nan, nan, 2.0)", "(3.606, nan, nan, 1.0)"]


@pytest.mark.parametrize("size", [1, 2])
def test_one_of_several_ranks_says_the_gradients_of_a_step(house: House, size: int) -> None:
    house.write(SCRIPT)

    [ran, *_] = house.run_as_ranks(size, GRADSCOPE, "trace", "-q", "--level", "values", "script.py")

    assert ran.code == 0, ran.err
    steps = [*house.recorded("trace.rank0.json" if size > 1 else "trace.json").rows(StepAct)]
    gradients = "(2.828, nan, 1.414, 2.0)" if size > 1 else "()"
    assert [repr(step.grad) for step in steps] == [gradients] * 2
