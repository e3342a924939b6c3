"""Warnings: when the engine gives its own, in which thread, how often, and where they point."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.runtime.both import leaf, raises

CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter"
)
NO_GRAD = "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed."


@pytest.fixture
def always(torch: Any) -> Iterator[None]:
    """Warnings of which one is enough in a process, each time."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


def given(action: Any) -> list[str]:
    """The warnings of an action, by their first words."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        action()
    return [str(each.message).partition(" (Triggered")[0][: len(CYCLE)] for each in found]


@contextmanager
def as_errors() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.usefixtures("always")
def test_a_backward_that_makes_a_graph_into_grad_warns(torch: Any) -> None:
    x = leaf(torch, 1.0)
    for how in ({}, {"inputs": [x]}, {"retain_graph": True}):
        assert given(lambda how=how: (x * x).backward(create_graph=True, **how)) == [CYCLE]
    assert given(lambda: torch.autograd.backward(x * x, create_graph=True)) == [CYCLE]
    assert given((x * x).backward) == []
    assert given(lambda: torch.autograd.grad(x * x, x, create_graph=True)) == []


def test_one_in_a_process_is_enough_unless_it_is_said_otherwise(torch: Any) -> None:
    x = leaf(torch, 1.0)
    given(lambda: (x * x).backward(create_graph=True))
    assert not torch.is_warn_always_enabled()
    assert given(lambda: (x * x).backward(create_graph=True)) == []


@pytest.mark.usefixtures("always")
def test_it_comes_when_the_backward_is_over_also_where_warnings_are_errors(torch: Any) -> None:
    x = leaf(torch, 3.0)
    with as_errors(), pytest.raises(UserWarning, match=r"^Using backward"):
        (x * x).backward(create_graph=True)
    assert x.grad.tolist() == [6.0]
    (x * x).backward()
    assert torch.is_grad_enabled()


@pytest.mark.usefixtures("always")
def test_an_error_of_the_backward_goes_first(torch: Any) -> None:
    def fails(grad: Any) -> None:
        raise ValueError("hook")

    def run() -> None:
        x = leaf(torch, 3.0)
        x.register_hook(fails)
        with pytest.raises(ValueError, match="hook"):
            (x * x).backward(create_graph=True)

    assert given(run) == [CYCLE]
    x = leaf(torch, 3.0)
    x.register_hook(fails)
    with as_errors():
        assert raises(ValueError, lambda: (x * x).backward(create_graph=True)) == "hook"


def test_a_warning_in_a_hook_comes_at_once_and_may_be_an_error(torch: Any) -> None:
    x = leaf(torch, 3.0)
    y = x * 2
    inside: list[list[str]] = []
    y.register_hook(lambda grad: inside.append(given(lambda: y.grad)))
    y.backward()
    ((text,),) = inside
    assert text.startswith(NO_GRAD)

    z = x * 2
    z.register_hook(lambda grad: z.grad)
    assert raises(UserWarning, z.backward).startswith(NO_GRAD)


@pytest.mark.usefixtures("always")
def test_complex_numbers_lose_their_imaginary_parts_with_a_warning(torch: Any) -> None:
    z = torch.ones(2, dtype=torch.complex64)
    text = "Casting complex values to real discards the imaginary part"
    for action in (
        lambda: z.to(torch.float32),
        lambda: z.to(torch.int64),
        lambda: torch.zeros(2).copy_(z),
        lambda: torch.zeros(2).__setitem__(slice(None), z),
        lambda: torch.as_tensor(z, dtype=torch.float64),
    ):
        assert given(action) == [text]
    assert given(lambda: z.to(torch.bool)) == []
    x = torch.ones(2, requires_grad=True)
    assert given(lambda: x.to(torch.complex64).backward(z)) == []  # a gradient is no loss
    assert x.grad.dtype == torch.float32


def test_too_few_numbers_to_spread(torch: Any) -> None:
    x = torch.ones(3, 1)
    assert given(lambda: x.var(1))[0].startswith("var(): degrees of freedom is <= 0.")
    assert given(lambda: torch.std_mean(x[0]))[0].startswith("std_mean(): degrees of freedom is")
    assert given(lambda: x.std(0)) == given(lambda: x.var(1, correction=0)) == []
