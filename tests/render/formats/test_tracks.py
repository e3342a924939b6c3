"""What timelines of other programs are given: every time of a trace, and nothing more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gradscope.analysis.graph.selection import Selection
from gradscope.errors import EmptyTraceError, UsageError
from gradscope.render.formats import format_called
from gradscope.render.pictures import render
from gradscope.scene.timeline.tracks.tracks import tracks
from gradscope.trace.schema import (
    GraphTask,
    HookBegin,
    HookEnd,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Pop,
    Push,
    Span,
    Step,
    Thread,
)
from gradscope.trace.trace import Trace
from tests.render.hostile import NAMES, named
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import two_layers


def chrome(trace: Trace) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(
        format_called("chrome").write(tracks(trace), None).content
    )["traceEvents"]
    return events


def speedscope(trace: Trace) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        format_called("speedscope").write(tracks(trace), None).content
    )
    return document


def nested() -> Trace:
    """A step, a span in it, an operation and the backward of its node, on one thread."""
    return trace_of(
        Thread(0, "main", native=7),
        Step(0, begin=0, end=100_000),
        Span(0, "load", begin=1_000, end=9_000, thread=0, step=0),
        Op(0, "mul", begin=10_000, end=20_000, node=0, thread=0, step=0),
        Node(0, "MulBackward0", op=0, thread=0, step=0),
        GraphTask(0, roots=(0,), thread=0, begin=30_000, end=90_000, step=0),
        HookBegin(t=45_000, thread=0, task=0, node=0, name="halve"),
        HookEnd(t=46_000, thread=0, task=0, node=0, replaced=True),
        *two_events(40_000, 50_000),
        meta={"script": "train.py", "pid": 7},
    )


def two_events(begin: int, end: int) -> list[Any]:
    here = {"thread": 0, "task": 0, "node": 0}
    return [
        Push(t=begin - 5_000, length=1, **here),
        Pop(t=begin - 1_000, length=0, **here),
        NodeBegin(t=begin, **here),
        NodeEnd(t=end, **here),
    ]


def test_chrome_is_told_every_slice_arrow_and_level() -> None:
    events = chrome(nested())

    slices = [(e["name"], e["cat"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert slices == [
        ("step 0", "step", 0, 100),
        ("load", "span", 1, 8),
        ("mul", "operation", 10, 10),
        ("backward 0", "backward", 30, 60),
        ("MulBackward0", "node", 40, 10),
        ("halve (tensor hook)", "hook", 45, 1),
    ]
    arrows = [(e["ph"], e["name"], e["ts"]) for e in events if e["ph"] in "sf"]
    assert arrows == [("s", "made", 10), ("f", "made", 40)]
    levels = [(e["name"], e["ts"], e["args"]) for e in events if e["ph"] == "C"]
    assert levels == [("ready queue", 35, {"nodes": 1}), ("ready queue", 39, {"nodes": 0})]
    node = next(e for e in events if e["name"] == "MulBackward0")
    assert node["args"] == {"step": 0, "backward": 0, "waited_ns": 5_000}
    assert (node["pid"], node["tid"]) == (7, 7)


def test_speedscope_opens_and_closes_frames_like_brackets() -> None:
    document = speedscope(nested())
    names = [frame["name"] for frame in document["shared"]["frames"]]

    steps, main = document["profiles"]
    assert [steps["name"], main["name"], document["activeProfileIndex"]] == ["steps", "main", 1]
    assert [(e["type"], names[e["frame"]], e["at"]) for e in main["events"]] == [
        ("O", "load", 1_000), ("C", "load", 9_000),
        ("O", "mul", 10_000), ("C", "mul", 20_000),
        ("O", "backward 0", 30_000),
        ("O", "MulBackward0", 40_000),
        ("O", "halve (tensor hook)", 45_000), ("C", "halve (tensor hook)", 46_000),
        ("C", "MulBackward0", 50_000),
        ("C", "backward 0", 90_000),
    ]  # fmt: skip


def test_modules_last_from_their_first_operation_to_their_last() -> None:
    slices = [e for e in chrome(two_layers()) if e["ph"] == "X" and e["cat"] == "module"]

    names = [e["name"] for e in slices]
    assert "layers0.linear" in names
    assert "layers0.linear backward" in names
    linear = slices[names.index("layers0.linear")]
    inside = [
        e
        for e in chrome(two_layers())
        if e.get("cat") == "operation" and e["args"].get("module") == "layers0.linear"
    ]
    assert linear["ts"] == min(e["ts"] for e in inside)
    assert linear["ts"] + linear["dur"] == max(e["ts"] + e["dur"] for e in inside)


def test_what_overlaps_without_nesting_has_a_lane_of_its_own() -> None:
    found = tracks(
        trace_of(
            Thread(0, "main"),
            Span(1, "s1", begin=10, end=25, thread=0),
            Span(2, "s2", begin=20, end=35, thread=0),
            Span(3, "s3", begin=30, end=45, thread=0),
        )
    )

    names = [found.words[name] for name in found.slices.name.tolist()]
    assert [
        (lane.number, [names[turn] for turn in lane.turns.tolist() if turn >= 0])
        for lane in found.lanes
    ] == [(0, ["s1", "s3"]), (1, ["s2"])]


def test_what_did_not_end_lasts_until_the_next_of_its_kind_or_to_the_end_and_says_so() -> None:
    trace = trace_of(
        Thread(0, "main"),
        Op(0, "mul", begin=5_000, thread=0),
        Op(1, "add", begin=8_000, end=90_000, thread=0),
        Op(2, "sub", begin=91_000, thread=0),
        Span(0, "load", begin=1_000, thread=0),
        Span(1, "late", begin=95_000, end=99_000, thread=0),
    )

    found = {e["name"]: (e["ts"], e["dur"], e["args"]) for e in chrome(trace) if e["ph"] == "X"}

    assert found == {
        "load": (1, 94, {"did_not_end": 1}),
        "mul": (5, 3, {"did_not_end": 1}),
        "add": (8, 82, {}),
        "sub": (91, 4, {"did_not_end": 1}),
        "late": (95, 4, {}),
    }


def test_operations_whose_ends_were_not_recorded_are_moments() -> None:
    trace = trace_of(
        Thread(0, "main"),
        Op(0, "mul", begin=5, thread=0),
        Op(1, "add", begin=8, thread=0),
        meta={"absent": ["op.end"]},
    )

    found = tracks(trace)

    assert found.slices.end.tolist() == [5, 8]
    assert "did_not_end" not in found.slices.about
    assert "no end times of operations" in found.notes[0]


def test_one_step_is_what_happened_during_it() -> None:
    trace = trace_of(
        Thread(0, "main"),
        Step(0, 0, begin=0, end=50),
        Step(1, 1, begin=50, end=100),
        Op(0, "mul", begin=10, end=20, thread=0, step=0),
        Op(1, "add", begin=60, end=70, thread=0, step=1),
    )

    found = tracks(trace, Selection(step=1))

    assert [found.words[name] for name in found.slices.name.tolist()] == ["step 1", "add"]


def test_a_step_that_several_ranks_made_is_what_happened_during_each_of_them() -> None:
    trace = trace_of(
        Thread(0, "main"),
        Thread(1, "main", rank=1),
        Step(0, 0, begin=0, end=50),
        Step(1, 0, begin=100, end=150),
        Op(0, "mul", begin=10, end=20, thread=0, step=0),
        Op(1, "add", begin=60, end=70, thread=0),
        Op(2, "sub", begin=110, end=120, thread=1, step=1),
    )

    found = tracks(trace, Selection(step=0))

    names = [found.words[name] for name in found.slices.name.tolist()]
    assert names == ["step 0", "step 0", "mul", "sub"]
    assert found.pids == {0: 1, 1: 2}


def test_a_trace_of_level_graph_says_which_times_it_lacks() -> None:
    trace = trace_of(
        Thread(0, "main"), Node(0, "MulBackward0"), GraphTask(0, (0,), thread=0, begin=1, end=5)
    )

    assert tracks(trace).notes == (
        "this trace has no times of nodes, hooks and queues; record it with --level engine",
    )


@pytest.mark.parametrize("name", ["chrome", "perfetto", "speedscope"])
def test_a_trace_without_times_is_refused(name: str, tmp_path: Any) -> None:
    with pytest.raises(EmptyTraceError, match="this trace has no times"):
        render(trace_of(Node(0, "MulBackward0")), tmp_path / "t", format=name)


def test_what_only_a_picture_has_is_refused(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="it supports only --step and --task"):
        render(nested(), tmp_path / "t.pftrace", around="0")


@pytest.mark.parametrize("name", NAMES)
def test_hostile_names_stay_text(name: str) -> None:
    usual, hostile = named("plain"), named(name)

    shapes = [
        [(e["ph"], e.get("ts"), e.get("dur"), e["pid"], e["tid"]) for e in chrome(trace)]
        for trace in (usual, hostile)
    ]
    assert shapes[0] == shapes[1]
    assert [len(each["events"]) for each in speedscope(usual)["profiles"]] == [
        len(each["events"]) for each in speedscope(hostile)["profiles"]
    ]
