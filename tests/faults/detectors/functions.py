"""Custom Functions: what forward may say of its call, and what backward is given."""

from __future__ import annotations

from typing import Any

from tests.faults.detectors.common import detector, function, leaf, ones, refused, same


def identity(ctx: Any, grad: Any) -> Any:
    return grad


@detector
def only_backward_is_differentiated(torch: Any) -> None:
    """Forward records nothing, and its node is the only history of its result."""
    modes: list[bool] = []

    def forward(ctx: Any, x: Any) -> Any:
        modes.append(torch.is_grad_enabled())
        return (x * 2) * 3

    def backward(ctx: Any, grad: Any) -> Any:
        modes.append(torch.is_grad_enabled())
        return grad * 10

    x = leaf(torch, 1.0)
    y = function(torch, forward, backward).apply(x)
    assert type(y.grad_fn).__name__ == "MineBackward"
    y.backward()
    same(x.grad, 10.0)
    assert modes == [False, False], modes
    torch.autograd.grad(function(torch, forward, backward).apply(x), x, create_graph=True)
    assert modes == [False, False, False, True], modes


@detector
def what_backward_is_given(torch: Any) -> None:
    taken: list[Any] = []

    def forward(ctx: Any, x: Any, y: Any, number: float) -> Any:
        ctx.save_for_backward(x, None, y)
        ctx.set_materialize_grads(number > 0)
        return x * 2, y * 3

    def backward(ctx: Any, first: Any, second: Any) -> Any:
        saved = ctx.saved_tensors
        taken.append(([None if g is None else g.tolist() for g in (first, second)],
                      ctx.needs_input_grad, saved[0] is x, saved[1], saved[2] is y))  # fmt: skip
        return first * 2, None, None

    mine = function(torch, forward, backward)
    x, y = leaf(torch, 1.0), torch.ones(2, dtype=torch.float64)
    mine.apply(x, y, 1.0)[0].backward()
    mine.apply(x, y, -1.0)[0].backward()
    needs = (True, False, False)
    assert taken[0] == ([[1.0], [0.0, 0.0]], needs, True, None, True), taken[0]
    assert taken[1] == ([[1.0], None], needs, True, None, True), taken[1]
    same(x.grad, 4.0)


@detector
def saved_tensors_are_released(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        made = x.exp()
        ctx.save_for_backward(x, made)
        return made

    def backward(ctx: Any, grad: Any) -> Any:
        ctx.saved_tensors  # noqa: B018  (may be read twice)
        return grad * ctx.saved_tensors[1]

    x = leaf(torch, 1.0)
    y = function(torch, forward, backward).apply(x)
    node = y.grad_fn
    y.backward(retain_graph=True)
    y.backward()
    refused("a second time", lambda: node.saved_tensors)
    refused("a second time", y.backward)
    z = function(torch, forward, backward).apply(x)
    z.mul_(2)
    refused("modified by an inplace operation", z.backward)


@detector
def inputs_that_are_returned(torch: Any) -> None:
    x = leaf(torch, 1.0)
    mine = function(torch, lambda ctx, x: x, lambda ctx, grad: grad * 3)
    y = mine.apply(x)
    assert y is not x
    assert x.is_leaf
    y.backward()
    same(x.grad, 3.0)

    def written(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    before = x * 1
    after = function(torch, written, lambda ctx, grad: grad * 7).apply(before)
    assert after is before
    assert type(after.grad_fn).__name__ == "MineBackward"
    x.grad = None
    after.backward()
    same(x.grad, 7.0)
    base = x * ones(torch, 2)
    view = base[:1]
    function(torch, written, lambda ctx, grad: grad * 7).apply(view)
    x.grad = None
    base.sum().backward()
    same(x.grad, 8.0)


@detector
def a_write_that_only_forward_knows_of(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        x.data.mul_(2)
        ctx.mark_dirty(x)
        return x

    x = leaf(torch, 1.0)
    y = x * 1
    product = y * y
    version = y._version
    function(torch, forward, identity).apply(y)
    assert y._version == version + 1
    refused("modified by an inplace operation", product.backward)


@detector
def misuse_of_mark_dirty(torch: Any) -> None:
    def forgets(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x * 2

    x = leaf(torch, 1.0)
    refused("not returned as output", lambda: function(torch, forgets, identity).apply(x * 1))

    def written(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    refused("leaf Variable", lambda: function(torch, written, identity).apply(x))


@detector
def results_without_a_gradient(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        order = x * 0
        ctx.mark_non_differentiable(order)
        return x * 2, order

    x = leaf(torch, 1.0)
    mine = function(torch, forward, lambda ctx, grad, none: grad * 2)
    y, order = mine.apply(x)
    assert y.requires_grad
    assert not order.requires_grad
    y.backward()
    same(x.grad, 2.0)


@detector
def a_wrong_number_of_gradients(torch: Any) -> None:
    x, y = leaf(torch, 1.0), leaf(torch, 2.0)
    for returned in ((1,), (1, 2, 3)):
        mine = function(
            torch,
            lambda ctx, x, y: x * y,
            lambda ctx, grad, returned=returned: tuple(grad * k for k in returned),
        )
        refused("incorrect number of gradients", mine.apply(x, y).backward)
    surplus = function(torch, lambda ctx, x: x * 1, lambda ctx, grad: (grad, None, None))
    surplus.apply(x).backward()
    same(x.grad, 1.0)
    wide = function(torch, lambda ctx, x: x * 1, lambda ctx, grad: ones(torch, 3))
    refused("invalid gradient at index 0", wide.apply(leaf(torch, 1.0, 2.0)).sum().backward)


@detector
def once_differentiable(torch: Any) -> None:
    modes: list[bool] = []

    def backward(ctx: Any, grad: Any) -> Any:
        modes.append(torch.is_grad_enabled())
        return grad * 2

    once = torch.autograd.function.once_differentiable(backward)
    mine = function(torch, lambda ctx, x: x * 2, once)
    x = leaf(torch, 1.0)
    seed = leaf(torch, 1.0)
    (found,) = torch.autograd.grad(mine.apply(x), x, seed, create_graph=True)
    assert modes == [False]
    same(found, 2.0)
    refused("differentiate twice", (found * 2).backward)
