"""What runs at the end of a backward, and whether a reentrant checkpoint may run in it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.both import leaf, raises


def engine(torch: Any) -> Any:
    return torch.autograd.Variable._execution_engine


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("create_graph", [False, True])
def test_a_callback_runs_in_the_grad_mode_of_its_backward(torch: Any, create_graph: bool) -> None:
    found: list[bool] = []
    y = leaf(torch, 1.0) * 2
    y.register_hook(
        lambda grad: engine(torch).queue_callback(lambda: found.append(torch.is_grad_enabled()))
    )

    y.backward(create_graph=create_graph)

    assert found == [create_graph]
    assert torch.is_grad_enabled()


def test_what_cannot_be_called_is_refused_when_it_should_be(torch: Any) -> None:
    y = leaf(torch, 1.0) * 2
    y.register_hook(lambda grad: engine(torch).queue_callback(3))

    assert raises(TypeError, y.backward) == "'int' object is not callable"


def test_a_callback_may_run_another_backward(torch: Any) -> None:
    x = leaf(torch, 1.0)
    happened: list[str] = []

    def another() -> None:
        with torch.enable_grad():
            y = x * 10
        y.register_hook(
            lambda grad: engine(torch).queue_callback(lambda: happened.append("inner ends"))
        )
        y.backward()
        happened.append("another")

    y = x * 2
    y.register_hook(lambda grad: engine(torch).queue_callback(another))
    y.backward()

    assert happened == ["inner ends", "another"]
    assert x.grad.tolist() == [12.0]


def test_an_error_in_an_inner_callback_ends_the_outer_backward(torch: Any) -> None:
    x = leaf(torch, 1.0)

    def wrong() -> None:
        raise ValueError("inner")

    def hook(grad: Any) -> None:
        with torch.enable_grad():
            y = x * 10
        y.register_hook(lambda grad: engine(torch).queue_callback(wrong))
        y.backward()

    y = x * 2
    y.register_hook(hook)

    assert raises(ValueError, y.backward) == "inner"
    assert x.grad.tolist() == [10.0]
    with pytest.raises(RuntimeError, match="only be installed during backward"):
        engine(torch).queue_callback(wrong)


def run_and_ask(torch: Any, run: Any) -> dict[str, bool]:
    """Where `is_checkpoint_valid` said what, in one backward."""
    said: dict[str, bool] = {}

    def ask(place: str) -> Any:
        def asked(*grads: Any) -> None:
            said[place] = engine(torch).is_checkpoint_valid()

        return asked

    x = leaf(torch, 1.0)
    y = x * 2
    z = y.sin()
    z.grad_fn.register_prehook(ask("pre-hook"))
    z.grad_fn.register_hook(ask("post-hook"))
    z.register_hook(lambda grad: engine(torch).queue_callback(ask("callback")))
    y.register_hook(ask("hook of y"))
    x.register_hook(ask("hook of x"))
    x.register_post_accumulate_grad_hook(ask("after x"))
    run(x, y, z)
    return said


def test_a_checkpoint_is_valid_where_every_gradient_is_wanted(torch: Any) -> None:
    said = run_and_ask(torch, lambda x, y, z: z.backward())

    assert set(said.values()) == {True}
    assert engine(torch).is_checkpoint_valid()


def test_no_checkpoint_is_valid_in_a_node_that_runs_for_some_gradients(torch: Any) -> None:
    asked_x = run_and_ask(torch, lambda x, y, z: torch.autograd.grad(z, x))
    asked_y = run_and_ask(torch, lambda x, y, z: torch.autograd.grad(z, y))
    inputs = run_and_ask(torch, lambda x, y, z: z.backward(inputs=[x]))

    runs = {"pre-hook": False, "post-hook": False, "callback": True}
    assert asked_x == {**runs, "hook of y": False, "hook of x": True}
    assert asked_y == {**runs, "hook of y": True}
    assert inputs == {**runs, "hook of y": False, "hook of x": False, "after x": False}


def test_a_full_backward_inside_a_partial_one_is_as_invalid(torch: Any) -> None:
    said: list[bool] = []
    inner = leaf(torch, 1.0) * 2
    inner.register_hook(lambda grad: said.append(engine(torch).is_checkpoint_valid()))

    def hook(grad: Any) -> None:
        inner.backward(retain_graph=True)

    x = leaf(torch, 1.0)
    y = x * 2
    y.register_hook(hook)
    z = y.sin()
    torch.autograd.grad(z, x, retain_graph=True)
    torch.autograd.grad(z, y, retain_graph=True)
    z.backward()

    assert said == [False, True, True]
