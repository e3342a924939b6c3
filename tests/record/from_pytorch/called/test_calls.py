"""Calls of PyTorch's: their true names and times, and how gradients are added and taken over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradscope.record.from_pytorch.called.nesting import OPEN, Nesting
from gradscope.record.process.claim import current
from gradscope.trace.schema import (
    Accumulate,
    Accumulation,
    BufferAdded,
    BufferMade,
    Decrement,
    GraphTask,
    Node,
    Op,
    Pop,
    Push,
)
from gradscope.trace.schema.tables import Order
from gradscope.trace.shortcomings import notes_of
from gradscope.trace.trace import Trace
from tests.record.from_pytorch.watching import recorded, watched

pytestmark = pytest.mark.torch


def calls(trace: Trace) -> dict[str, str]:
    """The name of the call that made each node, by the node's; only of names that occur once."""
    names = {row.id: row.name for row in trace.rows(Op)}
    return {row.name: names[row.op] for row in trace.rows(Node) if row.op in names}


def how(trace: Trace) -> list[str]:
    return [Accumulation(each).name for each in trace.table(Accumulate)["how"].tolist()]


def test_a_call_has_its_own_name_and_not_one_made_of_its_nodes() -> None:
    import torch

    def program() -> None:
        x = torch.ones(2, 2, requires_grad=True)
        y = torch.nn.functional.linear(x, x)
        y.add_(1)
        torch.stack([y, y]).sum(0).sum().backward()

    _, trace = watched(program)

    assert calls(trace) == {
        "TBackward0": "t", "MmBackward0": "mm", "AddBackward0": "add_", "StackBackward0": "stack",
        "SumBackward1": "sum", "SumBackward0": "sum",
    }  # fmt: skip
    ops, nodes = trace.table(Op), trace.table(Node)
    made = dict(zip(nodes["id"].tolist(), nodes["t"].tolist(), strict=True))
    for op in trace.rows(Op):
        assert op.begin <= made[op.node] <= op.end
    order = np.argsort(ops["begin"])
    assert (ops["end"][order][:-1] <= ops["begin"][order][1:]).all()
    assert "op.name" in trace.meta["observed"]
    assert "op.end" not in trace.meta["absent"]


def test_a_custom_function_is_a_call_from_its_forward_to_its_node() -> None:
    import torch

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    _, trace = watched(lambda: Twice.apply(torch.ones(3, requires_grad=True)).sum().backward())

    assert calls(trace) == {"TwiceBackward": "twice", "SumBackward0": "sum"}
    assert all(op.end > op.begin for op in trace.rows(Op))


def test_calls_of_threads_are_not_mixed() -> None:
    import threading

    import torch

    def work(name: str) -> None:
        x = torch.ones(3, requires_grad=True)
        for _ in range(50):
            getattr(x, name)().sum().backward()

    def program() -> None:
        threads = [threading.Thread(target=work, args=(name,)) for name in ("exp", "sin", "cos")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    _, trace = watched(program)

    assert calls(trace) == {
        "ExpBackward0": "exp", "SinBackward0": "sin", "CosBackward0": "cos", "SumBackward0": "sum",
    }  # fmt: skip
    assert len(trace.table(Op)) == 300
    assert list(notes_of(trace)) == []


@pytest.mark.filterwarnings("ignore:Using backward")  # PyTorch says it once
def test_a_gradient_is_stolen_cloned_and_added_to_as_pytorch_does_it() -> None:
    import torch

    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        (x * 2).sum().backward()  # a fresh gradient
        (x * 2).sum().backward()  # and another
        y = torch.ones(3, requires_grad=True)
        y.sum().backward()  # expanded
        z = torch.ones(3, requires_grad=True)
        for _ in range(2):
            (z * 2).sum().backward(create_graph=True)
        z.grad = None

    _, trace = watched(program)

    assert how(trace) == ["STOLEN", "IN_PLACE", "CLONED", "CLONED", "OUT_OF_PLACE"]
    assert "accumulate.how" in trace.meta["observed"]


def test_sums_are_in_place_where_pytorch_adds_in_place() -> None:
    import torch

    def program() -> list[bool]:
        x = torch.ones(3, requires_grad=True)
        y = x * 1
        (y.exp() + y.sin() + y.cos()).sum().backward()
        z = torch.ones(3, requires_grad=True)
        (z + z).sum().backward()  # expanded gradients
        return []

    _, trace = watched(program)

    # The gradient of x.cos() is there first, its memory is nobody else's; that of z is expanded.
    assert trace.table(BufferAdded)["in_place"].tolist() == [True, True, False]


def test_additions_in_hooks_are_not_taken_for_the_engines() -> None:
    import torch

    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        y = x * 1
        z = y.exp()
        node: Any = z.grad_fn
        node.register_hook(lambda results, grads: (results[0] + 1 - 1,))
        z.register_hook(lambda grad: grad.clone().add_(1))
        (z + y.sin()).sum().backward()

    _, trace = watched(program)

    assert len(trace.table(BufferAdded)) == 1
    assert how(trace) == ["STOLEN"]


def test_a_gradient_that_was_none_is_noticed_and_only_buffers_are_not_known() -> None:
    import torch

    class OnlyOne(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x + y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, None

    def program() -> Any:
        x = torch.ones(3, requires_grad=True)
        y = x * 1
        OnlyOne.apply(y, y).sum().backward()
        return x.grad

    seen, trace = recorded(program)

    assert seen.tolist() == [1, 1, 1]
    assert trace.table(GraphTask)["order"].tolist() == [Order.NOT_THE_SUMS]
    assert len(trace.table(BufferMade)) == len(trace.table(BufferAdded)) == 0
    name = {node.id: node.name for node in trace.rows(Node)}
    popped = [name[row.node] for row in trace.rows(Pop)]
    assert popped == ["SumBackward0", "OnlyOneBackward", "MulBackward0", "AccumulateGrad"]
    assert [row.node for row in trace.rows(Push)] == [row.node for row in trace.rows(Pop)]
    assert [row.remaining for row in trace.rows(Decrement)] == [0, 1, 0, 0]


def test_a_leaf_that_none_came_to_took_no_gradient() -> None:
    import torch

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return None

    def program() -> Any:
        x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        (Nothing.apply(x) + y).sum().backward()
        return x.grad

    seen, trace = recorded(program)

    assert seen is None
    assert trace.table(GraphTask)["order"].tolist() == [Order.FORETOLD]
    (taken,) = trace.events(Accumulate)
    assert taken.how == Accumulation.CLONED


def test_a_backward_that_pytorch_refuses_to_begin_is_none() -> None:
    import torch

    def program() -> list[str]:
        x, y = torch.ones(3), torch.ones(3, requires_grad=True)
        said = []
        for backward in (
            lambda: x.sum().backward(),
            lambda: torch.autograd.backward([(y * y).sum(), x.sum()]),
            lambda: torch.autograd.grad((y * y).sum(), [x]),
            lambda: (y * y).sum().backward(inputs=[x]),
        ):
            with pytest.raises(RuntimeError) as raised:
                backward()
            said.append(str(raised.value)[:20])
        return said

    unwatched = program()
    seen, trace = recorded(program)

    assert seen == unwatched
    assert list(trace.rows(GraphTask)) == []


def test_nesting_finds_what_is_around_a_moment() -> None:
    begin, end = np.array([10, 20, 30, 50, 70]), np.array([60, 40, 35, 55, OPEN])
    moments = np.array([5, 10, 15, 32, 37, 45, 52, 58, 65, 90])

    assert Nesting(begin, end).around(moments).tolist() == [-1, 0, 0, 2, 1, 0, 3, 0, -1, 4]
    assert Nesting(begin[:0], end[:0]).around(moments[:2]).tolist() == [-1, -1]


def test_calls_whose_nodes_come_too_late_are_named_by_them_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    from gradscope.record.from_pytorch.called import pytorch_calls

    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        late = x.exp().add(1)
        for _ in range(5):
            x.sin().sum().backward()
            flush()
        late.sum().backward()

    monkeypatch.setattr(pytorch_calls, "MOST_KEPT", 1)
    _, trace = watched(program)

    assert list(notes_of(trace)) == [
        "not recorded: calls that created nodes: their names are derived from those of the nodes"
    ]


def flush() -> None:
    """What the recording under way does now and then."""
    recording = current()
    assert recording is not None
    assert recording.session is not None
    recording.session.flush()


def test_calls_that_nobody_reads_are_lost_oldest_first_and_counted() -> None:
    import torch

    from gradscope.watch.called.observer import CAPACITY, STAMP, CallObserver

    observer = CallObserver()
    x = torch.ones(1, requires_grad=True)
    observer.start()
    for _ in range(CAPACITY + 10):
        x.neg()
    observer.stop()
    rows, lost = observer.read()

    assert (len(rows), lost) == (CAPACITY, 10)
    assert (np.diff(rows[:, STAMP]) == 1).all()
    assert observer.read().rows.tolist() == []
