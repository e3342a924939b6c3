"""Inference mode: what is made inside, and what may be done with it outside."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from tests.runtime.both import function, leaf, raises

OUTSIDE = "Inplace update to inference tensor outside InferenceMode is not allowed."
UNCOUNTED = "Inference tensors do not track version counter."
UNSAVED = "Inference tensors cannot be saved for backward."


def made_inside(torch: Any, **options: Any) -> Any:
    with torch.inference_mode():
        return torch.ones(2, dtype=torch.float64, **options)


def test_every_way_to_make_a_tensor_inside_makes_an_inference_tensor(torch: Any) -> None:
    with torch.inference_mode():
        made = [
            torch.tensor(1.0), torch.rand(2), torch.arange(3), torch.as_tensor([1.0]),
            torch.zeros_like(torch.ones(2)), torch.ones(3).topk(1)[0], torch.ones(3).unbind()[0],
            torch.cat([torch.ones(1)]), torch.ones(2).to(torch.float64), torch.ones(2).nonzero(),
            torch.normal(torch.zeros(2)), torch.complex(torch.ones(1), torch.ones(1)).real,
            torch.Tensor(2), torch.ones(2).data, torch.ones(2)[torch.tensor([0])],
            torch.nn.functional.dropout(torch.ones(2)), torch.nn.Parameter(torch.ones(2)),
        ]  # fmt: skip

    assert [tensor.is_inference() for tensor in made] == [True] * len(made)


@pytest.mark.parametrize("form", ["called", "bare", "off"])
def test_it_decorates_functions(torch: Any, form: str) -> None:
    def made() -> Any:
        return torch.ones(1).is_inference(), torch.is_grad_enabled()

    decorator = {
        "called": torch.inference_mode(),
        "bare": torch.inference_mode,
        "off": torch.inference_mode(False),
    }[form]

    assert decorator(made)() == ((False, True) if form == "off" else (True, False))
    assert made() == (False, True)


def test_an_error_inside_ends_it(torch: Any) -> None:
    with pytest.raises(ZeroDivisionError), torch.inference_mode():
        1 / 0  # noqa: B018

    assert (torch.is_inference_mode_enabled(), torch.is_grad_enabled()) == (False, True)


def test_off_inside_it_is_as_outside_even_without_grad(torch: Any) -> None:
    with torch.no_grad(), torch.inference_mode(False):
        assert torch.is_grad_enabled()
    with torch.inference_mode():
        inside = torch.ones(2)
        with torch.inference_mode(False):
            assert raises(RuntimeError, lambda: inside.add_(1)).startswith(OUTSIDE)
        inside.add_(1)

    assert inside.tolist() == [2.0 + 1, 2.0 + 1]  # the refused write was made all the same


def test_a_backward_inside_makes_inference_gradients(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    y = (x * x).sum()
    seen: list[Any] = []
    x.register_hook(lambda grad: seen.append((grad.is_inference(), torch.is_grad_enabled())))
    with torch.inference_mode():
        y.backward()

    assert (seen, x.grad.is_inference()) == ([(True, False)], True)
    assert raises(RuntimeError, (x * 2).sum().backward).startswith(OUTSIDE)


def test_gradients_with_a_graph_have_none_inside(torch: Any) -> None:
    x = leaf(torch, 1.0)
    y = (x * x).sum()
    with torch.inference_mode():
        (grad,) = torch.autograd.grad(y, x, create_graph=True)

    assert (grad.is_inference(), grad.requires_grad) == (True, False)


def test_no_operation_is_recorded_inside_whatever_grad_mode_says(torch: Any) -> None:
    x = torch.ones(2, 2, dtype=torch.float64, requires_grad=True)
    y = x * 1
    node = y.grad_fn
    mine = function(torch, lambda ctx, x: x * 2, lambda ctx, grad: grad)
    with torch.inference_mode(), torch.enable_grad():
        assert torch.is_grad_enabled()
        assert (x * 2).grad_fn is None
        assert type(mine.apply(x).grad_fn).__name__ == "MineBackward"  # the one exception
        y.t_()
        y.add_(1)

    assert (y.grad_fn is node, y._version) == (True, 2)


def test_a_custom_function_cannot_save_one(torch: Any) -> None:
    def forward(ctx: Any, x: Any, kept: Any) -> Any:
        ctx.save_for_backward(kept)
        return x * 2

    mine = function(torch, forward, lambda ctx, grad: (grad, None))
    assert raises(
        RuntimeError, lambda: mine.apply(leaf(torch, 1.0), made_inside(torch))
    ).startswith(UNSAVED)


def test_masks_and_indices_made_inside_cannot_be_saved(torch: Any) -> None:
    x = leaf(torch, 1.0, 2.0)
    with torch.inference_mode():
        index, mask = torch.tensor([0]), torch.tensor([True, False])
    for use in (lambda: x[index], lambda: x.index_select(0, index), lambda: x.gather(0, index),
                lambda: torch.where(mask, x, x), lambda: x.masked_fill(mask, 0)):  # fmt: skip
        assert raises(RuntimeError, use).startswith(UNSAVED)


def test_copies_are_of_the_kind_of_where_they_are_made(torch: Any) -> None:
    inside = made_inside(torch)
    with torch.inference_mode():
        kept = copy.deepcopy(inside), pickle.loads(pickle.dumps(inside))

    assert [tensor.is_inference() for tensor in kept] == [True, True]
    outside = copy.deepcopy(inside), pickle.loads(pickle.dumps(inside)), inside.clone()
    assert [tensor.is_inference() for tensor in outside] == [False] * 3


def test_assigning_data_gives_the_kind_and_leaves_the_counter(torch: Any) -> None:
    inside, plain = made_inside(torch), torch.zeros(2, dtype=torch.float64)
    read = inside.data
    assert (read.is_inference(), read._version) == (True, 0)
    read.add_(1)
    assert read._version == 1

    plain.add_(1)
    plain.data = inside
    assert (plain.is_inference(), plain._version) == (True, 1)
    assert raises(RuntimeError, lambda: leaf(torch, 1.0) * plain).startswith(UNSAVED)
    inside.data = torch.zeros(2, dtype=torch.float64)
    assert inside.is_inference() is False
    assert raises(RuntimeError, lambda: inside._version) == UNCOUNTED


def test_detached_outside_it_counts_again(torch: Any) -> None:
    cut = made_inside(torch).detach()

    assert (cut.is_inference(), cut._version) == (True, 0)


def test_counting_by_hand_leaves_them_out(torch: Any) -> None:
    inside, plain = made_inside(torch), torch.zeros(2)
    torch.autograd.graph.increment_version([inside, plain, inside])

    assert plain._version == 1
    assert raises(RuntimeError, lambda: inside._version) == UNCOUNTED


def test_a_parameter_of_one_cannot_want_a_gradient_outside(torch: Any) -> None:
    inside = made_inside(torch)

    assert torch.nn.Parameter(inside, requires_grad=False).is_inference()
    assert raises(RuntimeError, inside.requires_grad_).startswith(
        "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
    )
    assert inside.requires_grad_(False) is inside


def test_views_of_unsafe_pieces_count_with_the_tensor_they_are_pieces_of(torch: Any) -> None:
    v = torch.ones(2, 3, requires_grad=True)
    with torch.no_grad():
        v += v
    with torch.inference_mode():
        piece = v.unsafe_chunk(2)[0]
    with torch.no_grad():
        seen = piece[...]

    assert [each._version for each in (v, piece, seen)] == [1, 0, 1]
