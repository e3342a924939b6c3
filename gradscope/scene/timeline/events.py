"""The events of the engine, one line each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from heapq import merge
from itertools import islice

from gradscope.analysis.identity.backwards import backward_numbered, backward_numbers, backwards
from gradscope.analysis.identity.names import NodeNames, node_names
from gradscope.analysis.identity.steps import step_ids
from gradscope.analysis.timing.buckets import Buckets
from gradscope.errors import EmptyTraceError
from gradscope.scene.cells import kind_in_words
from gradscope.scene.readable import byte_count, count, plural
from gradscope.scene.timeline.timeline import TimelineOptions
from gradscope.trace.schema import NONE, Accumulation, Event, GraphTask, HookKind, Module
from gradscope.trace.trace import Trace

SHARED = {field.name for field in fields(Event)}
NODES = ("node", "source")
KINDS: dict[str, type[IntEnum]] = {"how": Accumulation, "hook": HookKind}
HIDDEN = {"stack"}


@dataclass(frozen=True, slots=True)
class EventLine:
    """One event."""

    seq: int  # NONE: it follows from a table
    t: int  # since the start of the trace
    thread: int
    backward: int  # its number; NONE outside backwards
    kind: str
    node: str
    details: str


@dataclass(frozen=True, slots=True)
class EventList:
    """Events in order."""

    lines: tuple[EventLine, ...]
    notes: tuple[str, ...]


def event_list(trace: Trace, options: TimelineOptions, limit: int) -> EventList:
    """The first `limit` events of the selected backwards; 0 for all."""
    tasks = _tasks(trace, options)
    events = (event for event in trace.events() if tasks is None or event.task in tasks)
    names, numbers = node_names(trace), backward_numbers(trace)
    of_engine = (_line(event, names, numbers) for event in events)
    chosen = merge(of_engine, _of_buckets(trace, tasks, numbers), key=lambda line: line.t)
    lines = tuple(islice(chosen, limit or None))
    left = sum(1 for _ in chosen)
    if not lines:
        raise EmptyTraceError(
            "this trace holds no events of the engine; record it with --level engine"
        )
    note = f"showing {count(len(lines))} of {count(len(lines) + left)} events; --rows N for more"
    return EventList(lines, (note,) if left else ())


def _of_buckets(
    trace: Trace, tasks: frozenset[int] | None, numbers: Mapping[int, int]
) -> list[EventLine]:
    """What DistributedDataParallel did with its buckets: of these backwards, or of all."""
    found, lines = trace.once(Buckets), []
    for task in trace.rows(GraphTask) if found.tasks() else ():
        for bucket in found.of(task.id) if tasks is None or task.id in tasks else ():
            many = plural(len(bucket.parameters), "parameter")
            words = f"bucket {bucket.number}, {many}, {byte_count(bucket.bytes)}"
            moments = (
                ("bucket_ready", bucket.ready, task.thread),
                ("bucket_reduce_begin", bucket.begin, bucket.thread),
                ("bucket_reduce_end", bucket.end, bucket.thread),
            )
            lines += [
                EventLine(NONE, t, thread, numbers.get(task.id, NONE), kind, "", words)
                for kind, t, thread in moments
                if t != NONE
            ]
    return sorted(lines, key=lambda line: line.t)


def _tasks(trace: Trace, options: TimelineOptions) -> frozenset[int] | None:
    if options.task is not None:
        return frozenset([backward_numbered(trace, options.task).id])
    if options.step is None:
        return None
    steps = step_ids(trace, options.step)
    return frozenset(task.id for task in backwards(trace, steps))


def _line(event: Event, names: NodeNames, numbers: Mapping[int, int]) -> EventLine:
    node = getattr(event, "node", NONE)
    return EventLine(
        seq=event.seq,
        t=event.t,
        thread=event.thread,
        backward=numbers.get(event.task, NONE),
        kind=event.KIND,
        node="" if node == NONE else names.title(node),
        details=", ".join(_details(event, names)),
    )


def _module(trace: Trace, id: int) -> str:
    modules = trace.table(Module)
    return (modules.row(id).path or "(root)") if modules.has(id) else str(id)


def _details(event: Event, names: NodeNames) -> Iterator[str]:
    for field in fields(event):
        value = getattr(event, field.name)
        if field.name in SHARED or field.name in HIDDEN or field.name == "node":
            continue
        if field.name == "module":
            if value != NONE:
                yield f"module {_module(names.trace, value)}"
        elif field.name in NODES:
            yield f"{field.name} {names.of(value)}"
        elif isinstance(value, bool):
            if value:
                yield field.name
        elif field.name in KINDS:
            yield kind_in_words(KINDS[field.name], value)
        elif value != "":
            yield f"{field.name} {value}"
