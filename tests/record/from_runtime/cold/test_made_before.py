"""A recording that begins when the graph is already there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gradscope
import gradscope.runtime as torch
from gradscope.trace.schema import GraphTask, NodeBegin
from gradscope.trace.spec import check

MADE: dict[str, Callable[[Any], Any]] = {
    "a product": lambda x: (x * 2).sum(),
    "what keeps its result": lambda x: x.tanh().exp().sum(),
    "a view": lambda x: (x * 2).reshape(3, 1).sum(),
    "a write": lambda x: (x * 2).add_(x).sum(),
}


@pytest.mark.parametrize("name", MADE)
def test_a_backward_through_what_was_made_before_keeps_every_rule(name: str) -> None:
    x = torch.ones(3, requires_grad=True)
    loss = MADE[name](x)

    with gradscope.record() as recording:
        loss.backward()

    trace = recording.trace()
    assert check(trace) == []
    assert len(list(trace.events(NodeBegin))) >= 3


@pytest.mark.parametrize("name", MADE)
def test_a_graph_half_made_before_keeps_every_rule(name: str) -> None:
    x = torch.ones(3, requires_grad=True)
    loss = MADE[name](x)

    with gradscope.record() as recording:
        (loss * loss).backward()

    assert check(recording.trace()) == []


def test_a_hook_may_begin_a_recording_and_another_one_end_it() -> None:
    x = torch.ones(3, requires_grad=True)
    recording = gradscope.record()
    first, last = x * 2, x * 4
    first.register_hook(lambda _: recording.start() and None)
    last.register_hook(lambda _: recording.stop())

    (first.tanh() + 1).sum().backward()
    (x * 3).sum().backward()
    (last.tanh() + 1).sum().backward()

    trace = recording.trace()
    assert check(trace) == []
    assert len(trace.table(GraphTask)) == 2
