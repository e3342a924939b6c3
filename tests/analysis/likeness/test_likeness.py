"""What a trace says of a run without ids, clocks and threads, in lines."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from gradscope.analysis.likeness import compare, likeness, not_seen
from gradscope.errors import EmptyTraceError
from gradscope.trace.schema import (
    Accumulate,
    Edge,
    Event,
    Frame,
    GraphTask,
    HookBegin,
    HookKind,
    Node,
    NodeBegin,
    Push,
    Row,
    Saved,
    Stack,
    Tensor,
    Value,
)
from gradscope.trace.trace import Trace
from tests.analysis.likeness.engines import on_gradscope
from tests.render.test_any_trace import PATIENT, together
from tests.shared.by_hand import trace_of
from tests.shared.strategies import traces


def square(first: int = 0, *, clock: int = 0, thread: int = 0) -> list[Row]:
    """x * x and its backward, with ids that begin anywhere; a node that no backward reached."""
    leaf, made, strange, x, y = range(first, first + 5)
    return [
        Frame(0, "ex.py", 3, "<module>", "y = x * x"),
        Stack(0, 0),
        Tensor(x, shape=(2,), dtype="float32", leaf=True, requires_grad=True),
        Tensor(y, shape=(2,), dtype="float32", requires_grad=True),
        Node(leaf, "AccumulateGrad", -1, inputs=(x,), t=clock),
        Node(made, "MulBackward0", 5 + first, inputs=(y,), stack=0, thread=thread, t=clock),
        Node(strange, "ExpBackward0", 6 + first, inputs=(y,)),
        Edge(made, 0, leaf, 0),
        Edge(made, 1, leaf, 0),
        Saved(first, made, "self", x, 0, 8),
        GraphTask(7 + first, roots=(made,), accumulate_grad=True, stack=0, begin=clock + 1),
        Push(t=clock + 2, task=7 + first, thread=thread, node=made, queue=thread, length=1),
        NodeBegin(t=clock + 3, task=7 + first, thread=thread, node=made),
        Accumulate(t=clock + 4, task=7 + first, thread=thread, node=leaf, tensor=x),
    ]


LINES = [
    "node 0 MulBackward0 at ex.py:3 takes (2,) float32",
    "  edge 0 to leaf 0, input 0",
    "  edge 1 to leaf 0, input 0",
    "  keeps self (2,) float32 version 0",
    "leaf 0 (2,) float32",
    "backward 0 at ex.py:3 accumulate_grad",
    "  roots node 0",
    "  push node 0 depth 0 length 1",
    "  node_begin node 0",
    "  accumulate leaf 0 how stolen",
]


def test_lines_name_nothing_by_id_clock_or_thread() -> None:
    assert list(likeness(trace_of(*square()))) == LINES
    assert list(likeness(trace_of(*square(first=40, clock=9_000, thread=3)))) == LINES


def test_what_is_absent_is_left_out() -> None:
    told = likeness(trace_of(*square()), absent={"accumulate.how", "push", "graph_task.roots"})

    assert list(told) == [*LINES[:6], "  node_begin node 0", "  accumulate leaf 0"]


def test_calls_of_hooks_of_a_kind_that_is_absent_are_left_out() -> None:
    call = HookBegin(task=7, node=1, hook=HookKind.POST, name="look")
    trace = trace_of(*square(), call)

    assert list(likeness(trace))[-1] == "  hook_begin node 0 hook post index 0 name look"
    assert list(likeness(trace, absent={"hook_begin.POST"})) == LINES


def test_leaves_are_numbered_by_the_edges_that_lead_to_them() -> None:
    def program(torch: Any) -> None:
        late, early = torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)
        (early.sum() + late.sum()).backward()

    told = [line for line in likeness(on_gradscope(program)) if line.startswith("leaf")]

    assert told == ["leaf 0 (3,) float32", "leaf 1 (2,) float32"]


def test_values_are_told_by_place_and_node() -> None:
    value = Value(0, place=1, node=1, index=0, task=7, count=2, zero=1, min=0.0, max=2.0,
                  mean=1.0, rms=1.5, norm=2.0)  # fmt: skip

    told = list(likeness(trace_of(*square(), value)))[-1]

    assert told.startswith("value node input 0 of node 0 in backward 0 count 2 zero 1 min 0 max 2")


def test_what_one_trace_could_not_see_is_known_from_its_meta() -> None:
    one = trace_of(meta={"absent": ["push"], "inferred": ["saved.version", "pop"]})

    assert not_seen(one, trace_of()) == {"push", "saved.version"}
    assert not_seen(one, one) == {"push"}


def events_moved(rows: list[Row]) -> list[Row]:
    """The same with `seq` that leave holes and begin elsewhere."""
    moved = []
    for place, row in enumerate(rows):
        if isinstance(row, Event):
            cells = dict(zip(row.__match_args__, row.cells(), strict=True))
            row = type(row)(**{**cells, "seq": 100 + 3 * place})
        moved.append(row)
    return moved


def test_the_numbers_of_events_are_not_told() -> None:
    assert list(likeness(trace_of(*events_moved(square())))) == LINES


@given(trace=traces() | together, other=traces() | together)
@PATIENT
def test_no_trace_is_too_strange_to_be_told_or_compared(trace: Trace, other: Trace) -> None:
    assert all(isinstance(line, str) for line in likeness(trace))
    try:
        same = compare(trace, trace)
        compare(trace, other)
    except EmptyTraceError:
        return
    assert same.first is None
