"""What is no fault: backwards that fail, are nested, cut short, limited to inputs, or dropped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradscope.trace.load_save import decode, encode
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Capture,
    Decrement,
    Dependency,
    Error,
    Event,
    GraphTask,
    HookBegin,
    Node,
    NodeBegin,
    NodeEnd,
    Pop,
    Push,
    ReentrantEnter,
    ReentrantLeave,
    Row,
    Skipped,
    TaskBegin,
    TaskEnd,
    Version,
)
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of
from tests.trace.spec.backward import EVENTS, LEAF, MUL, ROWS, SUM, broken, run

TASKS: list[Row] = [GraphTask(id) for id in (1, 2)]


def of_task(task: int, *events: Event, thread: int = 0) -> list[Event]:
    return [replace(event, task=task, thread=thread) for event in events]


FAILING = of_task(
    1,
    TaskBegin(),
    Dependency(node=MUL, count=1),
    Push(node=SUM, length=1),
    Push(node=LEAF, length=2),
    Push(node=MUL, length=3, depth=1),
    Pop(node=MUL, length=2),
    HookBegin(node=MUL, name="raises"),
    Error(node=MUL, type="ValueError"),
    TaskEnd(failed=True),
)
"""A backward that a hook ends; two nodes stay in the queue, and are thrown away."""


def test_a_backward_that_fails_leaves_things_undone() -> None:
    trace = run([*FAILING, *EVENTS], [*ROWS, *TASKS])

    assert [violation.message for violation in check(trace)] == [
        "node 1 ('MulBackward0') is pushed while it still waits for 1 gradients"
    ]


def test_what_a_failed_backward_left_in_a_queue_may_be_thrown_away_later() -> None:
    counted = [event for event in FAILING if not isinstance(event, Dependency)]
    later = [
        replace(event, length=event.length + 2) if isinstance(event, Push | Pop) else event
        for event in EVENTS
    ]
    too_much = [
        replace(event, length=event.length + 2) if isinstance(event, Push | Pop) else event
        for event in later
    ]  # one more may have been pushed by whatever was interrupted; two may not

    assert check(run([*counted, *EVENTS], [*ROWS, *TASKS])) == []
    assert check(run([*counted, *later], [*ROWS, *TASKS])) == []
    assert broken(run([*counted, *too_much], [*ROWS, *TASKS])) == {"queue-lengths-add-up"}


def test_what_was_pushed_when_a_backward_broke_off_may_be_untold() -> None:
    begun = [TaskBegin(), Push(node=SUM, length=1), Pop(node=SUM), NodeBegin(node=SUM)]
    one, two = [Pop(node=MUL)], [Pop(node=MUL, length=1), Pop(node=LEAF)]

    def thrown_away(pops: list[Event]) -> Trace:
        failing = of_task(1, *begun, Error(node=SUM), *pops, TaskEnd(failed=True))
        return run([*failing, *EVENTS], [*ROWS, *TASKS])

    assert check(thrown_away(one)) == []
    assert broken(thrown_away(two)) == {"pops-were-pushed", "queue-lengths-add-up"}


def test_a_node_that_raises_need_not_end() -> None:
    failing = of_task(
        1,
        TaskBegin(),
        Push(node=SUM, length=1),
        Pop(node=SUM),
        NodeBegin(node=SUM),
        Error(node=SUM),
        TaskEnd(failed=True),
    )

    assert check(run([*failing, *EVENTS], [*ROWS, *TASKS])) == []


def test_a_backward_may_run_inside_a_node() -> None:
    inside = of_task(
        1,
        ReentrantEnter(node=MUL, depth=1),
        TaskBegin(),
        Push(node=SUM, length=1, depth=1),
        Pop(node=SUM),
        NodeBegin(node=SUM),
        NodeEnd(node=SUM),
        TaskEnd(),
        ReentrantLeave(depth=1),
    )

    assert check(run([*EVENTS[:15], *inside, *EVENTS[15:]], [*ROWS, *TASKS])) == []


def test_a_deeper_backward_goes_first_and_then_the_newest_node() -> None:
    nodes = [row for row in ROWS if isinstance(row, Node)]

    def order(*pops: tuple[int, int]) -> Trace:
        pushes = [
            *of_task(0, Push(node=SUM), Push(node=LEAF), Push(node=MUL)),
            *of_task(1, Push(node=MUL, depth=1)),
        ]
        taken = [Pop(task=task, node=node) for task, node in pops]
        begins = [TaskBegin(task=0), TaskBegin(task=1)]
        ends = [TaskEnd(task=1), TaskEnd(task=0)]
        return run([*begins, *pushes, *taken, *ends], [*nodes, *TASKS])

    right = order((1, MUL), (0, LEAF), (0, SUM), (0, MUL))
    wrong = order((0, LEAF), (1, MUL), (0, MUL), (0, SUM))

    assert "pops-take-the-foremost" not in broken(right)
    assert [v.message for v in check(wrong) if v.rule == "pops-take-the-foremost"] == [
        "node 0 ('AccumulateGrad') is popped before node 1 ('MulBackward0')",
        "node 1 ('MulBackward0') is popped before node 2 ('SumBackward0')",
    ]


def test_of_two_nodes_of_one_priority_either_may_go_first() -> None:
    nodes: list[Row] = [Node(0, "AccumulateGrad", NONE), Node(1, "AccumulateGrad", NONE)]
    for first, second in ((0, 1), (1, 0)):
        pushes = [Push(node=0, length=1), Push(node=1, length=2)]
        pops = [Pop(node=first, length=1), Pop(node=second, length=0)]

        assert (
            check(run([TaskBegin(), *pushes, *pops, TaskEnd()], [*nodes, *ROWS[:1], *_task()]))
            == []
        )


def _task() -> list[Row]:
    return [GraphTask(0)]


def test_a_backward_for_certain_inputs_skips_and_captures() -> None:
    task = GraphTask(0, inputs=(MUL,), needed=(SUM,), captured=(MUL,))
    rows = [task if isinstance(row, GraphTask) else row for row in ROWS]
    rows = [row for row in rows if row.__class__.__name__ != "Saved"]
    events = [
        TaskBegin(),
        Dependency(node=MUL, count=1),
        Dependency(node=LEAF, count=2),
        Push(node=SUM, length=1),
        Pop(node=SUM, length=0),
        NodeBegin(node=SUM),
        NodeEnd(node=SUM),
        Decrement(node=MUL, source=SUM, index=0, remaining=0),
        Push(node=MUL, length=1),
        Pop(node=MUL, length=0),
        Capture(node=MUL),
        Skipped(node=MUL),
        TaskEnd(),
    ]

    assert check(run(events, rows)) == []


def test_a_node_that_inputs_names_may_accumulate() -> None:
    rows = [replace(r, inputs=(MUL,)) if isinstance(r, GraphTask) else r for r in ROWS]
    events = [*EVENTS[:15], Accumulate(node=MUL, tensor=1), *EVENTS[15:]]

    assert check(run(events, rows)) == []


def test_where_not_all_writes_are_seen_versions_may_leave_some_out() -> None:
    rows = [Version(5, old=2, new=3, t=1), Version(5, old=1, new=2, t=2)]

    assert "versions-rise-by-one" in broken(trace_of(*rows))
    seen_in_part = trace_of(*rows, meta={"inferred": ["version"]})
    assert "versions-rise-by-one" not in broken(seen_in_part)


def test_detached_data_counts_its_own_versions() -> None:
    writes = [(0, 1), (1, 2), (0, 1), (2, 3), (1, 2)]
    rows = [Version(5, old=old, new=new) for old, new in writes]

    assert "versions-rise-by-one" not in broken(trace_of(*rows))


# Traces with gaps ----------------------------------------------------------------------------

SECOND = [replace(event, task=1) for event in EVENTS[:-1] if event.__class__.__name__ != "Wait"]


def test_of_a_trace_with_dropped_events_whole_graph_tasks_are_judged() -> None:
    rows = [*ROWS, *TASKS]
    first = [replace(event, seq=number) for number, event in enumerate(EVENTS)]
    second = [replace(event, seq=number) for number, event in enumerate(SECOND, 100)]
    cut = [event for event in second if event.seq not in {104, 110}]
    wrong = [replace(e, remaining=5) if isinstance(e, Decrement) else e for e in first]

    assert broken(run([*first, *cut], rows)) >= {"events-are-numbered-without-holes"}
    assert check(run([*first, *cut], rows, dropped={"event.push": 1})) == []
    assert broken(run([*wrong, *cut], rows, dropped={"event.push": 1})) == {"counts-go-down-by-one"}


def test_rows_of_dropped_tables_may_be_missing() -> None:
    rows = [row for row in ROWS if row.__class__.__name__ != "Tensor"]

    assert broken(run(rows=rows)) == {"references-name-rows"}
    assert check(run(rows=rows, dropped={"tensor": 3})) == []


@pytest.mark.parametrize("level", range(1, 25))
def test_a_trace_cut_between_windows_is_judged_by_what_it_holds(level: int) -> None:
    trace = Trace(run(EVENTS[:level]).tables, truncated=True, horizon=level - 1)

    assert check(trace) == []


def test_behind_the_horizon_nothing_is_judged() -> None:
    text = encode(run())
    cut = decode(text[: text.index(b'{"table":"event.pop"')])

    assert cut.event_count > 0
    assert cut.horizon == NONE
    assert check(cut) == []


def test_what_a_cut_trace_holds_is_still_judged() -> None:
    wrong = [replace(e, remaining=5) if isinstance(e, Decrement) else e for e in EVENTS[:20]]
    trace = Trace(run(wrong).tables, truncated=True, horizon=19)

    assert broken(trace) == {"counts-go-down-by-one"}
