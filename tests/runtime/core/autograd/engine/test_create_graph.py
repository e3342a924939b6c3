"""Derivatives of derivatives: the way back is recorded too."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tests.runtime.both import leaf, names, raises

pytestmark = pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")


def test_derivatives_of_any_order(torch: Any) -> None:
    x = leaf(torch, 2.0)
    found = x**4
    values = []
    for _ in range(5):
        (found,) = torch.autograd.grad(found.sum(), x, create_graph=True)
        values.append(found.tolist())

    assert values == [[32.0], [48.0], [48.0], [24.0], [0.0]]


def test_the_gradient_of_a_gradient_reaches_every_leaf(torch: Any) -> None:
    x, y = leaf(torch, 2.0), leaf(torch, 3.0)
    (first,) = torch.autograd.grad((x * x * y).sum(), x, create_graph=True)
    first.sum().backward()

    assert (x.grad.tolist(), y.grad.tolist()) == ([6.0], [4.0])


def test_backward_with_create_graph_leaves_a_grad_with_history(torch: Any) -> None:
    x = leaf(torch, 2.0)
    (x * x * x).sum().backward(create_graph=True)
    first = x.grad

    assert type(first.grad_fn).__name__ == "CopyBackwards"
    x.grad = None
    first.sum().backward()
    assert x.grad.tolist() == [12.0]


def test_a_second_gradient_under_create_graph_is_added_out_of_place(torch: Any) -> None:
    x = leaf(torch, 2.0)
    y = (x * x * x).sum()
    y.backward(create_graph=True)
    first = x.grad
    y.backward(create_graph=True)

    assert first.tolist() == [12.0]
    assert x.grad is not first
    assert (type(x.grad.grad_fn).__name__, x.grad.tolist()) == ("AddBackward0", [24.0])


def test_a_gradient_penalty_trains(torch: Any) -> None:
    w, x = leaf(torch, 1.0, 2.0), leaf(torch, 3.0, 4.0)
    out = (w * x * x).sum()
    (slope,) = torch.autograd.grad(out, x, create_graph=True)
    penalty = (slope.pow(2).sum() - 1) ** 2
    penalty.backward()

    assert w.grad.tolist() == [4 * 291 * 36.0, 4 * 291 * 128.0]


def test_the_graph_of_a_gradient(torch: Any) -> None:
    x, y = leaf(torch, 2.0), leaf(torch, 3.0)
    seed = leaf(torch, 1.0)
    (first,) = torch.autograd.grad(x * y, x, seed, create_graph=True)

    assert type(first.grad_fn).__name__ == "MulBackward0"
    assert names(first.grad_fn) == [("AccumulateGrad", 0), ("AccumulateGrad", 0)]


def test_sums_at_fan_in_are_part_of_the_graph(torch: Any) -> None:
    x = leaf(torch, 2.0)
    y = x * x
    (first,) = torch.autograd.grad((y * y + y * 3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)

    assert (first.tolist(), second.tolist()) == ([4 * 8 + 12.0], [12 * 4 + 6.0])


def test_what_is_saved_in_the_second_graph_is_freed_by_its_backward(torch: Any) -> None:
    x = leaf(torch, 2.0)
    (first,) = torch.autograd.grad((x * x * x).sum(), x, create_graph=True)
    first.backward(retain_graph=True)
    first.backward()

    assert x.grad.tolist() == [24.0]


def test_broadcasting_is_undone_in_the_second_graph_too(torch: Any) -> None:
    x = leaf(torch, 2.0)
    wide = torch.ones(3, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad((x * x * wide).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)

    assert (first.shape, second.tolist()) == ((1,), [6.0])


def test_views_and_writes_in_the_second_graph(torch: Any) -> None:
    x = leaf(torch, 2.0, 3.0)
    base = x * x
    base[:1].mul_(x[1:])
    (first,) = torch.autograd.grad(base.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)

    assert (first.tolist(), second.tolist()) == ([12.0, 10.0], [10.0, 6.0])


def test_a_product_of_several_zeros_cannot_be_differentiated_twice(torch: Any) -> None:
    x, index = torch.ones(2, requires_grad=True), torch.tensor([0, 1, 0])
    zeros = torch.tensor([0.0, 2.0, 0.0], requires_grad=True)
    ways = {
        ("scatter_reduce", "src"): lambda: x.scatter_reduce(0, index, zeros, "prod"),
        ("index_reduce", "source"): lambda: x.index_reduce(0, index, zeros, "prod"),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # index_reduce is in beta
        for (name, argument), reduced in ways.items():
            once = torch.autograd.grad(reduced().sum(), (x, zeros), create_graph=True)
            assert once[1].tolist() == [0.0, 1.0, 0.0]
            (twice,) = torch.autograd.grad(once[0].sum(), zeros, retain_graph=True)
            assert twice.shape == (3,)
            told = raises(RuntimeError, lambda g=once[1]: torch.autograd.grad(g.sum(), x))
            assert told == (
                f"{name}(): Double backward is unsupported for {argument} when >1 zeros in "
                f"{argument} are scattered to the same position in self"
            )


def test_a_negative_number_to_a_complex_power_has_a_slope(torch: Any) -> None:
    power = torch.tensor([1 + 2j, 0.5j], dtype=torch.complex128, requires_grad=True)

    for base in (-1, -2.5, 2.0, torch.tensor([-1.0, -2.0]), torch.tensor(-2.0)):
        assert torch.autograd.gradcheck(lambda p, base=base: torch.pow(base, p), power)
