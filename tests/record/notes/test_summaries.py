"""Summaries of steps: what they say is true, for recorded steps and for those left out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradscope
import gradscope.runtime as torch
from gradscope.analysis.timing.long_run import LongRun
from gradscope.record.acts.numbers.summaries import pace, step_summaries
from gradscope.record.acts.numbers.summaries.measures import (
    ReadElements,
    bits,
    ratio,
    size_of,
    squares,
)
from gradscope.record.acts.numbers.summaries.pace import SummaryPace
from gradscope.record.notes.positions.joined_rows import JoinedRows
from gradscope.runtime import nn
from gradscope.trace.file import file_writer
from gradscope.trace.load_save import load
from gradscope.trace.schema import ParameterSummary, Place, Step, StepSummary, Tensor, Value
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace

ALWAYS = {"first": 1 << 20, "share": 1, "most": 1 << 20}
"""A pace at which each step is measured."""


@pytest.fixture
def each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure each step, however long it takes."""
    monkeypatch.setattr(step_summaries, "PARAMETERS", ALWAYS)
    monkeypatch.setattr(step_summaries, "LOSSES", ALWAYS)


class Trained:
    """A small training, with the values that its summaries must have."""

    def __init__(self, many: int, path: Path | None = None, **limits: Any) -> None:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        self.losses: list[float] = []
        self.gradients: list[list[float]] = []
        self.weights: list[list[float]] = []
        self.updates: list[list[float]] = []
        self.inputs = torch.randn(many, 5, 4)
        given = () if path is None else (path,)
        with gradscope.record(*given, **limits) as recording:
            for given_ in self.inputs:
                optimizer.zero_grad()
                loss = model(given_).square().mean()
                loss.backward()
                before = [np.array(each.detach().numpy()) for each in model.parameters()]
                optimizer.step()
                after = [each.detach().numpy() for each in model.parameters()]
                self.losses.append(float(loss.detach()))
                self.gradients.append([_norm(each.grad.numpy()) for each in model.parameters()])
                self.weights.append([_norm(each) for each in after])
                self.updates.append(
                    [_norm(b - a) / _norm(a) for a, b in zip(before, after, strict=True)]
                )
        self.trace: Trace = recording.trace() if path is None else load(path)


def _norm(array: Any) -> float:
    return float(np.linalg.norm(array.astype(np.float64)))


def of_step(trace: Trace) -> dict[int, StepSummary]:
    """The summaries by the number of their step."""
    numbers = {row.id: row.number for row in trace.rows(Step)}
    return {numbers[row.step]: row for row in trace.rows(StepSummary)}


@pytest.mark.usefixtures("each_step")
@pytest.mark.parametrize("limits", [{}, {"every": 3}, {"steps": (2, 2)}, {"max_events": 40}])
def test_summaries_have_the_values_of_the_program(limits: dict[str, Any]) -> None:
    run = Trained(7, **limits)
    rows = of_step(run.trace)
    known = run.trace.table(ParameterSummary)
    steps = {row.number: row.id for row in run.trace.rows(Step)}

    assert [rows[n].loss for n in range(7)] == pytest.approx(run.losses, rel=1e-4)
    assert [rows[n].roots for n in range(7)] == [1] * 7
    for name, values in (
        ("gradient", run.gradients),
        ("weight", run.weights),
        ("update", run.updates),
    ):
        for number in range(7):
            found = known[name][known["step"] == steps[number]]
            assert found.tolist() == pytest.approx(values[number], rel=1e-4), (name, number)
    whole = [math.hypot(*each) for each in run.gradients]
    assert [rows[n].gradient for n in range(7)] == pytest.approx(whole, rel=1e-4)
    assert run.trace.once(LongRun).steps == 7
    assert [*check(run.trace)] == []


@pytest.mark.usefixtures("each_step")
def test_summaries_agree_with_a_recording_of_all_values() -> None:
    trace = Trained(3, level="values").trace
    values, known = trace.table(Value), trace.table(ParameterSummary)
    last = {
        (row.step, row.tensor): row.norm
        for row in values.take(np.flatnonzero(values["place"] == Place.GRAD))
    }

    assert len(known) == 12
    for row in trace.rows(ParameterSummary):
        assert row.gradient == pytest.approx(last[row.step, row.tensor], rel=1e-4)
        assert row.compared == trace.table(Tensor).row(row.tensor).bytes // 4


@pytest.mark.usefixtures("each_step")
def test_the_program_computes_the_same_as_without_summaries() -> None:
    with_, without = Trained(5, every=2), Trained(5, every=2, summary=False)

    assert with_.losses == without.losses
    assert with_.weights == without.weights
    assert len(without.trace.table(StepSummary)) == 0
    assert not without.trace.sees("step_summary")
    assert without.trace.once(LongRun).steps == 5


@pytest.mark.usefixtures("each_step")
def test_equal_parameters_have_equal_bits() -> None:
    one, other = Trained(4, every=9).trace, Trained(4, every=2).trace
    first, second = (trace.table(ParameterSummary)["bits"].tolist() for trace in (one, other))

    assert first == second
    assert len(set(first)) == len(first)


@pytest.mark.usefixtures("each_step")
def test_steps_without_an_optimizer_are_measured_after_their_backward() -> None:
    w = torch.ones(3, requires_grad=True)
    with gradscope.record(every=4) as recording:
        for _ in range(6):
            w.grad = None
            (w * w).sum().backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
    rows = of_step(recording.trace())

    for number in range(6):
        assert rows[number].loss == pytest.approx(3 * 0.8 ** (2 * number), rel=1e-4)
        assert rows[number].gradient == pytest.approx(2 * 3**0.5 * 0.8**number, rel=1e-4)


@pytest.mark.usefixtures("each_step")
def test_values_that_are_not_finite_are_counted() -> None:
    w = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=1.0)
    with gradscope.record(steps=(9, 9)) as recording:
        for factor in (1.0, math.inf, math.nan):
            optimizer.zero_grad()
            (w * torch.tensor([factor, 1.0, 1.0, 1.0])).sum().backward()
            optimizer.step()
    rows = of_step(recording.trace())

    assert [(rows[n].gradient_nan, rows[n].gradient_inf) for n in range(3)] == [
        (0, 0),
        (0, 1),
        (1, 0),
    ]
    assert [rows[n].weight_bad for n in range(3)] == [0, 1, 1]
    assert rows[1].gradient == pytest.approx(3**0.5, rel=1e-4)


def test_summaries_go_on_when_the_file_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_summaries, "LOSSES", ALWAYS)
    monkeypatch.setattr(file_writer, "RESERVE", 1)
    run = Trained(300, tmp_path / "trace.json", max_bytes=40_000)
    trace, rows = run.trace, of_step(run.trace)
    found = trace.once(LongRun)

    assert trace.meta["dropped"]["steps"] > 200
    assert found.steps == 300
    assert sorted(rows) == list(range(300))
    assert [rows[n].loss for n in range(300)] == pytest.approx(run.losses, rel=1e-4)
    assert "step_summary" not in trace.meta["dropped"]
    assert [*check(trace)] == []


def test_after_many_steps_one_row_stands_for_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradscope.record.notes.positions.joined_rows.FEWEST", 8)
    monkeypatch.setattr("gradscope.record.notes.positions.joined_rows.USUAL", 1 << 40)
    monkeypatch.setattr("gradscope.record.notes.positions.step_rows.LEFT_OUT_ROWS", 8)
    monkeypatch.setattr(step_summaries, "LOSSES", {**ALWAYS, "first": 2, "share": 1 << 60})
    trace = Trained(200, steps=(100, 100)).trace
    rows = [*trace.rows(Step)]

    assert len(rows) < 60
    assert sum(1 + row.joined for row in rows) == 201  # with what follows the last step
    assert trace.once(LongRun).steps == 200
    ends = {row.number: row.number + row.joined + 1 for row in rows}
    assert [*ends][1:] == [*ends.values()][:-1]  # they follow one another
    assert next(row for row in rows if row.number == 100).joined == 0
    assert [*check(trace)] == []


def test_rows_of_ten_million_steps_stay_few() -> None:
    joined = JoinedRows(1 << 10, lambda: False)
    steps = 1_000_000
    rows = sum(not joined.joins() for _ in range(steps))

    assert rows < 8_000
    assert joined.stride * (1 << 9) >= steps / 4


def test_measurements_take_their_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    monkeypatch.setattr(pace, "perf_counter_ns", lambda: now[0])
    chosen = SummaryPace(first=2, share=100, most=1 << 20)
    spent, places = 0, []
    for step in range(10_000):
        now[0] += 1_000
        if chosen.is_due(now[0]):
            began = now[0]
            now[0] += 500
            spent += 500
            chosen.took(began)
            places.append(step)

    assert places[:2] == [0, 1]
    assert 0.005 < spent / now[0] <= 0.0101
    distances = {b - a for a, b in zip(places[1:], places[2:], strict=False)}
    assert max(distances) - min(distances) <= 1


def test_rows_become_fewer_in_a_very_long_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "perf_counter_ns", lambda: 0)
    chosen, rows = SummaryPace(first=1, share=100, most=1 << 10), 0
    for _ in range(200_000):
        if chosen.is_due(0):
            chosen.took(0, rows=5)
            rows += 5

    assert 1 << 10 < rows < 1 << 13
    assert chosen.stride >= 200_000 * 5 / rows / 8


@pytest.mark.parametrize("size", [0, 1, 5, 8192, 8193, 100_003])
@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
def test_norms_are_those_of_numpy(size: int, kind: str) -> None:
    values = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    stored = values
    if kind == "bfloat16":
        stored = (values.view(np.uint32) >> 16).astype(np.uint16)
        values = (stored.astype(np.uint32) << 16).view(np.float32)
    elif kind != "float32":
        stored = values = values.astype(kind)
    read = ReadElements(stored, memoryview(stored.tobytes()))

    assert size_of(read).norm == pytest.approx(_norm(values), rel=1e-4)
    if size > 3:
        stored[2] = 0x7FC0 if kind == "bfloat16" else np.nan
        stored[3] = 0x7F80 if kind == "bfloat16" else np.inf
        assert size_of(read)[1:] == (1, 1)


@pytest.mark.parametrize("scale", [1e-25, 1e25, 0.0])
def test_squares_do_not_overflow_or_vanish(scale: float) -> None:
    values = (np.ones(10_000) * scale).astype(np.float32)
    found = size_of(ReadElements(values, memoryview(values.tobytes())))

    assert found.norm == pytest.approx(100 * scale, rel=1e-4)
    assert not found.nan
    assert not found.inf


def test_a_sample_stands_for_all_elements() -> None:
    values = np.random.default_rng(0).standard_normal(1_000_000).astype(np.float32)
    moved = values * np.float32(1.01)
    before, now = (
        ReadElements(each, memoryview(each.tobytes())).sample(1 << 16) for each in (values, moved)
    )

    assert before.size <= 1 << 16
    assert before.size > 1 << 15
    assert ratio(squares(now - before), squares(before)) == pytest.approx(0.01, rel=1e-3)
    assert math.isnan(ratio(1.0, 0.0))


def test_a_hash_changes_with_each_bit_and_with_the_order() -> None:
    data = bytearray(np.random.default_rng(0).bytes(40_003))
    seen = {bits(memoryview(bytes(data)))}
    for place in (0, 1, 8_191, 8_192, 20_000, 40_002):
        data[place] ^= 1
        seen.add(bits(memoryview(bytes(data))))
    data[:8] = data[8:16] + data[:0]
    seen.add(bits(memoryview(bytes(data))))

    assert len(seen) == 8
    assert bits(memoryview(bytes(data))) == bits(memoryview(bytes(data)))
