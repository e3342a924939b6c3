"""How a gradient arrives in `.grad`: whose memory it is, how it lies there, what it adds to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.both import function, leaf, raises


def test_gradients_add_up_in_the_same_tensor(torch: Any) -> None:
    x = leaf(torch, 3.0)
    (x * 2).sum().backward()
    first = x.grad
    (x * 5).sum().backward()

    assert x.grad is first
    assert first.tolist() == [7.0]
    assert first._version == 1


def test_a_gradient_that_was_copied_into_place_counts_as_written(torch: Any) -> None:
    x, given = torch.ones(3, requires_grad=True), torch.ones(3)
    x.backward(given)
    y = torch.ones(3, requires_grad=True)
    (y * 2).sum().backward()

    assert (x.grad is given, x.grad._version) == (False, 1)
    assert y.grad._version == 0  # nobody else held it


def test_a_gradient_of_none_starts_anew(torch: Any) -> None:
    x = leaf(torch, 3.0)
    (x * 2).sum().backward()
    first = x.grad
    x.grad = None
    (x * 5).sum().backward()

    assert (first.tolist(), x.grad.tolist()) == ([2.0], [5.0])


def test_two_leaves_never_share_a_gradient(torch: Any) -> None:
    x, y = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)
    (x + y).sum().backward()
    x.grad.add_(100)

    assert y.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "combine",
    [
        lambda x, y: x.view(2, 1) + y.view(2, 1),
        lambda x, y: (x + y) + (x - y),
        lambda x, y: x.expand(2, 2) + y.expand(2, 2),
        lambda x, y: x.t() + y.t(),
        lambda x, y: x + y + x,
    ],
)
def test_two_leaves_never_share_a_gradient_whatever_lies_between(torch: Any, combine: Any) -> None:
    x, y = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)
    combine(x, y).sum().backward()
    before = y.grad.tolist()
    x.grad.add_(100)

    assert y.grad.tolist() == before


def test_a_gradient_the_user_gave_is_not_taken(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    seed = torch.ones(2, dtype=torch.float64)
    (x + 0).backward(seed)
    x.backward(seed)
    x.grad.add_(100)

    assert seed.tolist() == [1.0, 1.0]


def test_a_gradient_that_a_hook_kept_is_not_taken(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    kept: list[Any] = []
    x.register_hook(kept.append)
    (x * 2).sum().backward()
    x.grad.add_(100)

    assert kept[0].tolist() == [2.0, 2.0]


def test_a_gradient_that_a_function_kept_is_not_taken(torch: Any) -> None:
    kept: list[Any] = []

    def backward(ctx: Any, grad: Any) -> Any:
        made = grad * 3
        kept.append(made)
        return made

    x = leaf(torch, 1.0, 2.0)
    function(torch, lambda ctx, x: x * 3, backward).apply(x).sum().backward()
    x.grad.add_(100)

    assert kept[0].tolist() == [3.0, 3.0]


def test_a_saved_tensor_that_is_a_gradient_is_not_taken(torch: Any) -> None:
    x, y = leaf(torch, 1.0, 2.0), torch.tensor([3.0, 4.0], dtype=torch.float64)
    (x * y).sum().backward()
    x.grad.add_(100)

    assert y.tolist() == [3.0, 4.0]


def test_the_gradient_lies_as_a_dense_leaf_lies(torch: Any) -> None:
    x = torch.ones(3, 2, dtype=torch.float64).t().requires_grad_()
    assert x.stride() == (1, 2)
    (x * 2).sum().backward()
    assert x.grad.stride() == (1, 2)

    y = torch.ones(2, 3, 4, 5).permute(0, 3, 1, 2).detach().requires_grad_()
    (y * torch.ones(2, 5, 3, 4)).sum().backward()
    assert y.grad.stride() == y.stride()


def test_the_gradient_of_a_leaf_with_holes_lies_row_by_row(torch: Any) -> None:
    x = torch.ones(3, 4, dtype=torch.float64)[:, ::2].detach().requires_grad_()
    (x * 2).sum().backward()

    assert (x.stride(), x.grad.stride()) == ((4, 2), (2, 1))


def test_the_gradient_of_an_expanded_leaf_has_memory_of_its_own(torch: Any) -> None:
    x = torch.ones(1, dtype=torch.float64).expand(3).detach().requires_grad_()
    (x * 2).sum().backward()
    x.grad[0] = 7.0

    assert x.grad.tolist() == [7.0, 2.0, 2.0]


def test_grad_can_be_set_and_is_added_to(torch: Any) -> None:
    x = leaf(torch, 3.0)
    x.grad = torch.tensor([10.0], dtype=torch.float64)
    (x * 2).sum().backward()

    assert x.grad.tolist() == [12.0]


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (
            lambda torch, x: 3,
            TypeError,
            "assigned grad expected to be a Tensor or None but got grad of type int",
        ),
        (
            lambda torch, x: torch.ones(2),
            RuntimeError,
            (
                "attempting to assign a gradient with dtype 'float' to a tensor with grad_dtype "
                "'Double'. The gradient must match the tensor's grad_dtype (defaults to the "
                "tensor's dtype)."
            ),
        ),
        (
            lambda torch, x: torch.ones(3, dtype=torch.float64),
            RuntimeError,
            (
                "attempting to assign a gradient of size '[3]' to a tensor of size '[2]'. Please "
                "ensure that the gradient and the tensor are the same size"
            ),
        ),
        (lambda torch, x: x, RuntimeError, "can't assign Variable as its own grad"),
    ],
)
def test_grad_must_fit_its_tensor(torch: Any, make: Any, kind: Any, text: str) -> None:
    x = leaf(torch, 1.0, 2.0)

    def assign() -> None:
        x.grad = make(torch, x)

    assert raises(kind, assign).startswith(text)


def test_grad_of_what_is_no_leaf_is_none_and_says_why(torch: Any) -> None:
    y = leaf(torch, 1.0) * 2

    with pytest.warns(UserWarning, match="The .grad attribute of a Tensor that is not a leaf"):
        assert y.grad is None


def test_a_gradient_in_another_order_is_laid_out_like_the_leaf(torch: Any) -> None:
    x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    x.t().mul(torch.arange(6.0, dtype=torch.float64).view(3, 2)).sum().backward()

    assert x.grad.stride() == (3, 1)
    assert x.grad.tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]


def test_half_precision_gradients_stay_half(torch: Any) -> None:
    x = torch.ones(2, dtype=torch.float16, requires_grad=True)
    (x.float() * 3).sum().backward()

    assert (x.grad.dtype, x.grad.tolist()) == (torch.float16, [3.0, 3.0])


def test_a_sum_at_fan_in_leaves_what_others_hold_alone(torch: Any) -> None:
    """The first gradient of `a` is also that of `b`; the second may not be added into it."""
    x = leaf(torch, 1.0, 2.0)
    a, b = x * 1, x * 1
    seen: list[Any] = []
    b.register_hook(lambda grad: seen.append(grad.tolist()))
    (a + b + a).sum().backward()

    assert (x.grad.tolist(), seen) == ([3.0, 3.0], [[1.0, 1.0]])


def test_accumulating_counts_as_a_write(torch: Any) -> None:
    x = leaf(torch, 3.0)
    (x * 2).sum().backward()
    y = x.grad * leaf(torch, 1.0)
    (x * 2).sum().backward()

    assert raises(RuntimeError, y.sum().backward).startswith(
        "one of the variables needed for gradient computation has been modified"
    )


def test_data_gets_no_history(torch: Any) -> None:
    x = leaf(torch, 3.0)
    (x * 2).sum().backward()

    assert (x.grad.requires_grad, x.grad.grad_fn) == (False, None)


def test_a_sum_of_numbers_without_dims_is_a_gradient_like_others(torch: Any) -> None:
    x = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    y = (x * 1).relu_()
    torch.autograd.backward([y * 2, y * 3])

    assert x.grad.item() == 5.0
