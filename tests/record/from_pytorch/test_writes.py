"""Writes in place, as far as nodes tell of them: to which tensor, at which version."""

from __future__ import annotations

from typing import Any

import pytest

from gradscope.trace.schema import NONE, Node, Op, Saved, Tensor, Version
from gradscope.trace.trace import Trace
from tests.record.from_pytorch.test_calls import flush
from tests.record.from_pytorch.watching import watched

pytestmark = pytest.mark.torch


def writes(trace: Trace) -> list[tuple[str, int, int]]:
    """The call of each write, and the versions before and after."""
    names = {row.id: row.name for row in trace.rows(Op)}
    return [(names[row.op], row.old, row.new) for row in trace.rows(Version)]


def test_a_write_is_to_its_first_input_and_its_result_is_that_tensor() -> None:
    import torch

    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        y = (x * 1).add_(1)
        y.mul_(2)
        (y * y).sum().backward()

    _, trace = watched(program)

    assert writes(trace) == [("add_", 0, 1), ("mul_", 1, 2)]
    ops = {row.name: row for row in trace.rows(Op)}
    (y,) = ops["add_"].outputs
    assert ops["add_"].inputs == ops["mul_"].inputs == ops["mul_"].outputs == (y,)
    assert {row.tensor for row in trace.rows(Version)} == {y}
    tensor = trace.table(Tensor).row(y)
    assert {row.storage for row in trace.rows(Version)} == {tensor.storage}
    assert tensor.storage != NONE
    nodes = {row.name: row.id for row in trace.rows(Node)}
    kept = [(row.slot, row.version) for row in trace.rows(Saved) if row.tensor == y]
    assert kept == [("other", 2), ("self", 2)]
    assert trace.table(Node).row(nodes["AddBackward0"]).inputs == (y,)


def test_a_write_through_a_view_is_to_the_tensor_that_is_viewed() -> None:
    import torch

    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        y = x * 1
        y[0].mul_(2)
        y.exp().sum().backward()

    _, trace = watched(program)

    (write,) = trace.rows(Version)
    ops = {row.name: row for row in trace.rows(Op)}
    assert write.tensor == ops["exp"].inputs[0]
    assert trace.table(Op).row(write.op).name == "mul_"


def test_what_was_written_to_is_the_same_tensor_in_a_later_backward() -> None:
    import torch

    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        y = (x * 1).add_(1)
        y.sum().backward(retain_graph=True)
        flush()
        y.sin().sum().backward()

    _, trace = watched(program)

    ops = {row.name: row for row in trace.rows(Op)}
    assert ops["sin"].inputs == ops["add_"].outputs == ops["mul"].outputs
    tensors = set(trace.table(Tensor)["id"].tolist())
    assert all(set(row.inputs) <= tensors for row in trace.rows(Op))


def test_versions_are_not_said_where_a_write_that_made_no_node_was_among_them() -> None:
    import torch

    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        y = x * 1
        with torch.no_grad():
            y.mul_(2)
        y.add_(1)
        (y * y).sum().backward()

    _, trace = watched(program)

    assert writes(trace) == [("add_", NONE, NONE)]
    assert {"version", "saved.version"} <= set(trace.meta["inferred"])


def test_what_starts_without_history_is_a_tensor_of_its_own_once_it_is_written() -> None:
    import torch

    def program() -> Any:
        x = torch.ones(3, requires_grad=True)
        buffer = torch.zeros(3)
        buffer.add_(x)
        buffer.sum().backward()
        return x.grad

    _, trace = watched(program)

    assert writes(trace) == []
    assert [row.outputs for row in trace.rows(Op) if row.name == "sum"] != []
