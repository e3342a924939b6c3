from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len
from rich.text import Text

from gradscope.analysis.report import inspect
from gradscope.render.terminal.cells import PLAIN, UNICODE, Charset
from gradscope.render.terminal.plot import (
    TimeAxis,
    busy_cells,
    level_cells,
    moment_cells,
    wait_and_run_cells,
)
from gradscope.render.views.report import report_lines
from gradscope.render.views.tables import facts_lines, table_lines, violation_lines
from gradscope.render.views.timeline import event_lines, timeline_lines
from gradscope.scene.kinds import NodeKind
from gradscope.scene.table_scenes import info_facts, info_tables
from gradscope.scene.timeline.events import event_list
from gradscope.scene.timeline.lanes import Bar, LevelAt
from gradscope.scene.timeline.timeline import TimelineOptions, timeline_scene
from gradscope.trace.schema import Error, Frame, GraphTask, Node, NodeBegin, NodeEnd, Stack, Thread
from gradscope.trace.spec import Violation
from gradscope.trace.trace import Trace
from tests.render.hostile import named, names
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import mean_of_squares, nan_in_backward, shared_weight, two_layers
from tests.shared.searching import SEARCHING

EVERY_CHARSET = pytest.mark.parametrize("charset", [UNICODE, PLAIN], ids=["unicode", "plain"])
ALL = TimelineOptions(rows=0, tasks=0)


def text_of(lines: Iterable[Text]) -> str:
    return "".join(f"{line.plain}\n" for line in lines)


class Views:
    """Everything of a trace that is shown in a terminal."""

    def __init__(self, trace: Trace) -> None:
        self.timeline = timeline_scene(trace, ALL)
        self.events = event_list(trace, ALL, 0)
        self.report = inspect(trace)
        self.facts = info_facts(trace, "a" * 300, 4_000)
        self.tables = info_tables(trace)

    def lines(self, width: int, charset: Charset) -> Iterator[str]:
        violation = Violation("a-rule", "x" * 300, "node", 3, 4)
        for view in (
            timeline_lines(self.timeline, width, charset),
            event_lines(self.events, width, charset),
            report_lines(self.report, width, charset, 3),
            facts_lines(self.facts, width, charset),
            violation_lines([violation], width, charset),
            *(table_lines(table, width, charset) for table in self.tables),
        ):
            yield from (line.plain for line in view)

    def too_wide(self, width: int, charset: Charset) -> list[str]:
        return [line for line in self.lines(width, charset) if cell_len(line) > width]


@pytest.mark.search
@EVERY_CHARSET
def test_no_line_is_wider_than_asked_at_any_width(charset: Charset) -> None:
    for trace in (mean_of_squares(), nan_in_backward(), two_layers(2), shared_weight(5)):
        views = Views(trace)
        for width in range(60, 201, 1 if SEARCHING else 4):
            assert views.too_wide(width, charset) == [], width


@given(names, st.integers(60, 200), st.sampled_from([UNICODE, PLAIN]))
def test_whatever_a_program_names_no_line_is_wider_than_asked(
    name: str, width: int, charset: Charset
) -> None:
    assert Views(named(name)).too_wide(width, charset) == []


@given(names)
def test_whatever_a_program_names_plain_views_are_ascii(name: str) -> None:
    assert all(line.isascii() for line in Views(named(name)).lines(80, PLAIN))


@given(names)
def test_whatever_a_program_names_views_hold_nothing_that_moves_the_cursor(name: str) -> None:
    for line in Views(named(name)).lines(80, UNICODE):
        assert not set(line) & set("\x00\x07\x08\n\x0b\x0c\r\x1b\x7f\x9b\u202e\u2066\u2028")


@pytest.mark.parametrize("width", [60, 100, 140])
@EVERY_CHARSET
def test_the_timeline_is_as_it_was_reviewed(
    width: int,
    charset: Charset,
    request: pytest.FixtureRequest,
    golden: Callable[[str, str], None],
) -> None:
    scene = timeline_scene(two_layers(steps=2), TimelineOptions(tasks=1))
    name = "plain" if charset.plain else "unicode"

    golden(f"timeline_{width}_{name}.txt", text_of(timeline_lines(scene, width, charset)))


def test_a_long_place_is_cut_from_the_left_since_its_line_is_at_its_end() -> None:
    trace = trace_of(
        Frame(0, "examples/two_devices.py", 24, "<module>", ""),
        Stack(0, 0),
        Node(0, "MulBackward0", stack=0),
        GraphTask(0, roots=(0,), begin=0, end=9),
        NodeBegin(task=0, node=0, t=1),
        NodeEnd(task=0, node=0, t=2),
    )
    scene = timeline_scene(trace)

    unicode, plain = (
        text_of(timeline_lines(scene, 100, charset)).splitlines()[-1]
        for charset in (UNICODE, PLAIN)
    )

    assert unicode.endswith("  …two_devices.py:24")
    assert plain.endswith("  ..wo_devices.py:24")


def test_lanes_and_rows_have_one_axis_and_a_ruler_each() -> None:
    for width in (60, 100, 140):
        shown = text_of(timeline_lines(timeline_scene(two_layers()), width, UNICODE)).splitlines()
        rulers = [line for line in shown if "├" in line]

        assert len(rulers) == 2
        assert rulers[0].strip() in rulers[1]
        assert rulers[0].index("0 ├") == rulers[1].index("0 ├")
        lane, row = (next(each for each in shown if each.startswith(w)) for w in ("main", " 1  "))
        assert row.index("█") == next(at for at, each in enumerate(lane) if each in "█▌")


def test_the_thread_stands_in_each_row_where_there_are_several() -> None:
    trace = trace_of(
        Thread(0, "main"),
        Thread(1, "sim:0"),
        Node(0, "A"),
        Node(1, "B"),
        GraphTask(0, begin=0, end=10),
        NodeBegin(t=1, task=0, thread=0, node=0),
        NodeBegin(t=2, task=0, thread=1, node=1),
    )

    for width in (60, 100):
        *_, first, second = text_of(timeline_lines(timeline_scene(trace), width, UNICODE)).split(
            "\n"
        )[:-1]
        assert (first.split()[-1], second.split()[-1]) == ("main", "sim:0")


def test_a_message_of_several_lines_reads_on() -> None:
    trace = trace_of(
        Node(0, "MulBackward0"),
        GraphTask(0),
        NodeBegin(t=1, task=0, node=0),
        NodeEnd(t=3, task=0, node=0, failed=True),
        Error(t=4, task=0, node=0, type="RuntimeError", message="freed.\n  Keep it."),
    )

    shown = text_of(timeline_lines(timeline_scene(trace), 80, UNICODE))

    assert "raised RuntimeError: freed. Keep it.\n" in shown


def test_the_events_are_as_they_were_reviewed(golden: Callable[[str, str], None]) -> None:
    events = event_list(mean_of_squares(), TimelineOptions(), 12)

    golden("events.txt", text_of(event_lines(events, 80, UNICODE)))


# The plot ------------------------------------------------------------------------------------


def characters(cells: list[tuple[str, NodeKind | None]]) -> str:
    return "".join(character for character, _ in cells)


def test_a_column_is_full_when_it_is_busy_for_half_of_its_time() -> None:
    axis = TimeAxis(0, 100, 10)
    spans = [Bar(0, 20, NodeKind.LEAF), Bar(34, 40, NodeKind.VIEW), Bar(52, 54, NodeKind.LEAF)]

    cells = busy_cells(spans, axis, UNICODE)

    assert characters(cells) == "██ █ ▌    "
    assert [kind for _, kind in cells[:4]] == [NodeKind.LEAF, NodeKind.LEAF, None, NodeKind.VIEW]


def test_a_span_of_no_length_at_the_end_is_still_seen() -> None:
    assert (
        characters(busy_cells([Bar(100, 100, NodeKind.LEAF)], TimeAxis(0, 100, 4), UNICODE))
        == "   ▌"
    )


def test_a_queue_shows_the_most_it_held_in_each_column() -> None:
    levels = [
        LevelAt(10, 1),
        LevelAt(12, 4),
        LevelAt(14, 2),
        LevelAt(40, 0),
        LevelAt(70, 1),
        LevelAt(71, 0),
    ]

    assert characters(level_cells(levels, TimeAxis(0, 100, 10), UNICODE)) == " █▄▄▄  ▂  "
    assert characters(level_cells(levels, TimeAxis(0, 100, 10), PLAIN)) == " 4222  1  "
    assert characters(level_cells([], TimeAxis(0, 100, 3), UNICODE)) == "   "


def test_a_long_queue_in_plain_characters_is_a_plus() -> None:
    assert (
        characters(level_cells([LevelAt(0, 9), LevelAt(50, 300)], TimeAxis(0, 100, 2), PLAIN))
        == "9+"
    )


def test_moments_are_marked_where_they_are() -> None:
    spans = [Bar(5, 9, NodeKind.OTHER), Bar(100, 100, NodeKind.OTHER)]

    assert characters(moment_cells(spans, TimeAxis(0, 100, 5), "*", PLAIN)) == "*   *"


def test_a_node_waits_and_then_runs_for_at_least_one_column() -> None:
    axis = TimeAxis(0, 100, 10)

    def drawn(ready: int | None, begin: int, end: int) -> str:
        return characters(wait_and_run_cells(ready, begin, end, NodeKind.VIEW, axis, PLAIN))

    assert drawn(10, 40, 60) == " ...##    "
    assert drawn(None, 40, 40) == "    #     "
    assert drawn(99, 99, 100) == "         #"


def test_a_thread_that_sleeps_is_drawn_between_its_runs() -> None:
    axis = TimeAxis(0, 100, 10)
    spans = [Bar(0, 20, NodeKind.LEAF), Bar(80, 100, NodeKind.LEAF)]

    drawn = characters(busy_cells(spans, axis, UNICODE, [Bar(20, 60, NodeKind.OTHER)]))

    assert drawn == "██░░░░  ██"
