"""`--steps` on PyTorch: what is not asked for is left alone."""

from __future__ import annotations

from typing import Any

import pytest

import gradscope
from gradscope.trace.schema import GraphTask, Span, Step
from gradscope.trace.spec import check

pytestmark = pytest.mark.torch


def in_place() -> list[Any]:
    """What stands where PyTorch is watched."""
    import torch
    import torch.fx.traceback
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    switch, made = torch.is_anomaly_enabled, torch.fx.traceback.format_stack
    acts = [torch.Tensor.add_, torch.Tensor.item, torch.Tensor.grad, torch.optim.SGD.zero_grad]
    return [torch.nn.Module.__call__, _BaseDataLoaderIter.__next__, switch, made, *acts]


def test_steps_that_are_left_out_run_on_pytorchs_own_functions_and_others_are_recorded() -> None:
    import torch

    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    usual, seen = in_place(), []
    with gradscope.record(on="torch", steps=(2, 3)) as recording:
        for _ in range(6):
            optimizer.zero_grad()
            seen.append(in_place() == usual)
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
        seen.append(in_place() == usual)

    trace = recording.trace()
    assert seen == [True, True, False, False, True, True, True]
    assert in_place() == usual
    assert trace.meta["unwanted"] == {"steps": 4}
    steps = dict(zip(*(trace.table(Step)[name].tolist() for name in ("id", "number")), strict=True))
    assert [steps[step] for step in trace.table(GraphTask)["step"].tolist()] == [2, 3]
    assert [span.name for span in trace.rows(Span) if span.name == "SGD.step"] == ["SGD.step"] * 2
    assert check(trace) == []
