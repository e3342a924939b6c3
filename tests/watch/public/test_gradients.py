"""What hooks show of gradients, and that the program computes as it does alone."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from gradscope.record.recording import Options, Recording
from gradscope.trace.schema import Accumulate, BufferAdded, Place, Storage, Unreached, Value
from gradscope.trace.schema.events import Accumulation
from gradscope.trace.schema.tables import Node, Tensor
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from gradscope.trace.writer import MemoryWriter

pytestmark = pytest.mark.torch


def recorded(program: Any, level: str = "engine") -> tuple[Any, Trace]:
    """What a program returns, and its trace, without machine code."""
    from gradscope.record.from_pytorch.pytorch_engine import PyTorch

    recording = Recording(MemoryWriter(), Options(level=level, native=False), PyTorch())
    with recording:
        result = program()
    trace = recording.trace()
    assert trace.notes == ()
    assert check(trace) == []
    return result, trace


def summed() -> int:
    """Three gradients arrive at one node; returns how often PyTorch added in place."""
    import torch

    x = torch.ones(3, 4, requires_grad=True)
    h = x.exp()
    versions: list[int] = []
    assert h.grad_fn is not None
    h.grad_fn.register_prehook(lambda grads: versions.append(grads[0]._version))
    ((h * 2).sum() + (h * 3).sum() + (h * 4).sum()).backward()
    return versions[0]


@pytest.mark.parametrize("level", ["engine", "values"])
def test_gradients_are_added_in_place_as_unwatched(level: str) -> None:
    seen, trace = recorded(summed, level)
    added = [row.in_place for row in trace.rows(BufferAdded)]

    assert seen == summed() == sum(added)
    assert len(added) == 2


def test_additions_with_a_graph_are_not_in_place_although_addresses_are_used_again() -> None:
    import torch

    def program() -> None:
        x = torch.ones(2, requires_grad=True)
        (x * 2 + x * 3 + x * 4 + x * 5).sum().backward(create_graph=True)
        x.grad = None

    _, trace = recorded(program)
    assert [row.in_place for row in trace.rows(BufferAdded)] == [False] * 3


def test_how_a_leaf_accumulates_is_seen_where_a_hook_takes_the_gradient_away() -> None:
    import torch

    def program() -> list[int]:
        moved: list[int] = []
        x = torch.ones(3, requires_grad=True)
        (x * 2).sum().backward()
        (x * 2).sum().backward()
        (x * 2).sum().backward(create_graph=True)
        taken = torch.ones(3, requires_grad=True)

        def take(leaf: Any) -> None:
            moved.append(leaf.grad.data_ptr())
            leaf.grad = None

        taken.register_post_accumulate_grad_hook(take)
        grad = torch.full((3,), 5.0)
        torch.autograd.backward([taken.view(3)], [grad])
        return [int(moved[0] == grad.data_ptr())]

    seen, trace = recorded(program)
    assert seen == program()
    assert [row.how for row in trace.rows(Accumulate)] == [
        Accumulation.STOLEN,
        Accumulation.IN_PLACE,
        Accumulation.OUT_OF_PLACE,
        Accumulation.STOLEN if seen[0] else Accumulation.CLONED,
    ]


def test_the_values_of_a_sum_that_a_hook_replaces_are_not_those_of_the_replacement() -> None:
    import torch

    def program() -> list[float]:
        x = torch.ones(2, requires_grad=True)
        h = x * 1
        h.register_hook(lambda grad: grad * 10)
        (h * 2 + h * 3).sum().backward()
        assert x.grad is not None
        return x.grad.tolist()

    seen, trace = recorded(program, "values")
    assert seen == program() == [50.0, 50.0]
    assert [row.in_place for row in trace.rows(BufferAdded)] == [True]
    assert not any(row.place == Place.BUFFER for row in trace.rows(Value))


HOOKS: list[Any] = [
    lambda h, hook: h.register_hook(lambda grad: hook(grad, grad * 10, grad.reshape(-1)[:1])),
    lambda h, hook: h.grad_fn.register_prehook(
        lambda grads: hook(grads[0], (grads[0] * 10,), [*grads])
    ),
]


@pytest.mark.parametrize("register", HOOKS, ids=["of a tensor", "of a node"])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("many", [2, 3])
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_sum_that_a_hook_replaces_or_refuses_was_added_as_the_hook_saw_it(
    register: Any,
    fails: bool,
    many: int,
    create_graph: bool,
) -> None:
    import torch

    def program() -> list[int]:
        versions: list[int] = []

        def hook(grad: Any, replaces: Any, is_refused: Any) -> Any:
            versions.append(grad._version)
            return is_refused if fails else replaces

        x = torch.ones(2, 2, requires_grad=True)
        h = x * 1
        register(h, hook)
        added = sum((h * n for n in range(2, many + 1)), h * 1)
        with suppress(RuntimeError, TypeError):
            added.sum().backward(create_graph=create_graph)
        x.grad = None
        return versions

    seen, trace = recorded(program)
    in_place = [row.in_place for row in trace.rows(BufferAdded)]
    assert seen == program() == [0 if create_graph else many - 1]
    assert in_place == [not create_graph] * (many - 1)


def test_values_of_gradients_leaves_and_saved_results_are_measured() -> None:
    import torch

    def program() -> None:
        x = torch.tensor([-1.0, 4.0], requires_grad=True)
        x.sqrt().sum().backward()

    _, trace = recorded(program, "values")
    values = trace.table(Value)
    nan = Counter(Place(each) for each in values["place"][values["nan"] > 0].tolist())
    assert nan[Place.OP_OUTPUT] == 2  # of sqrt, which saves it, and of sum, the root
    assert nan[Place.NODE_OUTPUT] == nan[Place.GRAD] == 1
    assert Place.LEAF not in nan


def test_what_was_written_to_later_is_not_taken_for_the_result_of_a_call() -> None:
    import torch

    def program() -> None:
        x = torch.ones(2, requires_grad=True)
        h = x.exp()
        with torch.no_grad():
            h.detach().zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            h.sum().backward()

    _, trace = recorded(program, "values")
    values = trace.table(Value)
    results = values["min"][values["place"] == Place.OP_OUTPUT]
    assert results.tolist() == [0.0]  # of sum only


def test_the_end_of_nodes_and_storages_is_seen_and_nothing_is_held() -> None:
    import torch

    def program() -> None:
        x = torch.ones(1 << 17, requires_grad=True)
        for _ in range(2):
            (x.exp() * 2).sum().backward()
        x.sin().cos()
        kept.append(x.tan())

    kept: list[Any] = []
    _, trace = recorded(program)
    nodes = trace.table(Node)
    ended = nodes["died"] >= 0
    names = Counter(trace.texts(nodes["name"][ended]))
    assert names == {"ExpBackward0": 2, "MulBackward0": 2, "SumBackward0": 2, "AccumulateGrad": 2}
    assert (nodes["died"][ended] >= nodes["t"][ended]).all()
    unreached = trace.table(Unreached)
    assert unreached["many"][unreached["died"] >= 0].sum() >= 2
    assert (trace.table(Storage)["freed"] >= 0).any()


@pytest.mark.filterwarnings("error")
def test_a_leaf_that_is_a_leaf_no_more_is_left_alone() -> None:
    """PyTorch warns when its gradient is read."""
    import torch

    def program() -> list[float]:
        x = torch.ones(2, requires_grad=True)
        y = (x * 3).sum()
        x.requires_grad_(requires_grad=False)
        x.mul_(torch.ones(2, requires_grad=True))
        with pytest.raises(RuntimeError, match="moved into the graph interior") as raised:
            y.backward()
        return [len(str(raised.value))]

    seen, trace = recorded(program)
    assert seen == program()
    assert len(trace.table(Accumulate)) == 0


def test_a_sum_for_a_leaf_that_is_also_a_root_has_both_parts() -> None:
    import torch

    def program() -> None:
        x = torch.tensor(3.0, requires_grad=True)
        torch.autograd.backward([x * 5, x])

    _, trace = recorded(program, "values")
    seen = {(row.place, row.max) for row in trace.rows(Value)}
    assert {(Place.NODE_OUTPUT, 5), (Place.BUFFER, 6), (Place.GRAD, 6)} <= seen


@pytest.mark.parametrize("native", [True, False])
def test_variables_of_a_function_of_the_program_end_with_its_call(native: bool) -> None:
    """They may hold nodes: a later graph would get the same node of a leaf, with its hooks."""
    import torch

    from gradscope.record.from_pytorch.pytorch_engine import PyTorch

    ended: list[bool] = []

    def once(x: Any) -> weakref.ref[Any]:
        y = (x * 2).sum()
        y.backward()
        return weakref.ref(y)

    gc.disable()
    try:
        with Recording(MemoryWriter(), Options(native=native), PyTorch()):
            ended.append(once(torch.ones(3, requires_grad=True))() is None)
    finally:
        gc.enable()
    assert ended == [True]


@pytest.mark.parametrize("native", [True, False])
def test_a_gradient_added_with_a_graph_is_measured(native: bool) -> None:
    import torch

    from gradscope.record.from_pytorch.pytorch_engine import PyTorch

    recording = Recording(MemoryWriter(), Options(level="values", native=native), PyTorch())
    with recording:
        x = torch.ones(3, requires_grad=True)
        for _ in range(3):
            x.sum().backward(create_graph=True)
        x.grad = None  # it may refer to the graph

    values = recording.trace().rows(Value)
    assert [row.max for row in values if row.place == Place.GRAD] == [1, 2, 3]


def test_data_of_a_view_whose_node_is_refused_is_no_fault() -> None:
    import torch

    class Written(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.mark_dirty(x)
            return x.add_(1), y * 2

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            return first, second

    def program() -> str:
        views = (torch.ones(3, 3, requires_grad=True) * 1).unbind(0)
        with pytest.raises(RuntimeError):  # which may not be done to a view
            Written.apply(views[0], torch.ones(()))
        views[0].data.mul_(0.5)
        with pytest.raises(RuntimeError) as refused:
            views[0].grad_fn  # noqa: B018
        return str(refused.value)[:20]

    seen, trace = recorded(program)
    assert seen == program()
    assert not trace.meta.get("unseen")


@pytest.mark.parametrize("native", [True, False])
def test_a_view_that_gets_its_node_inside_a_write_has_its_own_shape(native: bool) -> None:
    import torch

    from gradscope.record.from_pytorch.pytorch_engine import PyTorch

    recording = Recording(MemoryWriter(), Options(level="engine", native=native), PyTorch())
    with recording:
        written = torch.ones(3, 4, requires_grad=True).clone().view_as(torch.ones(3, 4))
        written[1:] *= 2
        written.sum().backward()

    trace = recording.trace()
    shapes = {row.id: row.shape for row in trace.rows(Tensor)}
    viewed = [row for row in trace.rows(Node) if row.name == "AsStridedBackward0"]
    assert sorted(shapes[row.inputs[0]] for row in viewed) == [(2, 4), (3, 4)]
