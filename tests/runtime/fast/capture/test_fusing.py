"""Chains of arithmetic become one call each, and leave the same bits."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

import gradscope.runtime as torch
from gradscope.runtime.fast.capture.captured import WORTH_FUSING, Captured
from gradscope.runtime.fast.capture.plan import text
from gradscope.runtime.fast.compiling.fused import fused_kernel
from tests.runtime.fast.capture.test_replayed_steps import bits

TURNS = 40
SHAPE = (47, 48)
"""Of more elements than NumPy's loops are taken for."""


def chain(kind: Any, turns: int = TURNS, shape: tuple[int, ...] = SHAPE) -> tuple[Any, Any]:
    """A step of many calls on arrays of one shape, and its leaf."""
    torch.manual_seed(0)
    x, y = torch.randn(shape, dtype=kind, requires_grad=True), torch.randn(shape, dtype=kind)

    def step(scale: Any) -> Any:
        a = x
        for _ in range(turns):
            a = torch.tanh(-(a * y + x) * 0.5 - y)
        loss = (a * scale).sum()
        loss.backward()
        return loss.detach()

    return step, x


def test_a_fused_chain_leaves_the_same_bits() -> None:
    eager, leaf = chain(torch.float32)
    captured, other = chain(torch.float32)
    run = Captured(captured)
    for nr in range(WORTH_FUSING + 6):
        scale = torch.linspace(-1, 1, prod(SHAPE)).view(SHAPE) * nr
        assert (bits(run(scale)), bits(other.grad)) == (bits(eager(scale)), bits(leaf.grad))

    fused = run.plans[0].chains
    assert sum(one.count for one in fused) > 5 * TURNS
    assert "are fused into" in run.report()
    assert not run.not_fused


def test_a_few_calls_are_not_worth_a_kernel() -> None:
    step, _ = chain(torch.float32, turns=2)
    run = Captured(step)
    for _ in range(WORTH_FUSING + 4):
        run(torch.ones(SHAPE))

    assert run.plans[0].chains == []
    assert run.plans[0].replays > WORTH_FUSING


def test_arithmetic_whose_results_nobody_needs_is_no_kernel() -> None:
    weight = torch.ones(64, 64, requires_grad=True)

    def step(x: Any) -> Any:
        unused = x
        for _ in range(6):
            unused = -(unused * x)
        loss = (x.relu() * weight).sum()
        loss.backward()
        return loss.detach()

    run = Captured(step)
    for nr in range(WORTH_FUSING + 6):
        assert run(torch.ones(64, 64) * nr).item() == 4096 * nr
    assert run.plans[0].fusing_tried


def test_a_kernel_that_fails_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise AssertionError("a kernel")

    monkeypatch.setattr(text, "fused_kernel", lambda *_: fails)
    eager, _ = chain(torch.float32)
    captured, _ = chain(torch.float32)
    run, scale = Captured(captured), torch.ones(SHAPE)
    for _ in range(WORTH_FUSING + 6):
        assert bits(run(scale)) == bits(eager(scale))

    assert "a kernel" in run.not_fused[0]


def test_what_is_not_finite_goes_through_a_fused_kernel_as_through_numpy() -> None:
    lines = ("y0 = x0 * x1", "y1 = y0 + f(0.5)", "y2 = (f(1) - y1 * y1) * -x0")
    for kind in (np.float32, np.float64):
        kernel = fused_kernel(lines, 2, ("y0", "y2"), np.dtype(kind).str, 2)
        values = np.array([[0.0, -0.0, 1e-40, np.inf, -np.inf, 3.7, 1e30, -2.5]], kind).T
        others = np.array([[1.5, -0.0, np.inf, 0.1, 1e-45, 1e10]], kind)
        first, second = (np.ascontiguousarray(a) for a in np.broadcast_arrays(values, others))
        made = [np.empty_like(first), np.empty_like(first)]
        kernel(first, second, *made)
        with np.errstate(all="ignore"):
            product = first * second
            plus = product + kind(0.5)
            twin = (kind(1) - plus * plus) * -first

        for found, wanted in zip(made, (product, twin), strict=True):
            assert np.array_equal(found, wanted, equal_nan=True)
            same_sign = np.signbit(found) == np.signbit(wanted)
            assert (same_sign | np.isnan(wanted)).all()
