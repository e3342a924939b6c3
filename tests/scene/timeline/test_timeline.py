from __future__ import annotations

import pytest

from gradscope.analysis.identity.sites import Site
from gradscope.errors import EmptyTraceError, UnknownNameError
from gradscope.scene.choices import SortBy
from gradscope.scene.kinds import NodeKind
from gradscope.scene.timeline.events import EventLine, event_list
from gradscope.scene.timeline.lanes import Bar, LaneKind, LevelAt, TimeLane
from gradscope.scene.timeline.timeline import (
    TaskTimeline,
    TimelineOptions,
    TimelineScene,
    timeline_scene,
)
from gradscope.scene.timeline.timeline_rows import TimelineRow
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Accumulation,
    Decrement,
    Error,
    Frame,
    GraphTask,
    HookBegin,
    HookEnd,
    HookKind,
    Node,
    NodeBegin,
    NodeEnd,
    Pop,
    Push,
    Stack,
    Tensor,
    Thread,
)
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import mean_of_squares, two_layers


def two_nodes() -> Trace:
    here = {"thread": 0, "task": 0}
    return trace_of(
        Frame(0, "ex.py", 3, "<module>", "y.backward()"),
        Stack(0, 0),
        Thread(0, "main"),
        Tensor(0, name="x", leaf=True),
        Node(0, "MulBackward0", stack=0),
        Node(1, "AccumulateGrad", inputs=(0,)),
        GraphTask(0, roots=(0,), stack=0, begin=1_000, end=11_000, keep_graph=True),
        Push(t=1_000, node=0, length=1, **here),
        Pop(t=1_500, node=0, length=0, **here),
        HookBegin(t=1_600, node=0, hook=HookKind.TENSOR, name="clip", **here),
        HookEnd(t=1_900, node=0, hook=HookKind.TENSOR, replaced=True, **here),
        NodeBegin(t=2_000, node=0, **here),
        NodeEnd(t=5_000, node=0, **here),
        Decrement(t=5_500, node=1, source=0, **here),
        Push(t=6_000, node=1, length=1, **here),
        Pop(t=8_000, node=1, length=0, **here),
        NodeBegin(t=8_000, node=1, **here),
        Accumulate(t=8_500, node=1, tensor=0, how=Accumulation.IN_PLACE, **here),
        NodeEnd(t=10_000, node=1, **here),
    )


def test_the_whole_timeline_of_a_small_backward() -> None:
    assert timeline_scene(two_nodes()) == TimelineScene(
        tasks=(
            TaskTimeline(
                number=0,
                title="backward 0 at ex.py:3",
                call="y.backward()",
                facts="2 nodes in 10.0 µs, retain_graph",
                begin=1_000,
                end=11_000,
                lanes=(
                    TimeLane(
                        LaneKind.RUN,
                        "main",
                        (Bar(2_000, 5_000, NodeKind.POINTWISE), Bar(8_000, 10_000, NodeKind.LEAF)),
                        (),
                        "busy 5.00 µs (50%)",
                    ),
                    TimeLane(
                        LaneKind.QUEUE,
                        "queue",
                        (),
                        (
                            LevelAt(1_000, 1),
                            LevelAt(1_500, 0),
                            LevelAt(6_000, 1),
                            LevelAt(8_000, 0),
                        ),
                        "at most 1 ready",
                    ),
                    TimeLane(
                        LaneKind.HOOKS,
                        "hooks",
                        (Bar(1_600, 1_900, NodeKind.OTHER),),
                        (),
                        "1 call, 1 replaced",
                    ),
                    TimeLane(
                        LaneKind.ACCUMULATE,
                        ".grad",
                        (Bar(8_500, 8_500, NodeKind.LEAF),),
                        (),
                        "1 added in place",
                    ),
                ),
                rows=(
                    TimelineRow(
                        position=1,
                        title="MulBackward0",
                        kind=NodeKind.POINTWISE,
                        ready=1_000,
                        begin=2_000,
                        end=5_000,
                        waited="1.00 µs",
                        ran="3.00 µs",
                        after="",
                        site=Site("ex.py:3", "y.backward()"),
                        failed=False,
                    ),
                    TimelineRow(
                        position=2,
                        title="x.grad",
                        kind=NodeKind.LEAF,
                        ready=6_000,
                        begin=8_000,
                        end=10_000,
                        waited="2.00 µs",
                        ran="2.00 µs",
                        after="MulBackward0",
                        site=Site(),
                        failed=False,
                    ),
                ),
                notes=(),
                errors=(),
            ),
        ),
        notes=(),
    )


def test_several_threads_have_a_lane_and_a_queue_each() -> None:
    trace = trace_of(
        Thread(0, "main"),
        Thread(1, ""),
        Node(0, "A"),
        Node(1, "B"),
        GraphTask(0, begin=0, end=10),
        Push(task=0, thread=0, node=0, queue=0, length=1),
        NodeBegin(task=0, thread=0, node=0),
        Push(task=0, thread=0, node=1, queue=1, length=1),
        NodeBegin(task=0, thread=1, node=1),
    )

    lanes = timeline_scene(trace).tasks[0].lanes

    assert [lane.title for lane in lanes] == ["main", "queue 0", "thread 1", "queue 1"]


def test_a_backward_that_failed_says_what_raised() -> None:
    trace = trace_of(
        Node(0, "MulBackward0"),
        GraphTask(0, begin=0),
        NodeBegin(t=1, task=0, node=0),
        NodeEnd(t=3, task=0, node=0, failed=True),
        Error(t=4, task=0, node=0, type="RuntimeError", message="bad\nluck"),
    )

    (task,) = timeline_scene(trace).tasks

    assert task.facts == "1 node in 3 ns, did not end"
    assert task.errors == ("raised RuntimeError: bad\nluck",)
    assert task.rows[0].failed


def test_what_is_not_shown_is_said() -> None:
    scene = timeline_scene(two_layers(steps=5), TimelineOptions(rows=4, tasks=2))

    assert [task.number for task in scene.tasks] == [0, 1]
    assert scene.notes == (
        "showing 2 of 5 backwards; choose with --task N or --step N, or show --all",
    )
    assert {task.notes for task in scene.tasks} == {
        ("showing the first 4 of 13 nodes; --rows N for more",)
    }


def test_a_step_or_a_backward_can_be_chosen() -> None:
    trace = two_layers(steps=5)

    assert [t.number for t in timeline_scene(trace, TimelineOptions(step=3)).tasks] == [3]
    assert [t.number for t in timeline_scene(trace, TimelineOptions(task=4)).tasks] == [4]
    assert len(timeline_scene(trace, TimelineOptions(rows=0, tasks=0)).tasks) == 5
    with pytest.raises(UnknownNameError, match="no step 9"):
        timeline_scene(trace, TimelineOptions(step=9))


def test_the_slowest_nodes_can_come_first() -> None:
    trace = two_layers()
    (usual,) = timeline_scene(trace, TimelineOptions(rows=0)).tasks
    (sorted_by_time,) = timeline_scene(trace, TimelineOptions(rows=3, sort=SortBy.TIME)).tasks

    slowest = sorted(usual.rows, key=lambda row: (row.begin - row.end, row.position))[:3]
    assert sorted_by_time.rows == tuple(slowest)
    assert sorted_by_time.notes == (
        f"showing the 3 slowest of {len(usual.rows)} nodes; --rows N for more",
    )


def test_what_did_not_end_is_the_slowest() -> None:
    trace = trace_of(
        Node(0, "A"),
        Node(1, "B"),
        GraphTask(0, begin=0, end=100),
        NodeBegin(t=1, task=0, node=0),
        NodeEnd(t=90, task=0, node=0),
        NodeBegin(t=91, task=0, node=1),
    )

    (task,) = timeline_scene(trace, TimelineOptions(sort=SortBy.TIME)).tasks

    assert [row.title for row in task.rows] == ["B", "A"]


def test_a_row_says_its_thread_where_there_are_several() -> None:
    def threads(other: int) -> list[str]:
        trace = trace_of(
            Thread(0, "main"),
            Thread(1, ""),
            Node(0, "A"),
            Node(1, "B"),
            GraphTask(0, begin=0, end=10),
            NodeBegin(task=0, thread=0, node=0),
            NodeBegin(task=0, thread=other, node=1),
        )
        return [row.thread for row in timeline_scene(trace).tasks[0].rows]

    assert (threads(1), threads(0)) == (["main", "thread 1"], ["", ""])


def test_a_trace_without_backward_or_without_events_says_so() -> None:
    with pytest.raises(EmptyTraceError, match="holds no backward"):
        timeline_scene(trace_of())
    with pytest.raises(EmptyTraceError, match="record it with --level engine"):
        timeline_scene(trace_of(GraphTask(0)))
    with pytest.raises(EmptyTraceError, match="record it with --level engine"):
        event_list(trace_of(GraphTask(0)), TimelineOptions(), 0)


def test_events_are_listed_with_what_is_particular_to_each() -> None:
    events = event_list(two_nodes(), TimelineOptions(), 0)

    assert events.notes == ()
    assert [(line.kind, line.node, line.details) for line in events.lines] == [
        ("push", "MulBackward0", "queue 0, depth 0, length 1"),
        ("pop", "MulBackward0", "queue 0, length 0"),
        ("hook_begin", "MulBackward0", "tensor, index 0, name clip"),
        ("hook_end", "MulBackward0", "tensor, index 0, replaced"),
        ("node_begin", "MulBackward0", ""),
        ("node_end", "MulBackward0", ""),
        ("decrement", "AccumulateGrad (x)", "source MulBackward0, index 0, remaining 0"),
        ("push", "AccumulateGrad (x)", "queue 0, depth 0, length 1"),
        ("pop", "AccumulateGrad (x)", "queue 0, length 0"),
        ("node_begin", "AccumulateGrad (x)", ""),
        ("accumulate", "AccumulateGrad (x)", "tensor 0, added in place"),
        ("node_end", "AccumulateGrad (x)", ""),
    ]
    assert events.lines[0] == EventLine(
        seq=0,
        t=1_000,
        thread=0,
        backward=0,
        kind="push",
        node="MulBackward0",
        details="queue 0, depth 0, length 1",
    )


def test_a_kind_of_hook_that_a_newer_gradscope_added_is_told_by_number() -> None:
    (line,) = event_list(trace_of(HookBegin(hook=99, node=NONE)), TimelineOptions(), 0).lines

    assert line.details == "kind 99, index 0"


def test_long_lists_of_events_are_cut_and_say_so() -> None:
    events = event_list(mean_of_squares(), TimelineOptions(task=0), 10)

    assert len(events.lines) == 10
    assert events.notes == ("showing 10 of 37 events; --rows N for more",)
    assert event_list(two_layers(2), TimelineOptions(step=1), 0).lines[0].backward == 1
