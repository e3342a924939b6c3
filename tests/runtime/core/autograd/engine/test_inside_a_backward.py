"""What code that runs inside a backward is told of it: its number, its node, what is to come."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.both import function, leaf, raises


def test_each_backward_has_the_next_number(torch: Any) -> None:
    found: list[int] = []
    y = leaf(torch, 1.0).clone()
    y.register_hook(lambda grad: found.append(torch._C._current_graph_task_id()))

    for _ in range(3):
        y.backward(retain_graph=True)

    assert [number - found[0] for number in found] == [0, 1, 2]
    assert torch._C._current_graph_task_id() == -1


def test_a_hook_learns_in_which_node_it_runs(torch: Any) -> None:
    found: list[Any] = []
    y = leaf(torch, 1.0).exp()
    y.register_hook(lambda grad: found.append(torch._C._current_autograd_node()))

    y.backward()

    assert found == [y.grad_fn]
    assert torch._C._current_autograd_node() is None


def test_the_order_of_nodes_is_known_before_they_run(torch: Any) -> None:
    predicted: list[list[str]] = []
    ran: list[str] = []
    a, b = leaf(torch, 1.0), leaf(torch, 2.0)
    c, d = b.sin(), a.cos()
    out = c * d
    for tensor, name in ((a, "a"), (b, "b"), (c, "c"), (d, "d"), (out, "out")):
        tensor.register_hook(lambda grad, name=name: ran.append(name))
    out.register_hook(
        lambda grad: predicted.append(
            [type(node).__name__ for node in torch._C._current_graph_task_execution_order()]
        )
    )

    with torch.autograd.set_multithreading_enabled(False):
        out.backward()

    assert ran == ["out", "d", "a", "c", "b"]
    assert predicted == [
        ["MulBackward0", "CosBackward0", "AccumulateGrad", "SinBackward0", "AccumulateGrad"]
    ]


def test_the_order_leaves_out_what_leads_to_nothing_asked_for(torch: Any) -> None:
    predicted: list[list[str]] = []
    a, b = leaf(torch, 1.0), leaf(torch, 2.0)
    out = a.exp() * b.sin()
    out.register_hook(
        lambda grad: predicted.append(
            [node.name() for node in torch._C._current_graph_task_execution_order()]
        )
    )

    with torch.autograd.set_multithreading_enabled(False):
        torch.autograd.grad(out, a)

    assert predicted == [["MulBackward0", "ExpBackward0", "torch::autograd::AccumulateGrad"]]


def test_the_order_is_refused_where_several_threads_may_run_nodes(torch: Any) -> None:
    y = leaf(torch, 1.0).exp()
    y.register_hook(lambda grad: torch._C._current_graph_task_execution_order())

    assert raises(RuntimeError, y.backward) == (
        "get_current_graph_task_execution_order expects the current backward to be executed with "
        "multithreading disabled, e.g. by running:"
    )
    assert raises(RuntimeError, torch._C._current_graph_task_execution_order) == (
        "_current_graph_task_execution_order should only be called during the backward pass"
    )


def test_a_hook_may_ask_whether_a_node_runs(torch: Any) -> None:
    x, other = leaf(torch, 1.0), leaf(torch, 2.0)
    y, aside = x * other, other.exp()
    z = y.sin()
    found: list[bool] = []

    def hook(grad: Any) -> None:
        accumulators = [node for node, _ in y.grad_fn.next_functions]
        asked = (*accumulators, y.grad_fn, aside.grad_fn)
        found.extend(torch._C._will_engine_execute_node(node) for node in asked)

    z.register_hook(hook)
    torch.autograd.backward(z, inputs=(x,))

    assert found == [True, False, True, False]


def test_asking_whether_a_node_runs_has_its_place(torch: Any) -> None:
    x = leaf(torch, 1.0)
    y = x * 2
    accumulator = y.grad_fn.next_functions[0][0]
    asks = torch._C._will_engine_execute_node
    y.register_hook(lambda grad: asks(accumulator))

    assert "we are currently running autograd.grad()" in raises(
        RuntimeError, lambda: torch.autograd.grad(y, x)
    )
    assert "during the backward pass" in raises(RuntimeError, lambda: asks(y.grad_fn))
    assert raises(RuntimeError, lambda: asks(y)) == (
        "_will_engine_execute_node expects an grad_fn, but got Tensor"
    )


def test_a_hook_learns_whether_the_graph_is_kept(torch: Any) -> None:
    kept = torch._C._autograd._get_current_graph_task_keep_graph
    found: list[bool] = []
    y = leaf(torch, 1.0).exp()
    y.register_hook(lambda grad: found.append(kept()))

    y.backward(retain_graph=True)
    y.backward()

    assert found == [True, False]
    assert kept()


def test_hooks_on_what_is_saved_that_a_backward_leaves_behind_end_with_it(torch: Any) -> None:
    hooks = torch.autograd.graph.saved_tensors_hooks
    inner = hooks(lambda tensor: tensor, lambda tensor: inner.__exit__() or tensor)
    top = torch._C._autograd._top_saved_tensors_default_hooks
    with hooks(lambda tensor: tensor, lambda tensor: tensor):
        for _ in range(2):
            inner.__enter__()
            leaf(torch, 1.0).sin().backward()
        inner.__exit__()
        inner.__exit__()
    assert top(False) is None


def test_a_node_that_enters_hooks_leaves_none_behind(torch: Any) -> None:
    hooks = torch.autograd.graph.saved_tensors_hooks
    mine = function(
        torch,
        lambda ctx, x: x * 2,
        lambda ctx, grad: (hooks(lambda t: t, lambda t: t).__enter__(), grad)[1],
    )

    mine.apply(leaf(torch, 1.0)).backward()

    assert torch._C._autograd._top_saved_tensors_default_hooks(False) is None


@pytest.mark.parametrize("register", ["register_hook", "register_prehook"])
def test_what_cannot_be_called_is_refused_when_the_node_runs(torch: Any, register: str) -> None:
    y = leaf(torch, 1.0) * 2
    getattr(y.grad_fn, register)(5)

    assert raises(TypeError, y.backward) == "'int' object is not callable"
