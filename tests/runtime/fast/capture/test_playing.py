"""Small calls of a plan become one call of NumPy's loops, and leave the same bits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, strategies

import gradscope.runtime as torch
from gradscope.runtime.fast.capture import captured as captured_room
from gradscope.runtime.fast.capture.captured import Captured
from gradscope.runtime.fast.capture.plan import playing
from tests.runtime.fast.capture.steps import STEPS
from tests.runtime.fast.capture.test_random_steps import outcome, program
from tests.runtime.fast.capture.test_replayed_steps import bits, compared
from tests.shared.searching import searching

CALLS = 8
Step = Callable[[Any], Any]
SOON = patch.object(captured_room, "WORTH_FUSING", 1)


def products(rows: int, width: int, kind: Any) -> Step:
    """Products, a function that is no arithmetic, numbers among the operands, a leaf used often."""
    torch.manual_seed(0)
    weight = torch.randn(width, width, dtype=kind, requires_grad=True)

    def step(x: Any) -> Any:
        weight.grad = None
        made = x
        for _ in range(5):
            made = torch.tanh(made @ weight) * -0.0 + made * 0.5 - x
        made.sum().backward()
        return made.detach(), weight.grad

    return step


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize(("rows", "width"), [(8, 8), (2, 3), (5, 2), (33, 17), (1, 8), (64, 32)])
@SOON
def test_products_and_functions_leave_the_same_bits(rows: int, width: int, kind: Any) -> None:
    eager, run = products(rows, width, kind), Captured(products(rows, width, kind))
    for nr in range(CALLS):
        x = torch.linspace(-3, 3, rows * width, dtype=kind).view(rows, width) * nr
        if nr == CALLS - 1:
            x[0, 0], x[0, 1] = float("inf"), float("nan")
        assert bits(run(x)) == bits(eager(x))

    (plan,) = run.plans
    assert not run.not_fused
    assert plan.tolerance == 0
    assert sum(played.count for played in plan.played) > 20


@SOON
def test_what_is_made_for_each_other_shares_memory_and_what_others_read_does_not() -> None:
    step = products(8, 8, torch.float32)
    run = Captured(step)
    kept = [run(torch.ones(8, 8) * nr) for nr in range(CALLS)]
    (plan,) = run.plans
    count = len(plan.played)

    assert plan.text.count("room = empty") == 1
    assert plan.text.count("(room, ") == count
    assert f"in calls: {count}" in run.report()
    for nr, (made, grad) in enumerate(kept):
        assert bits((made, grad)) == bits(step(torch.ones(8, 8) * nr))


@SOON
def test_forward_and_backward_are_pieces_of_their_own_and_long_ones_are_cut() -> None:
    with patch.object(playing, "MOST", 7):
        step = products(8, 8, torch.float32)
        run = Captured(step)
        for nr in range(CALLS):
            assert bits(run(torch.ones(8, 8) * nr)) == bits(step(torch.ones(8, 8) * nr))
    (plan,) = run.plans
    parts = [{call.part for call in plan.calls[p.first : p.first + p.count]} for p in plan.played]

    assert max(played.count for played in plan.played) == 7
    assert all(len(part) == 1 for part in parts)
    assert plan.played[0].lines[:2] == ("y0 = x0 @ x1", "y1 = tanh(y0)")


@SOON
def test_large_arrays_strided_ones_and_other_functions_are_left_alone() -> None:
    def step(x: Any) -> Any:
        large = x.repeat(60, 60)
        return (large * large + large).sum() + (x.t() * x.t() + x.t()).sum(), x.cumsum(0).flip(0)

    run = Captured(step)
    for nr in range(CALLS):
        x = torch.linspace(-1, 1, 35).view(5, 7) * nr
        assert bits(run(x)) == bits(step(x))
    assert [played for plan in run.plans for played in plan.played] == []


@SOON
def test_threads_that_replay_one_plan_have_memory_of_their_own() -> None:
    torch.manual_seed(0)
    weight = torch.randn(8, 8)

    def step(x: Any) -> Any:
        for _ in range(6):
            x = torch.tanh(x @ weight) + x * 0.5
        return x.sum() * x

    run = Captured(step)
    found: list[list[Any]] = [[], []]
    for nr in range(CALLS):
        run(torch.ones(8, 8) * nr)

    def replay(mine: int) -> None:
        found[mine] += [bits(run(torch.ones(8, 8) * (nr + mine))) for nr in range(100)]

    threads = [threading.Thread(target=replay, args=(mine,)) for mine in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert run.plans[0].played
    for mine, made in enumerate(found):
        assert made == [bits(step(torch.ones(8, 8) * (nr + mine))) for nr in range(100)]


@SOON
def test_steps_leave_the_same_bits(capsys: pytest.CaptureFixture[str]) -> None:
    np.seterr(all="ignore")
    assert {name: reason for name in list(STEPS)[::4] if (reason := compared(name, CALLS))} == {}


@searching(25)
@given(strategies.integers(0, 10**6))
def test_a_random_step_leaves_the_same_bits(seed: int) -> None:
    eager, _ = outcome(seed, captured=False, calls=CALLS)
    with SOON:
        replayed, run = outcome(seed, captured=True, calls=CALLS)

    assert replayed == eager, program(seed)
    assert not run.not_fused, program(seed)
