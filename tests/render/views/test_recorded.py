"""The lines with which `gradscope trace` ends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gradscope.analysis.report import inspect
from gradscope.render.terminal.cells import UNICODE
from gradscope.render.views import recorded as view
from gradscope.render.views.lines_at_end import Recorded
from gradscope.render.views.report import report_lines
from gradscope.trace.load_save import load, save
from gradscope.trace.schema import Device, Finding, Node, NodeBegin, Thread
from tests.shared.by_hand import trace_of

OWN_TIME = {"graphs": 20_000_000, "starting": 30_000_000, "recorded": 500_000_000}
HELD = "t t.json: 1 node, 0 events; 2 errors, 1 warning, 1 note"
COST = (
    "gradscope took at least 50.0 ms of 500 ms: graphs 20.0 ms, starting 30.0 ms; "
    "not measured: notes made during steps"
)
LACKS = "not recorded: values (--level values), in-place writes (all of it: gradscope info)"
NEXT = "next: gradscope view 't t.json'; or inspect, render, debug"
DROPPED = "dropped: 2 steps were not recorded"


def said_of(folder: Path, *rows: Node | Finding, **meta: object) -> Recorded:
    save(trace_of(*rows, meta=meta), folder / "trace.json")
    return view.recorded(folder / "trace.json", Path("t t.json"))


def test_the_summary_has_the_worst_finding_the_details_what_it_cost_and_lacks(
    tmp_path: Path,
) -> None:
    found = [Finding(number, "exception", f"ValueError: {number}") for number in range(2)]
    absent = ["buffer_made.undefined", "value", "version"]

    said = said_of(
        tmp_path, Node(0, "ExpBackward0"), *found,
        producer="pytorch", own_time=OWN_TIME, absent=absent, unseen={"a backward": 3},
        dropped={"steps": 2},
    )  # fmt: skip

    held, worst, limits = said.summary
    assert held == HELD
    assert worst.startswith("GS301 ")
    assert "ValueError: 0" in worst
    assert limits == f"{DROPPED} (and 1 more: gradscope info 't t.json')"
    assert said.details == (COST, LACKS, DROPPED, "not recorded: a backward (3 times)")
    assert said.following == NEXT


def test_the_summary_counts_the_runs_on_devices(tmp_path: Path) -> None:
    nodes = [Node(number, "ExpBackward0") for number in range(3)]
    threads = [Thread(0, "MainThread"), Thread(1, "cuda:0"), Thread(2, "cuda:1")]
    devices = [Device(0, "cpu"), Device(1, "cuda:0"), Device(2, "cuda:1")]
    begun = [NodeBegin(seq=n, thread=min(n, 1), node=n) for n in range(3)]

    save(trace_of(*nodes, *threads, *devices, *begun), tmp_path / "trace.json")
    said = view.recorded(tmp_path / "trace.json", Path("trace.json"))

    assert said.summary[1] == "of 3 runs of nodes, 2 on cuda:0"


def test_each_line_of_the_summary_fits_the_terminal(tmp_path: Path) -> None:
    long = Finding(0, "exception", "ValueError: " + "very " * 60)

    save(trace_of(Node(0, "ExpBackward0"), long), tmp_path / "trace.json")
    said = view.recorded(tmp_path / "trace.json", Path("trace.json"), width=80)

    assert max(map(len, (*said.summary, said.following))) <= 80 - len(view.PREFIX)
    assert said.summary[1].startswith("GS301 The program raised ValueError: very very ")
    assert all(each.startswith("  very ") for each in said.summary[2:])
    assert len(said.summary) == 4
    assert said.summary[3].endswith("…")


def test_what_could_not_be_seen_is_no_finding_here_and_in_the_report(tmp_path: Path) -> None:
    unseen = {"a backward": 1, "a vmap": 2}

    said = said_of(tmp_path, Node(0, "ExpBackward0"), unseen=unseen)
    report = inspect(load(tmp_path / "trace.json"))
    shown = [str(each) for each in report_lines(report, 100, UNICODE, 0)]

    rules = len(report.checked)
    assert said.summary[0] == "t t.json: 1 node, 0 events; 2 notes"
    assert said.summary[1] == f"{rules} rules checked, 2 notes"
    assert any("Not recorded: a vmap (2 times)" in each for each in shown)


def test_without_nodes_it_offers_no_picture(tmp_path: Path) -> None:
    said = said_of(tmp_path)

    assert said.summary[0] == "t t.json: no autograd nodes, 0 events"
    assert said.following == "next: gradscope inspect 't t.json'"


@pytest.mark.parametrize("own_time", [{}, {"recorded": 5}, {"graphs": 1}])
def test_a_trace_that_does_not_say_its_cost_is_not_given_one(
    tmp_path: Path, own_time: dict[str, int]
) -> None:
    assert said_of(tmp_path, own_time=own_time).details == ()


@pytest.mark.parametrize(
    ("level", "times"), [("graph", "1.7"), ("engine", "2.6"), ("values", "3.4")]
)
def test_what_is_not_measured_is_a_range_of_the_level_on_pytorch(
    tmp_path: Path, level: str, times: str
) -> None:
    cost, *_ = said_of(tmp_path, own_time=OWN_TIME, producer="pytorch", level=level).details

    assert cost == f"{COST} (in benchmarks a step takes 1 to {times} times as long)"


def test_a_level_that_checks_more_is_named(tmp_path: Path) -> None:
    said = said_of(tmp_path, Node(0, "ExpBackward0"), level="engine")

    assert re.fullmatch(
        r"\d+ rules checked, no problems found \(NaN, Inf: use --level values\)", said.summary[1]
    )


def test_a_large_trace_is_not_checked_and_its_cost_is_known_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "LOOKED_THROUGH", 10)

    said = said_of(tmp_path, Node(0, "ExpBackward0"), own_time=OWN_TIME)

    assert said.summary[0].endswith("; not checked yet, since it is large")
    assert said.details == (COST,)
    assert said.following == "next: gradscope inspect 't t.json'"
