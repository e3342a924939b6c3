"""A recording that keeps the first and the latest steps, and those around what it finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradscope
import gradscope.runtime as torch
from gradscope.analysis.report import inspect
from gradscope.errors import UsageError
from gradscope.record.recording import Options, Recording
from gradscope.runtime import nn
from gradscope.trace.file.latest import ring
from gradscope.trace.file.latest.ring import BEGINNING, RingWriter
from gradscope.trace.load_save import load, save
from gradscope.trace.schema import GraphTask, Node, NodeBegin, Saved, Step, Tensor
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let steps go as soon as they are old, whatever that costs."""
    monkeypatch.setattr(ring, "RARELY", 0)
    monkeypatch.setattr(ring, "WORTH_IT", 0)


def train(steps: int, change: Callable[[int, Any], Any] = lambda _, loss: loss) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        optimizer.zero_grad()
        change(step, model(torch.randn(5, 4)).pow(2).mean()).backward()
        optimizer.step()


def recorded(path: Path, steps: int = 40, **options: Any) -> Trace:
    change = options.pop("change", lambda _, x: x)
    with gradscope.record(path, **options):
        train(steps, change)
    return load(path)


def numbers(trace: Trace) -> list[int]:
    """The numbers of the steps with a backward."""
    numbered = {row.id: row.number for row in trace.rows(Step)}
    return [numbered[step] for step in trace.table(GraphTask)["step"].tolist()]


def contents(trace: Trace, number: int) -> dict[str, Any]:
    """What a step consists of, without ids and times."""
    (step,) = [row.id for row in trace.rows(Step) if row.number == number]
    nodes = [row for row in trace.rows(Node) if row.step == step]
    ids = {row.id for row in nodes}
    (task,) = [row.id for row in trace.rows(GraphTask) if row.step == step]
    return {
        "nodes": [row.name for row in nodes],
        "ran": [
            trace.table(Node).row(row.node).name
            for row in trace.rows(NodeBegin)
            if row.task == task
        ],
        "events": Counter(
            kind.KIND
            for kind in trace.event_kinds
            for each in trace.table(kind)["task"].tolist()
            if each == task
        ),
        "saved": [
            (row.slot, trace.table(Tensor).row(row.tensor).shape if row.tensor >= 0 else None)
            for row in trace.rows(Saved)
            if row.node in ids
        ],
    }


@pytest.mark.parametrize("ending", [".json", ".json.gz"])
@pytest.mark.parametrize("level", ["graph", "engine", "values", "full"])
def test_the_first_and_the_latest_steps_are_as_in_a_whole_trace(
    tmp_path: Path, level: str, ending: str
) -> None:
    whole = recorded(tmp_path / "whole.json", level=level)
    kept = recorded(tmp_path / f"kept{ending}", level=level, keep=4)

    latest = numbers(kept)[BEGINNING:]
    assert numbers(kept)[:BEGINNING] == [0, 1, 2]
    assert latest == [*range(latest[0], 40)]
    assert latest[0] in (34, 35, 36)
    gone = 40 - BEGINNING - len(latest)
    assert kept.meta["let_go"] == {"keep": 4, "steps": gone}
    assert check(kept) == []
    for number in numbers(kept):
        assert contents(kept, number) == contents(whole, number)


def test_a_kept_trace_can_be_saved_again(tmp_path: Path) -> None:
    kept = recorded(tmp_path / "kept.json", keep=4)
    save(kept, tmp_path / "again.json")

    assert load(tmp_path / "again.json") == kept


def test_the_file_stays_small_however_long_a_program_runs(tmp_path: Path) -> None:
    sizes = []
    for steps in (100, 300):
        recorded(tmp_path / "kept.json", steps, keep=20)
        sizes.append((tmp_path / "kept.json").stat().st_size)
    recorded(tmp_path / "whole.json", 300)

    grown = (sizes[1] - sizes[0]) / 200  # of each step that is gone, its times remain
    assert grown < (tmp_path / "whole.json").stat().st_size / 300 / 3


def test_a_trace_that_is_nearly_full_keeps_the_latest_steps(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    writer = RingWriter(path, 500_000, keep=3)
    engine = gradscope.record(on="gradscope").engine
    with Recording(writer, Options(max_bytes=500_000), engine):
        train(250)
    trace = load(path)

    assert path.stat().st_size < 600_000
    kept = numbers(trace)
    assert kept[-1] == 249
    gaps = [
        number for number, following in zip(kept, kept[1:], strict=False) if following - number > 1
    ]
    assert len(gaps) == 1
    assert gaps[0] > 20
    assert "dropped" not in trace.meta
    assert check(trace) == []


def far(step: int, loss: Any) -> Any:
    return loss * 1000 if step == 30 else loss


def test_steps_around_a_spike_stay(tmp_path: Path) -> None:
    kept = numbers(
        recorded(tmp_path / "t.json", 90, level="values", keep=4, around=("spike",), change=far)
    )

    assert {*range(27, 34)} <= {*kept}
    assert not {*kept} & {10, 20, 50, 60, 70, 80}


def with_nan(step: int, x: Any) -> Any:
    return x * (float("nan") if step == 30 else 1)


def without_step(steps: int, change: Callable[[int, Any], Any]) -> Iterator[int]:
    model = nn.Linear(4, 1)
    for step in range(steps):
        model.zero_grad()
        model(change(step, torch.randn(5, 4))).mean().backward()
        yield step


def test_steps_around_a_nan_stay(tmp_path: Path) -> None:
    with gradscope.record(tmp_path / "t.json", level="values", keep=4, around=("nan",)):
        for _ in without_step(90, with_nan):
            gradscope.step()
    kept = numbers(load(tmp_path / "t.json"))

    assert {*range(27, 34)} <= {*kept}
    assert not {*kept} & {10, 20, 50, 60, 70, 80}


def test_what_is_found_is_kept_with_all_that_is_there(tmp_path: Path) -> None:
    with gradscope.record(tmp_path / "t.json", keep=4) as recording:
        for step in without_step(90, lambda _, x: x):
            gradscope.step()
            if step == 30:
                kept = recording.left_out.kept
                assert kept is not None
                kept.keep_all()
    kept = numbers(load(tmp_path / "t.json"))

    assert {*range(27, 34)} <= {*kept}
    assert not {*kept} & {10, 20, 50, 60, 70, 80}


def test_nothing_is_found_in_the_kept_steps_of_a_healthy_program(tmp_path: Path) -> None:
    assert inspect(recorded(tmp_path / "t.json", keep=4)).findings == ()


def test_a_graph_from_a_step_that_is_gone_can_still_be_used(tmp_path: Path) -> None:
    torch.manual_seed(0)
    weight = torch.randn(3, requires_grad=True)
    carried = weight * 2
    with gradscope.record(tmp_path / "t.json", keep=2):
        for _ in range(40):
            carried = carried * 0.9 + weight
            carried.sum().backward(retain_graph=True)
            gradscope.step()
    trace = load(tmp_path / "t.json")

    assert numbers(trace)[-1] == 39
    assert check(trace) == []
    for table in trace.tables.values():
        for column in ("next", "node", "tensor", "storage"):
            if column in table.data and table.name in {"edge", "saved", "tensor"}:
                target = trace.tables["node" if column == "next" else column]
                ids = np.asarray(table[column])
                assert ((ids < 0) | (target.positions(ids) >= 0)).all()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_trace_that_the_program_removes_disturbs_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], *, replaced: bool
) -> None:
    path = tmp_path / "t.json"
    with gradscope.record(path, keep=2):
        train(10)
        path.unlink()
        if replaced:
            path.write_text("of the program")
        train(10)

    assert path.exists() == replaced
    assert not replaced or path.read_text() == "of the program"
    assert capfd.readouterr().err == ""


def test_keep_must_not_be_negative() -> None:
    with pytest.raises(UsageError, match="keep must not be negative, but is -1"):
        gradscope.record(keep=-1)
