"""Rules 10 to 16 and 36: how gradients arrive, are summed, kept and asked for."""

from __future__ import annotations

from typing import Any

import pytest

from gradscope.trace import schema
from gradscope.trace.schema.events import Accumulation
from gradscope.trace.trace import Trace
from tests.runtime.both import function, leaf, names, raises
from tests.runtime.rules.conftest import Seen
from tests.runtime.rules.looks import arrivals, edges, hooked, names_in, node_of, ran, tasks


def ones(torch: Any, *shape: int) -> Any:
    return torch.ones(*shape, dtype=torch.float64)


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.rule(10)
def test_grad_accumulates_in_place_unless_a_graph_is_made(torch: Any, seen: Seen) -> None:
    x = leaf(torch, 1.0, 2.0)
    (x * 3).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad is first
    assert first.tolist() == [6.0, 6.0]

    (x * x).sum().backward(create_graph=True)
    assert x.grad is not first
    assert (first.tolist(), x.grad.tolist()) == ([6.0, 6.0], [8.0, 10.0])

    def shows(trace: Trace) -> bool:
        how = [event.how for event in trace.events(schema.Accumulate)]
        return how == [Accumulation.STOLEN, Accumulation.IN_PLACE, Accumulation.OUT_OF_PLACE]

    seen(shows)


@pytest.mark.rule(11)
def test_the_first_gradient_is_stolen_only_when_nobody_else_holds_it_and_it_fits(
    torch: Any, seen: Seen
) -> None:
    places: list[int] = []
    kept: list[Any] = []

    def taken(x: Any, change: Any = lambda grad: grad, **how: Any) -> bool:
        """Whether `.grad` is the very memory that backward returned."""

        def backward(ctx: Any, grad: Any) -> Any:
            made = grad * 2
            places.append(made.data_ptr())
            return change(made)

        function(torch, lambda ctx, x: x * 2, backward).apply(x).sum().backward(**how)
        return bool(x.grad.data_ptr() == places[-1])

    def keep(grad: Any) -> Any:
        kept.append(grad)
        return grad

    assert taken(leaf(torch, 1.0))
    assert not taken(leaf(torch, 1.0), keep)
    assert not taken(leaf(torch, 1.0, 2.0), lambda grad: grad[:1].expand(2))
    assert not taken(
        ones(torch, 2, 3).requires_grad_(),
        lambda grad: keep(grad).t().contiguous().t(),  # kept, or its place might be taken again
    )

    held = leaf(torch, 1.0)
    held.register_hook(keep)
    assert not taken(held)

    x, y, z, seed = leaf(torch, 1.0), leaf(torch, 2.0), leaf(torch, 3.0), ones(torch, 1)
    (x + y + z).backward(seed)
    found = [x.grad.data_ptr(), y.grad.data_ptr(), z.grad.data_ptr(), seed.data_ptr()]
    assert len(set(found)) == 4

    def shows(trace: Trace) -> bool:
        return arrivals(trace) == ["STOLEN"] + ["CLONED"] * 7

    seen(shows)


@pytest.mark.rule(12)
def test_grad_lies_as_a_dense_leaf_lies_and_row_by_row_otherwise(torch: Any, seen: Seen) -> None:
    leaves = [
        ones(torch, 2, 3),
        ones(torch, 2, 3).t(),
        ones(torch, 2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        ones(torch, 4, 3)[::2],
        ones(torch, 1, 3).expand(2, 3),
    ]
    for x in leaves:
        (x.requires_grad_() * 2).sum().backward()
    strides = [x.grad.stride() for x in leaves]

    assert [x.stride() for x in leaves][:3] == strides[:3] == [(3, 1), (1, 3), (60, 1, 15, 3)]
    assert [x.stride() for x in leaves][3:] == [(6, 1), (0, 1)]
    assert strides[3:] == [(3, 1), (3, 1)]

    given = leaves[1]
    given.grad = None
    given.backward(ones(torch, 3, 2))  # laid out another way than the leaf
    assert given.grad.stride() == (1, 3)

    def shows(trace: Trace) -> bool:
        """What does not lie as its leaf should be copied; what lies so already is taken."""
        return arrivals(trace) == ["STOLEN", "CLONED", "CLONED", "STOLEN", "STOLEN", "CLONED"]

    seen(shows)


@pytest.mark.rule(13)
def test_sums_at_fan_in_never_write_into_what_others_hold(torch: Any, seen: Seen) -> None:
    seed = ones(torch, 2)
    x = leaf(torch, 1.0, 2.0)
    a, b = x * 1, x * 1
    heard: list[Any] = []
    a.register_hook(lambda grad: heard.append(("a", grad.tolist())))
    b.register_hook(lambda grad: heard.append(("b", grad.tolist())))

    torch.autograd.backward([a, a, b, a + b], [seed, seed, seed, seed])
    assert seed.tolist() == [1.0, 1.0]
    assert sorted(heard) == [("a", [3.0, 3.0]), ("b", [2.0, 2.0])]
    assert x.grad.tolist() == [5.0, 5.0]

    y, kept = x * 1, []
    first, second, third = y * 1, y * 1, y * 1
    for z in (first, second, third):
        z.grad_fn.register_hook(lambda made, given: kept.append(made[0]))
    torch.autograd.backward([first, second, third], [seed] * 3)
    assert [grad.tolist() for grad in (seed, *kept)] == [[1.0, 1.0]] * 4

    u = leaf(torch, 1.0, 2.0)
    (u * 1 + u * 2 + u * 3).sum().backward()
    assert u.grad.tolist() == [6.0, 6.0]

    def shows(trace: Trace) -> bool:
        """What only the engine holds is summed into; what arrives at a, b and y is not."""
        first: dict[tuple[int, int], bool] = {}
        for event in trace.events(schema.BufferAdded):
            first.setdefault((event.task, event.node), event.in_place)
        known = names_in(trace)
        found = [(known[node], in_place) for (_, node), in_place in first.items()]
        return sorted(found) == [("AccumulateGrad", True)] * 2 + [("MulBackward0", False)] * 3

    seen(shows)


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.rule(14)
def test_edges_without_a_gradient_keep_their_place_and_names_their_number(
    torch: Any, seen: Seen
) -> None:
    x, constant = leaf(torch, 1.0, 2.0), ones(torch, 2)
    y = constant * x
    z = torch.cat([constant, y, constant])
    z.sum().backward(create_graph=True)

    assert names(y.grad_fn) == [(None, 0), ("AccumulateGrad", 0)]
    assert names(z.grad_fn) == [(None, 0), ("MulBackward0", 0), (None, 0)]
    assert (y.grad_fn.name(), z.grad_fn.name()) == ("MulBackward0", "CatBackward0")
    assert (x * 2).grad_fn.name() == "MulBackward0"
    assert torch.where(constant > 0, x, constant).grad_fn.name() == "WhereBackward0"
    assert x.grad.grad_fn is None

    (x * x).sum().backward(create_graph=True)
    other = leaf(torch, 3.0)
    (other * other).sum().backward(create_graph=True)
    assert x.grad.grad_fn.name() == "AddBackward0"
    assert other.grad.grad_fn.name() == "torch::autograd::CopyBackwards"

    def shows(trace: Trace) -> bool:
        copy = node_of(trace, "CopyBackwards")
        return (
            edges(trace, node_of(trace, "MulBackward0")) == [(None, 0), ("AccumulateGrad", 0)]
            and edges(trace, copy) == [(None, 0), ("AddBackward0", 0)]
            and trace.table(schema.Node).row(copy).task >= 0
        )

    seen(shows)


@pytest.mark.rule(15)
def test_none_from_a_backward_stays_undefined_all_the_way_down(torch: Any, seen: Seen) -> None:
    nothing = function(torch, lambda ctx, x: x * 2, lambda ctx, grad: None)
    x = leaf(torch, 1.0, 2.0)

    nothing.apply((x * 3).exp().view(2, 1).t()).sum().backward()
    assert x.grad is None
    nothing.apply(torch.cat([x * 2, x * 3])).sum().backward()
    assert x.grad is None
    first = (x * 1).unbind()[0]
    nothing.apply(first).backward()
    assert x.grad is None
    assert torch.autograd.grad(nothing.apply(x * 1).sum(), x, allow_unused=True) == (None,)

    (nothing.apply(x * 2) + x * 5).sum().backward()  # beside a gradient it counts for nothing
    assert x.grad.tolist() == [5.0, 5.0]

    def shows(trace: Trace) -> bool:
        *_, last = tasks(trace)
        leaves = {event.node for event in trace.events(schema.Accumulate)}
        reached = [
            event.undefined
            for event in trace.events(schema.BufferMade, schema.BufferAdded)
            if event.node in leaves
        ]
        return (
            arrivals(trace) == ["STOLEN"]
            and all(event.task == last for event in trace.events(schema.Accumulate))
            and reached.count(False) == 1
            and ran(trace).count("AccumulateGrad") == 4
        )

    seen(shows)


@pytest.mark.rule(16)
def test_only_nodes_on_a_path_to_what_was_asked_for_run(torch: Any, seen: Seen) -> None:
    x, w = leaf(torch, 3.0), leaf(torch, 5.0)
    y = x.exp()
    z = y * w
    total = z.sum()
    heard: list[str] = []
    for name, tensor in (("x", x), ("y", y), ("w", w), ("z", z)):
        tensor.register_hook(lambda grad, name=name: heard.append(name))
    y.grad_fn.register_hook(lambda *grads: heard.append("y ran"))

    assert torch.autograd.grad(total, z, retain_graph=True)[0].tolist() == [1.0]
    assert heard == ["z"]
    heard.clear()
    assert torch.autograd.grad(total, y, retain_graph=True)[0].tolist() == [5.0]
    assert heard == ["z", "y"]
    heard.clear()
    assert torch.autograd.grad(total, w, retain_graph=True)[0].tolist() == y.tolist()
    assert heard == ["z", "w"]
    assert (x.grad, w.grad) == (None, None)

    def shows(trace: Trace) -> bool:
        ended = [ran(trace, task) for task in tasks(trace)]
        down = ["SumBackward0", "MulBackward0"]
        captured = [task.captured for task in trace.rows(schema.GraphTask)]
        return (
            ended == [["SumBackward0"], down, down]
            and len(list(trace.events(schema.Capture))) == 3
            and all(len(nodes) == 1 for nodes in captured)
            and "AccumulateGrad" not in ran(trace)
        )

    seen(shows)


@pytest.mark.rule(16)
def test_backward_with_inputs_fills_grad_also_of_what_is_no_leaf(torch: Any, seen: Seen) -> None:
    x, w, far = leaf(torch, 3.0), leaf(torch, 5.0), leaf(torch, 7.0)
    y = x * 2
    total = (y * w).sum()

    total.backward(inputs=[y], retain_graph=True)
    assert (y.grad.tolist(), x.grad, w.grad) == ([5.0], None, None)
    total.backward(inputs=[x], retain_graph=True)
    assert (x.grad.tolist(), w.grad) == ([10.0], None)
    total.backward(inputs=[far], retain_graph=True)
    assert far.grad is None
    assert raises(RuntimeError, lambda: total.backward(inputs=[], retain_graph=True)) == (
        "`inputs` argument to `backward()` cannot be empty."
    )
    total.backward(inputs=w)
    assert w.grad.tolist() == [6.0]

    def shows(trace: Trace) -> bool:
        down = ["SumBackward0", "MulBackward0"]
        kept = [pair for pair in hooked(trace) if pair[0] == "RETAINS_GRAD"]
        return [ran(trace, task) for task in tasks(trace)] == [
            [*down, "MulBackward0"],
            [*down, "MulBackward0", "AccumulateGrad"],
            [],
            [*down, "AccumulateGrad"],
        ] and kept == [("RETAINS_GRAD", False)] * 2

    seen(shows)


@pytest.mark.rule(36)
def test_unused_inputs_of_grad_raise_unless_allowed(torch: Any, seen: Seen) -> None:
    x, unused = leaf(torch, 3.0), leaf(torch, 5.0, 7.0)
    y = x * 2
    text = (
        "The differentiated Tensor at index 1 appears to not have been used in the graph. Set "
        "allow_unused=True if this is the desired behavior."
    )

    def ask(**how: Any) -> Any:
        found = torch.autograd.grad(y, [x, unused], retain_graph=True, **how)
        return [grad if grad is None else grad.tolist() for grad in found]

    assert (
        raises(RuntimeError, ask) == raises(RuntimeError, lambda: ask(allow_unused=False)) == text
    )
    assert ask(allow_unused=True) == [[2.0], None]
    assert ask(materialize_grads=True) == [[2.0], [0.0, 0.0]]
    assert raises(ValueError, lambda: ask(materialize_grads=True, allow_unused=False)) == (
        "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
        "allow_unused=False."
    )

    def shows(trace: Trace) -> bool:
        """Each backward had two inputs, and caught a gradient for one."""
        rows = list(trace.rows(schema.GraphTask))
        caught = [event.task for event in trace.events(schema.Capture)]
        return [len(row.inputs) for row in rows] == [2] * 4 and caught == tasks(trace)

    seen(shows)
