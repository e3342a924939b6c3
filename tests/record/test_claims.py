"""A trace says which kinds of events its recorder looks for: just those that it ever writes."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.record.recording import LEVELS
from gradscope.trace.schema import EVENTS, NodeBegin, ReentrantEnter, Saved
from gradscope.trace.spec import check


def nested(depth: int) -> Any:
    """A value whose backward runs another backward, `depth` deep."""

    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            assert len(ctx.saved_tensors) == 1
            if depth:
                with torch.enable_grad():
                    nested(depth - 1).backward()
            return grad

    return Nested.apply(torch.ones(1, requires_grad=True)).sum()


class Broken(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        raise KeyError


def everything() -> None:
    """Something of every kind that an engine does."""
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    z = (x * y).exp() + x * x

    def hook(grad: Any) -> None:
        torch.autograd.Variable._execution_engine.queue_callback(lambda: None)

    z.register_hook(hook)
    torch.autograd.grad(z.sum(), [y], retain_graph=True)
    z.sum().backward()
    nested(0).backward()
    with suppress(KeyError):
        Broken.apply(x).sum().backward()
    (x.to("sim:0") * 2).to("cpu").sum().backward()


@pytest.mark.parametrize("level", LEVELS)
def test_a_trace_claims_to_have_observed_what_its_recorder_writes_and_nothing_else(
    level: str,
) -> None:
    with record(level=level) as recording:
        everything()
        nested(1).backward()
    trace = recording.trace()

    written = sorted(name for name, kind in EVENTS.items() if len(trace.table(kind)))
    assert trace.meta["observed"] == written
    assert trace.meta["inferred"] == []
    assert bool(trace.table(Saved)) == (level != "graph")
    assert check(trace) == []


def test_a_backward_too_deep_for_its_thread_is_said_to_have_moved_to_another() -> None:
    with record() as recording:
        nested(62).backward()
    trace = recording.trace()

    entered = list(trace.events(ReentrantEnter))
    assert [event.depth for event in entered] == list(range(1, 63))
    assert any(event.pool for event in entered)
    for event in entered:
        threads = {begin.thread for begin in trace.events(NodeBegin, task=event.task)}
        assert len(threads) == 1
        assert event.pool == (threads != {event.thread})
    assert check(trace) == []
