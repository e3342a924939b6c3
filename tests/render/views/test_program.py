from __future__ import annotations

import pytest
from rich.cells import cell_len

from gradscope.render.terminal.cells import PLAIN, UNICODE, Charset
from gradscope.render.views.program import program_lines
from gradscope.render.views.timeline import timeline_lines
from gradscope.scene.timeline.program import ProgramRow, ProgramTimeline, SaidBy
from gradscope.scene.timeline.timeline import timeline_scene
from gradscope.trace.schema import GraphTask, Mark, Span
from tests.render.hostile import NAMES
from tests.shared.by_hand import trace_of

ROWS = (
    ProgramRow(SaidBy.SPAN, "forward", 0, "", 0, 50, "50 ns"),
    ProgramRow(SaidBy.SPAN, "loss", 1, "", 25, 50, "25 ns"),
    ProgramRow(SaidBy.MARK, "low: 0.25", 0, "", 75, 75, ""),
    ProgramRow(SaidBy.BACKWARD, "backward 0 at a.py:3", 0, "", 75, 100, "25 ns"),
)


def lines(width: int, charset: Charset, rows: tuple[ProgramRow, ...] = ROWS) -> list[str]:
    program = ProgramTimeline("spans and marks", 0, 100, rows, ())
    return [text.plain for text in program_lines(program, width, charset)]


def test_each_span_has_a_bar_and_each_mark_a_glyph_on_one_axis() -> None:
    assert lines(75, PLAIN) == [
        "spans and marks",
        "                      0 |-----------------------------| 100 ns",
        "forward               ####################                            50 ns",
        "  loss                          ##########                            25 ns",
        "* low: 0.25                                         *",
        "backward 0 at a.py:3                                ##########        25 ns",
    ]


@pytest.mark.parametrize("charset", [PLAIN, UNICODE])
def test_no_line_is_wider_than_asked_whatever_a_span_is_called(charset: Charset) -> None:
    rows = tuple(
        ProgramRow(SaidBy.SPAN, name * 9, depth, name, 0, 100, "did not end")
        for depth, name in enumerate(NAMES)
    )

    for width in (60, 61, 100):
        for text in lines(width, charset, rows):
            assert cell_len(text) <= width, text
            assert not {"\n", "\x1b", "\u202e"} & set(text), text


def test_spans_and_marks_stand_above_the_backwards_of_a_timeline() -> None:
    trace = trace_of(
        Span(0, "forward", begin=0, end=9), Mark(0, "here", t=5), GraphTask(0, begin=9, end=12)
    )

    text = "\n".join(each.plain for each in timeline_lines(timeline_scene(trace), 80, UNICODE))

    assert "forward" in text
    assert "◆ here" in text
