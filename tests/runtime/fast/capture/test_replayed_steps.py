"""Replayed steps do what eager ones do, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradscope.runtime as torch
from gradscope.runtime.fast.capture.captured import Captured
from tests.runtime.fast.capture.steps import STEPS

CALLS = 6


def bits(value: Any) -> Any:
    """A result as something that can be compared: numbers to the bit, history by name."""
    if isinstance(value, torch.Tensor):
        node = value.grad_fn
        return (
            value._array.tobytes(), value.shape, value.dtype, value.requires_grad, value._version,
            node and node.name(),
        )  # fmt: skip
    if isinstance(value, dict):
        return {key: bits(item) for key, item in value.items()}
    return [bits(item) for item in value] if isinstance(value, list | tuple) else value


def left(model: Any) -> list[Any]:
    """What a step leaves in a model."""
    found: list[Any] = []
    for tensor in model.state_dict(keep_vars=True).values():
        found += [bits(tensor), None if tensor.grad is None else bits(tensor.grad)]
    return found


def compared(name: str, calls: int = CALLS) -> str:
    """How a replayed step differs from an eager one, or why it is not replayed."""
    results = []
    for captured in (False, True):
        step, given = STEPS[name](torch)
        run = Captured(step) if captured else step
        torch.manual_seed(7)
        seen: list[Any] = [(bits(run(*given(nr))), left(step.model)) for nr in range(calls)]
        seen.append(torch.rand(1).item())
        results.append(seen)
        if captured and not (run.plans and run.plans[0].replays >= calls - 4):
            return f"not replayed: {run.stops[:1] or run.recaptured}"
    eager, replayed = results
    return next((f"call {n}" for n in range(calls + 1) if eager[n] != replayed[n]), "")


@pytest.mark.parametrize("part", range(3))
def test_steps_leave_the_same_bits(part: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Numbers, gradients, versions, histories, and what is drawn at random."""
    np.seterr(all="ignore")
    names = list(STEPS)[part::3]

    assert {name: reason for name in names if (reason := compared(name))} == {}


def trained_in(threads: int, *, captured: bool) -> list[Any]:
    """What a few steps leave of layers that are large enough for several threads."""
    nn, before = torch.nn, torch.get_num_threads()
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 8 * 8, 256),
        nn.LayerNorm(256), nn.GELU(), nn.Linear(256, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters())
    images, labels = torch.randn(64, 8, 8, 8), torch.arange(64) % 10

    def step() -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = Captured(step) if captured else step
    torch.set_num_threads(threads)
    try:
        found = [bits(run()) for _ in range(5)] + left(model)
    finally:
        torch.set_num_threads(before)
    assert not captured or run.plans[0].replays > 1
    return found


def test_one_thread_and_two_leave_the_same_bits() -> None:
    trained_in(1, captured=False)  # what is compiled at first calls is compiled
    wanted = trained_in(1, captured=False)

    assert trained_in(2, captured=False) == wanted
    assert trained_in(1, captured=True) == wanted
    assert trained_in(2, captured=True) == wanted
