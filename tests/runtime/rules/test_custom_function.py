"""Rules 17 to 20: what a custom function gets, may return, and may say of what it did."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from gradscope.trace import schema
from gradscope.trace.trace import Trace
from tests.runtime.both import function, leaf, names, raises
from tests.runtime.rules.conftest import Seen
from tests.runtime.rules.looks import edges, errors, hooked, node_of, ran, tasks

Log = list[Any]


def remembering(seen: Log) -> Any:
    """A backward that writes down what it gets, and hands the first gradient on."""

    def backward(ctx: Any, *grads: Any) -> Any:
        seen.append([g if g is None else g.tolist() for g in grads])
        return grads[0]

    return backward


@pytest.mark.rule(17)
def test_undefined_gradients_reach_a_custom_backward_as_zeros_or_as_none(
    torch: Any, seen: Seen
) -> None:
    heard: Log = []

    def outputs(*, zeros: bool) -> Any:
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(zeros)
            marked = x * 4
            ctx.mark_non_differentiable(marked)
            return x * 2, x * 3, x > 0, marked, 5, None

        return function(torch, forward, remembering(heard)).apply(leaf(torch, 1.0))

    outputs(zeros=True)[0].backward()
    outputs(zeros=False)[0].backward()
    assert heard == [
        [[1.0], [0.0], [False], [0.0], None, None],
        [[1.0], None, None, None, None, None],
    ]

    heard.clear()
    nothing = function(torch, lambda ctx, x: x * 2, lambda ctx, grad: None)
    nothing.apply(function(torch, lambda ctx, x: x * 2, remembering(heard)).apply(leaf(torch, 1.0)))
    y = function(torch, lambda ctx, x: x * 2, remembering(heard)).apply(leaf(torch, 1.0))
    nothing.apply(y).backward()
    assert heard == [[[0.0]]]

    def shows(trace: Trace) -> bool:
        """None arrives at the last function; the zeros are made in its backward, not before."""
        arrived = [(event.task, event.undefined) for event in trace.events(schema.BufferMade)]
        *_, last = tasks(trace)
        return [undefined for task, undefined in arrived if task == last] == [True, False]

    seen(shows)


@pytest.mark.rule(18)
def test_an_input_returned_as_it_is_becomes_an_alias_with_its_own_history_and_hooks(
    torch: Any, seen: Seen
) -> None:
    same = function(torch, lambda ctx, x: x, lambda ctx, grad: grad * 10)
    heard: list[str] = []
    x = leaf(torch, 3.0) * 1
    x.register_hook(lambda grad: heard.append("input"))
    y = same.apply(x)
    y.register_hook(lambda grad: heard.append("output"))

    assert (y is x, y._base is x, x.grad_fn.name()) == (False, True, "MulBackward0")
    assert y.grad_fn.name() == "MineBackward"
    y.sum().backward()
    assert heard == ["output", "input"]

    number = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    z = same.apply(number)
    assert (z is number, z._base is number, z.shape) == (False, True, ())
    z.backward()
    assert number.grad.item() == 10.0

    plain = torch.ones(2)
    assert same.apply(plain)._base is plain

    def shows(trace: Trace) -> bool:
        """The node leads to the history of the input, and both had their hook."""
        kinds = [kind for kind, _ in hooked(trace)]
        node = node_of(trace, "MineBackward")
        return kinds == ["TENSOR", "TENSOR"] and edges(trace, node) == [("MulBackward0", 0)]

    seen(shows)


def doubled_in_place(ctx: Any, x: Any) -> Any:
    x.mul_(2)
    ctx.mark_dirty(x)
    return x


@pytest.mark.rule(18)
def test_a_returned_dirty_input_is_the_same_object_with_another_history(
    torch: Any, seen: Seen
) -> None:
    dirty = function(torch, doubled_in_place, lambda ctx, grad: grad * 2)
    x = leaf(torch, 1.0, 2.0)
    z = x * 1
    assert dirty.apply(z) is z
    assert (names(z.grad_fn), z._version) == ([("MulBackward0", 0)], 2)

    base = x * 1
    view = base[:1]
    assert dirty.apply(view) is view
    assert [type(t.grad_fn).__name__ for t in (base, view)] == ["CopySlices", "AsStridedBackward0"]
    (z + base).sum().backward()
    assert x.grad.tolist() == [4.0, 3.0]

    def shows(trace: Trace) -> bool:
        """Written to by forward, and by what mark_dirty says; a view's node runs in its base's."""
        writes = [(row.storage, row.op >= 0, row.new) for row in trace.rows(schema.Version)]
        storages = sorted({storage for storage, _, _ in writes})
        return (
            sorted(writes) == [w for s in storages for w in ((s, False, 2), (s, True, 1))]
            and len(storages) == 2
            and ran(trace).count("MineBackward") == 1
            and ran(trace).count("CopySlices") == 1
        )

    seen(shows)


@pytest.mark.rule(19)
def test_what_mark_dirty_must_not_be_told(torch: Any, seen: Seen) -> None:
    def forgotten(ctx: Any, x: Any) -> Any:
        doubled_in_place(ctx, x)
        return x * 2

    def several(ctx: Any, x: Any) -> Any:
        return doubled_in_place(ctx, x), x * 3

    def foreign(ctx: Any, x: Any) -> Any:
        y = x * 2
        ctx.mark_dirty(y)
        return y

    x = leaf(torch, 1.0, 2.0)
    assert raises(RuntimeError, lambda: function(torch, forgotten).apply(x * 1)).startswith(
        "Some elements marked as dirty during the forward method were not returned as output."
    )
    assert raises(RuntimeError, lambda: function(torch, several).apply((x * 1)[:1])).startswith(
        "If your Function modifies inplace an input that is a view of another Tensor, your "
        "Function cannot return more than one Tensor."
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = function(torch, foreign, lambda ctx, grad: grad * 7).apply(x)
    (warning,) = caught
    assert "mark_dirty() received a tensor that was not an input" in str(warning.message)
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]

    def shows(trace: Trace) -> bool:
        """Only the last call got as far as an output, and its node ran."""
        calls = [op for op in trace.rows(schema.Op) if op.name == "Mine"]
        return len(calls) == 1 and ran(trace) == ["SumBackward0", "MineBackward", "AccumulateGrad"]

    seen(shows)


@pytest.mark.rule(19)
def test_one_tensor_in_two_output_slots_has_its_gradient_in_the_last(
    torch: Any, seen: Seen
) -> None:
    heard: Log = []

    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        return y, y

    first, second = function(torch, forward, remembering(heard)).apply(leaf(torch, 3.0))
    assert (first is second, first.output_nr) == (True, 1)
    (first + second).backward()
    assert heard == [[[0.0], [2.0]]]

    def shows(trace: Trace) -> bool:
        """Both gradients arrive at input 1 of the node, where they are summed."""
        node = node_of(trace, "MineBackward")
        return [
            event.input_nr
            for event in trace.events(schema.BufferMade, schema.BufferAdded)
            if event.node == node
        ] == [1, 1]

    seen(shows)


@pytest.mark.rule(20)
def test_a_once_differentiable_backward_leaves_an_error_that_raises_when_reached(
    torch: Any, seen: Seen
) -> None:
    modes: list[bool] = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    def backward(ctx: Any, grad: Any) -> Any:
        modes.append(torch.is_grad_enabled())
        return grad * 2 * ctx.saved_tensors[0]

    once = torch.autograd.function.once_differentiable(backward)
    x, seed = leaf(torch, 3.0), leaf(torch, 1.0)
    y = function(torch, forward, once).apply(x)
    other = x * seed
    (first,) = torch.autograd.grad(y + other, x, seed, create_graph=True)

    assert (modes, first.requires_grad) == ([False], True)
    assert torch.autograd.grad((other * seed).sum(), seed, retain_graph=True)[0].tolist() == [6.0]
    assert raises(RuntimeError, first.sum().backward) == (
        "trying to differentiate twice a function that was marked with @once_differentiable"
    )

    def shows(trace: Trace) -> bool:
        ((node, kind, text),) = errors(trace)
        return (node, kind) == ("Error", "RuntimeError") and text.startswith("trying to")

    seen(shows)


@pytest.mark.rule(20)
def test_a_missing_or_doubled_backward_is_reported_at_backward(torch: Any, seen: Seen) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    none = function(torch, forward, name="None_").apply(leaf(torch, 1.0))
    mine = function(torch, forward, lambda ctx, grad: grad, name="Two")
    mine.vjp = staticmethod(lambda ctx, grad: grad)
    both = mine.apply(leaf(torch, 1.0))
    x = leaf(torch, 1.0)
    surplus = function(torch, forward, lambda ctx, grad: (grad, None, None)).apply(x)

    missing = (
        "You must implement either the backward or vjp method for your custom autograd.Function to "
        "use it with backward mode AD."
    )
    doubled = (
        "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should "
        "only implement one of them."
    )
    assert raises(NotImplementedError, none.backward) == missing
    assert raises(RuntimeError, both.backward) == doubled
    surplus.backward()
    assert x.grad.tolist() == [1.0]
    over = function(torch, forward, lambda ctx, grad: (grad, grad)).apply(leaf(torch, 1.0))
    many = "function MineBackward returned an incorrect number of gradients (expected 1, got 2)"
    assert raises(RuntimeError, over.backward) == many

    def shows(trace: Trace) -> bool:
        return errors(trace) == [
            ("None_Backward", "NotImplementedError", missing),
            ("TwoBackward", "RuntimeError", doubled),
            ("MineBackward", "RuntimeError", many),
        ]

    seen(shows)
