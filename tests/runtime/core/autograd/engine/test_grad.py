"""`autograd.grad` and `backward(inputs=)`: only what was asked for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.both import function, leaf, raises


def test_grad_returns_gradients_and_touches_nobodys(torch: Any) -> None:
    x, y = leaf(torch, 3.0), leaf(torch, 5.0)

    found = torch.autograd.grad(x * y, [x, y])

    assert [g.tolist() for g in found] == [[5.0], [3.0]]
    assert (x.grad, y.grad) == (None, None)


def test_grad_of_something_in_the_middle(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * x
    z = y * y

    found = torch.autograd.grad(z, [y, x])

    assert [g.tolist() for g in found] == [[18.0], [108.0]]


def test_grad_of_the_output_itself(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * x

    assert torch.autograd.grad(y, y)[0].tolist() == [1.0]
    assert torch.autograd.grad(x, x)[0].tolist() == [1.0]


def test_grad_may_be_asked_twice_for_the_same_input(torch: Any) -> None:
    x = leaf(torch, 3.0)

    first, second = torch.autograd.grad(x * x, [x, x])

    assert (first.tolist(), second.tolist()) == ([6.0], [6.0])


def test_an_input_that_was_not_used_is_an_error_unless_allowed(torch: Any) -> None:
    x, y = leaf(torch, 3.0), leaf(torch, 5.0)
    z = x * x

    assert raises(RuntimeError, lambda: torch.autograd.grad(z, [x, y], retain_graph=True)) == (
        "The differentiated Tensor at index 1 appears to not have been used in the graph. Set "
        "allow_unused=True if this is the desired behavior."
    )
    assert torch.autograd.grad(z, [x, y], allow_unused=True)[1] is None


def test_unused_inputs_get_zeros_when_asked(torch: Any) -> None:
    x, y = leaf(torch, 3.0), leaf(torch, 5.0, 6.0)

    found = torch.autograd.grad(x * x, [x, y], materialize_grads=True)

    assert [g.tolist() for g in found] == [[6.0], [0.0, 0.0]]


def test_zeros_for_unused_inputs_contradict_not_allowing_them(torch: Any) -> None:
    x = leaf(torch, 3.0)

    assert raises(
        ValueError,
        lambda: torch.autograd.grad(x * x, x, allow_unused=False, materialize_grads=True),
    ).startswith("Expected allow_unused to be True or not passed when materialize_grads=True")


def test_an_input_without_gradient_cannot_be_asked_for(torch: Any) -> None:
    x = leaf(torch, 3.0)

    assert raises(RuntimeError, lambda: torch.autograd.grad(x * x, torch.ones(1))) == (
        "One of the differentiated Tensors does not require grad"
    )


def test_no_inputs_is_an_error(torch: Any) -> None:
    x = leaf(torch, 3.0)

    assert raises(RuntimeError, lambda: torch.autograd.grad(x * x, [])) == (
        "`inputs` argument to `grad()` cannot be empty."
    )
    assert raises(RuntimeError, lambda: torch.autograd.backward(x * x, inputs=[])) == (
        "`inputs` argument to `backward()` cannot be empty."
    )


def test_gradients_come_under_the_names_the_inputs_came_under(torch: Any) -> None:
    x, y = leaf(torch, 3.0), leaf(torch, 5.0)

    found = torch.autograd.grad(x * y, {"x": x, "y": y})

    assert {name: grad.tolist() for name, grad in found.items()} == {"x": [5.0], "y": [3.0]}


def test_an_input_must_be_a_tensor_or_an_edge(torch: Any) -> None:
    x = leaf(torch, 3.0)

    assert raises(RuntimeError, lambda: torch.autograd.grad(x * x, [3])) == (
        "all inputs have to be Tensors or GradientEdges, but got int"
    )


def test_hooks_beyond_what_is_asked_for_stay_silent(torch: Any) -> None:
    x = leaf(torch, 3.0)
    a = x * 2
    b = a * 3
    heard: list[str] = []
    for name, tensor in (("x", x), ("a", a), ("b", b)):
        tensor.register_hook(lambda grad, name=name: heard.append(name))
    a.grad_fn.register_hook(lambda *grads: heard.append("a's node"))
    b.grad_fn.register_hook(lambda *grads: heard.append("b's node"))

    torch.autograd.grad(b, a)

    assert heard == ["b", "b's node", "a"]


def test_a_captured_gradient_has_been_through_hooks_unless_its_node_runs_too(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    y.register_hook(lambda grad: grad * 10)
    x.register_hook(lambda grad: grad + 1)
    z = y * 3

    found = torch.autograd.grad(z, [y, x], retain_graph=True)
    alone = torch.autograd.grad(z, [y])

    assert [g.tolist() for g in found] == [[3.0], [61.0]]
    assert alone[0].tolist() == [30.0]


def test_pre_hooks_of_a_node_do_not_change_what_is_captured_at_it(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 10,))
    z = y * 3

    found = torch.autograd.grad(z, [y, x])

    assert [g.tolist() for g in found] == [[3.0], [60.0]]


def test_backward_with_inputs_fills_only_these(torch: Any) -> None:
    x, y = leaf(torch, 3.0), leaf(torch, 5.0)

    (x * y).backward(inputs=[x])

    assert x.grad.tolist() == [5.0]
    assert y.grad is None


def test_backward_with_inputs_takes_a_single_tensor_too(torch: Any) -> None:
    x, y = leaf(torch, 3.0), leaf(torch, 5.0)

    (x * y).backward(inputs=y)

    assert (x.grad, y.grad.tolist()) == (None, [3.0])


def test_backward_with_inputs_fills_what_is_no_leaf(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * x
    z = y * y

    z.backward(inputs=[y])

    assert y.grad.tolist() == [18.0]
    assert x.grad is None
    assert y.retains_grad


def test_backward_ignores_inputs_it_cannot_reach(torch: Any) -> None:
    x, y = leaf(torch, 3.0), leaf(torch, 5.0)

    (x * x).backward(inputs=[x, y])

    assert (x.grad.tolist(), y.grad) == ([6.0], None)


def test_backward_with_inputs_runs_post_accumulate_hooks_of_these(torch: Any) -> None:
    x, y = leaf(torch, 3.0), leaf(torch, 5.0)
    heard: list[float] = []
    for tensor in (x, y):
        tensor.register_post_accumulate_grad_hook(lambda t: heard.append(t.grad.item()))

    (x * y).backward(inputs=[y])

    assert heard == [3.0]


def test_grad_frees_only_what_it_ran(torch: Any) -> None:
    x = leaf(torch, 3.0)
    a = x * x
    b = a * a

    torch.autograd.grad(b, a)

    assert torch.autograd.grad(a, x)[0].tolist() == [6.0]
    with pytest.raises(RuntimeError, match="Trying to backward"):
        torch.autograd.grad(b, a)


def test_grad_outputs_weigh_the_outputs(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    weights = torch.tensor([1.0, 10.0], dtype=torch.float64)

    assert torch.autograd.grad(x * x, x, weights)[0].tolist() == [2.0, 40.0]
    assert torch.autograd.grad([x * x, x * 3], x, [weights, weights])[0].tolist() == [5.0, 70.0]


def test_an_edge_may_stand_for_an_output_and_for_an_input(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * x
    z = (y * y).sum()
    edge = torch.autograd.graph.get_gradient_edge

    (at_y,) = torch.autograd.grad(edge(z), edge(y), retain_graph=True)
    (at_x,) = torch.autograd.grad(edge(z), edge(x), retain_graph=True)
    torch.autograd.backward(edge(z))

    assert (at_y.tolist(), at_x.tolist(), x.grad.tolist()) == ([18.0], [108.0], [108.0])


def test_a_tensor_without_gradient_has_no_edge(torch: Any) -> None:
    assert raises(RuntimeError, lambda: torch.autograd.graph.get_gradient_edge(torch.ones(1))) == (
        "It is not possible to get the gradient edge for a Tensor that does not require gradients"
    )


def test_many_gradients_at_once(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    seeds = torch.eye(2, dtype=torch.float64)

    (jacobian,) = torch.autograd.grad(x * x, x, seeds, is_grads_batched=True)

    assert jacobian.tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_an_input_without_gradient_cannot_keep_one(torch: Any) -> None:
    assert raises(
        RuntimeError, lambda: leaf(torch, 1.0).sum().backward(inputs=[torch.ones(1)])
    ) == ("can't retain_grad on Tensor that has requires_grad=False")


def test_nothing_is_no_tensor_to_start_from(torch: Any) -> None:
    assert raises(TypeError, lambda: torch.autograd.backward(None)) == (
        "'NoneType' object is not iterable"
    )


def test_a_node_that_leads_to_nothing_asked_for_returns_nothing(torch: Any) -> None:
    """Its hooks hear of that; a user's own backward is not stopped from returning something."""
    x = leaf(torch, 3.0)
    y = x * x
    z = function(torch, lambda ctx, x: x * 2, lambda ctx, grad: grad * 2).apply(y)
    heard: list[Any] = []
    y.grad_fn.register_hook(lambda made, given: heard.append(made))
    z.grad_fn.register_hook(lambda made, given: heard.append(made[0].tolist()))

    z.sum().backward(inputs=[y], retain_graph=True)
    z.sum().backward(inputs=[z])

    assert heard == [[2.0], (None, None), [2.0]]
