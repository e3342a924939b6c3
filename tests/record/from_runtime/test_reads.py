"""Who reads a saved tensor back, and when."""

from __future__ import annotations

from typing import Any

import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.trace.schema import NONE, Node, Saved, SavedUnpacked
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace


def reads(trace: Trace) -> list[tuple[str, str, int, bool]]:
    """The node, the slot, the saved tensor, and whether a backward was running."""
    saved = {row.id: row for row in trace.rows(Saved)}
    names = {row.id: row.name for row in trace.rows(Node)}
    return [
        (names[e.node], saved[e.saved].slot, saved[e.saved].tensor, e.task != NONE)
        for e in trace.events(SavedUnpacked)
    ]


def test_a_program_that_looks_at_what_a_node_saved_is_seen() -> None:
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    with record() as recording:
        z = x * y
        assert z.grad_fn._saved_other is y
        assert z.grad_fn._saved_self is x
        w = z.exp()
        assert w.grad_fn._saved_result is not None
        both = torch.where(x > 0, x, y)
        assert both.grad_fn._saved_condition is not None
    trace = recording.trace()
    tensors = {row.slot: row.tensor for row in trace.rows(Saved)}

    assert reads(trace) == [
        ("MulBackward0", "other", tensors["other"], False),
        ("MulBackward0", "self", tensors["self"], False),
        ("ExpBackward0", "result", tensors["result"], False),
        ("WhereBackward0", "condition", tensors["condition"], False),
    ]
    assert len({*tensors.values()}) == 4
    assert check(trace) == []


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, None, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, _, y = ctx.saved_tensors
        return grad * y, grad * x


def test_a_custom_function_reads_its_tensors_in_its_backward() -> None:
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    with record() as recording:
        Product.apply(x, y).sum().backward()
    trace = recording.trace()

    assert [(name, task) for name, _, _, task in reads(trace)] == [("ProductBackward", True)] * 2
    assert len({tensor for _, _, tensor, _ in reads(trace)}) == 2
    assert check(trace) == []


def test_an_unpack_hook_is_a_read_of_what_was_packed() -> None:
    x = torch.ones(2, requires_grad=True)
    with record() as recording, torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        (x * x).sin().sum().backward()
    trace = recording.trace()

    found = [(name, slot, task) for name, slot, _, task in reads(trace)]
    assert found == [
        ("SinBackward0", "self", True),
        ("MulBackward0", "other", True),
        ("MulBackward0", "self", True),
    ]
    assert check(trace) == []


def test_a_node_made_before_the_recording_is_known_by_what_is_read_of_it() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x * torch.ones(2)
    with record() as recording:
        assert y.grad_fn._saved_other is not None

    assert [(name, slot) for name, slot, _, _ in reads(recording.trace())] == [
        ("MulBackward0", "other")
    ]


def test_a_recording_of_the_graph_alone_tells_of_no_reads() -> None:
    x = torch.ones(2, requires_grad=True)
    with record(level="graph") as recording:
        assert (x * x).grad_fn._saved_self is x

    assert reads(recording.trace()) == []
