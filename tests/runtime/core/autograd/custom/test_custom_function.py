"""Operations users write: what forward and backward get, may return, and may get wrong."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from tests.runtime.both import function, leaf, names, raises


def doubled(ctx: Any, x: Any) -> Any:
    return x * 2


def squared(ctx: Any, x: Any) -> Any:
    ctx.save_for_backward(x)
    return x * x


def squared_back(ctx: Any, grad: Any) -> Any:
    (x,) = ctx.saved_tensors
    return grad * 2 * x


def test_a_function_has_its_own_derivative(torch: Any) -> None:
    x = leaf(torch, 3.0)

    y = function(torch, doubled, lambda ctx, grad: grad * 100).apply(x)
    y.sum().backward()

    assert (y.tolist(), x.grad.tolist()) == ([6.0], [100.0])


def test_its_node_is_named_after_it(torch: Any) -> None:
    x, y = leaf(torch, 3.0), torch.ones(1, dtype=torch.float64)
    made = function(torch, lambda ctx, a, n, b: a * n + b, name="Scale").apply(x, 3, y)

    assert type(made.grad_fn).__name__ == "ScaleBackward"
    assert made.grad_fn.name() == "ScaleBackward"
    assert names(made.grad_fn) == [("AccumulateGrad", 0), (None, 0)]


def test_ctx_is_the_node(torch: Any) -> None:
    kept: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.factor = 3
        kept.append(ctx)
        return x * 3

    def backward(ctx: Any, grad: Any) -> Any:
        kept.append(ctx)
        return grad * ctx.factor

    y = function(torch, forward, backward).apply(leaf(torch, 1.0))
    y.backward()

    assert kept[0] is kept[1] is y.grad_fn
    assert y.grad_fn.factor == 3


def test_forward_records_nothing(torch: Any) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        seen.append((torch.is_grad_enabled(), x.requires_grad, (x * 2).requires_grad))
        return x * 2

    function(torch, forward).apply(leaf(torch, 1.0))

    assert seen == [(False, True, False)]
    assert torch.is_grad_enabled()


def test_forward_that_raises_leaves_grad_mode_as_it_was(torch: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        function(torch, lambda ctx, x: 1 / 0).apply(leaf(torch, 1.0))

    assert torch.is_grad_enabled()


def test_nothing_is_recorded_where_nothing_needs_a_gradient(torch: Any) -> None:
    mine = function(torch, squared, squared_back)
    x = torch.ones(1)
    y = mine.apply(x)
    with torch.no_grad():
        z = mine.apply(leaf(torch, 1.0))

    assert [(t.grad_fn, t.requires_grad) for t in (y, z)] == [(None, False)] * 2


def test_backward_runs_in_the_grad_mode_of_its_backward(torch: Any) -> None:
    modes: list[bool] = []

    def backward(ctx: Any, grad: Any) -> Any:
        modes.append(torch.is_grad_enabled())
        return grad

    x = leaf(torch, 1.0)
    y = function(torch, doubled, backward).apply(x)
    torch.autograd.grad(y, x, retain_graph=True)
    torch.autograd.grad(y, x, create_graph=True)

    assert modes == [False, True]


def test_which_inputs_need_a_gradient(torch: Any) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any, number: Any, y: Any, text: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        return x * y

    def backward(ctx: Any, grad: Any) -> Any:
        seen.append(ctx.needs_input_grad)
        return grad, None, None, None

    y = torch.ones(1, dtype=torch.float64)
    function(torch, forward, backward).apply(leaf(torch, 1.0), 3, y, "text").backward()

    assert seen == [(True, False, False, False)] * 2


def test_inputs_may_be_given_by_name(torch: Any) -> None:
    x, y = leaf(torch, 3.0), leaf(torch, 5.0)

    def forward(ctx: Any, a: Any, n: Any, b: Any, flag: Any = True) -> Any:
        return a * n + b

    mine = function(torch, forward, lambda ctx, grad: (grad, None, grad * 2))
    mine.apply(x, b=y, n=3).backward()

    assert (x.grad.tolist(), y.grad.tolist()) == ([1.0], [2.0])


def test_names_are_put_into_the_order_of_forward(torch: Any) -> None:
    x = leaf(torch, 3.0)

    def forward(ctx: Any, a: Any, b: Any, c: Any = 3, *, d: Any = 4) -> Any:
        return a * 2

    mine = function(torch, forward, lambda ctx, grad: (grad, None, None, None))

    assert len(mine.apply(x, c=1, b=2).grad_fn.needs_input_grad) == 3
    for action, text in [
        (lambda: mine.apply(x, 1, e=2), "forward() got an unexpected keyword argument 'e'"),
        (lambda: mine.apply(x, 1, d=2), "forward() got an unexpected keyword argument 'd'"),
        (lambda: mine.apply(x, 1, b=2), "forward() got multiple values for argument 'b'"),
        (lambda: mine.apply(x, c=2), "forward() missing required argument: 'b' (position 1)"),
    ]:
        assert raises(TypeError, action) == text


def test_gradients_may_be_none(torch: Any) -> None:
    x, y = leaf(torch, 3.0), leaf(torch, 5.0)

    function(torch, lambda ctx, a, b: a * b, lambda ctx, grad: (None, grad)).apply(x, y).backward()

    assert (x.grad, y.grad.tolist()) == (None, [1.0])


def test_none_stays_undefined_through_the_nodes_below(torch: Any) -> None:
    x = leaf(torch, 3.0)
    nothing = function(torch, doubled, lambda ctx, grad: None)

    nothing.apply((x * 3).exp()).backward()

    assert x.grad is None


def test_one_tensor_per_gradient_is_added_up(torch: Any) -> None:
    x = leaf(torch, 3.0)

    function(torch, lambda ctx, a, b: a + b, lambda ctx, g: (g, g * 10)).apply(x, x).backward()

    assert x.grad.tolist() == [11.0]


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (
            lambda g: (g, g),
            "function MineBackward returned an incorrect number of gradients (expected 1, got 2)",
        ),
        (
            lambda g: (),
            "function MineBackward returned an incorrect number of gradients (expected 1, got 0)",
        ),
        (lambda g: 3.0, "expected Variable or None (got float)"),
        (lambda g: [g], "expected Variable or None (got list)"),
        (
            lambda g: g.expand(5, 2),
            None,
        ),
        (
            lambda g: g[:1].expand(5),
            (
                "Function MineBackward returned an invalid gradient at index 0 - got [5] but "
                "expected shape compatible with [2]"
            ),
        ),
    ],
)
def test_what_backward_returns_must_fit(torch: Any, returned: Any, text: str | None) -> None:
    x = leaf(torch, 1.0, 2.0)
    y = function(torch, doubled, lambda ctx, grad: returned(grad)).apply(x).sum()

    if text is None:
        y.backward()
        assert x.grad.tolist() == [5.0, 5.0]
    else:
        assert raises(RuntimeError, y.backward) == text


def test_surplus_gradients_are_fine_if_they_are_none(torch: Any) -> None:
    x = leaf(torch, 1.0)

    function(torch, doubled, lambda ctx, grad: (grad, None, None)).apply(x).backward()

    assert x.grad.tolist() == [1.0]


def test_an_input_that_is_no_tensor_gets_no_gradient(torch: Any) -> None:
    x = leaf(torch, 1.0)
    y = function(torch, lambda ctx, a, n: a * n, lambda ctx, grad: (grad, grad)).apply(x, 3)

    assert raises(RuntimeError, y.backward) == (
        "function MineBackward returned a gradient different than None at position 2, but the "
        "corresponding forward input was not a Variable"
    )


def test_a_gradient_is_cast_to_the_dtype_of_its_input(torch: Any) -> None:
    x = leaf(torch, 1.0)

    function(torch, doubled, lambda ctx, grad: grad.float()).apply(x).backward()

    assert x.grad.dtype == torch.float64


def test_a_complex_gradient_does_not_fit_a_real_input(torch: Any) -> None:
    x = leaf(torch, 1.0)
    y = function(torch, doubled, lambda ctx, grad: grad.to(torch.complex128)).apply(x)

    assert raises(RuntimeError, y.backward).startswith(
        "Expected isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex)"
    )


def test_saved_tensors_can_be_read_while_the_graph_lives(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = function(torch, squared, squared_back).apply(x)

    assert y.grad_fn.saved_tensors[0] is x
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.grad_fn.saved_tensors  # noqa: B018
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_saved_tensors_can_be_read_twice_in_one_backward(torch: Any) -> None:
    def backward(ctx: Any, grad: Any) -> Any:
        assert ctx.saved_tensors[0] is ctx.saved_tensors[0]
        return squared_back(ctx, grad)

    x = leaf(torch, 3.0)
    function(torch, squared, backward).apply(x).backward()

    assert x.grad.tolist() == [6.0]


def test_a_function_that_saves_nothing_can_run_again(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = function(torch, doubled, lambda ctx, grad: grad * 2).apply(x)
    y.backward()
    y.backward()

    assert x.grad.tolist() == [4.0]


def test_what_is_kept_as_an_attribute_is_not_freed(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.x = x
        return x * x

    x = leaf(torch, 3.0)
    y = function(torch, forward, lambda ctx, grad: grad * 2 * ctx.x).apply(x)
    y.backward()
    y.backward()

    assert x.grad.tolist() == [12.0]


def test_saved_tensors_may_be_read_once_only_where_the_function_says_so(torch: Any) -> None:
    mine = function(torch, squared, squared_back)
    mine.clear_saved_tensors_on_access = True
    x = leaf(torch, 3.0)
    z = x * 1
    held = weakref.ref(z)
    y = mine.apply(z)
    del z

    assert len(y.grad_fn.saved_tensors) == 1
    assert held() is None
    assert raises(RuntimeError, y.backward).startswith(
        "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set"
    )
    mine.apply(x).backward()
    assert x.grad.tolist() == [6.0]


def test_a_boxed_backward_gets_one_list_which_it_may_empty(torch: Any) -> None:
    def backward(ctx: Any, grads: Any) -> Any:
        assert type(grads) is list
        return grads.pop(0) * 10

    mine = function(torch, lambda ctx, x: (x * 2, x * 3), backward)
    mine.boxed_grads_call = True
    x = leaf(torch, 3.0)
    mine.apply(x)[0].backward()

    assert x.grad.tolist() == [10.0]


def test_only_tensors_can_be_saved_for_forward(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_forward(x, None)
        ctx.save_for_forward(3)

    assert raises(AssertionError, lambda: function(torch, forward).apply(leaf(torch, 1.0))) == (
        "save_for_forward expects all arguments to be tensors; you should save non-tensors as "
        "attributes on ctx."
    )


def test_what_forward_said_is_forgotten_when_it_is_over(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        y = x * 3
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        ctx.mark_non_differentiable(y)
        return x * 2, y

    ctx = function(torch, forward).apply(leaf(torch, 1.0))[0].grad_fn

    assert (ctx.to_save, ctx.saved_for_forward, ctx.non_differentiable) == (None, None, None)
    assert ctx.requires_grad


def test_switches_are_true_or_false(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(0)

    assert raises(TypeError, lambda: function(torch, forward).apply(leaf(torch, 1.0))).startswith(
        "set_materialize_grads received an invalid combination of arguments"
    )


def test_old_names_still_work_and_warn(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        with pytest.warns(FutureWarning, match="`mark_shared_storage` is deprecated"):
            ctx.mark_shared_storage((x, x))
        return squared(ctx, x)

    y = function(torch, forward).apply(leaf(torch, 1.0))

    with pytest.warns(DeprecationWarning, match="'saved_variables' is deprecated"):
        assert len(y.grad_fn.saved_variables) == 1


def test_the_node_of_a_function_cannot_be_called(torch: Any) -> None:
    y = function(torch, doubled, lambda ctx, grad: grad * 5).apply(leaf(torch, 1.0))

    assert raises(TypeError, lambda: y.grad_fn(torch.ones(1))) == (
        "'MineBackward' object is not callable"
    )
    assert y.grad_fn.apply(torch.ones(1)).tolist() == [5.0]


def test_a_gradient_of_whole_numbers_is_cast(torch: Any) -> None:
    x = leaf(torch, 1.0)
    function(torch, doubled, lambda ctx, grad: grad.long() * 7).apply(x).backward()

    assert (x.grad.dtype, x.grad.tolist()) == (torch.float64, [7.0])


def test_saved_tensors_are_nothing_before_forward_is_over(torch: Any) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        seen.append(ctx.saved_tensors)
        return x * 2

    function(torch, forward).apply(leaf(torch, 1.0))

    assert seen == [()]


def test_none_may_be_saved_and_numbers_may_not(torch: Any) -> None:
    def save(*values: Any) -> Any:
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(*values)
            return x * 2

        return function(torch, forward).apply(leaf(torch, 1.0))

    assert save(None).grad_fn.saved_tensors == (None,)
    assert raises(TypeError, lambda: save(None, 3)) == (
        "save_for_backward can only save variables, but argument 1 is of type int"
    )


def test_a_saved_output_is_another_object_with_the_same_history(torch: Any) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    def backward(ctx: Any, grad: Any) -> Any:
        (y,) = ctx.saved_tensors
        seen.append((y is made, y.grad_fn is ctx, y.requires_grad))
        return grad * y

    x = leaf(torch, 0.0)
    made = function(torch, forward, backward).apply(x)
    made.backward()

    assert seen == [(False, True, True)]
    assert x.grad.tolist() == [1.0]


def test_a_saved_output_closes_no_cycle(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(x, y)
        return y

    gc.disable()
    try:
        made = function(torch, forward).apply(leaf(torch, 0.0))
        held = weakref.ref(made)
        del made
        assert held() is None
    finally:
        gc.enable()


def test_a_cycle_through_ctx_is_collected(torch: Any) -> None:
    class Token:
        pass

    def forward(ctx: Any, x: Any) -> Any:
        ctx.token = token  # noqa: F821 -- deleted below, on purpose
        return x * 2

    token = Token()
    held = weakref.ref(token)
    made = function(torch, forward).apply(leaf(torch, 0.0))
    made.grad_fn.output = made
    del made, token
    gc.collect()

    assert held() is None


def test_a_saved_input_that_was_written_to_is_noticed(torch: Any) -> None:
    x = leaf(torch, 3.0)
    z = x * 1
    y = function(torch, squared, squared_back).apply(z)
    z.add_(1)

    assert raises(RuntimeError, y.backward).startswith(
        "one of the variables needed for gradient computation has been modified by an inplace "
        "operation: [torch.DoubleTensor [1]], which is output 0 of Add, is at version 1; "
        "expected version 0 instead."
    )


def test_a_saved_output_that_was_written_to_is_noticed(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    def backward(ctx: Any, grad: Any) -> Any:
        return grad * ctx.saved_tensors[0]

    y = function(torch, forward, backward).apply(leaf(torch, 3.0))
    y.add_(1)

    assert raises(RuntimeError, y.backward).startswith(
        "one of the variables needed for gradient computation has been modified by an inplace "
        "operation: [torch.DoubleTensor [1]], which is output 0 of Mine, is at version 1; "
        "expected version 0 instead."
    )


def test_a_backward_made_of_operations_can_be_differentiated(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = function(torch, lambda ctx, x: (ctx.save_for_backward(x), x * x * x)[1],
                 lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2).apply(x)  # fmt: skip

    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x, create_graph=True)
    (third,) = torch.autograd.grad(second, x)

    assert [g.tolist() for g in (first, second, third)] == [[27.0], [18.0], [6.0]]


def test_a_once_differentiable_backward_stops_at_the_second(torch: Any) -> None:
    once = torch.autograd.function.once_differentiable
    modes: list[bool] = []

    def backward(ctx: Any, grad: Any) -> Any:
        modes.append(torch.is_grad_enabled())
        return squared_back(ctx, grad)

    x, seed = leaf(torch, 3.0), leaf(torch, 1.0)
    y = function(torch, squared, once(backward)).apply(x)
    (plain,) = torch.autograd.grad(y, x, create_graph=True)
    (first,) = torch.autograd.grad(y, x, seed, create_graph=True)

    assert modes == [False, False]
    assert (plain.requires_grad, first.requires_grad) == (False, True)
    assert first.grad_fn.name() == "torch::autograd::Error"
    assert raises(RuntimeError, first.backward) == (
        "trying to differentiate twice a function that was marked with @once_differentiable"
    )


def test_a_function_without_a_backward_says_so_at_backward(torch: Any) -> None:
    y = function(torch, doubled).apply(leaf(torch, 1.0))

    assert raises(NotImplementedError, y.backward) == (
        "You must implement either the backward or vjp method for your custom autograd.Function "
        "to use it with backward mode AD."
    )


def test_a_function_with_two_backwards_says_so_at_backward(torch: Any) -> None:
    mine = function(torch, doubled, lambda ctx, grad: grad)
    mine.vjp = staticmethod(lambda ctx, grad: grad)
    y = mine.apply(leaf(torch, 1.0))

    assert raises(RuntimeError, y.backward) == (
        "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should "
        "only implement one of them."
    )


def test_vjp_is_another_name_for_backward(torch: Any) -> None:
    mine = function(torch, doubled)
    mine.vjp = staticmethod(lambda ctx, grad: grad * 7)
    x = leaf(torch, 1.0)
    mine.apply(x).backward()

    assert x.grad.tolist() == [7.0]


def test_a_function_without_a_forward_says_so(torch: Any) -> None:
    assert (
        raises(NotImplementedError, lambda: torch.autograd.Function.apply(leaf(torch, 1.0)))
        == "You must implement the forward function for custom autograd.Function."
    )


def test_a_function_is_applied_not_called(torch: Any) -> None:
    mine = function(torch, doubled)

    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        instance = mine()
    assert raises(RuntimeError, lambda: instance(1)).startswith(
        "Legacy autograd function with non-static forward method is deprecated."
    )


def test_hooks_on_the_node_of_a_function(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = function(torch, squared, squared_back).apply(x)
    heard: list[Any] = []
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 10,))
    y.grad_fn.register_hook(
        lambda grads, outputs: heard.append((grads[0].item(), outputs[0].item()))
    )
    y.backward()

    assert heard == [(60.0, 10.0)]


def test_a_function_in_a_function(torch: Any) -> None:
    inner = function(torch, squared, squared_back)

    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        with torch.enable_grad():
            y = x.detach().requires_grad_()
            inner.apply(y).backward(grad)
        return y.grad

    x = leaf(torch, 3.0)
    function(torch, squared, backward).apply(x).backward()

    assert x.grad.tolist() == [6.0]


def test_inputs_in_a_list_are_no_inputs(torch: Any) -> None:
    x = leaf(torch, 3.0)
    mine = function(torch, lambda ctx, many, y: many[0] * y, lambda ctx, grad: (None, grad))
    y = mine.apply([x], x)

    assert names(y.grad_fn) == [("AccumulateGrad", 0)]


def test_a_subclass_inherits_the_operation_and_gets_a_node_of_its_own(torch: Any) -> None:
    base = function(torch, squared, squared_back, name="Base")
    derived = type("Derived", (base,), {})
    x = leaf(torch, 3.0)
    y = derived.apply(x)
    y.backward()

    assert (type(y.grad_fn).__name__, x.grad.tolist()) == ("DerivedBackward", [6.0])


# -- forward without ctx --------------------------------------------------------------------------


def test_setup_context_sees_inputs_and_output(torch: Any) -> None:
    seen: list[Any] = []

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        seen.append((inputs[1:], output.requires_grad, torch.is_grad_enabled()))
        ctx.factor = inputs[1]

    x = leaf(torch, 3.0)
    mine = function(torch, lambda x, k=2: x * k, lambda ctx, g: (g * ctx.factor, None), setup)
    mine.apply(x).backward()
    mine.apply(x, k=5).backward()

    assert seen == [((2,), False, False), ((5,), False, False)]
    assert x.grad.tolist() == [7.0]


def test_setup_context_may_save_inputs_and_outputs(torch: Any) -> None:
    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs, output)

    def backward(ctx: Any, grad: Any) -> Any:
        x, y = ctx.saved_tensors
        assert y.grad_fn is ctx
        return grad * 2 * x

    x = leaf(torch, 3.0)
    function(torch, lambda x: x * x, backward, setup).apply(x).backward()

    assert x.grad.tolist() == [6.0]


def test_an_input_that_is_returned_cannot_be_saved_by_setup_context(torch: Any) -> None:
    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    mine = function(torch, lambda x: x, lambda ctx, grad: grad, setup)

    assert raises(RuntimeError, lambda: mine.apply(leaf(torch, 1.0))).startswith(
        "An input that has been returned as-is as output is being saved for backward. This is not "
        "supported if you override setup_context."
    )


def test_an_input_that_is_returned_cannot_be_saved_for_forward_either(torch: Any) -> None:
    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_forward(inputs[0])

    mine = function(torch, lambda x: x, lambda ctx, grad: grad, setup)

    assert raises(RuntimeError, lambda: mine.apply(leaf(torch, 1.0))).startswith(
        "An input that has been returned as-is as output is being saved for backward."
    )


def test_a_missing_argument_is_python_s_own_error(torch: Any) -> None:
    mine = function(torch, lambda x: x, lambda ctx, g: g, lambda ctx, inputs, output: None)

    assert raises(TypeError, mine.apply) == "missing a required argument: 'x'"


def test_a_gradient_that_does_not_fit_frees_nothing(torch: Any) -> None:
    y = function(torch, squared, lambda ctx, grad: (ctx.saved_tensors, grad[:0])[1]).apply(
        leaf(torch, 3.0, 4.0)
    )

    for _ in range(2):
        assert raises(RuntimeError, y.sum().backward) == (
            "Function MineBackward returned an invalid gradient at index 0 - got [0] but expected "
            "shape compatible with [2]"
        )


def test_a_function_of_structures_flattens_what_it_marks_and_cannot_be_called(torch: Any) -> None:
    nested = torch.autograd.function.NestedIOFunction

    class Old(nested):
        def forward_extended(self, pair: Any, last: Any) -> Any:
            return [pair[0] * 2, (pair[1], last)]

        def backward_extended(self, *grads: Any) -> Any:
            return grads, None

    a, b, c = (torch.ones(1) * k for k in (1, 2, 3))
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        old = Old()
    old._nested_input = ([a, b], c)
    assert [t.item() for t in old.forward()] == [2.0, 2.0, 3.0]
    assert [t if t is None else t.item() for t in old.backward(a, b, c)] == [1.0, 2.0, 3.0, None]
    old.mark_dirty([a, {"key": b}], other=None)
    old.mark_non_differentiable((c,))
    old.save_for_backward([a], b)
    assert [t.item() for t in old.dirty_tensors] == [1.0, 2.0]
    assert [t.item() for t in old.non_differentiable] == [3.0]
    assert [t.item() for t in old.to_save] == [1.0, 2.0]
    with pytest.raises(ValueError, match="Auto nesting doesn't know how to process an input obj"):
        old.mark_dirty("word")
    with pytest.raises(AttributeError, match="'super' object has no attribute '_do_forward'"):
        old(a)
