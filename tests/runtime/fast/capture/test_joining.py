"""Calls of a plan that one kernel does, after some replays: which, and with what numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np
import pytest

import gradscope.runtime as torch
from gradscope.runtime.fast.capture.captured import WORTH_FUSING, Captured
from gradscope.runtime.fast.layers import joined

ROWS, WIDTH, CLASSES = 70, 65, 7
OFTEN = WORTH_FUSING + 6


def training(loss_of: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """A step of two layers, with the numbers of a seed."""
    torch.manual_seed(0)
    first, second = torch.nn.Linear(19, WIDTH), torch.nn.Linear(WIDTH, CLASSES)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)

    def step(x: Any, wanted: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(second(torch.relu(first(x))), wanted)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def batches(kind: Any = None) -> list[tuple[Any, Any]]:
    torch.manual_seed(1)
    wanted = (ROWS,) if kind is None else (ROWS, CLASSES)
    make = (lambda: torch.randint(0, CLASSES, wanted)) if kind is None else kind
    return [(torch.randn(ROWS, 19), make()) for _ in range(OFTEN)]


def entropy(made: Any, wanted: Any) -> Any:
    return torch.nn.functional.cross_entropy(made, wanted)


def squares(made: Any, wanted: Any) -> Any:
    return ((made - wanted) ** 2).mean()


def parts(run: Captured) -> list[tuple[str, int]]:
    return [(join.call.label, join.count) for join in run.plans[0].joins]


def test_a_layer_its_relu_and_sums_for_biases_are_joined_with_the_same_bits() -> None:
    eager, run = training(squares), Captured(training(squares))
    for x, wanted in batches(lambda: torch.randn(ROWS, CLASSES)):
        assert eager(x, wanted).numpy().tobytes() == run(x, wanted).numpy().tobytes()

    fit = ("AddmmBackward0: fit", 1)
    assert parts(run) == [("addmm", 2), fit, ("ReluBackward0", 1), fit]
    assert not run.not_fused
    assert run.plans[0].tolerance == 0
    assert "5 are computed by 4 kernels" in run.report()


def test_a_loss_and_its_gradients_are_joined_and_are_as_close_as_is_said() -> None:
    eager, run = training(entropy), Captured(training(entropy))
    for x, wanted in batches():
        np.testing.assert_allclose(run(x, wanted).numpy(), eager(x, wanted).numpy(), rtol=1e-5)

    assert ("_log_softmax", 5) in parts(run)
    assert not run.not_fused
    assert "within 1e-06" in run.report()


def test_a_class_that_is_not_there_is_complained_of_in_a_replay_too() -> None:
    run = Captured(training(entropy))
    for x, wanted in batches():
        run(x, wanted)
    wanted[3] = CLASSES

    with pytest.raises(IndexError, match="Target 7 is out of bounds"):
        run(x, wanted)


def test_a_class_that_is_left_out_counts_for_nothing() -> None:
    eager, run = training(entropy), Captured(training(entropy))
    for x, wanted in batches():
        wanted[::3] = -100
        np.testing.assert_allclose(run(x, wanted).numpy(), eager(x, wanted).numpy(), rtol=1e-5)
    assert ("_log_softmax", 5) in parts(run)


def test_a_kernel_that_makes_other_numbers_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    right = joined.sum_of_rows
    monkeypatch.setattr(joined, "sum_of_rows", lambda x: right(x) * x.dtype.type(1.001))
    eager, run = training(entropy), Captured(training(entropy))
    for x, wanted in batches():
        assert eager(x, wanted).numpy().tobytes() == run(x, wanted).numpy().tobytes()

    assert run.not_fused
    assert not run.plans[0].joins


def test_a_plan_holds_no_gradient_that_the_program_has_let_go() -> None:
    layer, gone = torch.nn.Linear(3, 4), []

    def step(x: Any) -> None:
        layer.zero_grad()
        layer(x).sum().backward()

    run = Captured(step)
    for _ in range(6):
        run(torch.ones(2, 3))
        gone.append(ref(layer.weight.grad._array))

    assert run.plans
    assert [each() is None for each in gone] == [True] * 5 + [False]


def test_what_others_need_or_what_is_small_is_not_joined() -> None:
    torch.manual_seed(0)
    layer, small = torch.nn.Linear(19, WIDTH), torch.nn.Linear(3, 4)

    def keeps(x: Any) -> Any:
        made = layer(x)
        return torch.relu(made).sum() + made.sum()

    def few(x: Any) -> Any:
        return torch.relu(small(x)).sum()

    for function, x in ((keeps, torch.randn(ROWS, 19)), (few, torch.randn(5, 3))):

        def step(x: Any, function: Any = function) -> Any:
            loss = function(x)
            loss.backward()
            layer.zero_grad()
            small.zero_grad()
            return loss.detach()

        run = Captured(step)
        for _ in range(OFTEN):
            run(x)
        assert run.plans
        assert "addmm" not in [label for label, _ in parts(run)]
