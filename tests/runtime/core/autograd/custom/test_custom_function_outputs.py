"""What a custom function may return: several things, its inputs, what it wrote to, views."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.both import function, leaf, names, raises

IN_CUSTOM_FUNCTION = (
    "This view was created inside a custom Function (or because an input was returned as-is)"
)


def remembering(seen: list[Any]) -> Any:
    def backward(ctx: Any, *grads: Any) -> Any:
        seen.append([g if g is None else g.tolist() for g in grads])
        return grads[0]

    return backward


def doubled_in_place(ctx: Any, x: Any) -> Any:
    x.mul_(2)
    ctx.mark_dirty(x)
    return x


def test_several_outputs_and_things_that_are_no_tensors(torch: Any) -> None:
    seen: list[Any] = []
    mine = function(torch, lambda ctx, x: (x * 2, x * 3, 5, None), remembering(seen))
    made = mine.apply(leaf(torch, 1.0))

    assert made[2:] == (5, None)
    assert [t.output_nr for t in made[:2]] == [0, 1]
    made[0].backward()
    assert seen == [[[1.0], [0.0], None, None]]


def test_one_output_stays_one_and_a_tuple_of_one_a_tuple(torch: Any) -> None:
    x = leaf(torch, 1.0)

    assert function(torch, lambda ctx, x: x * 2).apply(x).tolist() == [2.0]
    assert len(function(torch, lambda ctx, x: (x * 2,)).apply(x)) == 1
    assert function(torch, lambda ctx, x: None).apply(x) is None
    assert function(torch, lambda ctx, x: ()).apply(x) == ()


def test_a_list_is_one_output_without_history(torch: Any) -> None:
    (made,) = function(torch, lambda ctx, x: [x * 2]).apply(leaf(torch, 1.0))

    assert made.grad_fn is None


def test_outputs_that_cannot_have_a_gradient_have_none(torch: Any) -> None:
    seen: list[Any] = []
    mine = function(torch, lambda ctx, x: (x * 2, x > 0, x.long()), remembering(seen))
    made = mine.apply(leaf(torch, 1.0))

    assert [t.requires_grad for t in made] == [True, False, False]
    made[0].backward()
    assert seen == [[[1.0], [False], [0]]]


def test_outputs_marked_non_differentiable_have_no_gradient(torch: Any) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        y = x * 3
        ctx.mark_non_differentiable(y)
        return x * 2, y

    made = function(torch, forward, remembering(seen)).apply(leaf(torch, 1.0))

    assert [(t.requires_grad, t.grad_fn is None) for t in made] == [(True, False), (False, True)]
    made[0].backward()
    assert seen == [[[1.0], [0.0]]]


@pytest.mark.parametrize("mark", ["dirty_tensors", "non_differentiable"])
def test_marks_are_tuples(torch: Any, mark: str) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        setattr(ctx, mark, [x])
        return x

    assert raises(
        RuntimeError, lambda: function(torch, forward).apply(leaf(torch, 1.0))
    ).startswith(f"autograd internal error: {mark} attribute is expected to be a tuple but is ")


def test_only_tensors_can_be_marked_non_differentiable(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_non_differentiable(3)
        return x

    assert raises(
        RuntimeError, lambda: function(torch, forward).apply(leaf(torch, 1.0))
    ).startswith("mark_non_differentiable only accepts variable arguments, but got ")


def test_gradients_that_never_came_are_none_when_asked(torch: Any) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return x * 2, x * 3, 5

    function(torch, forward, remembering(seen)).apply(leaf(torch, 1.0))[0].backward()

    assert seen == [[[1.0], None, None]]


def test_an_input_that_is_returned_becomes_an_alias(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = function(torch, lambda ctx, x: x, lambda ctx, grad: grad * 10).apply(x)

    assert y is not x
    assert y._base is x
    assert type(y.grad_fn).__name__ == "MineBackward"
    y.backward()
    assert x.grad.tolist() == [10.0]


def test_an_input_without_gradient_that_is_returned_is_an_alias_too(torch: Any) -> None:
    x = torch.ones(2)
    y = function(torch, lambda ctx, x: x).apply(x)

    assert (y is x, y._base is x, y.grad_fn) == (False, True, None)


def test_an_alias_has_hooks_of_its_own(torch: Any) -> None:
    x = leaf(torch, 3.0) * 1
    heard: list[str] = []
    x.register_hook(lambda grad: heard.append("input"))
    y = function(torch, lambda ctx, x: x, lambda ctx, grad: grad).apply(x)
    y.register_hook(lambda grad: heard.append("output"))
    y.backward()

    assert heard == ["output", "input"]


def test_an_alias_without_dims(torch: Any) -> None:
    x = torch.tensor(3.0, requires_grad=True)
    y = function(torch, lambda ctx, x: x, lambda ctx, grad: grad * 10).apply(x)
    y.backward()

    assert (y.shape, x.grad.item()) == ((), 10.0)


def test_an_alias_cannot_be_written_to(torch: Any) -> None:
    y = function(torch, lambda ctx, x: x).apply(leaf(torch, 3.0))
    text = raises(RuntimeError, lambda: y.add_(1))

    assert text.startswith("Output 0 of Mine is a view and is being modified inplace.")
    assert IN_CUSTOM_FUNCTION in text


def test_inputs_returned_together_are_outputs_of_several(torch: Any) -> None:
    x = leaf(torch, 3.0)
    made = function(torch, lambda ctx, a, b: (a, b)).apply(x, torch.ones(1, dtype=torch.float64))

    assert [names(t.grad_fn) for t in made] == [[("AccumulateGrad", 0), (None, 0)]] * 2
    assert "a function that returns multiple views" in raises(RuntimeError, lambda: made[0].add_(1))


def test_an_input_returned_twice_is_two_outputs(torch: Any) -> None:
    seen: list[Any] = []
    first, second = function(torch, lambda ctx, x: (x, x), remembering(seen)).apply(
        leaf(torch, 3.0)
    )

    assert (first is second, first.output_nr, second.output_nr) == (False, 0, 1)
    second.backward()
    assert seen == [[[0.0], [1.0]]]


def test_one_tensor_in_two_places_has_its_gradient_in_the_last(torch: Any) -> None:
    seen: list[Any] = []

    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        return y, y

    first, second = function(torch, forward, remembering(seen)).apply(leaf(torch, 3.0))

    assert (first is second, first.output_nr) == (True, 1)
    (first + second).backward()
    assert seen == [[[0.0], [2.0]]]


# -- what forward wrote to ------------------------------------------------------------------------


def test_a_dirty_input_is_returned_itself_with_new_history(torch: Any) -> None:
    x = leaf(torch, 3.0)
    z = x * 1
    y = function(torch, doubled_in_place, lambda ctx, grad: grad * 2).apply(z)

    assert y is z
    assert (z._version, names(z.grad_fn)) == (2, [("MulBackward0", 0)])
    y.backward()
    assert x.grad.tolist() == [2.0]


def test_a_dirty_input_without_gradient_joins_the_history_of_another(torch: Any) -> None:
    x, z = leaf(torch, 3.0), torch.ones(1, dtype=torch.float64)

    def forward(ctx: Any, target: Any, factor: Any) -> Any:
        target.mul_(factor)
        ctx.mark_dirty(target)
        return target

    y = function(torch, forward, lambda ctx, grad: (None, grad)).apply(z, x)
    y.backward()

    assert (y is z, z.is_leaf, names(z.grad_fn)) == (
        True,
        False,
        [(None, 0), ("AccumulateGrad", 0)],
    )
    assert x.grad.tolist() == [1.0]


def test_a_leaf_that_requires_a_gradient_cannot_be_dirty(torch: Any) -> None:
    mine = function(torch, doubled_in_place)

    assert raises(RuntimeError, lambda: mine.apply(leaf(torch, 1.0))) == (
        "a leaf Variable that requires grad has been used in an in-place operation."
    )


def test_a_view_of_a_leaf_cannot_be_dirty(torch: Any) -> None:
    mine = function(torch, doubled_in_place)

    assert raises(RuntimeError, lambda: mine.apply(leaf(torch, 1.0, 2.0)[:1])) == (
        "a view of a leaf Variable that requires grad is being used in an in-place operation."
    )


def test_a_dirty_input_must_be_returned(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x * 2

    assert raises(
        RuntimeError, lambda: function(torch, forward).apply(leaf(torch, 1.0) * 1)
    ).startswith("Some elements marked as dirty during the forward method were not returned")


def test_what_is_dirty_but_no_input_is_warned_of(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        y = x * 2
        ctx.mark_dirty(y)
        return y

    with pytest.warns(UserWarning, match="received a tensor that was not an input"):
        y = function(torch, forward, lambda ctx, grad: grad * 2).apply(leaf(torch, 1.0))
    assert type(y.grad_fn).__name__ == "MineBackward"


def test_a_dirty_view_rewrites_its_base(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    base = x * 1
    view = base[:1]
    made = function(torch, doubled_in_place, lambda ctx, grad: grad * 2).apply(view)

    assert made is view
    assert type(base.grad_fn).__name__ == "CopySlices"
    assert type(view.grad_fn).__name__ == "AsStridedBackward0"
    base.sum().backward()
    assert x.grad.tolist() == [2.0, 1.0]


def test_a_dirty_view_must_be_the_only_output(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        return doubled_in_place(ctx, x), x * 3

    base = leaf(torch, 1.0, 2.0) * 1

    assert raises(RuntimeError, lambda: function(torch, forward).apply(base[:1])).startswith(
        "If your Function modifies inplace an input that is a view of another Tensor, your "
        "Function cannot return more than one Tensor."
    )


def test_a_dirty_output_that_is_not_differentiable_is_an_alias(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_non_differentiable(x)
        return doubled_in_place(ctx, x)

    z = leaf(torch, 1.0) * 1
    y = function(torch, forward).apply(z)

    assert (y is z, y.requires_grad, y.tolist()) == (False, False, [2.0])


def test_several_outputs_are_refused_before_a_leaf_below_the_view(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        return doubled_in_place(ctx, x), x * 3

    view = leaf(torch, 1.0, 2.0)[:1]

    assert raises(RuntimeError, lambda: function(torch, forward).apply(view)).startswith(
        "If your Function modifies inplace an input that is a view of another Tensor"
    )


def test_only_tensors_can_be_dirty(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(3)
        return x

    assert raises(
        RuntimeError, lambda: function(torch, forward).apply(leaf(torch, 1.0))
    ).startswith("mark_dirty can only accept variables, but argument ")


# -- views ----------------------------------------------------------------------------------------


def test_a_view_of_an_input_has_the_functions_history(torch: Any) -> None:
    z = leaf(torch, 1.0, 2.0) * 1
    y = function(torch, lambda ctx, x: x[:1], lambda ctx, grad: grad.expand(2) * 10).apply(z)

    assert (y._base is z, type(y.grad_fn).__name__) == (True, "MineBackward")
    text = raises(RuntimeError, lambda: y.add_(1))
    assert text.startswith("Output 0 of Mine is a view and is being modified inplace.")
    assert IN_CUSTOM_FUNCTION in text


def test_a_view_whose_base_was_written_to_has_lost_its_history(torch: Any) -> None:
    z = leaf(torch, 1.0, 2.0) * 1
    y = function(torch, lambda ctx, x: x[:1]).apply(z)
    z.add_(1)

    text = raises(RuntimeError, lambda: y.grad_fn)
    assert text.startswith(
        "Output 0 of Mine is a view and its base or another view of its base has been modified "
        "inplace."
    )


def test_it_may_be_asked_to_want_a_gradient_before_it_is_known(torch: Any) -> None:
    z = leaf(torch, 1.0, 2.0) * 1
    y = function(torch, lambda ctx, x: x[:1]).apply(z)
    z.add_(1)

    assert y.requires_grad_() is y
    assert raises(RuntimeError, lambda: y.is_leaf).startswith("Output 0 of Mine is a view and its")


def test_a_view_that_needs_no_gradient_can_be_written_to(torch: Any) -> None:
    z = torch.ones(2)
    y = function(torch, lambda ctx, x: x[:1]).apply(z)
    y.add_(1)

    assert (y._base is z, z.tolist()) == (True, [2.0, 1.0])


def test_an_output_made_with_history_gets_the_functions_instead(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        with torch.enable_grad():
            return x * 2

    y = function(torch, forward, lambda ctx, grad: grad * 10).apply(leaf(torch, 3.0))

    assert names(y.grad_fn) == [("AccumulateGrad", 0)]
