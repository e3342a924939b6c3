"""A replayed step has the trace of the step, with the times at which its pieces ran."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies

import gradscope.runtime as torch
from gradscope.analysis.likeness import compare
from gradscope.record.recorder import record
from gradscope.runtime.fast.capture.captured import MOST_TRIES, WORTH_FUSING, Captured
from gradscope.trace.schema import GraphTask, Node, Op, StepAct, Storage, Tensor
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.runtime.fast.capture.loops import run
from tests.runtime.fast.capture.steps import STEPS
from tests.runtime.fast.capture.test_fusing import SHAPE, chain
from tests.runtime.fast.capture.test_random_steps import outcome, program
from tests.runtime.fast.capture.test_replayed_steps import bits, left
from tests.shared.searching import searching

F = torch.nn.functional
SAMPLES = Path(__file__).parents[4] / "samples"
CALLS = 6


def differences(eager: Trace, replayed: Trace) -> list[str]:
    """Where two traces differ, and what cannot be so in the second."""
    found = [str(part.first) for part in compare(eager, replayed).sections if part.first]
    return found + [str(fault) for fault in check(replayed)]


def traced(work: Callable[[], Any], level: str = "engine") -> tuple[Any, Trace]:
    gc.collect()  # an optimizer that another test left would say where steps end
    with record(level=level) as recording:  # type: ignore[arg-type]
        found = work()
    recording.stop()
    return found, recording.trace()


def compared(name: str, level: str) -> str:
    """How the trace of a replayed step differs from that of the step."""
    runs: list[Any] = []

    def work(*, captured: bool) -> list[Any]:
        step, given = STEPS[name](torch)
        runs.append(Captured(step) if captured else step)
        torch.manual_seed(7)
        return [(bits(runs[-1](*given(nr))), left(step.model)) for nr in range(CALLS)]

    eager, expected = traced(lambda: work(captured=False), level)
    replayed, found = traced(lambda: work(captured=True), level)
    if not runs[1].plans or runs[1].plans[0].replays < CALLS - 3:
        return f"not replayed: {runs[1].stops}"
    if eager != replayed:
        return "other numbers"
    return next(iter(differences(expected, found)), "")


@pytest.mark.parametrize(("level", "part"), [("engine", 0), ("engine", 1), ("graph", 2)])
def test_replays_of_steps_have_their_traces(level: str, part: int) -> None:
    np.seterr(all="ignore")
    names = list(STEPS)[part::3]

    assert {name: reason for name in names if (reason := compared(name, level))} == {}


@pytest.mark.parametrize("look", ["item", "__float__", "__bool__", "tolist"])
def test_a_step_that_looks_at_its_numbers_does_so_while_it_is_recorded(look: str) -> None:
    weight = torch.ones(3, requires_grad=True)
    seen: list[float] = []

    def step(x: Any) -> Any:
        weight.grad = None
        loss = (weight * x).sum()
        loss.backward()
        with torch.no_grad():
            number = getattr(loss, look)()
        if number and loss.detach().item() < 0:
            seen.append(float(number))
        return loss

    captured = Captured(step)
    traced(lambda: [captured(torch.full((3,), float(6 - nr))) for nr in range(12)])

    assert len(seen) == 5
    assert f" at {__file__}:" in str(captured.stops[0])


@pytest.mark.parametrize("name", ["mlp", "models/gan", "models/gpt", "models/pinn"])
def test_a_sample_that_trains_has_its_trace(name: str) -> None:
    path = SAMPLES / f"{name}.py"
    (said, *_), expected = traced(lambda: run(path, CALLS, captured=False))
    (found, replays, _), trace = traced(lambda: run(path, CALLS, captured=True))

    assert found == said
    assert max(replays) > 0
    assert differences(expected, trace) == []


@searching(12)
@given(strategies.integers(0, 10**6))
def test_a_random_step_has_its_trace(seed: int) -> None:
    (eager, _), expected = traced(lambda: outcome(seed, captured=False))
    (replayed, _), found = traced(lambda: outcome(seed, captured=True))

    assert replayed == eager, program(seed)
    assert differences(expected, found) == [], program(seed)


def training(optimizer: str = "Adam") -> tuple[Callable[..., Any], Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    stepping = getattr(torch.optim, optimizer)(model.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        stepping.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        stepping.step()
        return loss

    return step, stepping


X, Y = torch.linspace(-1, 1, 20).view(5, 4), torch.tensor([0, 1, 2, 1, 0])


def test_a_step_captured_before_the_recording_is_shown_to_it_once() -> None:
    step, _ = training()
    run = Captured(step)
    for _ in range(5):
        run(X, Y)
    before = run.plans[0].replays
    again, _ = training()
    for _ in range(5):
        again(X, Y)
    _, expected = traced(lambda: [again(X, Y) for _ in range(9)])
    _, found = traced(lambda: [run(X, Y) for _ in range(9)])

    assert len(run.plans) == 1
    assert run.plans[0].replays > before + 4
    assert differences(expected, found) == []


def test_what_is_computed_of_replayed_results_leads_to_the_replay() -> None:
    step, _ = training()
    run = Captured(step)

    def work() -> None:
        weight = torch.ones((), requires_grad=True)
        for nr in range(CALLS):
            loss = run(X * nr, Y).detach()
            (loss * weight).backward()

    _, trace = traced(work)
    made = {id for op in trace.rows(Op) for id in op.outputs}
    detached = [op for op in trace.rows(Op) if op.name == "detach"]

    assert run.plans[0].replays == CALLS - 2
    assert len(detached) == CALLS
    assert made.issuperset(id for op in detached for id in op.inputs)
    assert check(trace) == []


def test_times_are_those_of_the_replay() -> None:
    step, _ = training()
    run = Captured(step)
    spans: list[tuple[int, int]] = []
    clock = __import__("time").perf_counter_ns

    def work() -> int:
        for _ in range(CALLS):
            begin = clock()
            run(X, Y)
            spans.append((begin, clock()))
        return 0

    with record() as recording:
        start = recording.session.start  # type: ignore[union-attr]
        work()
    recording.stop()
    trace = recording.trace()

    for (begin, end), task in zip(spans, trace.rows(GraphTask), strict=True):
        assert begin - start <= task.begin < task.end <= end - start
    ops = [(op.begin, op.end) for op in trace.rows(Op)]
    assert all(begin < end for begin, end in ops)
    assert all(a[1] <= b[0] for a, b in pairwise(sorted(ops)))


def test_a_rate_that_changes_is_told() -> None:
    step, optimizer = training("SGD")
    run = Captured(step)

    def work() -> None:
        for nr in range(CALLS):
            optimizer.param_groups[0]["lr"] = 0.1 * (nr + 1)
            run(X, Y)

    _, trace = traced(work)
    steps = [*trace.rows(StepAct)]

    assert run.plans[0].replays == CALLS - 2
    assert [step.lr for step in steps] == [(0.1 * (nr + 1),) for nr in range(CALLS)]
    assert {step.moved for step in steps[3:]} == {()}  # what was seen of one step is said of none


@pytest.mark.parametrize("shape", [SHAPE, (3, 5)])
def test_calls_that_are_made_as_one_share_its_time(shape: tuple[int, ...]) -> None:
    eager, _ = chain(torch.float32, shape=shape)
    captured, _ = chain(torch.float32, shape=shape)
    run = Captured(captured)
    for nr in range(WORTH_FUSING + 5):
        run(torch.ones(shape) * nr)
    for nr in range(WORTH_FUSING + 5):
        eager(torch.ones(shape) * nr)
    given = torch.ones(shape)
    _, expected = traced(lambda: [eager(given) for _ in range(8)])
    _, found = traced(lambda: [run(given) for _ in range(8)])
    (plan,) = run.plans

    assert plan.chains if shape == SHAPE else plan.played
    assert differences(expected, found) == []


def test_large_results_that_replays_leave_are_followed_to_their_end() -> None:
    torch.manual_seed(0)
    weight = torch.randn(300, 300, requires_grad=True)

    def step(x: Any) -> Any:
        weight.grad = None
        loss = (x @ weight).tanh()
        loss.sum().backward()
        return loss.detach()

    run, given = Captured(step), torch.randn(300, 300)

    def work() -> None:
        for _ in range(CALLS):
            made = run(given)
            made.abs()
            del made

    _, trace = traced(work)
    large = [s for s in trace.rows(Storage) if s.bytes >= 1 << 18 and s.freed >= 0]

    assert run.plans[0].replays == CALLS - 2
    assert len(large) >= 3 * CALLS
    assert all(s.freed > s.born for s in large)


@pytest.mark.parametrize("level", ["values", "full"])
def test_a_level_that_looks_at_values_says_that_steps_run_as_ever(
    level: str, capsys: pytest.CaptureFixture[str]
) -> None:
    step, _ = training()
    run = Captured(step)
    traced(lambda: [run(X, Y) for _ in range(3)], level)

    said = f"is not replayed while it is recorded: level {level} measures the values of each call\n"
    assert capsys.readouterr().err.endswith(said)
    assert run.plans == []


def test_a_step_beside_another_thread_is_told_as_it_was() -> None:
    step, _ = training()
    run = Captured(step)
    weight, stop = torch.ones(3, requires_grad=True), threading.Event()

    def beside() -> None:
        while not stop.is_set():
            (weight * 2).sum().backward()

    def work() -> None:
        thread = threading.Thread(target=beside)
        thread.start()
        try:
            for _ in range(3 + 2 * MOST_TRIES):
                run(X, Y)
        finally:
            stop.set()
            thread.join()

    _, trace = traced(work)

    assert check(trace) == []
    of_step = [node for node in trace.rows(Node) if node.name == "AddmmBackward0"]
    assert len(of_step) == 2 * (3 + 2 * MOST_TRIES)
    assert {tensor.id for tensor in trace.rows(Tensor)}
