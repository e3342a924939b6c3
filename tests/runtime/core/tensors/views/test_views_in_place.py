"""Writing in place, through views and under them: whose history changes, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.both import function, leaf, names, raises

MULTI = "This view is the output of a function that returns multiple views."
NO_GRAD = "A view was created in no_grad mode and is being modified inplace with grad mode enabled."


def node(tensor: Any) -> str:
    return type(tensor.grad_fn).__name__


def test_a_write_gives_the_tensor_a_new_history(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    same = y.mul_(5)

    assert same is y
    assert (node(y), y._version) == ("MulBackward0", 1)
    assert names(y.grad_fn) == [("MulBackward0", 0), (None, 0)]
    y.backward()
    assert x.grad.tolist() == [10.0]


def test_a_write_through_a_view_rewrites_the_base(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0, 3.0)
    base = x * 1
    view = base[1:]
    view.mul_(10)

    assert (node(base), node(view), view._base is base) == (
        "CopySlices",
        "AsStridedBackward0",
        True,
    )
    assert names(base.grad_fn) == [("MulBackward0", 0), (None, 0)]
    base.sum().backward()
    assert x.grad.tolist() == [1.0, 10.0, 10.0]


def test_other_views_of_the_base_follow(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0, 3.0)
    base = x * 1
    early, other = base[:2], base[1:]
    other.mul_(10)

    assert node(early) == "AsStridedBackward0"
    early.sum().backward()
    assert x.grad.tolist() == [1.0, 10.0, 0.0]


def test_a_write_to_the_base_reaches_its_views(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    base = x * 1
    view = base[:1]
    base.mul_(10)
    view.sum().backward()

    assert (view.tolist(), x.grad.tolist()) == ([10.0], [10.0, 0.0])


def test_views_follow_also_when_next_used_without_grad(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    base = x * 1
    view = base[:1]
    base.mul_(10)
    with torch.no_grad():
        assert node(view) == "AsStridedBackward0"


def test_a_view_of_a_view(torch: Any) -> None:
    x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    base = x * 1
    inner = base.t()[1:].t()
    assert inner._base is base
    inner[0].mul_(10)
    base.sum().backward()

    assert x.grad.tolist() == [[1.0, 10.0, 10.0], [1.0, 1.0, 1.0]]


def test_a_written_value_that_needs_a_gradient_makes_base_and_views_need_one(torch: Any) -> None:
    x = leaf(torch, 5.0)
    base = torch.zeros(3, dtype=torch.float64)
    early = base[:2]
    base[1:2] = x

    assert (base.requires_grad, early.requires_grad, base.is_leaf) == (True, True, False)
    (early * torch.tensor([1.0, 7.0], dtype=torch.float64)).sum().backward()
    assert x.grad.tolist() == [7.0]


def test_assigning_to_elements(torch: Any) -> None:
    x, y = leaf(torch, 1.0, 2.0, 3.0), leaf(torch, 10.0)
    z = x * 1
    z[0] = y[0]
    z[2] = 5
    z.sum().backward()

    assert z.tolist() == [10.0, 2.0, 5.0]
    assert (x.grad.tolist(), y.grad.tolist()) == ([0.0, 1.0, 0.0], [1.0])


def test_a_leaf_that_requires_a_gradient_cannot_be_written_to(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    assert raises(RuntimeError, lambda: x.add_(1)) == (
        "a leaf Variable that requires grad is being used in an in-place operation."
    )
    assert raises(RuntimeError, lambda: x[:1].add_(1)) == (
        "a view of a leaf Variable that requires grad is being used in an in-place operation."
    )
    assert x.tolist() == [1.0, 2.0]


def test_a_leaf_that_requires_none_takes_the_history_of_what_is_written(torch: Any) -> None:
    x, z = leaf(torch, 3.0), torch.ones(1, dtype=torch.float64)
    z.mul_(x)
    z.backward()

    assert (z.is_leaf, x.grad.tolist()) == (False, [1.0])


def test_outputs_of_a_function_with_several_views_cannot_be_written_to(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    first, _ = (x * 1).unbind()
    text = raises(RuntimeError, lambda: first.add_(1))

    assert text.startswith("Output 0 of Unbind is a view and is being modified inplace.")
    assert MULTI in text


def test_a_view_of_such_an_output_cannot_either(torch: Any) -> None:
    x = torch.ones(2, 2, dtype=torch.float64, requires_grad=True)
    _, second = (x * 1).unbind()
    text = raises(RuntimeError, lambda: second[:1].add_(1))

    assert text.startswith("Output 0 of Slice is a view and is being modified inplace.")
    assert MULTI in text


def test_their_base_can_be_written_to_and_they_are_lost(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    base = x * 1
    first, _ = base.unbind()
    base.add_(1)
    text = raises(RuntimeError, lambda: first * 2)

    assert text.startswith(
        "Output 0 of Unbind is a view and its base or another view of its base has been modified "
        "inplace."
    )
    assert MULTI in text


def test_several_views_that_need_no_gradient_can_be_written_to(torch: Any) -> None:
    base = torch.ones(2)
    first, _ = base.unbind()
    first.add_(1)

    assert base.tolist() == [2.0, 1.0]


def test_they_cannot_take_a_value_that_needs_one(torch: Any) -> None:
    first, _ = torch.ones(2, dtype=torch.float64).unbind()
    value = leaf(torch, 1.0)[0]

    assert MULTI in raises(RuntimeError, lambda: first.mul_(value))


def test_a_view_made_without_grad_cannot_be_written_to_with_it(torch: Any) -> None:
    base = leaf(torch, 1.0, 2.0) * 1
    with torch.no_grad():
        view = base[:1]
    text = raises(RuntimeError, lambda: view.add_(1))

    assert text.startswith(NO_GRAD)
    with torch.no_grad():
        view.add_(1)
    assert base.tolist() == [2.0, 2.0]


def test_a_view_made_without_grad_is_a_leaf_that_requires_a_gradient(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    with torch.no_grad():
        view = x[:1]
    out = (view * 3).sum()
    out.backward()

    assert (view.is_leaf, view.requires_grad, out.requires_grad) == (True, True, True)
    assert x.grad is None


def test_a_view_made_without_grad_is_lost_when_its_base_is_written_to(torch: Any) -> None:
    base = leaf(torch, 1.0, 2.0) * 1
    with torch.no_grad():
        view = base[:1]
    base.add_(1)

    assert raises(RuntimeError, lambda: view.grad_fn).startswith(
        "A view was created in no_grad mode and its base or another view of its base has been "
        "modified inplace with grad mode enabled."
    )


def test_a_view_made_in_inference_mode_cannot_be_written_to_outside(torch: Any) -> None:
    base = leaf(torch, 1.0, 2.0) * 1
    with torch.inference_mode():
        view = base[:1]

    assert raises(RuntimeError, lambda: view.add_(1)).startswith(
        "A view was created in inference mode and is being modified inplace in normal mode."
    )


def test_a_view_may_be_a_leaf_of_its_own(torch: Any) -> None:
    base = torch.ones(3)
    view = base[:1].requires_grad_()
    (view * 3).sum().backward()

    assert (base.requires_grad, view.is_leaf, view.grad.tolist()) == (False, True, [3.0])


def test_a_view_of_a_leaf_made_and_written_to_without_grad(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    with torch.no_grad():
        x[:1].fill_(9.0)

    assert (x.tolist(), x.is_leaf, x._version) == ([9.0, 2.0], True, 1)


def test_views_share_the_count_of_writes_and_so_does_detach(torch: Any) -> None:
    base = leaf(torch, 1.0, 2.0) * 1
    view, cut = base[:1], base.detach()
    view.add_(1)
    cut.add_(1)

    assert [t._version for t in (base, view, cut)] == [2, 2, 2]


def test_writing_into_an_expanded_tensor_is_refused(torch: Any) -> None:
    x = torch.ones(1).expand(3)

    assert raises(RuntimeError, lambda: x.add_(1)) == (
        "unsupported operation: more than one element of the written-to tensor refers to a single "
        "memory location. Please clone() the tensor before performing the operation."
    )


def test_a_write_that_would_change_the_shape_is_refused(torch: Any) -> None:
    x = torch.ones(2)

    assert raises(RuntimeError, lambda: x.add_(torch.ones(3, 2))) == (
        "output with shape [2] doesn't match the broadcast shape [3, 2]"
    )


def test_a_write_that_would_lose_the_kind_of_number_is_refused(torch: Any) -> None:
    x = torch.ones(2, dtype=torch.int64)

    assert raises(RuntimeError, lambda: x.add_(1.5)) == (
        "result type Float can't be cast to the desired output type Long"
    )


def test_views_cannot_be_detached_in_place(torch: Any) -> None:
    view = (leaf(torch, 1.0, 2.0) * 1)[:1]

    assert raises(RuntimeError, view.detach_).startswith("Can't detach views in-place.")


def test_a_view_whose_strides_repeat_collects_the_gradient(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    base = x * 1
    wide = base.view(1, 2).expand(3, 2)
    base.mul_(5)
    wide.sum().backward()

    assert (node(wide), x.grad.tolist()) == ("AsStridedBackward0", [15.0, 15.0])


def test_copy_slices_runs_the_node_of_the_write_on_its_part(torch: Any) -> None:
    x, y = leaf(torch, 1.0, 2.0, 3.0), leaf(torch, 4.0, 5.0)
    base = x * 1
    base[:2].mul_(y)

    assert names(base.grad_fn) == [("MulBackward0", 0), ("AccumulateGrad", 0)]
    (base * torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([4.0, 50.0, 100.0], [1.0, 20.0])


def test_complex_numbers_written_through_a_view(torch: Any) -> None:
    x = torch.tensor([1 + 2j, 3 + 4j], requires_grad=True)
    y = torch.tensor([5 + 6j], requires_grad=True)
    base = x * 1
    base[:1].mul_(y)
    base.backward(torch.ones(2, dtype=torch.complex64))

    assert (x.grad.tolist(), y.grad.tolist()) == ([5 - 6j, 1 + 0j], [1 - 2j])


def test_a_gradient_that_never_came_passes_views_and_writes(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    base = x * 1
    view = base[:1]
    base.mul_(5)
    nothing = function(torch, lambda ctx, x: x * 1, lambda ctx, grad: None)
    nothing.apply(view).backward()

    assert x.grad is None


def test_copying_into_a_view_cuts_off_what_was_there(torch: Any) -> None:
    x, y = leaf(torch, 1.0, 2.0), leaf(torch, 3.0)
    base = x * 1
    base[:1].copy_(y)
    base.sum().backward()

    assert (x.grad.tolist(), y.grad.tolist()) == ([0.0, 1.0], [1.0])


def test_a_write_needs_a_copy_of_what_it_overwrites_only_where_the_derivative_does(
    torch: Any,
) -> None:
    x = leaf(torch, 3.0)
    y = x * 1
    y.exp_()
    y.backward()

    assert round(x.grad.item(), 6) == 20.085537


def test_a_write_to_itself(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 1
    y.add_(y)
    y.backward()

    assert x.grad.tolist() == [2.0]


# -- what was saved ------------------------------------------------------------------------------


def modified(kind: str, place: str, found: int, expected: int) -> str:
    return (
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [{kind}]{place} is at version {found}; expected version {expected} instead. "
        "Hint: enable anomaly detection to find the operation that failed to compute its gradient, "
        "with torch.autograd.set_detect_anomaly(True, check_nan=False)."
    )


def test_a_saved_input_must_not_have_changed(torch: Any) -> None:
    y = leaf(torch, 3.0) * 1
    z = y * y
    y.add_(1)

    assert raises(RuntimeError, z.backward) == modified(
        "torch.DoubleTensor [1]", ", which is output 0 of Add,", 1, 0
    )


def test_a_saved_output_must_not_have_changed(torch: Any) -> None:
    y = leaf(torch, 3.0).exp()
    y.add_(1)

    assert raises(RuntimeError, y.backward) == modified(
        "torch.DoubleTensor [1]", ", which is output 0 of Exp,", 1, 0
    )


def test_a_saved_leaf_must_not_have_changed(torch: Any) -> None:
    x, w = leaf(torch, 3.0), torch.ones(1, 1, dtype=torch.float64)
    z = w * x
    w.add_(1)

    assert raises(RuntimeError, z.sum().backward) == modified("torch.DoubleTensor [1, 1]", "", 1, 0)


def test_a_write_through_a_view_or_a_detached_alias_is_noticed(torch: Any) -> None:
    for write in (
        lambda t: t[:1].zero_(),
        lambda t: t.detach().zero_(),
        lambda t: t.view(2).zero_(),
    ):
        y = leaf(torch, 3.0, 4.0) * 1
        z = y * y
        with torch.no_grad():
            write(y)

        assert raises(RuntimeError, z.sum().backward).startswith("one of the variables needed")


def test_a_write_through_data_is_not_noticed(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 1
    z = y * y
    y.data.add_(1)
    z.backward()

    assert x.grad.tolist() == [8.0]


def test_what_is_not_saved_may_change(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 1
    z = y + y
    y.add_(1)
    z.backward()

    assert x.grad.tolist() == [2.0]


def test_only_what_a_wanted_gradient_reads_is_saved(torch: Any) -> None:
    x, w = leaf(torch, 3.0), torch.ones(1, dtype=torch.float64)
    y = x * 1
    z = y * w
    y.add_(1)
    z.backward()

    assert x.grad.tolist() == [1.0]


def test_versions_at_saving_are_what_counts(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 1
    y.add_(1)
    z = y * y
    z.backward()

    assert x.grad.tolist() == [8.0]


def test_the_count_of_writes_can_be_raised_by_hand(torch: Any) -> None:
    y = leaf(torch, 3.0) * 1
    z = y * y
    torch.autograd.graph.increment_version(y)

    assert y._version == 1
    assert raises(RuntimeError, z.backward).startswith("one of the variables needed")


@pytest.mark.parametrize("name", ["_saved_self", "_saved_other"])
def test_a_saved_input_unpacks_to_the_same_object(torch: Any, name: str) -> None:
    x, y = leaf(torch, 3.0), leaf(torch, 4.0)
    z = x * y

    assert getattr(z.grad_fn, name) is {"_saved_self": x, "_saved_other": y}[name]


def test_a_saved_output_unpacks_to_an_equal_one(torch: Any) -> None:
    y = leaf(torch, 0.0).exp()
    saved = y.grad_fn._saved_result

    assert (saved is y, saved.grad_fn is y.grad_fn, saved.tolist()) == (False, True, [1.0])
    y.add_(1)
    assert raises(RuntimeError, lambda: y.grad_fn.next_functions[0][0]._saved_result).startswith(
        "one of the variables needed"
    )


def test_a_gradient_laid_out_otherwise_reaches_a_reshaped_window(torch: Any) -> None:
    x = torch.ones(2, 3, requires_grad=True)
    y = x * 1
    y.view(-1)[1:3] = 5
    z = y.t()
    weights = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    (z * weights).sum().backward()

    assert x.grad.tolist() == [[1.0, 0.0, 0.0], [2.0, 4.0, 6.0]]


def test_what_a_window_shows_outside_its_base_gets_no_gradient(torch: Any) -> None:
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    base = x[:1].detach().requires_grad_()
    window = base.as_strided((2, 2), (1, 1))
    with torch.no_grad():
        base.mul_(3)
    (window * window).sum().backward()

    assert base.grad.tolist() == [6.0]


def test_a_base_that_shows_an_element_twice_takes_no_gradient(torch: Any) -> None:
    x = torch.ones(2, 3, requires_grad=True)
    base = x.expand(2, 2, 3).detach()
    with pytest.warns(UserWarning, match="expanded tensors is deprecated"):
        base.unsqueeze(1).masked_fill_(torch.tensor([True, False, True]), x.sum())

    assert raises(RuntimeError, base.sum().backward).startswith(
        "unsupported operation: more than one element of the written-to tensor"
    )


@pytest.mark.parametrize(("kept", "name"), [(True, "AsStrided"), (False, "Tanh")])
def test_a_result_saved_by_a_write_to_a_view_is_named_after_its_history(
    torch: Any, kept: bool, name: str
) -> None:
    x = torch.ones(3, requires_grad=True)
    y = x * 1
    view = y.view(3)
    view.tanh_()
    node = view.grad_fn if kept else None
    view.mul_(2)

    assert f"which is output 0 of {name}, is at version 2" in raises(
        RuntimeError, view.sum().backward
    )
    assert (node is not None) == kept
