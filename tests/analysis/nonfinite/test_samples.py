"""From a NaN to the sample of the data set that it was computed from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gradscope.analysis.report import inspect
from tests.record.running import House

pytestmark = pytest.mark.torch

START = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split
torch.manual_seed(0)
rows, wanted = torch.randn(90, 4, 6), torch.randn(90, 4)
rows[31, 2] = 0
data = TensorDataset(rows, wanted)
model = nn.Sequential(nn.Linear(6, 5, bias=False), nn.Linear(5, 4, bias=False))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def learn(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BY_LENGTH = """\
    out = model(x)
    out = (out / out.norm(dim=-1, keepdim=True)).transpose(1, 2)
    learn((out.mean(2) - y).square().mean())
"""
PROGRAMS = {
    "a shuffled loader": "for x, y in DataLoader(data, 9, shuffle=True):\n" + BY_LENGTH,
    "a part of the data, and workers": "part, _ = random_split(data, [80, 10])\n"
    "for x, y in DataLoader(part, 9, sampler=range(79, -1, -1), num_workers=1):\n" + BY_LENGTH,
    "in the backward": """\
rows[31] = 0
for x, y in DataLoader(data, 9, shuffle=True):
    learn(model(x).square().sum((1, 2)).sqrt().mean())
""",
    "in the data": """\
rows[31, 2, 2] = float("nan")
for x, y in DataLoader(data, 9, shuffle=True):
    learn((model(x).mean(1) - y).square().mean())
""",
}
NOT_KNOWN = {
    "two loaders at once": """\
for (x, y), _ in zip(DataLoader(data, 9), DataLoader(data, 9, shuffle=True)):
"""
    + BY_LENGTH,
    "a mean over the samples": """\
for x, y in DataLoader(data, 9):
    out = model(x * 0).mean(0)
    learn((out / out.norm(dim=-1, keepdim=True)).sum())
""",
    "no loader": "for _ in range(2):\n    x, y = rows[27:36], wanted[27:36]\n" + BY_LENGTH,
    "samples in another order": """\
for x, y in DataLoader(data, 9):
    out = model(x).flip(0)
    learn((out / out.norm(dim=-1, keepdim=True)).mean())
""",
}


def named(folder: Path, script: str) -> list[str]:
    """The samples that findings about a NaN or Inf name."""
    house = House(folder)
    house.write(START + script)
    ran = house.trace("--on", "torch", "--level", "values", "script.py")
    assert ran.code == 0, ran.err
    found = [each.message for each in inspect(house.recorded()).findings if each.rule == "GS201"]
    assert found
    return [
        each for text in found for each in re.findall("comes from (samples? [^;]*) of the", text)
    ]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_sample_of_a_nan_is_named(program: str, tmp_path: Path) -> None:
    assert {*named(tmp_path, PROGRAMS[program])} == {"sample 31"}


@pytest.mark.parametrize("program", NOT_KNOWN)
def test_where_the_sample_is_not_known_none_is_named(program: str, tmp_path: Path) -> None:
    assert named(tmp_path, NOT_KNOWN[program]) == []
