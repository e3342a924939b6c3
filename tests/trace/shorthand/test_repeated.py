"""Backwards of one form are replayed once, and get the rows that a replay of each would give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gradscope.trace.load_save import load
from gradscope.trace.schema import GraphTask
from gradscope.trace.schema.tables import Order
from gradscope.trace.shorthand.repeated import RepeatedReplays

PROGRAM = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scale = torch.ones(3, requires_grad=True)
for step in range(12):
    x = torch.randn(5, 4, requires_grad=step % 4 == 0)
    loss = (model(x) * scale.sum() + scale.mean()).square().mean()
    if step == 3:
        hook = model[0].weight.register_hook(lambda grad: grad * 2)
    if step == 6:
        hook.remove()
        loss = loss + torch.autograd.grad(loss, scale, create_graph=True)[0].sum()
    loss.backward(retain_graph=step % 3 == 2)
    if step % 3 == 2:
        loss.backward()
    if step == 8:
        try:
            loss.backward()
        except RuntimeError:
            pass
    checkpoint(model, torch.randn(2, 4), use_reentrant=False).sum().backward()
    checkpoint(model, x, use_reentrant=True).sum()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture(scope="module", params=["engine", "values"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("repeated")
    (folder / "train.py").write_text(PROGRAM)
    arguments = ("--on", "torch", "--level", request.param, "-o", "trace.json", "train.py")
    command = [sys.executable, "-m", "gradscope", "trace", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "trace.json"


def test_the_rows_are_those_of_replays_one_by_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[object] = []
    real = RepeatedReplays.takes

    def counted(self: RepeatedReplays, *arguments: object) -> object:
        found = real(self, *arguments)  # type: ignore[arg-type]
        taken.append(found)
        return found

    monkeypatch.setattr(RepeatedReplays, "takes", counted)
    repeated = load(path)
    monkeypatch.setattr(RepeatedReplays, "takes", lambda *_: None)
    one_by_one = load(path)

    forms = [each for each in taken if each is not None]
    assert len(forms) > len({id(each) for each in forms}) >= 2
    assert None in taken
    assert repeated == one_by_one
    orders = repeated.table(GraphTask)["order"].tolist()
    assert orders.count(Order.FORETOLD) >= len(forms)
