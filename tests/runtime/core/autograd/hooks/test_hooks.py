"""Hooks on tensors, nodes and leaves: when they run, what they may change, how they go away."""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict
from typing import Any

import pytest

from tests.runtime.both import function, leaf, raises


def test_a_tensor_hook_sees_the_whole_gradient_once(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    seen: list[Any] = []
    y.register_hook(lambda grad: seen.append(grad.tolist()))

    (y * 3 + y * 5).sum().backward()

    assert seen == [[8.0]]


def test_tensor_hooks_run_in_order_and_each_sees_what_the_last_returned(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    seen: list[float] = []

    def first(grad: Any) -> Any:
        seen.append(grad.item())
        return grad * 10

    def silent(grad: Any) -> None:
        seen.append(grad.item())

    def last(grad: Any) -> Any:
        seen.append(grad.item())
        return grad + 1

    for hook in (first, silent, last):
        y.register_hook(hook)
    y.sum().backward()

    assert seen == [1.0, 10.0, 10.0]
    assert x.grad.tolist() == [22.0]


def test_a_leafs_hook_changes_what_is_accumulated(torch: Any) -> None:
    x = leaf(torch, 3.0)
    x.register_hook(lambda grad: grad * 10)

    (x * 2 + x * 3).sum().backward()

    assert x.grad.tolist() == [50.0]


def test_a_removed_hook_is_silent(torch: Any) -> None:
    x = leaf(torch, 3.0)
    handle = x.register_hook(lambda grad: grad * 10)
    (x * 2).sum().backward()
    handle.remove()
    handle.remove()
    (x * 2).sum().backward()

    assert x.grad.tolist() == [22.0]


def test_a_handle_is_a_context_manager(torch: Any) -> None:
    x = leaf(torch, 3.0)
    with x.register_hook(lambda grad: grad * 10):
        (x * 2).sum().backward()
    (x * 2).sum().backward()

    assert x.grad.tolist() == [22.0]


def test_a_hook_may_remove_itself_while_it_runs(torch: Any) -> None:
    x = leaf(torch, 3.0)
    heard: list[str] = []

    def once(grad: Any) -> None:
        heard.append("once")
        handle.remove()

    handle = x.register_hook(once)
    x.register_hook(lambda grad: heard.append("other"))
    (x * 2).sum().backward()
    (x * 2).sum().backward()

    assert heard == ["once", "other", "other"]


def test_hooks_hear_of_gradients_that_never_came(torch: Any) -> None:
    nothing = function(torch, lambda ctx, x: x * 2, lambda ctx, grad: None)
    x = leaf(torch, 3.0)
    y = x * 1
    seen: list[Any] = []
    y.register_hook(lambda grad: seen.append(("y", grad)))
    y.grad_fn.register_prehook(lambda grads: seen.append(("pre", grads)))
    y.grad_fn.register_hook(lambda grads, outputs: seen.append(("post", grads, outputs)))
    x.register_hook(lambda grad: seen.append(("x", grad)))
    x.register_post_accumulate_grad_hook(lambda tensor: seen.append(("after", tensor.grad)))

    nothing.apply(y).sum().backward()

    assert seen[:2] == [("y", None), ("pre", (None,))]
    assert seen[2][0] == "post"
    assert seen[3:] == [("x", None), ("after", None)]
    assert x.grad is None


def test_a_pre_hook_may_change_the_gradients_its_node_takes(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 10,))
    y.grad_fn.register_prehook(lambda grads: (grads[0] + 1,))

    y.sum().backward()

    assert x.grad.tolist() == [22.0]


def test_a_post_hook_gets_what_the_node_returned_and_what_it_took(torch: Any) -> None:
    x, y = leaf(torch, 3.0), leaf(torch, 5.0)
    z = x * y
    seen: list[Any] = []

    def look(grad_inputs: Any, grad_outputs: Any) -> None:
        seen.append([[g.item() for g in grads] for grads in (grad_inputs, grad_outputs)])

    z.grad_fn.register_hook(look)
    (z * 2).sum().backward()

    assert seen == [[[10.0, 6.0], [2.0]]]


def test_a_post_hook_may_change_what_goes_on(torch: Any) -> None:
    x, y = leaf(torch, 3.0), leaf(torch, 5.0)
    z = x * y
    z.grad_fn.register_hook(lambda grads, outputs: (grads[0] * 10, None))
    z.sum().backward()

    assert x.grad.tolist() == [50.0]
    assert y.grad is None


def test_a_post_hook_sees_the_gradient_summed_to_the_inputs_shape(torch: Any) -> None:
    x = leaf(torch, 3.0)
    z = x * torch.ones(4, dtype=torch.float64)
    shapes: list[Any] = []
    z.grad_fn.register_hook(lambda grads, outputs: shapes.append(tuple(grads[0].shape)))

    z.sum().backward()

    assert shapes == [(1,)]


def test_the_order_of_all_kinds_of_hooks(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    heard: list[str] = []

    def hear(name: str) -> Any:
        return lambda *grads: heard.append(name)

    y.grad_fn.register_hook(hear("post"))
    y.grad_fn.register_prehook(hear("pre"))
    y.register_hook(hear("tensor"))
    y.retain_grad()
    y.register_hook(lambda grad: heard.append(f"tensor again, .grad is {y.grad}"))
    x.register_post_accumulate_grad_hook(hear("accumulated"))
    x.register_hook(hear("leaf"))

    y.sum().backward()

    assert heard == [
        "tensor",
        "tensor again, .grad is None",
        "pre",
        "post",
        "leaf",
        "accumulated",
    ]


def test_hooks_on_the_leafs_node(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    node = y.grad_fn.next_functions[0][0]
    heard: list[Any] = []
    node.register_prehook(lambda grads: heard.append(("pre", len(grads))))
    node.register_hook(lambda grads, outputs: heard.append(("post", len(grads), len(outputs))))

    y.sum().backward()

    assert type(node).__name__ == "AccumulateGrad"
    assert heard == [("pre", 1), ("post", 0, 1)]


def test_retain_grad_comes_after_all_tensor_hooks(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda grad: grad * 10)

    y.sum().backward()

    assert y.grad.tolist() == [10.0]
    assert y.retains_grad


def test_retained_gradients_accumulate(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    y.sum().backward()

    assert y.grad.tolist() == [2.0]


def test_retain_grad_on_a_leaf_changes_nothing(torch: Any) -> None:
    x = leaf(torch, 3.0)
    x.retain_grad()
    (x * 2).sum().backward()

    assert x.grad.tolist() == [2.0]
    assert not x.retains_grad


def test_retain_grad_does_not_keep_the_tensor(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    y.retain_grad()
    z = y.sum()
    held = weakref.ref(y)
    del y
    gc.collect()
    z.backward()

    assert held() is None
    assert x.grad.tolist() == [2.0]


def test_a_hook_does_not_keep_the_tensor(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    y.register_hook(lambda grad: grad * 10)
    z = y.sum()
    held = weakref.ref(y)
    del y
    gc.collect()
    z.backward()

    assert held() is None
    assert x.grad.tolist() == [20.0]


def test_a_retained_gradient_follows_the_tensor_through_a_write_and_a_hook_stays(
    torch: Any,
) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    heard: list[float] = []
    y.retain_grad()
    y.register_hook(lambda grad: heard.append(grad.item()))
    y.mul_(5)
    (y * 7).sum().backward()

    assert y.grad.tolist() == [7.0]
    assert heard == [35.0]


def test_a_hook_registered_after_a_write_belongs_to_what_was_written(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    heard: list[str] = []
    y.register_hook(lambda grad: heard.append(f"before {grad.item()}"))
    y.mul_(5)
    y.register_hook(lambda grad: heard.append(f"after {grad.item()}"))
    y.sum().backward()

    assert heard == ["after 1.0", "before 5.0"]


def test_a_hook_on_one_of_several_outputs(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0, 3.0)
    first, second, third = x.unbind()
    second.register_hook(lambda grad: grad * 10)
    heard: list[Any] = []
    third.register_hook(heard.append)

    (first * 1 + second * 2).backward()

    assert x.grad.tolist() == [1.0, 20.0, 0.0]
    assert heard == [None]


def test_a_hook_that_raises_ends_the_backward_with_its_error(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    y.register_hook(lambda grad: 1 / 0)

    with pytest.raises(ZeroDivisionError, match="division by zero"):
        y.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (lambda grad: 3, TypeError, "expected Variable, but hook returned 'int'"),
        (
            lambda grad: grad.float(),
            RuntimeError,
            (
                "hook '<lambda>' has changed the type of value "
                "(was torch.DoubleTensor got torch.FloatTensor)"
            ),
        ),
        (lambda grad: grad[:1], RuntimeError, "hook '<lambda>' has changed the size of value"),
    ],
)
def test_a_hook_may_not_return_what_does_not_fit(
    torch: Any, change: Any, kind: type[Exception], text: str
) -> None:
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    y.register_hook(change)

    assert raises(kind, y.sum().backward) == text


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (lambda grads: grads[0], TypeError, "expected tuple, but hook returned 'Tensor'"),
        (
            lambda grads: (grads[0], grads[0]),
            RuntimeError,
            "hook '<lambda>' has returned an incorrect number of values (got 2, but expected 1)",
        ),
    ],
)
def test_a_pre_hook_returns_as_many_gradients_as_it_got(
    torch: Any, change: Any, kind: type[Exception], text: str
) -> None:
    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    y.grad_fn.register_prehook(change)

    assert raises(kind, y.sum().backward) == text


def test_what_requires_no_gradient_takes_no_hook(torch: Any) -> None:
    x = torch.ones(1)
    text = "cannot register a hook on a tensor that doesn't require gradient"

    assert raises(RuntimeError, lambda: x.register_hook(print)) == text
    assert raises(RuntimeError, lambda: x.register_post_accumulate_grad_hook(print)) == text
    assert raises(RuntimeError, x.retain_grad) == (
        "can't retain_grad on Tensor that has requires_grad=False"
    )


def test_post_accumulate_hooks_are_for_leaves(torch: Any) -> None:
    y = leaf(torch, 1.0) * 2

    assert raises(RuntimeError, lambda: y.register_post_accumulate_grad_hook(print)) == (
        "post accumulate grad hooks cannot be registered on non-leaf tensors"
    )


def test_a_post_accumulate_hook_may_step_and_clear(torch: Any) -> None:
    x = leaf(torch, 3.0)

    def step(tensor: Any) -> None:
        with torch.no_grad():
            tensor.sub_(tensor.grad)
        tensor.grad = None

    handle = x.register_post_accumulate_grad_hook(step)
    (x * 2).sum().backward()
    assert (x.tolist(), x.grad) == ([1.0], None)

    handle.remove()
    (x * 2).sum().backward()
    assert (x.tolist(), x.grad.tolist()) == ([1.0], [2.0])


def test_a_post_accumulate_hook_returns_nothing(torch: Any) -> None:
    x = leaf(torch, 3.0)
    x.register_post_accumulate_grad_hook(lambda tensor: tensor.detach())

    assert raises(RuntimeError, (x * 2).sum().backward) == (
        "Tensor post accumulate grad hooks should return None."
    )


def test_what_a_post_accumulate_hook_returns_is_given_to_the_next(torch: Any) -> None:
    x = leaf(torch, 3.0)
    heard: list[Any] = []
    x.register_post_accumulate_grad_hook(lambda tensor: tensor.detach())
    x.register_post_accumulate_grad_hook(lambda tensor: heard.append(tensor.requires_grad))

    assert raises(RuntimeError, (x * 2).sum().backward) == (
        "Tensor post accumulate grad hooks should return None."
    )
    assert heard == [False]


def test_retain_grad_on_a_view_whose_base_was_written_to(torch: Any) -> None:
    base = leaf(torch, 1.0, 2.0) * 1
    first, second = base[:1], base[1:]
    second.mul_(3)
    first.retain_grad()
    first.sum().backward()

    assert first.grad.tolist() == [1.0]


def test_a_hook_runs_in_the_grad_mode_of_its_backward(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * x
    modes: list[bool] = []
    y.register_hook(lambda grad: modes.append(torch.is_grad_enabled()))

    torch.autograd.grad(y, x, retain_graph=True)
    torch.autograd.grad(y, x, create_graph=True)

    assert modes == [False, True]


def test_a_hook_may_use_the_graph_under_create_graph(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * x
    y.register_hook(lambda grad: grad * x)

    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)

    assert (first.tolist(), second.tolist()) == ([18.0], [12.0])


def test_a_hook_that_writes_into_its_gradient_changes_it(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    y.register_hook(lambda grad: grad.mul_(10) and None)

    (y * torch.ones(1, dtype=torch.float64)).sum().backward()

    assert x.grad.tolist() == [20.0]


def test_a_hook_cannot_make_a_gradient_of_nothing(torch: Any) -> None:
    nothing = function(torch, lambda ctx, x: x * 2, lambda ctx, grad: None)

    def run(register: Any) -> str:
        y = leaf(torch, 3.0) * 1
        register(y)
        return raises(RuntimeError, nothing.apply(y).sum().backward)

    one = torch.ones(1, dtype=torch.float64)
    assert {
        run(lambda y: y.register_hook(lambda grad: one)),
        run(lambda y: y.grad_fn.register_prehook(lambda grads: (one,))),
        run(lambda y: y.grad_fn.register_hook(lambda grads, given: (one, None))),
    } == {"can't replace a None gradient with a non-None value"}


def test_hooks_of_several_outputs_run_as_they_were_registered(torch: Any) -> None:
    first, second, third = leaf(torch, 1.0, 2.0, 3.0).unbind()
    heard: list[str] = []
    for name, tensor in (("third", third), ("first", first), ("second", second)):
        tensor.register_hook(lambda grad, name=name: heard.append(name))
    third.register_hook(lambda grad: heard.append("third again"))

    (first + second).backward()

    assert heard == ["third", "third again", "first", "second"]


def test_a_callable_without_a_name_is_unknown(torch: Any) -> None:
    class Change:
        def __call__(self, grad: Any) -> Any:
            return grad.bool()

    x = leaf(torch, 1.0)
    x.register_hook(Change())

    assert raises(RuntimeError, (x * 2).sum().backward) == (
        "hook '<unknown>' has changed the type of value (was torch.DoubleTensor got CPUBoolType)"
    )


def test_the_dicts_of_hooks_are_the_users_to_see_and_to_set(torch: Any) -> None:
    x = leaf(torch, 1.0)
    heard: list[str] = []
    assert (x._backward_hooks, x._post_accumulate_grad_hooks) == (None, None)

    x._backward_hooks = OrderedDict({1: lambda grad: heard.append("set")})
    x.register_post_accumulate_grad_hook(lambda tensor: heard.append("after"))
    (x * 2).sum().backward()
    assert (heard, len(x._post_accumulate_grad_hooks)) == (["set", "after"], 1)

    x._backward_hooks = None
    (x * 2).sum().backward()
    assert heard == ["set", "after", "after"]


def test_a_leaf_that_no_longer_wants_a_gradient_gets_none(torch: Any) -> None:
    x = leaf(torch, 1.0)
    y = x * 2
    heard: list[Any] = []
    x.register_post_accumulate_grad_hook(lambda tensor: heard.append(tensor.grad))
    x.requires_grad_(False)
    y.sum().backward()

    assert (x.grad, heard) == (None, [None])


def test_several_gradients_are_waited_for(torch: Any) -> None:
    x, y, z = (leaf(torch, value) for value in (1.0, 2.0, 3.0))
    heard: list[Any] = []
    torch.autograd.graph.register_multi_grad_hook(
        (x, y, z), lambda grads: heard.append([None if g is None else g.item() for g in grads])
    )

    (x * y).sum().backward()
    (x * y * z).sum().backward()
    (x * y).sum().backward(inputs=[x])

    assert heard == [[2.0, 1.0, None], [6.0, 3.0, 2.0], [2.0, None, None]]


def test_the_first_of_several_gradients_is_enough_when_asked(torch: Any) -> None:
    x, y = leaf(torch, 1.0), leaf(torch, 2.0)
    heard: list[float] = []
    handle = torch.autograd.graph.register_multi_grad_hook(
        (x, y), lambda grad: heard.append(grad.item()), mode="any"
    )

    (x * y).sum().backward()
    assert len(heard) == 1
    (x * y).sum().backward()
    handle.remove()
    (x * y).sum().backward()

    assert len(heard) == 2


def test_a_multi_grad_hook_on_leaves_is_not_for_grad(torch: Any) -> None:
    x, y, heard = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0), []
    torch.autograd.graph.register_multi_grad_hook([x, y], heard.append)

    text = raises(RuntimeError, lambda: torch.autograd.grad((x * y).sum(), [x]))
    (x * y).sum().backward(inputs=[x])
    (x * y).sum().backward()

    assert text == (
        "A leaf node was passed to _will_engine_execute_node but we are currently running "
        "autograd.grad(). This is currently not supported."
    )
    assert [[None if g is None else g.tolist() for g in grads] for grads in heard] == [
        [[3.0, 4.0], None],
        [[3.0, 4.0], [1.0, 2.0]],
    ]


def test_a_multi_grad_hook_knows_two_modes(torch: Any) -> None:
    x = leaf(torch, 1.0)

    assert (
        raises(
            ValueError,
            lambda: torch.autograd.graph.register_multi_grad_hook((x,), print, mode="some"),
        )
        == "Expects mode to be one of ('all', 'any') but got some"
    )
