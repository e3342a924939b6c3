"""Where numbers stopped being finite is told at level `engine`, alike on both engines."""

from __future__ import annotations

import pytest

from gradscope.trace.schema import Tensor
from tests.record.running import House
from tests.shared.acts import acts, all_said, said

SCRIPT = """\
import torch

w = torch.ones(2, requires_grad=True)
masked = torch.tensor([0.0, float("-inf")], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
other = torch.optim.SGD([masked], lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    loss = (w * (step - 6)).sum().log() if step == 6 else w.sum()
    loss.backward()
    found = torch.nn.utils.clip_grad_norm_([w], 1.0)
    optimizer.step()
    print(f"{loss:.1f}", loss.item(), loss.detach().tolist(), float(loss))
    print(loss)
masked.sum().backward()
other.step()
"""

NAN, INF = {"value": "NaN"}, {"value": "Inf"}
READ = {"what": "read", "history": True, **INF}
EXPECTED = [
    (6, 11, {"what": "read", "by": "clip_grad_norm_", **NAN}, []),
    (6, 12, {"what": "parameters", "when": "step", "many": 1, **NAN}, ["w"]),
    (6, 12, {"what": "gradients", "when": "step", "many": 1, **NAN}, ["w"]),
    (7, 13, {"by": "format", **READ}, []),
    (7, 13, {"by": "item", **READ}, []),
    (7, 13, {"by": "tolist", "what": "read", **INF}, []),
    (7, 13, {"by": "float", **READ}, []),  # behind the warning, which comes once
    (7, 14, {"by": "repr", **READ}, []),
    (8, 0, {"what": "parameters", "when": "before", "many": 1, **INF}, ["masked"]),
]


@pytest.mark.parametrize("engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)])
def test_it_is_told_where_it_was_seen_first(house: House, engine: str) -> None:
    house.write(SCRIPT)

    ran = house.trace("--on", engine, "script.py")

    assert house.violations() == []
    assert ran.out.splitlines()[1] == "tensor(2., grad_fn=<SumBackward0>)"
    trace = house.recorded()
    tensors = trace.table(Tensor)
    assert [
        (
            row.step,
            int(trace.site(row.stack).rpartition(":")[2] or 0),
            {name: value for name, value in said(trace, row).items() if value and name != "made"},
            [tensors.row(each).name for each in row.tensors],
        )
        for row in acts(trace, "not_finite")
    ] == EXPECTED


def test_a_few_steps_of_each_optimizer_are_looked_at_closely(house: House) -> None:
    house.write(
        """\
import torch

w = torch.tensor([[3.0, 4.0]], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.5)
for _ in range(17):
    optimizer.zero_grad()
    (w * 2).sum().backward()
    optimizer.step()
"""
    )

    house.trace("--on", "gradscope", "script.py")

    steps = all_said(house.recorded(), "step")
    looked = [number for number, facts in enumerate(steps, start=1) if "moved" in facts]
    assert looked == [1, 2, 3, 4, 8, 16]
    assert steps[0] == {
        "lr": (0.5,), "none": 0, "many": 1, "moved": (1.414,), "size": (5.0,), "grad": (2.828,),
    }  # fmt: skip


@pytest.mark.parametrize("engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)])
def test_parameters_that_were_given_other_memory_or_none_are_left_alone(
    house: House, engine: str
) -> None:
    house.write(
        """\
import torch

w, v = (torch.ones(2, 2, requires_grad=True) for _ in range(2))
optimizer = torch.optim.SGD([w, v], lr=0.1)
for step in range(6):
    if step == 5:
        v.data = torch.empty(0)
        w.data = w.data.double()
        w.grad = w.grad.double()
        v.grad = None
    else:
        optimizer.zero_grad()
        (w.sum() + v.sum()).backward()
    optimizer.step()
print("over")
"""
    )

    ran = house.trace("--on", engine, "script.py")

    assert (ran.out, ran.code) == ("over\n", 0)
    assert acts(house.recorded(), "not_finite") == []
