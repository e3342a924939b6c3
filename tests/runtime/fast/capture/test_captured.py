"""A captured step as a function: its errors, in threads, as a method, before a watcher."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import gradscope
import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.runtime.core.generated.first_call import scopes
from gradscope.runtime.fast.capture.captured import MOST_PLANS, Captured
from gradscope.trace.schema import Node


def kernels() -> list[Any]:
    return [scope["kernel"] for scope in scopes() if "kernel" in scope]


def test_a_step_that_fails_while_it_is_recorded_leaves_the_runtime_as_it_was() -> None:
    before, weight, calls = kernels(), torch.ones(3, requires_grad=True), [0]

    def step(x: Any) -> Any:
        (x * weight).sum().backward()
        return weight.grad.sum() / calls[0] if len(calls) > 1 else missing  # noqa: F821

    run = Captured(step)
    for _ in range(3):
        with pytest.raises(NameError):
            run(torch.ones(3))

    assert all(one is other for one, other in zip(before, kernels(), strict=True))
    assert torch.ones(2).add(1).tolist() == [2.0, 2.0]


def test_an_error_in_a_replay_names_the_line_of_the_program() -> None:
    table = torch.ones(4, 2, requires_grad=True)

    def step(places: Any) -> Any:
        loss = torch.nn.functional.embedding(places, table).sum()
        loss.backward()
        return loss

    run = Captured(step)
    for nr in range(5):
        run(torch.tensor([nr % 4, 0]))
    with pytest.raises(IndexError) as caught:
        run(torch.tensor([9, 0]))

    line = f"{__file__}:{step.__code__.co_firstlineno + 1}"
    assert caught.value.__notes__ == [f"in the replay of embedding, which was called at {line}"]


def test_two_threads_call_captured_steps_at_once() -> None:
    found: dict[int, list[float]] = {}

    def work(nr: int) -> None:
        weight = torch.full((3,), float(nr), requires_grad=True)

        def step(x: Any) -> Any:
            loss = (x * weight).sum()
            loss.backward()
            return loss.detach()

        run = Captured(step)
        found[nr] = [run(torch.ones(3) * turn).item() for turn in range(40)]

    threads = [threading.Thread(target=work, args=(nr,)) for nr in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == {nr: [3.0 * nr * turn for turn in range(40)] for nr in range(1, 4)}


def test_a_method_is_captured() -> None:
    class Loop:
        def __init__(self) -> None:
            self.weight = torch.ones(3, requires_grad=True)

        @torch.compile
        def step(self, x: Any) -> Any:
            self.weight.grad = None
            loss = (x * self.weight).sum()
            loss.backward()
            return loss.detach()

    loop = Loop()
    given = [loop.step(torch.ones(3) * nr).item() for nr in range(6)]

    assert given == [0.0, 3.0, 6.0, 9.0, 12.0, 15.0]
    assert Loop.step.plans[0].replays >= 3
    assert gradscope.capture(Loop.step) is Loop.step


def test_a_watched_step_runs_as_ever() -> None:
    traces: list[list[str]] = []
    for capture in (lambda step: step, Captured):
        weight = torch.ones(3, requires_grad=True)

        @capture
        def step(x: Any, weight: Any = weight) -> Any:
            loss = (x * weight).sum()
            loss.backward()
            return loss

        for _ in range(5):
            step(torch.ones(3))
        with record() as recording:
            step(torch.ones(3))
        recording.stop()
        trace = recording.trace()
        traces.append([node.name for node in trace.rows(Node)])

    assert traces[0] == traces[1]
    assert {"MulBackward0", "SumBackward0"} <= set(traces[0])


def test_a_step_that_never_fits_is_given_up(capsys: pytest.CaptureFixture[str]) -> None:
    weight = torch.ones(3, requires_grad=True)

    def step(number: float) -> Any:
        loss = (weight * number).sum()
        loss.backward()
        return loss.detach()

    run = Captured(step)
    given = [run(float(nr)).item() for nr in range(MOST_PLANS + 6)]

    assert given == [3.0 * nr for nr in range(MOST_PLANS + 6)]
    said = f"{step.__qualname__} is not replayed: {MOST_PLANS} plans exist, and none fits"
    assert capsys.readouterr().err == f"gradscope: {said}\n"


def test_a_program_that_has_used_autocast_is_captured_and_runs_as_ever_under_it() -> None:
    layer = torch.nn.Linear(4, 3)

    def step(x: Any) -> Any:
        layer.zero_grad()
        loss = torch.nn.functional.mse_loss(layer(x), x[:, :3])
        loss.backward()
        return loss.detach(), layer(x).detach()

    run = Captured(step)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = step(torch.ones(2, 4))
    for nr in range(6):
        assert run(torch.ones(2, 4) * nr)[0].item() == step(torch.ones(2, 4) * nr)[0].item()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = run(torch.ones(2, 4))

    assert run.plans[0].replays == 4
    assert found[1].dtype == under[1].dtype == torch.bfloat16
    assert found[1].tolist() == under[1].tolist()
