"""The schedule of one backward: when each node was ready and ran, and why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from gradscope.analysis.identity.sites import Site, site_of
from gradscope.analysis.lookups import Ids, member
from gradscope.analysis.timing.durations import node_runs
from gradscope.analysis.timing.own_work import OwnWork, OwnWorkTimes
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Accumulation,
    Decrement,
    Error,
    Event,
    GraphTask,
    HookBegin,
    HookEnd,
    HookKind,
    Pop,
    Push,
    Skipped,
    Wait,
    Wake,
)
from gradscope.trace.trace import Table, Trace

E = TypeVar("E", bound=Event)


@dataclass(frozen=True, slots=True)
class Execution:
    """One run of a node."""

    node: int
    position: int  # 1 for the first node the graph task ran
    thread: int
    queue: int  # NONE when no push was recorded
    ready: int  # when it was pushed; NONE when no push was recorded
    begin: int
    end: int  # NONE when it did not end
    self_ns: int  # without the nodes run inside it; NONE when it did not end
    failed: bool
    waited_for: tuple[int, ...]  # the nodes whose gradients it needed; the last made it ready
    own_ns: int = 0  # own work of gradscope while it was in the queue

    @property
    def queued_ns(self) -> int:
        """The time in the queue, excluding gradscope's own work."""
        return NONE if self.ready == NONE else self.begin - self.ready - self.own_ns


@dataclass(frozen=True, slots=True)
class QueueSample:
    """The length of one ready queue from one moment on."""

    t: int
    queue: int
    length: int


@dataclass(frozen=True, slots=True)
class HookCall:
    """One call of one hook."""

    node: int
    kind: HookKind | None  # None: unknown to this version
    name: str
    thread: int
    begin: int
    end: int  # NONE when it did not return
    replaced: bool  # it returned another gradient
    site: Site  # where it was registered


@dataclass(frozen=True, slots=True)
class Accumulated:
    """One gradient that arrived in `.grad`."""

    t: int
    thread: int
    node: int
    tensor: int
    how: Accumulation | None  # None: unknown to this version


@dataclass(frozen=True, slots=True)
class Sleep:
    """A period in which a thread waited for work."""

    thread: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """The schedule of one backward."""

    task: GraphTask
    site: Site  # where backward was called
    begin: int
    end: int  # of the last event, when the graph task did not end
    executions: tuple[Execution, ...]
    queue: tuple[QueueSample, ...]
    hooks: tuple[HookCall, ...]
    accumulated: tuple[Accumulated, ...]
    skipped: tuple[int, ...]  # nodes that `inputs=` made unnecessary
    errors: tuple[Error, ...]
    sleeps: tuple[Sleep, ...] = ()  # of the threads that ran its nodes, or own it
    own_work: tuple[OwnWork, ...] = ()  # of gradscope on these threads
    own_ns: int = 0  # how long that took

    @property
    def ns(self) -> int:
        """The duration, excluding gradscope's own work."""
        return max(self.end - self.begin - self.own_ns, 0)


def schedule(trace: Trace, task: GraphTask) -> Schedule:
    own = trace.once(OwnWorkTimes)
    executions = _executions(trace, task.id, own)
    hooks = hook_calls(trace, task.id)
    queue = _queue(trace, task.id)
    accumulated = tuple(
        Accumulated(row.t, row.thread, row.node, row.tensor, member(Accumulation, row.how))
        for row in _rows(trace, Accumulate, task.id)
    )
    ends = [
        task.begin,
        task.end,
        *(run.end for run in executions),
        *(run.begin for run in executions),
    ]
    end = task.end if task.end != NONE else max(ends + [sample.t for sample in queue])
    threads = {task.thread, *(run.thread for run in executions)}
    return Schedule(
        task=task,
        site=site_of(trace, task.stack),
        begin=task.begin,
        end=end,
        executions=executions,
        queue=queue,
        hooks=hooks,
        accumulated=accumulated,
        skipped=tuple(row.node for row in _rows(trace, Skipped, task.id)),
        errors=tuple(_rows(trace, Error, task.id)),
        sleeps=tuple(each for each in sleeps(trace, task.begin, end) if each.thread in threads),
        own_work=tuple(
            each
            for each in own.stretches
            if each.thread in threads and each.begin < end and each.end > task.begin
        ),
        own_ns=own.on(threads, task.begin, end),
    )


def sleeps(trace: Trace, begin: int, end: int) -> Iterator[Sleep]:
    """The periods between two moments during which threads slept."""
    for each in trace.once(_sleeps):
        until = end if each.end == NONE else each.end
        if until > begin and each.begin < end:
            yield Sleep(each.thread, max(each.begin, begin), min(until, end))


def _sleeps(trace: Trace) -> tuple[Sleep, ...]:
    """All periods during which threads slept; the end is NONE if unknown."""
    asleep: dict[int, int] = {}
    found = []
    for event in trace.events(Wait, Wake):
        if isinstance(event, Wait):
            asleep[event.thread] = event.t
        elif event.thread in asleep:
            found.append(Sleep(event.thread, asleep.pop(event.thread), event.t))
    return (*found, *(Sleep(thread, since, NONE) for thread, since in asleep.items()))


def _rows(trace: Trace, kind: type[E], task: int) -> list[E]:
    table = trace.table(kind)
    return table.take(_of_task(table, task))


def _of_task(table: Table[E], task: int) -> Ids:
    """The positions of the rows of one graph task, in the order of `seq`."""
    found = np.flatnonzero(table["task"] == task)
    return found[np.argsort(table["seq"][found], kind="stable")]


def _columns(table: Table[E], task: int, *names: str) -> list[tuple[int, ...]]:
    """The rows of one graph task as tuples of the named columns, in the order of `seq`."""
    ordered = _of_task(table, task)
    return list(zip(*(table[name][ordered].tolist() for name in names), strict=True))


def _executions(trace: Trace, task: int, own: OwnWorkTimes) -> tuple[Execution, ...]:
    pushes = {
        node: (queue, t)
        for node, queue, t in _columns(trace.table(Push), task, "node", "queue", "t")
    }
    sources: dict[int, list[int]] = defaultdict(list)
    for node, source in _columns(trace.table(Decrement), task, "node", "source"):
        sources[node].append(source)
    runs = trace.once(node_runs)
    chosen = np.flatnonzero(runs.task == task)
    pushed = [pushes.get(node, (NONE, NONE)) for node in runs.node[chosen].tolist()]
    ready = np.array([t for _, t in pushed], np.int64)
    inside = own.within(runs.thread[chosen], ready, runs.begin[chosen])
    columns = (runs.node, runs.position, runs.thread, runs.begin, runs.end, runs.self_ns)
    return tuple(
        Execution(
            node=node,
            position=position,
            thread=thread,
            queue=queue,
            ready=since,
            begin=begin,
            end=end,
            self_ns=self_ns,
            failed=failed,
            waited_for=tuple(sources.get(node, ())),
            own_ns=0 if since == NONE else own_ns,
        )
        for (node, position, thread, begin, end, self_ns), (queue, since), failed, own_ns in zip(
            zip(*(column[chosen].tolist() for column in columns), strict=True),
            pushed,
            runs.failed[chosen].tolist(),
            inside.tolist(),
            strict=True,
        )
    )


def _queue(trace: Trace, task: int) -> tuple[QueueSample, ...]:
    samples = [
        sample
        for kind in (Push, Pop)
        for sample in _columns(trace.table(kind), task, "seq", "t", "queue", "length")
    ]
    return tuple(QueueSample(t, queue, length) for _, t, queue, length in sorted(samples))


def hook_calls(trace: Trace, task: int) -> tuple[HookCall, ...]:
    """Calls of hooks matched with their returns, which nest because hooks may run backwards."""
    calls: list[tuple[HookBegin, HookEnd | None]] = []
    open_calls: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    rows: list[HookBegin | HookEnd] = []
    rows += _rows(trace, HookBegin, task)
    rows += _rows(trace, HookEnd, task)
    for row in sorted(rows, key=lambda row: row.seq):
        key = (row.node, row.hook, row.index)
        if isinstance(row, HookBegin):
            open_calls[key].append(len(calls))
            calls.append((row, None))
        elif open_calls[key]:
            place = open_calls[key].pop()
            calls[place] = (calls[place][0], row)
    return tuple(_call(trace, begin, end) for begin, end in calls)


def _call(trace: Trace, begin: HookBegin, end: HookEnd | None) -> HookCall:
    return HookCall(
        node=begin.node,
        kind=member(HookKind, begin.hook),
        name=begin.name,
        thread=begin.thread,
        begin=begin.t,
        end=end.t if end else NONE,
        replaced=bool(end and end.replaced),
        site=site_of(trace, begin.stack),
    )
