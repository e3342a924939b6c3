"""Steps of programs without an optimizer: each backward in a loop has one, on both engines."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

import gradscope
from gradscope.analysis.identity.steps import steps
from gradscope.record.acts.source import backwards
from gradscope.record.process.instances import instances
from gradscope.trace.schema import GraphTask, Node, Step, Version
from gradscope.trace.trace import Trace

ENGINES = (pytest.param("torch", marks=pytest.mark.torch), "gradscope")


@pytest.fixture(autouse=True)
def no_optimizer_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recording asks whether there is an optimizer, and must not find those of other tests."""
    gc.collect()
    theirs: dict[type, list[Any]] = {}

    def own(base: type) -> list[Any]:
        known = theirs.get(base, [])
        return [each for each in instances(base) if all(each is not other for other in known)]

    for module in filter(None, map(sys.modules.get, backwards.OPTIMIZERS)):
        theirs[module.Optimizer] = instances(module.Optimizer)
    monkeypatch.setattr(backwards, "instances", own)


def engine(on: str) -> Any:
    return import_module("torch" if on == "torch" else "gradscope.runtime")


def recorded(program: Callable[[Any], object], on: str, **options: Any) -> Trace:
    torch = engine(on)
    with gradscope.record(on=on, **options) as recording:
        program(torch)
    return recording.trace()


def under_no_grad(torch: Any) -> None:
    weight = torch.ones(3, requires_grad=True)
    for _ in range(4):
        (weight * 2).sum().backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad
            weight.grad = None


def of_data(torch: Any) -> None:
    model = torch.nn.Linear(3, 1)
    for _ in range(4):
        model.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        for each in model.parameters():
            each.data.add_(each.grad, alpha=-0.1)


def functional(torch: Any) -> None:
    weight = torch.ones(3).requires_grad_()
    for _ in range(4):
        (grad,) = torch.autograd.grad((weight * weight).sum(), [weight])
        weight = (weight - 0.1 * grad).detach().requires_grad_()


def of_a_transform(torch: Any) -> None:
    weight = torch.ones(3)
    step = torch.func.grad(lambda each: (each * each).sum())
    for _ in range(4):
        weight = weight - 0.1 * step(weight)


def only_backward(torch: Any) -> None:
    weight = torch.ones(3, requires_grad=True)
    for _ in range(4):
        (weight * 2).sum().backward()
    (weight * 2).sum().detach()


def with_a_penalty(torch: Any) -> None:
    weight, x = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    for _ in range(4):
        (slope,) = torch.autograd.grad((weight * x).pow(2).sum(), [x], create_graph=True)
        slope.pow(2).sum().backward()


def called_by_a_function(torch: Any) -> None:
    def step() -> None:
        (weight * 2).sum().backward()

    weight = torch.ones(3, requires_grad=True)
    for _ in range(4):
        step()


@pytest.mark.parametrize("on", ENGINES)
def test_without_an_optimizer_each_backward_in_a_loop_has_a_step(on: str) -> None:
    programs = (
        under_no_grad, of_data, functional, of_a_transform, only_backward, with_a_penalty,
        called_by_a_function,
    )  # fmt: skip
    for level in ("graph", "engine"):
        numbers = {
            program.__name__: [step.number for step in steps(recorded(program, on, level=level))]
            for program in programs
        }
        assert numbers == {program.__name__: [0, 1, 2, 3] for program in programs}


def after_a_handler(torch: Any) -> None:
    """Python puts the handler behind the backward, from where it jumps back."""
    weight = torch.ones(3, requires_grad=True)
    for _ in range(2):
        try:
            int("")
        except ValueError:
            continue
    with warnings.catch_warnings():
        weight.detach()
    (weight * 2).sum().backward()
    try:
        int("")
    except ValueError:
        weight.detach()


def tried_again(torch: Any) -> None:
    weight = torch.ones(3, requires_grad=True)
    left = 3
    while True:
        try:
            (weight * 2).sum().backward()
            return [][left]
        except IndexError:
            if not (left := left - 1):
                return None


@pytest.mark.parametrize("on", ENGINES)
def test_a_backward_before_the_handler_of_an_error_is_in_no_loop(on: str) -> None:
    assert "steps_end_with" not in recorded(after_a_handler, on).meta
    again = recorded(tried_again, on)
    assert again.meta["steps_end_with"] == "backward"
    assert [step.number for step in steps(again)] == [0, 1, 2]


@pytest.mark.parametrize("on", ENGINES)
def test_an_update_belongs_to_the_step_of_its_backward(on: str) -> None:
    trace = recorded(under_no_grad, on)
    begins = trace.table(Step)["begin"].tolist()
    assert trace.table(GraphTask)["step"].tolist() == [0, 1, 2, 3]
    assert sorted({*trace.table(Node)["step"].tolist()} - {-1}) == [0, 1, 2, 3]
    writes = trace.table(Version)["t"].tolist()
    assert [sum(begin <= t for begin in begins) - 1 for t in writes] == [0, 1, 2, 3]


@pytest.mark.parametrize("on", ENGINES)
def test_steps_without_an_optimizer_can_be_left_out(on: str) -> None:
    trace = recorded(of_data, on, steps=(1, 2))
    assert [step.number for step in steps(trace)] == [1, 2]
    numbers = [trace.table(Step).row(step).number for step in trace.table(GraphTask)["step"]]
    assert numbers == [1, 2]
    assert trace.meta["unwanted"] == {"steps": 2}


@pytest.mark.parametrize("on", ENGINES)
def test_where_somebody_tells_of_steps_backwards_do_not(on: str) -> None:
    def accumulating(torch: Any) -> None:
        for _ in range(2):
            for _ in range(3):
                model(torch.ones(2, 3)).sum().backward()
            held[0].step()

    def told(torch: Any) -> None:
        for _ in range(2):
            gradscope.step()
            for _ in range(3):
                model(torch.ones(2, 3)).sum().backward()

    def twice(torch: Any) -> None:
        model(torch.ones(2, 3)).sum().backward()
        model(torch.ones(2, 3)).sum().backward()

    torch = engine(on)
    model = torch.nn.Linear(3, 1)
    held = [torch.optim.SGD(model.parameters(), lr=0.1)]
    assert len(steps(recorded(accumulating, on))) == 2
    held.clear()
    assert [step.number for step in steps(recorded(told, on))] == [1, 2]
    assert len(steps(recorded(twice, on))) == 1


@pytest.mark.torch
def test_steps_by_hand_are_seen_without_native_code_too() -> None:
    trace = recorded(under_no_grad, "torch", native=False)
    assert [step.number for step in steps(trace)] == [0, 1, 2, 3]
    assert trace.table(GraphTask)["step"].tolist() == [0, 1, 2, 3]
