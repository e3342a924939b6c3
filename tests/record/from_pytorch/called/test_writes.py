"""Writes in place, with and without a node: to which tensor, at which version, on which line."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gradscope.analysis.identity.sites import site_of
from gradscope.record.from_pytorch.called import in_place
from gradscope.trace.schema import NONE, Node, Op, Saved, Tensor, Version
from gradscope.trace.trace import Trace
from tests.record.from_pytorch.called.test_calls import flush
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
    assert ops["add_"].inputs == ops["mul_"].inputs[:1] == ops["mul_"].outputs == (y,)
    (two,) = ops["mul_"].inputs[1:]  # which its node keeps
    assert trace.table(Tensor).row(two).shape == ()
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


def test_a_write_that_made_no_node_counts_among_those_that_did() -> None:
    import torch

    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        y = x * 1
        with torch.no_grad():
            y.mul_(2)
        y.add_(1)
        (y * y).sum().backward()

    _, trace = watched(program)

    assert sorted(writes(trace)) == [("add_", 1, 2), ("mul_", 0, 1)]
    assert len({row.tensor for row in trace.rows(Version)}) == 1
    assert {row.version for row in trace.rows(Saved) if row.slot == "self"} == {2}
    assert "version" in trace.meta["inferred"]


def test_a_write_is_to_the_tensor_and_not_to_a_view_of_it_that_a_node_kept_first() -> None:
    import torch

    def program() -> None:
        w = torch.ones(3, 3, requires_grad=True)
        slots = torch.zeros(2, 3)
        loss = (w @ slots.T).sum() + (slots @ w).sum()
        slots[0] = 1.0
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            loss.backward()

    _, trace = watched(program)

    (write,) = trace.rows(Version)
    assert trace.table(Tensor).row(write.tensor).shape == (2, 3)


def test_an_update_by_hand_is_told_with_its_line_and_the_parameter_it_wrote_to() -> None:
    import torch

    w = torch.ones(3, requires_grad=True)

    def program() -> None:
        for _ in range(2):
            (w * w).sum().backward()
            with torch.no_grad():
                w.sub_(0.1 * w.grad)
                w[0] = 3.0
            w.data.copy_(torch.zeros(3))
            w.detach().clamp_(0, 1)
            torch.mul(torch.ones(3), 2, out=w.data)

    _, trace = watched(program)

    once = ("sub_", "copy_", "copy_", "clamp_", "mul")
    assert [name for name, _, _ in writes(trace)] == [*once, *once]
    counts = [(old, new) for _, old, new in writes(trace)]
    apart = (0, 1)  # `.data` has a count of its own
    assert counts == [(0, 1), (1, 2), apart, (2, 3), apart, (3, 4), (4, 5), apart, (5, 6), apart]
    (leaf,) = (row for row in trace.rows(Tensor) if row.leaf and row.requires_grad)
    assert {(row.tensor, row.storage) for row in trace.rows(Version)} == {(leaf.id, leaf.storage)}
    lines = [site_of(trace, row.stack).text for row in trace.rows(Version)]
    assert lines[:2] == ["w.sub_(0.1 * w.grad)", "w[0] = 3.0"]
    calls = [trace.table(Op).row(row.op) for row in trace.rows(Version)]
    assert all(row.inputs == row.outputs == (leaf.id,) for row in calls)
    assert all(row.begin <= row.end and row.thread != NONE for row in calls)


def test_what_a_node_keeps_was_kept_at_the_version_it_had_before_a_later_write() -> None:
    import torch

    def program() -> None:
        x = torch.ones(3, requires_grad=True)
        y = (x * 1).add_(1)
        z = y.sin()
        with torch.no_grad():
            y.zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()

    _, trace = watched(program)

    assert writes(trace) == [("add_", 0, 1), ("zero_", 1, 2)]
    assert [row.version for row in trace.rows(Saved) if row.slot == "self"] == [1]


def test_a_parameter_that_a_hook_updates_in_a_backward_was_written_by_the_hook() -> None:
    import torch

    w = torch.ones(3, requires_grad=True)

    def update(leaf: Any) -> None:
        with torch.no_grad():
            leaf -= leaf.grad

    def program() -> None:
        w.register_post_accumulate_grad_hook(update)
        (w * 2).sum().backward()
        (w * 3).sum().backward()

    _, trace = watched(program)

    assert writes(trace) == [("sub_", 0, 1), ("sub_", 1, 2)]
    assert {site_of(trace, row.stack).text for row in trace.rows(Version)} == {"leaf -= leaf.grad"}


def test_steps_of_an_optimizer_are_told_as_a_whole() -> None:
    import torch

    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.Adam([w])

    def program() -> None:
        for _ in range(2):
            (w * w).sum().backward()
            optimizer.step()
            with torch.no_grad():
                w.mul_(0.5)

    _, trace = watched(program)

    assert [name for name, _, _ in writes(trace)] == ["mul_", "mul_"]
    assert "version.OPTIMIZER" in trace.meta["absent"]


def test_several_threads_write_at_once_each_on_its_line() -> None:
    import torch

    leaves = [torch.ones(3, requires_grad=True) for _ in range(3)]

    def by_add(leaf: Any) -> None:
        leaf.data.add_(1)

    def by_mul(leaf: Any) -> None:
        leaf.data.mul_(2)

    def by_neg(leaf: Any) -> None:
        leaf.data.neg_()

    def program() -> None:
        sum((leaf * leaf).sum() for leaf in leaves).backward()
        with ThreadPoolExecutor(3) as threads:
            for _ in range(100):
                threads.map(lambda each: each[0](each[1]), zip((by_add, by_mul, by_neg), leaves))

    _, trace = watched(program)

    lines = Counter(site_of(trace, row.stack).text for row in trace.rows(Version))
    assert lines == {f"leaf.data.{write}": 100 for write in ("add_(1)", "mul_(2)", "neg_()")}
    wrote = {(row.tensor, site_of(trace, row.stack).text) for row in trace.rows(Version)}
    assert len(wrote) == 3


def test_writes_of_several_tensors_at_once_are_those_of_each() -> None:
    import torch

    v, w = torch.ones(3, requires_grad=True), torch.ones(2, requires_grad=True)

    def program() -> None:
        ((v * v).sum() + (w * w).sum()).backward()
        with torch.no_grad():
            torch._foreach_mul_([v, w], 0.5)

    _, trace = watched(program, "full")

    assert writes(trace) == [("mul_", 0, 1), ("mul_", 0, 1)]
    assert len({row.tensor for row in trace.rows(Version)}) == 2
    assert {row.node for row in trace.rows(Op) if row.name == "mul_"} == {NONE}


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


def test_a_leaf_may_die_after_python_has_emptied_the_modules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At exit, where a library holds the model longer than Python keeps the names of modules."""
    import torch

    from gradscope.watch.called.writes import TensorMemory

    tensor = torch.ones(3, requires_grad=True)
    leaf = in_place.InPlaceLeaf(tensor, 1, 1, TensorMemory(counter=1, storage=1, data=1))
    monkeypatch.setattr(in_place, "perf_counter_ns", None)

    del tensor

    assert leaf.died < in_place.ALIVE
