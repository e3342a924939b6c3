"""How many steps a recording left out: counted as every view counts steps."""

from __future__ import annotations

from typing import Any

import gradscope
import gradscope.runtime as torch
from gradscope.analysis.identity.steps import steps
from gradscope.runtime import nn
from gradscope.trace.trace import Trace


def trained(iterations: int = 5, *, evaluated: bool = True, **limits: Any) -> Trace:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradscope.record(**limits) as recording:
        for _ in range(iterations):
            optimizer.zero_grad()
            model(torch.randn(3, 4)).sum().backward()
            optimizer.step()
        if evaluated:
            model(torch.ones(1, 4))
    return recording.trace()


def counted(trace: Trace) -> tuple[int, Any, Any]:
    return len(steps(trace)), trace.meta.get("unwanted"), trace.meta.get("dropped")


def test_what_comes_after_the_last_step_is_not_counted_among_those_left_out() -> None:
    for evaluated in (True, False):
        found = [
            counted(trained(evaluated=evaluated, **limits))
            for limits in ({}, {"steps": (1, 2)}, {"steps": (0, 0)}, {"steps": (4, 9)})
        ]

        assert found == [
            (5, None, None),
            (2, {"steps": 3}, None),
            (1, {"steps": 4}, None),
            (1, {"steps": 4}, None),
        ]


def test_a_step_that_was_cut_counts_once_as_left_out_and_once_as_seen() -> None:
    trace = trained(max_events=30)

    assert counted(trace) == (1, None, {"steps": 5, "in_part": 1})
    assert trace.notes == ("dropped: 4 steps were not recorded, and 1 step was recorded in part",)


def test_a_last_backward_without_an_optimizer_is_a_step_that_was_left_out() -> None:
    w = torch.ones(2, requires_grad=True)
    with gradscope.record(steps=(7, 9)) as recording:
        (w * 2).sum().backward()

    assert counted(recording.trace()) == (0, {"steps": 1}, None)
