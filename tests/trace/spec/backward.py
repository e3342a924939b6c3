"""One good backward, event by event, and ways to spoil it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Accumulation,
    BufferAdded,
    BufferMade,
    Decrement,
    Dependency,
    Device,
    Edge,
    Event,
    GraphTask,
    HookBegin,
    HookEnd,
    Module,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Pop,
    Push,
    Row,
    Saved,
    SavedReleased,
    SavedUnpacked,
    Stack,
    Step,
    Storage,
    TaskBegin,
    TaskEnd,
    Tensor,
    Thread,
    Value,
    Version,
    Wait,
    Wake,
)
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

LEAF, MUL, SUM = range(3)

ROWS: list[Row] = [
    Thread(0),
    Thread(1),
    Device(0),
    Storage(0, born=1, freed=9_000),
    Tensor(0, leaf=True, storage=0),
    Tensor(1, storage=0, op=0),
    Tensor(2, op=1),
    Stack(0),
    Stack(1, parent=0),
    Module(0),
    Module(1, "layer", parent=0),
    Step(0, begin=1, end=9_000),
    Op(0, "mul", begin=2, end=3, inputs=(0, 0), outputs=(1,), node=MUL),
    Op(1, "sum", begin=4, end=5, inputs=(1,), outputs=(2,), node=SUM),
    Node(LEAF, "AccumulateGrad", NONE, 0, inputs=(0,), thread=0, t=2),
    Node(MUL, "MulBackward0", 1, 1, op=0, inputs=(1,), thread=0, t=3),
    Node(SUM, "SumBackward0", 2, 2, op=1, inputs=(2,), thread=0, t=5),
    Edge(MUL, 0, LEAF, 0),
    Edge(MUL, 1, LEAF, 0),
    Edge(SUM, 0, MUL, 0),
    Saved(0, MUL, "self", tensor=0, t=3, released=170, task=0),
    Saved(1, MUL, "other", tensor=0, t=3, released=170, task=0),
    Version(0, 0, old=0, new=1),
    Version(0, 0, old=1, new=2),
    Value(0, tensor=0, count=4, nan=1, zero=3, min=0.0, max=0.0),
    GraphTask(0, roots=(SUM,), accumulate_grad=True, thread=0, begin=9, end=300),
]

EVENTS: list[Event] = [
    TaskBegin(),
    Dependency(node=MUL, count=1),
    Dependency(node=LEAF, count=2),
    Push(node=SUM, length=1),
    Pop(node=SUM, length=0),
    NodeBegin(node=SUM),
    NodeEnd(node=SUM),
    SavedReleased(node=SUM),
    Decrement(node=MUL, source=SUM, index=0, remaining=0),
    BufferMade(node=MUL),
    Push(node=MUL, length=1),
    Pop(node=MUL, length=0),
    HookBegin(node=MUL, name="clip"),
    HookEnd(node=MUL),
    NodeBegin(node=MUL),
    SavedUnpacked(node=MUL, saved=0),
    NodeEnd(node=MUL),
    SavedReleased(node=MUL),
    Decrement(node=LEAF, source=MUL, index=0, remaining=1),
    BufferMade(node=LEAF),
    Decrement(node=LEAF, source=MUL, index=1, remaining=0),
    BufferAdded(node=LEAF, in_place=True),
    Push(node=LEAF, length=1),
    Wait(task=NONE, thread=1),
    Pop(node=LEAF, length=0),
    NodeBegin(node=LEAF),
    Accumulate(node=LEAF, tensor=0, how=Accumulation.STOLEN),
    NodeEnd(node=LEAF),
    TaskEnd(),
    Wake(task=NONE, thread=1),
]


def run(events: Iterable[Event] = EVENTS, rows: Iterable[Row] = ROWS, **meta: Any) -> Trace:
    """The rows and events as a trace: numbered and timed as they come, on thread 0 of task 0."""
    timed = []
    for number, event in enumerate(events):
        waits = isinstance(event, Wait | Wake)
        timed.append(
            replace(
                event,
                seq=number if event.seq == NONE else event.seq,
                t=event.t or 10 * (number + 1),
                thread=max(event.thread, 0),
                task=event.task if waits else max(event.task, 0),
            )
        )
    return trace_of(*rows, *timed, meta=meta)


def broken(trace: Trace) -> set[str]:
    return {violation.rule for violation in check(trace)}


def nth(kind: type[Row], number: int = 0) -> Callable[[list[Any]], int]:
    """Where the row of this kind is that has so many of its kind before it."""
    return lambda rows: [i for i, row in enumerate(rows) if isinstance(row, kind)][number]


def without(kind: type[Row], number: int = 0) -> list[Any]:
    rows = list(EVENTS if issubclass(kind, Event) else ROWS)
    del rows[nth(kind, number)(rows)]
    return rows


def changed(kind: type[Row], number: int = 0, **cells: Any) -> list[Any]:
    rows = list(EVENTS if issubclass(kind, Event) else ROWS)
    place = nth(kind, number)(rows)
    rows[place] = replace(rows[place], **cells)
    return rows


def added(*new: Any, after: int = len(EVENTS)) -> list[Any]:
    return [*EVENTS[:after], *new, *EVENTS[after:]]


def moved(kind: type[Event], number: int, to: int) -> list[Any]:
    rows = list(EVENTS)
    row = rows.pop(nth(kind, number)(rows))
    return [*rows[:to], row, *rows[to:]]


def with_rows(*new: Row) -> list[Row]:
    return [*ROWS, *new]
