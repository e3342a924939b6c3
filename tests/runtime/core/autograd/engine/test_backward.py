"""Starting a backward: from what, with which gradient, and once or twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.both import leaf, raises


def test_a_single_number_needs_no_gradient_to_start_from(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    (x * x).sum().backward()

    assert x.grad.tolist() == [2.0, 4.0]


def test_one_element_of_any_shape_counts_as_a_single_number(torch: Any) -> None:
    x = leaf(torch, 3.0)

    (x * x).reshape(1, 1).backward()

    assert x.grad.tolist() == [6.0]


def test_several_numbers_need_a_gradient_to_start_from(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    assert (
        raises(RuntimeError, (x * x).backward)
        == "grad can be implicitly created only for scalar outputs"
    )


def test_a_gradient_may_be_given(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    (x * x).backward(torch.tensor([1.0, 10.0], dtype=torch.float64))

    assert x.grad.tolist() == [2.0, 40.0]


def test_a_given_gradient_must_have_the_shape_of_the_output(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    y = x * x

    assert raises(RuntimeError, lambda: y.backward(torch.ones(3, dtype=torch.float64))) == (
        "Mismatch in shape: grad_output[0] has a shape of torch.Size([3]) "
        "and output[0] has a shape of torch.Size([2])."
    )


def test_a_given_gradient_must_be_a_tensor(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    assert (
        raises(TypeError, lambda: torch.autograd.backward([x * x], [3.0]))
        == "gradients can be either Tensors or None, but got float"
    )


def test_what_has_no_history_cannot_go_backward(torch: Any) -> None:
    x = torch.ones(1)

    assert raises(RuntimeError, x.backward) == (
        "element 0 of tensors does not require grad and does not have a grad_fn"
    )


def test_a_leaf_may_be_the_start(torch: Any) -> None:
    x = leaf(torch, 3.0)

    x.backward()

    assert x.grad.tolist() == [1.0]


def test_an_integer_cannot_start_a_backward(torch: Any) -> None:
    assert raises(RuntimeError, lambda: torch.tensor([1], requires_grad=True)) == (
        "Only Tensors of floating point and complex dtype can require gradients"
    )


def test_several_roots_go_backward_together(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    torch.autograd.backward([(x * 2).sum(), (x * x).sum()])

    assert x.grad.tolist() == [4.0, 6.0]


def test_the_same_root_twice_counts_twice(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * x

    torch.autograd.backward([y, y])

    assert x.grad.tolist() == [12.0]


def test_several_roots_with_their_gradients(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    seed = torch.tensor([1.0, 10.0], dtype=torch.float64)

    torch.autograd.backward([x * 2, (x * x).sum()], [seed, None])

    assert x.grad.tolist() == [4.0, 24.0]


def test_roots_and_gradients_must_match_in_number(torch: Any) -> None:
    x = leaf(torch, 1.0)

    assert raises(RuntimeError, lambda: torch.autograd.backward([x * 2, x], [None])) == (
        "got 2 tensors and 1 gradients"
    )


def test_the_same_graph_runs_again_only_if_it_was_kept(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = (x * x).sum()

    y.backward(retain_graph=True)
    y.backward()

    assert x.grad.tolist() == [12.0]
    assert raises(RuntimeError, y.backward).startswith(
        "Trying to backward through the graph a second time (or directly access saved tensors "
        "after they have already been freed). Saved intermediate values of the graph are freed "
        "when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to "
        "backward through the graph a second time or if you need to access saved tensors after "
        "calling backward."
    )


def test_a_graph_that_saved_nothing_runs_any_number_of_times(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = (x + 1).sum()

    y.backward()
    y.backward()

    assert x.grad.tolist() == [2.0]


def test_a_shared_part_that_was_freed_stops_the_second_backward(torch: Any) -> None:
    x = leaf(torch, 3.0)
    shared = x * x
    (shared + 1).sum().backward()

    assert raises(RuntimeError, (shared * 2).sum().backward).startswith("Trying to backward")


def test_backward_without_retaining_frees_even_after_it_was_retained(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()

    with pytest.raises(RuntimeError, match="Trying to backward"):
        y.grad_fn._saved_self  # noqa: B018


def test_a_node_that_is_not_reached_keeps_what_it_saved(torch: Any) -> None:
    x, y = leaf(torch, 3.0), leaf(torch, 5.0)
    a, b = x * x, y * y
    c = a + b

    torch.autograd.grad(c, x)
    torch.autograd.grad(b, y)

    assert raises(RuntimeError, lambda: torch.autograd.grad(a, x)).startswith("Trying to backward")


def test_gradients_of_complex_numbers_are_conjugated(torch: Any) -> None:
    z = torch.tensor([1 + 2j], dtype=torch.complex128, requires_grad=True)

    (z * z).backward(torch.tensor([1 + 0j], dtype=torch.complex128))

    assert z.grad.tolist() == [2 - 4j]


def test_a_complex_output_is_no_place_to_start_from_nothing(torch: Any) -> None:
    z = torch.tensor([1 + 2j], dtype=torch.complex64, requires_grad=True)

    assert raises(RuntimeError, (z * z).backward) == (
        "grad can be implicitly created only for real scalar outputs but got torch.complex64"
    )


def test_a_real_gradient_does_not_fit_a_complex_output(torch: Any) -> None:
    z = torch.tensor([1 + 2j], dtype=torch.complex64, requires_grad=True)

    assert raises(RuntimeError, lambda: (z * z).backward(torch.ones(1))).startswith(
        "For complex Tensors, both grad_output and output are required to have the same dtype."
    )


def test_a_gradient_of_another_dtype_is_brought_to_the_outputs(torch: Any) -> None:
    x = leaf(torch, 3.0)

    (x * x).backward(torch.ones(1))

    assert x.grad.dtype == torch.float64


def test_the_gradient_given_is_left_alone(torch: Any) -> None:
    x, y = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)
    seed = torch.ones(2, dtype=torch.float64)
    a = x + y

    torch.autograd.backward([a, a + x], [seed, seed])
    x.grad.add_(100)

    assert seed.tolist() == [1.0, 1.0]
    assert y.grad.tolist() == [2.0, 2.0]


def test_arguments_that_were_renamed_are_not_both_taken(torch: Any) -> None:
    x = leaf(torch, 3.0)
    seed = torch.ones(1, dtype=torch.float64)

    with pytest.warns(FutureWarning, match="`grad_variables` is deprecated"):
        torch.autograd.backward(x * x, grad_variables=seed)
    with pytest.warns(FutureWarning, match="`grad_variables` is deprecated"):
        text = raises(
            RuntimeError, lambda: torch.autograd.backward(x * x, seed, grad_variables=seed)
        )
    assert text == (
        "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. "
        "Please only use `grad_tensors`."
    )


def test_create_graph_keeps_the_graph_too(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * x

    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (again,) = torch.autograd.grad(y, x)

    assert (first.tolist(), again.tolist()) == ([6.0], [6.0])
