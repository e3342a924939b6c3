"""What random programs found different from PyTorch once, each as a program of its own."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from tests.runtime.both import function, leaf, names, raises


def test_a_second_derivative_of_what_a_write_through_a_view_saved(torch: Any) -> None:
    """The node of the write saved its result, whose history leads through the base."""

    def bend(*, keep: bool) -> Any:
        x = leaf(torch, 0.1, 0.2, 0.3)
        y = x * 1
        view = y[:2]
        view.tanh_()
        if not keep:
            del view
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return torch.autograd.grad(slope.sum(), x)[0]

    for found in (bend(keep=True), bend(keep=False)):
        assert found.tolist() == pytest.approx([-0.1973558, -0.3793723, 0.0], abs=1e-6)


@pytest.mark.parametrize("how", ["hook", "modified", "function", "nested", "freed"])
def test_a_graph_that_failed_dies_with_its_error(torch: Any, how: str) -> None:
    def fail(*grads: Any) -> None:
        raise LookupError

    def fail_inside(grad: Any) -> None:
        with torch.enable_grad():
            y = leaf(torch, 1.0) * 1
            y.register_hook(fail)
            y.sum().backward()

    gc.disable()
    try:
        y = leaf(torch, 1.0, 2.0) * 1
        z = y * y
        if how == "hook":
            y.register_hook(fail)
        elif how == "modified":
            y.add_(1)
        elif how == "function":
            z = function(torch, lambda ctx, x: x * 1, fail).apply(y) * y
        elif how == "nested":
            y.register_hook(fail_inside)
        else:
            z.sum().backward()
        held = weakref.ref(y)
        with pytest.raises((LookupError, RuntimeError)) as caught:
            z.sum().backward()
        del y, z, caught
        assert held() is None
    finally:
        gc.enable()


def test_a_leaf_that_became_a_result_takes_no_gradient(torch: Any) -> None:
    x = leaf(torch, 1.0)
    y = x * 2
    x.requires_grad_(False)
    x.mul_(y)

    assert raises(RuntimeError, x.sum().backward) == (
        "leaf variable has been moved into the graph interior"
    )


@pytest.mark.parametrize("look", [False, True])
def test_a_saved_tensor_may_not_be_detached_in_place(torch: Any, look: bool) -> None:
    x = leaf(torch, 1.0) * 1
    if look:
        x.view(-1)
    y = x * x
    x.detach_()

    assert raises(RuntimeError, y.sum().backward).startswith(
        "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_()."
    )
    leaf_of_its_own = leaf(torch, 1.0)
    z = leaf_of_its_own * leaf_of_its_own
    leaf_of_its_own.detach_()
    z.backward()
    assert leaf_of_its_own.grad is None


def test_a_custom_function_may_read_what_was_detached_in_place(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    x = leaf(torch, 3.0)
    z = x * 1
    y = function(torch, forward, lambda ctx, grad: grad * 2 * ctx.saved_tensors[0]).apply(z)
    z.detach_()
    y.backward()

    assert x.grad.tolist() == [6.0]


def test_a_view_that_has_not_heard_of_a_write_is_a_leaf_to_another_write(torch: Any) -> None:
    base = torch.zeros(3, dtype=torch.float64)
    view = base[:1]
    base[1:] = leaf(torch, 1.0, 2.0)

    assert raises(RuntimeError, lambda: view.mul_(2)) == (
        "a leaf Variable that requires grad is being used in an in-place operation."
    )
    assert view.grad_fn is not None
    view.mul_(2)
    assert type(base.grad_fn).__name__ == "CopySlices"


def test_no_gradient_arrives_for_indices(torch: Any) -> None:
    x = leaf(torch, 1.0, 5.0, 3.0)
    values, _ = x.max(0)
    heard: list[Any] = []
    values.grad_fn.register_prehook(lambda grads: heard.append(len(grads)))
    values.backward()

    assert (heard, x.grad.tolist()) == ([1], [0.0, 1.0, 0.0])


def test_an_operation_is_called_by_its_number_unless_that_is_zero(torch: Any) -> None:
    z = (leaf(torch, 1.0) * 2).fill_(0.5)
    y = z * z
    z.add_(1)
    z.mul_(1)

    assert ", which is output 0 of Mul, is at version" in raises(RuntimeError, y.sum().backward)
    u = leaf(torch, 1.0) * 2
    u.fill_(0.5)
    v = u * u
    with torch.no_grad():
        u.mul_(2)
    assert ", which is output 0 of Fill2, is at version" in raises(RuntimeError, v.sum().backward)


def test_inputs_are_saved_in_the_order_of_their_names(torch: Any) -> None:
    packed: list[float] = []

    def pack(tensor: Any) -> Any:
        packed.append(tensor.item())
        return tensor

    x, y = leaf(torch, 3.0), leaf(torch, 5.0)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        torch.maximum(x, y)

    assert packed == [5.0, 3.0]  # other, self


def test_nothing_is_saved_for_a_view_made_without_grad(torch: Any) -> None:
    packed: list[Any] = []
    x = leaf(torch, 1.0, 2.0) * 1
    with torch.no_grad():
        view = x.view(2)
    with torch.autograd.graph.saved_tensors_hooks(packed.append, lambda packed: packed):
        y = view * view

    assert (y.requires_grad, names(y.grad_fn), packed) == (True, [(None, 0), (None, 0)], [])
    assert view.clamp(-0.5, 0.5).requires_grad


def test_a_dirty_view_is_saved_with_the_functions_history(torch: Any) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x)
        return x

    def backward(ctx: Any, grad: Any) -> Any:
        (saved,) = ctx.saved_tensors
        seen.append((saved is view, saved.grad_fn is ctx, saved._is_view()))
        return grad * 2

    base = leaf(torch, 1.0, 2.0) * 1
    view = base[:1]
    function(torch, forward, backward).apply(view)
    base.sum().backward()

    assert seen == [(False, True, False)]


def test_the_way_back_of_a_write_to_an_expanded_view_is_refused(torch: Any) -> None:
    base = leaf(torch, 1.0) * 1
    base.expand(3).zero_()

    assert raises(RuntimeError, base.sum().backward).startswith(
        "unsupported operation: more than one element of the written-to tensor refers to"
    )


def test_backward_fills_grad_of_a_view_whose_base_was_written_to(torch: Any) -> None:
    base = leaf(torch, 1.0, 2.0) * 1
    view = base[:1]
    base.mul_(3)
    (view.sum() * 2).backward(inputs=[view])
    stale = base[1:]
    base.mul_(3)
    base.sum().backward(inputs=[stale])

    assert (view.grad.tolist(), view.retains_grad) == ([2.0], True)
    assert (stale.grad, stale.retains_grad) == (None, True)


def test_a_number_without_dims_written_through_a_view_has_a_gradient_like_others(
    torch: Any,
) -> None:
    number = leaf(torch, 2.0).sum()
    factor = (number * 1).relu_()
    base = torch.ones(2, 2, dtype=torch.float64)
    base.t().mul_(factor)
    base.sum().backward()

    assert type(base.grad_fn).__name__ == "CopySlices"
