"""Random steps, captured and replayed, leave what eager ones leave."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies

import gradscope.runtime as torch
from gradscope.runtime.capture.captured import Captured
from tests.runtime.capture.random_steps import program, scope_of
from tests.runtime.capture.test_replayed_steps import bits
from tests.shared.searching import searching

CALLS = 5


def outcome(seed: int, *, captured: bool, calls: int = CALLS) -> tuple[list[Any], Any]:
    """What each call returns and leaves, or how it fails."""
    scope = scope_of(seed, torch)
    step = scope["step"]
    run = Captured(step) if captured else step
    found: list[Any] = []
    torch.manual_seed(seed % 101)
    for nr in range(calls):
        x = torch.linspace(-1, 1, 16).view(4, 4) * (nr - 2)
        try:
            found.append(bits(run(x)))
        except Exception as error:
            found.append(str(error))
        for leaf in (scope["w"], scope["v"], scope["fixed"]):
            found += [bits(leaf), None if leaf.grad is None else bits(leaf.grad)]
    return [*found, torch.rand(1).item()], run


@searching(60)
@given(strategies.integers(0, 10**6))
def test_a_random_step_leaves_the_same_bits(seed: int) -> None:
    eager, _ = outcome(seed, captured=False)
    replayed, run = outcome(seed, captured=True)

    assert replayed == eager, program(seed)
    assert not any("differs" in str(stop) for stop in run.stops), (run.stops, program(seed))
