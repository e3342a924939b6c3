"""The lines with which `gradscope trace` ends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gradscope.analysis.report import inspect
from gradscope.render.terminal.cells import UNICODE
from gradscope.render.views import recorded as view
from gradscope.render.views.report import report_lines
from gradscope.trace.load_save import load, save
from gradscope.trace.schema import Finding, Node
from tests.shared.by_hand import trace_of

OWN_TIME = {"graphs": 20_000_000, "starting": 30_000_000, "recorded": 500_000_000}
HELD = "t t.json: 1 node, 0 events; 3 findings (GS301 exception ×2, GS101 incomplete-trace), 1 note"
COST = (
    "gradscope itself took at least 50.0 ms of 500 ms (graphs 20.0 ms, starting 30.0 ms), "
    "plus the cost of recording each step, not measured here"
)
LACKS = (
    "not recorded: values (--level values), in-place writes; "
    "gradscope info lists everything that is missing"
)
NEXT = "next: gradscope inspect 't t.json', gradscope render 't t.json', gradscope debug 't t.json'"


def lines(folder: Path, *rows: Node | Finding, **meta: object) -> list[str]:
    save(trace_of(*rows, meta=meta), folder / "trace.json")
    said = view.recorded(folder / "trace.json", Path("t t.json"))
    return [*said.lines, said.following]


def test_what_it_cost_what_it_lacks_and_the_next_command_follow_what_is_in_it(
    tmp_path: Path,
) -> None:
    found = [Finding(number, "exception", f"ValueError: {number}") for number in range(2)]
    absent = ["buffer_made.undefined", "value", "version"]

    said = lines(
        tmp_path, Node(0, "ExpBackward0"), *found,
        producer="pytorch", own_time=OWN_TIME, absent=absent, unseen={"a backward": 3},
        dropped={"steps": 2},
    )  # fmt: skip

    assert said == [
        HELD,
        COST,
        LACKS,
        "dropped: 2 steps were not recorded, or not to the end",
        "could not be seen: a backward (3 times)",
        NEXT,
    ]


def test_what_could_not_be_seen_is_no_finding_here_and_in_the_report(tmp_path: Path) -> None:
    unseen = {"a backward": 1, "a vmap": 2}

    held, *_ = lines(tmp_path, Node(0, "ExpBackward0"), unseen=unseen)
    report = inspect(load(tmp_path / "trace.json"))
    said = [str(each) for each in report_lines(report, 100, UNICODE, 0)]

    rules = len(report.checked)
    assert held.endswith(f"1 node, 0 events; {rules} rules checked, no problems found, 2 notes")
    assert f"{rules} rules checked, no problems found, 2 notes" in said
    assert any("Could not be seen: a vmap (2 times)" in each for each in said)


def test_a_trace_that_says_nothing_of_its_cost_is_not_given_one(tmp_path: Path) -> None:
    for own_time in ({}, {"recorded": 5}, {"graphs": 1}):
        said = lines(tmp_path, own_time=own_time)
        held, following = said
        assert re.fullmatch(
            r"t t\.json: 0 nodes, 0 events; \d+ rules checked, no problems found", held
        )
        assert following == NEXT


@pytest.mark.parametrize(
    ("level", "times"), [("graph", "1.7"), ("engine", "2.6"), ("values", "3.4")]
)
def test_what_is_not_measured_is_a_range_of_the_level_on_pytorch(
    tmp_path: Path, level: str, times: str
) -> None:
    _, cost, *_ = lines(tmp_path, own_time=OWN_TIME, producer="pytorch", level=level)

    assert cost == f"{COST}; in benchmarks a step took 1 to {times} times as long"
    assert "%" not in cost


def test_a_large_trace_is_not_looked_through_and_its_end_is_said_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "LOOKED_THROUGH", 10)

    first, cost, following = lines(tmp_path, Node(0, "ExpBackward0"), own_time=OWN_TIME)

    assert first.endswith(", too large to be checked here")
    assert cost.startswith("gradscope itself took at least 50.0 ms of 500 ms")
    assert following == "next: gradscope inspect 't t.json'"
