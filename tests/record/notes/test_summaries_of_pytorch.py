"""Summaries of steps of PyTorch: true, and unnoticed by the program."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

import gradscope
from gradscope.record.acts.numbers.summaries import step_summaries
from gradscope.trace.schema import ParameterSummary, StepSummary
from gradscope.trace.trace import Trace

pytestmark = pytest.mark.torch


def trained() -> dict[str, Any]:
    """All that a training with modes and random numbers can notice of itself."""
    import torch
    from torch import nn
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    calls = {"function": 0, "dispatch": 0}

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
            calls["function"] += 1
            return function(*args, **(kwargs or {}))

    class Dispatched(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
            calls["dispatch"] += 1
            return function(*args, **(kwargs or {}))

    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5), nn.Linear(6, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses, norms = [], []
    for _ in range(6):
        with Functions(), Dispatched():
            optimizer.zero_grad()
            loss = model(torch.randn(4, 6)).square().sum()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        losses.append(float(loss.detach()))
        norms.append(
            [float(each.grad.norm()) for each in model.parameters() if each.grad is not None]
        )
    whole = b"".join(each.detach().numpy().tobytes() for each in model.parameters())
    return {
        "calls": calls, "losses": losses, "norms": norms, "parameters": sha256(whole).hexdigest(),
        "random": sha256(torch.get_rng_state().numpy().tobytes()).hexdigest(),
        "versions": [each._version for each in model.parameters()],
    }  # fmt: skip


@pytest.mark.parametrize("limits", [{}, {"every": 3}, {"steps": (0, 0)}, {"level": "graph"}])
def test_the_program_notices_nothing_and_its_values_are_there(
    limits: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    always = {"first": 1 << 20, "share": 1, "most": 1 << 20}
    monkeypatch.setattr(step_summaries, "PARAMETERS", always)
    alone = trained()
    with gradscope.record(on="torch", **limits) as recording:
        watched = trained()
    trace: Trace = recording.trace()
    rows = [*trace.rows(StepSummary)]

    assert watched == alone
    assert [row.loss for row in rows] == pytest.approx(alone["losses"], rel=1e-4)
    gradients = trace.table(ParameterSummary)["gradient"].reshape(6, 4)
    assert gradients.tolist() == [pytest.approx(each, rel=1e-4) for each in alone["norms"]]
    assert not trace.meta.get("unseen")
