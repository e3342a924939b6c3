"""How many steps a recording left out: counted as every view counts steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gradscope
import gradscope.runtime as torch
from gradscope.analysis.identity.steps import steps
from gradscope.errors import UsageError
from gradscope.runtime import nn
from gradscope.trace.load_save import load
from gradscope.trace.schema import GraphTask, Step
from gradscope.trace.trace import Trace


def trained(iterations: int = 5, *, evaluated: bool = True, **limits: Any) -> Trace:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradscope.record(**limits) as recording:
        for _ in range(iterations):
            optimizer.zero_grad()
            model(torch.randn(3, 4)).sum().backward()
            optimizer.step()
        if evaluated:
            model(torch.ones(1, 4))
    return recording.trace()


def counted(trace: Trace) -> tuple[int, Any, Any]:
    return len(steps(trace)), trace.meta.get("unwanted"), trace.meta.get("dropped")


def test_what_comes_after_the_last_step_is_not_counted_among_those_left_out() -> None:
    for evaluated in (True, False):
        found = [
            counted(trained(evaluated=evaluated, **limits))
            for limits in ({}, {"steps": (1, 2)}, {"steps": (0, 0)}, {"steps": (4, 9)})
        ]

        assert found == [
            (5, None, None),
            (2, {"steps": 3}, None),
            (1, {"steps": 4}, None),
            (1, {"steps": 4}, None),
        ]


def numbers(trace: Trace) -> list[int]:
    """The numbers of the steps that have a backward."""
    numbered = {row.id: row.number for row in trace.rows(Step)}
    return [numbered[step] for step in trace.table(GraphTask)["step"].tolist()]


def test_one_step_in_n_is_recorded_and_those_of_several_ranges() -> None:
    assert numbers(trained(9, every=4)) == [0, 4, 8]
    assert numbers(trained(9, steps="1:2,5,7:")) == [1, 2, 5, 7, 8]
    assert numbers(trained(9, steps="1,2", every=4)) == [0, 1, 2, 4, 8]
    assert counted(trained(9, every=4)) == (3, {"steps": 6}, None)


def test_every_must_be_a_number_of_steps() -> None:
    with pytest.raises(UsageError, match="every must be at least 1, not 0"):
        trained(every=0)


def test_when_the_file_is_full_steps_run_unrecorded_and_are_counted(tmp_path: Path) -> None:
    path, paused = tmp_path / "trace.json", []
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with gradscope.record(path, max_bytes=20_000) as recording:
        for _ in range(60):
            optimizer.zero_grad()
            model(torch.randn(3, 4)).sum().backward()
            optimizer.step()
            session = recording.session
            assert session is not None
            session.flush()
            paused.append(session.source.events())
    trace = load(path)

    recorded = len({*numbers(trace)})
    assert 0 < recorded < 60
    assert paused[-1] == paused[-2]
    assert trace.meta["dropped"]["steps"] in range(50 - recorded, 60)
    assert path.stat().st_size < 40_000  # the end of a recording is written in any case


def test_a_step_that_was_cut_counts_once_as_left_out_and_once_as_seen() -> None:
    trace = trained(max_events=30)

    assert counted(trace) == (1, None, {"steps": 5, "in_part": 1})
    assert trace.notes == ("dropped: 4 steps were not recorded, and 1 step was recorded in part",)


def test_a_last_backward_without_an_optimizer_is_a_step_that_was_left_out() -> None:
    w = torch.ones(2, requires_grad=True)
    with gradscope.record(steps=(7, 9)) as recording:
        (w * 2).sum().backward()

    assert counted(recording.trace()) == (0, {"steps": 1}, None)
