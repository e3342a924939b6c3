"""The program's own spans and marks, with the backwards among them."""

from __future__ import annotations

import pytest

from gradscope.errors import EmptyTraceError
from gradscope.scene.timeline.program import ProgramRow, SaidBy, program_timeline
from gradscope.scene.timeline.timeline import TimelineOptions, timeline_scene
from gradscope.trace.schema import (
    NONE,
    GraphTask,
    Mark,
    Node,
    NodeBegin,
    NodeEnd,
    Phase,
    Pop,
    Push,
    Row,
    Span,
    Step,
    Thread,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


def two_steps(*more: Row) -> Trace:
    return trace_of(
        Thread(0, "MainThread"),
        Step(0, 0, begin=0, end=100),
        Step(1, 1, begin=100, end=200),
        Span(0, "forward", thread=0, step=0, begin=10, end=50),
        Span(1, "loss", parent=0, thread=0, step=0, begin=30, end=50),
        Mark(0, "low", "0.25", t=55, thread=0, step=0),
        GraphTask(7, thread=0, step=0, begin=60, end=80),
        Span(2, "SGD", Phase.OPTIMIZER, thread=0, step=0, begin=90, end=100),
        Span(3, "forward", thread=0, step=1, begin=110, end=NONE),
        *more,
    )


def test_spans_marks_and_backwards_stand_in_the_order_of_time_inside_each_other() -> None:
    program = program_timeline(two_steps())

    assert program is not None
    assert (program.title, program.begin, program.end, program.notes) == (
        "spans and marks",
        10,
        110,
        (),
    )
    assert program.rows == (
        ProgramRow(SaidBy.SPAN, "forward", 0, "", 10, 50, "40 ns"),
        ProgramRow(SaidBy.SPAN, "loss", 1, "", 30, 50, "20 ns"),
        ProgramRow(SaidBy.MARK, "low: 0.25", 0, "", 55, 55, ""),
        ProgramRow(SaidBy.BACKWARD, "backward 0", 0, "", 60, 80, "20 ns"),
        ProgramRow(SaidBy.SPAN, "SGD", 0, "", 90, 100, "10 ns"),
        ProgramRow(SaidBy.SPAN, "forward", 0, "", 110, 110, "did not end"),
    )


def titles(trace: Trace, **chosen: int) -> list[str]:
    program = program_timeline(trace, **chosen)
    return [row.title for row in program.rows] if program else []


def test_a_step_or_a_backward_shows_what_was_said_during_it() -> None:
    in_a_hook = Span(4, "in a hook", thread=0, begin=65, end=70)

    second = GraphTask(8, thread=0, step=1, begin=150, end=160)

    assert titles(two_steps(second), step=1) == ["forward", "backward 1"]
    assert titles(two_steps(in_a_hook), task=0) == ["backward 0", "in a hook"]
    assert titles(two_steps(), task=0) == []


def test_what_does_not_fit_is_counted() -> None:
    program = program_timeline(two_steps(), rows=2)

    assert program is not None
    assert [row.title for row in program.rows] == ["forward", "loss"]
    assert program.notes == (
        "showing 2 of 6 spans, marks and backwards; --step N or --rows N for more",
    )


def test_of_several_threads_each_row_names_its_own_and_none_is_inside_the_others() -> None:
    trace = two_steps(Thread(1, ""), Span(9, "load", thread=1, begin=35, end=40))

    program = program_timeline(trace)

    assert program is not None
    found = {row.title: (row.thread, row.depth) for row in program.rows}
    assert found["load"] == ("thread 1", 0)
    assert found["loss"] == ("MainThread", 1)


def test_a_program_that_says_nothing_of_itself_has_no_such_rows() -> None:
    assert program_timeline(trace_of(GraphTask(0, begin=1, end=2))) is None


def test_the_timeline_holds_them_even_where_the_engine_was_not_recorded() -> None:
    with_engine = timeline_scene(two_steps(NodeBegin(task=7, node=0)))
    without = timeline_scene(two_steps(), TimelineOptions(step=0))

    assert with_engine.program == program_timeline(two_steps())
    assert without.tasks == ()
    assert without.program == program_timeline(two_steps(), step=0)
    assert without.notes[0].startswith("this trace holds no events of the engine")
    with pytest.raises(EmptyTraceError):
        timeline_scene(trace_of(GraphTask(0)))


def test_gradscopes_own_work_has_rows_of_its_own_where_it_is_long_and_no_other_row_counts_it() -> (
    None
):
    ms = 1_000_000
    trace = trace_of(
        Thread(0, "MainThread"),
        Span(0, "forward", thread=0, begin=0, end=50 * ms),
        Span(1, "gradscope compiles lstm", Phase.OWN_WORK, 0, thread=0, begin=ms, end=45 * ms),
        Span(2, "gradscope keeps lstm", Phase.OWN_WORK, 1, thread=0, begin=40 * ms, end=45 * ms),
        Span(
            3, "gradscope writes sum", Phase.OWN_WORK, 0, thread=0, begin=46 * ms, end=46 * ms + 9
        ),
        GraphTask(7, thread=0, begin=60 * ms, end=80 * ms),
        Span(4, "gradscope loads sum", Phase.OWN_WORK, thread=0, begin=61 * ms, end=76 * ms),
    )

    program = program_timeline(trace)

    assert program is not None
    assert [(row.kind, row.title, row.depth, row.took) for row in program.rows] == [
        (SaidBy.SPAN, "forward", 0, "6.00 ms"),
        (SaidBy.OWN_WORK, "gradscope compiles lstm", 1, "44.0 ms"),
        (SaidBy.BACKWARD, "backward 0", 0, "5.00 ms"),
        (SaidBy.OWN_WORK, "gradscope loads sum", 1, "15.0 ms"),
    ]


def test_gradscopes_own_work_alone_is_nothing_the_program_said() -> None:
    own = Span(0, "gradscope compiles lstm", Phase.OWN_WORK, thread=0, begin=0, end=9_000_000)

    assert program_timeline(trace_of(Thread(0), own)) is None


def test_stretches_of_own_work_in_a_backward_are_counted_in_words() -> None:
    here = {"thread": 0, "task": 0}

    def note(count: int) -> str:
        own = (
            Span(n, "gradscope writes sum", Phase.OWN_WORK, thread=0, begin=20 + n, end=21 + n)
            for n in range(0, 2 * count, 2)
        )
        trace = trace_of(
            Thread(0, "main"),
            Node(0, "SumBackward0"),
            GraphTask(0, roots=(0,), begin=0, end=100),
            Push(t=1, node=0, length=1, **here),
            Pop(t=2, node=0, length=0, **here),
            NodeBegin(t=10, node=0, **here),
            NodeEnd(t=90, node=0, **here),
            *own,
        )
        return timeline_scene(trace).tasks[0].notes[-1]

    assert note(1) == "gradscope writes sum here once (1 ns); this time is not counted"
    assert [note(count).partition(")")[2].partition(";")[0] for count in (2, 3)] == [
        ", and 1 more such period",
        ", and 2 more such periods",
    ]
