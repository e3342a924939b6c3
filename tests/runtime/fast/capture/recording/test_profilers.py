"""A program's profiler sees each run of a captured step, and such a step runs beside any."""

from __future__ import annotations

import cProfile
import pstats
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import gradscope.runtime as torch
from gradscope.runtime.fast.capture.captured import capture

BEFORE_REPLAYS = 3


def made() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A step and a model, each of which calls `inner`."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 8)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return inner(x)

    def inner(x: Any) -> Any:
        return layer(x).relu()

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (inner(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, Model()


def runs(way: str, *, is_captured: bool, profiled: Callable[[Callable[[], None]], Any]) -> Any:
    step, model = made()
    called = step if way == "step" else model
    if is_captured:
        called = capture(step) if way == "step" else torch.compile(model)
    x = torch.randn(16, 4)

    def all_runs() -> None:
        for _ in range(BEFORE_REPLAYS - 1):
            called(x)

    return profiled(all_runs)


def by_hook(all_runs: Callable[[], None]) -> Any:
    seen: Counter[tuple[str, str]] = Counter()

    def hook(frame: FrameType, event: str, _: Any) -> None:
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name in ("step", "inner"):
            seen[event, frame.f_code.co_name] += 1

    sys.setprofile(hook)
    try:
        all_runs()
        assert sys.getprofile() is hook
    finally:
        sys.setprofile(None)
    return seen


def by_cprofile(all_runs: Callable[[], None]) -> Any:
    profile = cProfile.Profile()
    with profile:
        all_runs()
    assert sys.getprofile() is None
    found: Any = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    return {name: row[0] for (file, _, name), row in found.items() if file == __file__}


@pytest.mark.parametrize("profiled", [by_hook, by_cprofile])
@pytest.mark.parametrize("way", ["step", "model"])
def test_a_profiler_sees_what_it_sees_without_capture(
    way: str, profiled: Callable[[Callable[[], None]], Any]
) -> None:
    alone = runs(way, is_captured=False, profiled=profiled)

    assert alone
    assert runs(way, is_captured=True, profiled=profiled) == alone


def test_a_step_is_captured_once_cprofile_is_over() -> None:
    step, _ = made()
    captured, x = capture(step), torch.randn(16, 4)
    with cProfile.Profile():
        captured(x)
    for _ in range(BEFORE_REPLAYS):
        captured(x)

    assert not captured.stops
    assert captured.plans


def test_a_step_that_sets_a_profiler_keeps_it() -> None:
    seen: list[str] = []

    def hook(frame: FrameType, event: str, _: Any) -> None:
        seen.append(event)

    def step(x: Any) -> Any:
        sys.setprofile(hook)
        return x * 2

    captured = capture(step)
    try:
        captured(torch.ones(2))
        assert sys.getprofile() is hook
    finally:
        sys.setprofile(None)
    assert seen
    assert captured.stops
