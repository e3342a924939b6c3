"""Jumps of the loss, and what changed before them."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np

from gradscope.analysis.report import inspect
from gradscope.analysis.timing.early_signs import EarlySigns, LossJump, Sign, Then
from gradscope.trace.schema import GraphTask, ParameterSummary, Row, Step, StepSummary, Tensor
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

USUAL = [1.0 + 0.1 * (n % 3) for n in range(30)]


def of_losses(losses: Sequence[float], updates: Sequence[float] = ()) -> Trace:
    """A run with these losses; of the first steps also with updates of a parameter."""
    rows: list[Row] = []
    for n, loss in enumerate(losses):
        row = StepSummary(step=n, t=n, loss=loss, roots=1)
        if n < len(updates):
            row = StepSummary(
                step=n, t=n, loss=loss, roots=1, parameters=1, gradient=1.0, weight=2.0, update=0.1
            )
            rows.append(
                ParameterSummary(step=n, tensor=1, gradient=1.0, weight=2.0, update=updates[n])
            )
        rows += [row, Step(n, n, begin=10 * n, end=10 * n + 9), GraphTask(n, step=n, begin=10 * n)]
    return trace_of(Tensor(1, name="head.weight", leaf=True, requires_grad=True), *rows)


def jump(losses: Sequence[float], updates: Sequence[float] = ()) -> LossJump | None:
    return of_losses(losses, updates).once(EarlySigns).jump


def test_a_jump_is_found_with_how_it_goes_on() -> None:
    ways = {
        Then.BACK: [*USUAL, 9.0, *USUAL],
        Then.STAYED: [*USUAL, 9.0, *[8.0] * 10],
        Then.NOT_FINITE: [*USUAL, 9.0, 12.0, nan],
        Then.UNKNOWN: [*USUAL, 9.0],
    }
    for then, losses in ways.items():
        found = jump(losses)
        assert found is not None
        assert (found.step.number, found.usual, found.then, found.signs) == (30, 1.1, then, ())


def test_a_training_without_a_jump_has_none() -> None:
    noise = np.random.default_rng(5)
    assert jump(USUAL[:5]) is None
    assert jump([5 * 0.97**n for n in range(200)]) is None
    assert jump([-n / 10 for n in range(100)]) is None
    assert jump([n / 10 for n in range(100)]) is None
    assert jump([0.0] * 40) is None
    assert jump([*USUAL, 9.0] * 8) is None  # it jumps often
    noisy = [jump(noise.gamma(4.0, 0.25, 120).tolist()) for _ in range(200)]
    assert sum(each is not None for each in noisy) <= 1


def test_the_first_sign_is_the_parameter_that_changed_before() -> None:
    updates = [0.01 + 0.001 * (n % 4) for n in range(31)]
    updates[27:] = [0.5, 0.6, 0.01, 0.7]

    found = jump([*USUAL, 9.0, *USUAL], updates)

    assert found is not None
    assert [(each.step, each.what, each.name) for each in found.signs] == [
        (step, "update", "head.weight") for step in (27, 28, 30)
    ]
    assert found.signs[0] == Sign(27, "update", "head.weight", found.signs[0].usual, 0.5)
    assert 40 < found.signs[0].factor < 50
    (note,) = (each for each in inspect(of_losses([*USUAL, 9.0, *USUAL], updates)).findings)
    assert note.message == "The loss rose from 1.1 to 9 in step 30, and came back"
    assert note.why == (
        "first sign 3 steps before: the update of head.weight was 45 times its median in step 27, "
        "the update of head.weight was 50 times its median in step 28; gradients and parameters "
        "were measured in 21 of the steps 10 to 30"
    )


def test_a_norm_that_grew_slowly_before_the_jump_is_a_sign() -> None:
    updates = [0.01 + 0.001 * (n % 4) for n in range(31)]
    updates[18:] = [0.012 * 1.08**n for n in range(13)]

    found = jump([*USUAL, 9.0, *USUAL], updates)
    usual = jump([*USUAL, 9.0, *USUAL], [0.01 + 0.001 * (n % 4) for n in range(31)])

    assert usual is not None
    assert usual.signs == ()
    assert found is not None
    (sign,) = found.signs
    assert (sign.grew, sign.step, sign.what, sign.name) == (True, 19, "update", "head.weight")
    assert 2.2 < sign.factor < 2.7
    (note,) = (each for each in inspect(of_losses([*USUAL, 9.0, *USUAL], updates)).findings)
    assert note.why.startswith(
        "first sign 11 steps before: the update of head.weight grew from step 19 on, to 2.5 times "
        "its median before; "
    )


def test_the_highest_jump_that_lasts_is_named() -> None:
    found = jump([*USUAL, 90.0, *USUAL, 9.0, *[9.0] * 10])

    assert found is not None
    assert (found.step.number, found.many, found.then) == (61, 2, Then.STAYED)
