"""Modules that learn their shape while they are watched."""

from __future__ import annotations

import gradscope
import gradscope.runtime as torch
from gradscope.runtime import nn
from gradscope.trace.schema import Module
from gradscope.trace.spec import check


def test_a_watched_lazy_module_learns_its_shape() -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())

    with gradscope.record(level="values") as recording:
        model(torch.ones(2, 4)).sum().backward()

    trace = recording.trace()
    assert check(trace) == []
    assert model[0].weight.grad.shape == (3, 4)
    assert trace.table(Module).texts("path") == ["", "0", "1"]
