"""`grad(is_grads_batched=True)`: a gradient for each row of what the outputs get."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.both import leaf, raises


def rows(torch: Any, *values: Any) -> Any:
    return torch.tensor(list(values), dtype=torch.float64)


def batched(torch: Any, outputs: Any, inputs: Any, given: Any, **how: Any) -> Any:
    return torch.autograd.grad(outputs, inputs, given, is_grads_batched=True, **how)


def test_each_row_gives_a_row(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    eye = rows(torch, [1.0, 0.0], [0.0, 1.0], [1.0, 1.0])

    (found,) = batched(torch, x * x, x, eye)

    assert found.tolist() == [[2.0, 0.0], [0.0, 4.0], [2.0, 4.0]]
    assert not found.requires_grad


def test_several_outputs_and_inputs_that_are_not_used(torch: Any) -> None:
    x, y, z = leaf(torch, 1.0, 2.0), leaf(torch, 3.0), leaf(torch, 4.0)
    given = (rows(torch, [1.0, 0.0], [0.0, 1.0]), rows(torch, [1.0], [2.0]))

    found = batched(torch, (x * 2, y * y), (x, y, z), given, allow_unused=True)

    assert [g if g is None else g.tolist() for g in found] == [
        [[2.0, 0.0], [0.0, 2.0]],
        [[6.0], [12.0]],
        None,
    ]


def test_a_dict_of_inputs_gives_a_dict(torch: Any) -> None:
    x = leaf(torch, 1.0)

    found = batched(torch, x * 3, {"w": x}, rows(torch, [1.0], [2.0]))

    assert {name: g.tolist() for name, g in found.items()} == {"w": [[3.0], [6.0]]}


def test_an_output_that_is_one_number_takes_a_row_of_numbers(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    (found,) = batched(torch, (x * x).sum(), x, rows(torch, 1.0, 10.0))

    assert found.tolist() == [[2.0, 4.0], [20.0, 40.0]]


def test_unused_inputs_may_come_as_zeros(torch: Any) -> None:
    x, y = leaf(torch, 1.0), leaf(torch, 1.0, 2.0)

    _, zeros = batched(torch, x * 2, (x, y), rows(torch, [1.0], [1.0]), materialize_grads=True)

    assert (zeros.tolist(), zeros.requires_grad) == ([0.0, 0.0], False)


@pytest.mark.parametrize("create_graph", [False, True])
def test_zeros_for_unused_inputs_have_a_graph_where_the_others_have(
    torch: Any, *, create_graph: bool
) -> None:
    x, y = leaf(torch, 1.0), leaf(torch, 1.0)

    _, zeros = torch.autograd.grad(x * 2, (x, y), create_graph=create_graph, materialize_grads=True)

    assert zeros.requires_grad is create_graph


def test_with_create_graph_the_rows_can_be_differentiated_also_by_what_was_given(
    torch: Any,
) -> None:
    x = leaf(torch, 1.0, 2.0)
    given = rows(torch, [1.0, 0.0], [0.0, 1.0]).requires_grad_()

    (found,) = batched(torch, x**3, x, given, create_graph=True)
    by_x, by_given = torch.autograd.grad(found.sum(), (x, given))

    assert by_x.tolist() == [6.0, 12.0]
    assert by_given.tolist() == [[3.0, 12.0], [3.0, 12.0]]


def test_create_graph_makes_a_graph_also_under_no_grad(torch: Any) -> None:
    x = leaf(torch, 1.0)
    squared = x * x

    with torch.no_grad():
        (found,) = batched(torch, squared, x, rows(torch, [1.0]), create_graph=True)
        assert not torch.is_grad_enabled()

    assert found.requires_grad


def test_what_was_saved_is_freed_once_all_rows_are_done(torch: Any) -> None:
    x = leaf(torch, 1.0)
    squared = x * x
    given = rows(torch, [1.0], [2.0])
    batched(torch, squared, x, given, retain_graph=True)
    batched(torch, squared, x, given)

    assert raises(RuntimeError, lambda: batched(torch, squared, x, given)).startswith(
        "Trying to backward through the graph a second time"
    )


def test_rows_of_another_shape_are_refused(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)

    assert raises(RuntimeError, lambda: batched(torch, x * x, x, rows(torch, [1.0]))) == (
        "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the "
        "batch dimension. The sizes of the remaining dimensions are expected to match the shape of "
        "corresponding output, but a mismatch was detected: grad_output[0] has a shape of "
        "torch.Size([]) and output[0] has a shape of torch.Size([2]). If you only want some "
        "tensors in `grad_output` to be considered batched, consider using vmap."
    )


def test_batches_of_different_sizes_are_refused(torch: Any) -> None:
    x, y = leaf(torch, 1.0), leaf(torch, 1.0)
    given = (rows(torch, [1.0], [1.0]), rows(torch, [1.0]))

    assert raises(ValueError, lambda: batched(torch, (x * 2, y * 2), (x, y), given)) == (
        "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
        "[2, 1] for the mapped dimension"
    )


def test_a_gradient_that_is_not_batched_is_refused(torch: Any) -> None:
    x = leaf(torch, 1.0)

    assert raises(ValueError, lambda: batched(torch, (x * 2).sum(), x, None)) == (
        "vmap(vjp, in_dims=0, ...)(<inputs>): Got in_dim=0 for some input, but that input is a "
        "Tensor of dimensionality 0 so expected in_dim to satisfy 0 <= in_dim < 0."
    )
    assert raises(
        ValueError,
        lambda: batched(torch, (x * 2, x.detach()), x, (rows(torch, [1.0]), None)),
    ) == (
        "vmap(vjp, in_dims=0, ...)(<inputs>): Got in_dim=0 for an input but the input is of type "
        "<class 'NoneType'>. We cannot vmap over non-Tensor arguments, please use None as the "
        "respective in_dim"
    )


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ((0, 1), "index 0 is out of bounds for dimension 0 with size 0"),
        ((), "invalid index of a 0-dim tensor."),
    ],
)
def test_a_batch_of_nothing_is_refused(torch: Any, shape: Any, text: str) -> None:
    x = leaf(torch, 1.0)
    nothing = torch.ones(shape, dtype=torch.float64)

    assert raises(IndexError, lambda: batched(torch, x * 2, x, nothing)).startswith(text)


def test_an_error_in_a_backward_leaves_grad_mode_as_it_was(torch: Any) -> None:
    x = leaf(torch, 1.0)
    doubled = x * 2

    def burst(grad: Any) -> None:
        raise ValueError("burst")

    doubled.register_hook(burst)

    assert raises(ValueError, lambda: batched(torch, doubled, x, rows(torch, [1.0]))) == "burst"
    assert torch.is_grad_enabled()
