"""`--around spike` on PyTorch: the steps around one with large gradients stay."""

from __future__ import annotations

from pathlib import Path

import pytest

import gradscope
from gradscope.trace.file.latest import ring
from gradscope.trace.load_save import load
from gradscope.trace.schema import GraphTask

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("native", [True, False])
def test_steps_around_a_spike_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, native: bool
) -> None:
    monkeypatch.setattr(ring, "RARELY", 0)
    monkeypatch.setattr(ring, "WORTH_IT", 0)
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    options = {"level": "values", "keep": 4, "around": ("spike",), "native": native}
    with gradscope.record(tmp_path / "t.json", on="torch", **options):
        for step in range(90):
            optimizer.zero_grad()
            loss = model(torch.randn(5, 4)).pow(2).mean()
            (loss * (100 if step == 30 else 1)).backward()
            optimizer.step()
    kept = {*load(tmp_path / "t.json").table(GraphTask)["step"].tolist()}

    assert {*range(27, 34)} <= kept
    assert not kept & {10, 20, 50, 60, 70, 80}
