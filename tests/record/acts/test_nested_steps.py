"""An optimizer that steps another one takes one step of the training, on both engines."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import gradscope
from gradscope.analysis.report import inspect
from gradscope.trace.schema import Act, GraphTask, Phase, Span, Step
from gradscope.trace.trace import Trace

ENGINES = (pytest.param("torch", marks=pytest.mark.torch), "gradscope")


def trained(on: str, *, failing: int = -1, again: bool = False, **options: Any) -> Trace:
    """A program whose optimizer wraps an SGD; in one step that raises; `again`: it steps twice."""
    torch = import_module("torch" if on == "torch" else "gradscope.runtime")

    class Wrapper(torch.optim.Optimizer):
        def __init__(self, inner: Any) -> None:
            super().__init__(inner.param_groups, {})
            self.inner, self.steps = inner, 0

        def step(self, closure: Any = None) -> None:
            self.steps += 1
            if self.steps - 1 == failing:
                raise ZeroDivisionError
            self.inner.step()

    model = torch.nn.Linear(3, 1)
    optimizer = Wrapper(torch.optim.SGD(model.parameters(), lr=0.1))
    with gradscope.record(on=on, **options) as recording:
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            try:
                optimizer.step()
            except ZeroDivisionError:
                optimizer.inner.step()
            if again:
                optimizer.step()
    return recording.trace()


def numbers(trace: Trace) -> list[int]:
    """The numbers of the steps in which backwards ran."""
    steps = {row.id: row.number for row in trace.rows(Step)}
    return [steps[task.step] for task in trace.rows(GraphTask)]


@pytest.mark.parametrize("on", ENGINES)
def test_a_step_inside_another_one_is_a_part_of_it(on: str) -> None:
    trace = trained(on)

    assert numbers(trace) == [0, 1, 2, 3]
    steps = {row.id: row.number for row in trace.rows(Step)}
    names = [
        (row.name, steps[row.step]) for row in trace.rows(Span) if row.phase == Phase.OPTIMIZER
    ]
    suffix = ".step" if on == "torch" else ""
    both = [f"Wrapper{suffix}", f"SGD{suffix}"]
    assert names == [(name, number) for number in range(4) for name in both]
    assert [each.slug for each in inspect(trace).findings] == []


@pytest.mark.parametrize("on", ENGINES)
def test_without_a_backward_in_between_they_are_still_one(on: str) -> None:
    """Of two steps of both, the second one of the inner optimizer followed the outer one's."""
    assert "tied-twice" not in {each.slug for each in inspect(trained(on, again=True)).findings}


@pytest.mark.parametrize("on", ENGINES)
def test_after_a_step_that_raised_steps_go_on(on: str) -> None:
    """On PyTorch nothing tells that it ended."""
    raised_step_counts = on == "gradscope"

    assert numbers(trained(on, failing=1))[:2] == [0, 1]
    assert numbers(trained(on, failing=1))[-1] == 3 + raised_step_counts


@pytest.mark.parametrize("on", ENGINES)
def test_steps_that_are_left_out_count_once_too(on: str) -> None:
    assert numbers(trained(on, steps=(2, 3))) == [2, 3]


@pytest.mark.parametrize("on", ENGINES)
def test_a_step_that_calls_that_of_its_base_class_is_one_step(on: str) -> None:
    torch = import_module("torch" if on == "torch" else "gradscope.runtime")

    class Decayed(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    model = torch.nn.Linear(3, 1)
    torch.optim.SGD(model.parameters(), lr=0.1)  # from now on PyTorch calls hooks in its step
    optimizer = Decayed(model.parameters(), lr=0.1)
    with gradscope.record(on=on) as recording:
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
    trace = recording.trace()

    lines = {trace.source(act.stack) for act in trace.rows(Act) if act.kind == "step"}
    assert len([act for act in trace.rows(Act) if act.kind == "step"]) == 4
    assert lines == {"optimizer.step()"}
    assert "GS518" not in {each.rule for each in inspect(trace).findings}
