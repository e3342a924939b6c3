"""What callbacks look at while PyTorch works: each tensor as it is then, though looked at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gradscope.trace.schema import NONE, Node, Op, Place, Value
from gradscope.trace.trace import Trace
from tests.record.from_pytorch.watching import watched

pytestmark = pytest.mark.torch


def recorded(program: Callable[[], Any]) -> Trace:
    return watched(program, "values")[1]


def results(trace: Trace) -> list[tuple[str, float]]:
    """The calls that made nodes, and the greatest number of what they returned, in order."""
    rows = sorted(trace.rows(Value), key=lambda row: row.t)
    ops = {row.id: row.name for row in trace.rows(Op)}
    return [(ops[row.op], row.max) for row in rows if row.place == Place.OP_OUTPUT]


def at_nodes(trace: Trace, place: Place) -> list[tuple[str, float]]:
    rows = sorted(trace.rows(Value), key=lambda row: row.t)
    nodes = {row.id: row.name for row in trace.rows(Node)}
    return [(nodes[row.node], row.max) for row in rows if row.place == place]


def test_a_view_shows_what_was_written_since() -> None:
    import torch

    def program() -> None:
        w = torch.full((2, 3), 1.0, requires_grad=True)
        a = w * 2
        b = a.view(3, 2)
        b.mul_(3)
        c = b.t()
        with torch.no_grad():
            c.add_(1)
        d = c.reshape(6)
        d.detach().numpy()[:] = 9
        e = d.view(2, 3)
        e.relu_()
        e.flatten().neg().sum().backward()

    assert results(recorded(program)) == [
        ("mul", 2.0), ("mul_", 6.0), ("clone", 7.0), ("_unsafe_view", 7.0), ("relu_", 9.0),
        ("view", 9.0), ("neg", -9.0), ("sum", -54.0),
    ]  # fmt: skip


def test_each_tensor_of_a_list_is_looked_at_as_what_it_is() -> None:
    import torch

    def program() -> None:
        w = torch.arange(6.0, requires_grad=True)
        low, high = torch._foreach_mul(w.split((2, 4)), [2.0, 3.0])
        (low.sum() + high.sum()).backward()

    trace = recorded(program)
    outputs = {(op.id, tensor): op.name for op in trace.rows(Op) for tensor in op.outputs}
    seen = [(outputs[row.op, row.tensor], row.max) for row in trace.rows(Value) if row.op != NONE]
    assert seen[:4] == [
        ("split_with_sizes", 1.0), ("split_with_sizes", 5.0),
        ("_foreach_mul", 2.0), ("_foreach_mul", 15.0),
    ]  # fmt: skip


def test_what_only_overlaps_is_looked_at_by_itself() -> None:
    import torch

    def program() -> None:
        w = torch.arange(4.0, requires_grad=True)
        a = w * 1
        parts = a.as_strided((2, 2), (0, 1)), a[:2], a.view(2, 2)[0], a.expand(3, 4), a.view(4, 1)
        sum(part.sum() for part in parts).backward()  # type: ignore[union-attr]

    of_views = [(name, number) for name, number in results(recorded(program)) if "sum" not in name]
    assert of_views == [
        ("mul", 3.0), ("as_strided", 1.0), ("slice", 1.0), ("view", 3.0), ("select", 1.0),
        ("expand", 3.0), ("view", 3.0),
        *[(name, number) for name, number in of_views if name == "add"],
    ]  # fmt: skip


def test_a_node_takes_what_a_hook_has_written_meanwhile() -> None:
    import torch

    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        y = x.view(3, 1)
        z = y.view(3)

        def writes(grad: Any) -> None:
            grad.numpy()[:] = 5

        y.register_hook(writes)
        (z * 1).sum().backward()

    taken = at_nodes(recorded(program), Place.NODE_INPUT)
    assert [number for _, number in taken] == [1.0, 1.0, 1.0, 5.0, 5.0]


def test_sums_of_gradients_and_what_was_added_are_seen() -> None:
    import torch

    def program() -> None:
        x = torch.full((2,), 3.0, requires_grad=True)
        y = x * 1
        (y * 2 + y * 5 + y * 7).sum().backward()
        (x * 4).sum().backward()

    trace = recorded(program)

    assert [number for _, number in at_nodes(trace, Place.BUFFER)] == [12.0, 14.0]
    returned = [n for name, n in at_nodes(trace, Place.NODE_OUTPUT) if name == "MulBackward0"]
    assert sorted(returned) == [2.0, 4.0, 5.0, 7.0, 14.0]
    assert [number for _, number in at_nodes(trace, Place.GRAD)] == [14.0, 18.0]


def test_gradients_that_were_asked_for_are_what_nodes_returned() -> None:
    import torch

    def program() -> None:
        x = torch.full((2,), 3.0, requires_grad=True)
        y = x * 2
        torch.autograd.grad((y * 5).sum(), [x, y])

    returned = at_nodes(recorded(program), Place.NODE_OUTPUT)

    assert returned == [("SumBackward0", 1.0), ("MulBackward0", 5.0), ("MulBackward0", 10.0)]


def test_no_gradient_is_kept_or_copied() -> None:
    import torch

    def program() -> Any:
        leaf = torch.ones(1000, requires_grad=True)
        seen = []
        leaf.register_hook(lambda grad: seen.append(grad.data_ptr()))
        (leaf * 2).sum().backward()
        assert leaf.grad is not None
        return leaf.grad.data_ptr() == seen[0]

    assert watched(program, "values")[0] == program() is True
