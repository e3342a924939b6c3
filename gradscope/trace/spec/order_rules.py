"""Rules about the order of events: `seq`, times, and the graph tasks they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradscope.trace.arrays import without
from gradscope.trace.schema.declare import EVENTS, NONE
from gradscope.trace.schema.events import (
    ReentrantEnter,
    ReentrantLeave,
    TaskBegin,
    TaskEnd,
    Wait,
    Wake,
)
from gradscope.trace.spec.checked_trace import lookup, running, timeline
from gradscope.trace.spec.rule import RuleFault, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gradscope.trace.spec.checked_trace import CheckedTrace


@rule
def events_are_numbered_without_holes(facts: CheckedTrace) -> Iterator[RuleFault]:
    """No two events have the same `seq`, and none is missing unless the trace is incomplete."""
    seqs = facts.seqs
    if facts.trace.truncated and facts.trace.horizon is not None:
        seqs = seqs[seqs <= facts.trace.horizon]
    steps = np.diff(seqs)
    for place in np.flatnonzero(steps == 0):
        yield RuleFault(f"two events have seq {seqs[place]}", "event", seq=int(seqs[place]))
    if not facts.dropped:
        for place in np.flatnonzero(steps > 1):
            before, after = int(seqs[place]), int(seqs[place + 1])
            yield RuleFault(
                f"events are missing between seq {before} and {after}", "event", seq=after
            )


@rule
def times_rise_on_each_thread(facts: CheckedTrace) -> Iterator[RuleFault]:
    """On each thread, times do not decrease as `seq` increases."""
    order = facts.trace.order()
    thread, t = facts.trace.event_column("thread"), facts.trace.event_column("t")
    by_thread = np.argsort(thread, kind="stable")
    back = (np.diff(t[by_thread]) < 0) & (np.diff(thread[by_thread]) == 0)
    for place in by_thread[1:][back]:
        name = facts.trace.event_kinds[order.kind[place]].TABLE
        message = f"on thread {thread[place]}, time goes back to {t[place]} ns"
        yield RuleFault(message, name, seq=int(order.seq[place]))


@rule
def tasks_begin_and_end_once(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A graph task begins once, then ends once; in a complete trace each one ends."""
    begins, ends = facts.of(TaskBegin), facts.of(TaskEnd)
    line = timeline([(begins, 1), (ends, -1)], by=["task"])
    for place in np.flatnonzero((line.after < 0) | (line.after > 1)):
        begun = line.kind[place] == 0
        stretch = begins if begun else ends
        task = stretch["task"][line.place[place]]
        message = f"graph task {task} {'begins twice' if begun else 'ends without having begun'}"
        yield RuleFault(message, stretch.table, seq=int(line.seq[place]))
    for table, stretch in (("begins", begins), ("ends", ends)):
        again = running(stretch["task"], np.ones(len(stretch), np.int64)) > 1
        for place in np.flatnonzero(again):
            message = f"graph task {stretch['task'][place]} {table} again"
            yield RuleFault(message, stretch.table, seq=int(stretch["seq"][place]))
    if facts.complete:
        for task in without(begins["task"], ends["task"]):
            yield RuleFault(f"graph task {task} never ends", begins.table, id=int(task))


@rule
def events_lie_within_their_task(facts: CheckedTrace) -> Iterator[RuleFault]:
    """Events of a graph task are after its begin and, unless it failed, before its end."""
    begins, ends = facts.of(TaskBegin), facts.of(TaskEnd)
    if not len(begins):
        return
    good = ~ends["failed"]
    outside = {TaskBegin, TaskEnd, ReentrantEnter, ReentrantLeave}
    for kind in EVENTS.values():
        events = facts.of(kind)
        if kind in outside or not len(events):
            continue
        seq, task = events["seq"], events["task"]
        begun = lookup(begins["task"], begins["seq"], task, missing=2**62)
        ended = lookup(ends["task"][good], ends["seq"][good], task, missing=2**62)
        for place in np.flatnonzero((task != NONE) & ((seq < begun) | (seq > ended))):
            when = "before it begins" if seq[place] < begun[place] else "after it ended"
            message = f"an event of graph task {task[place]} {when}"
            yield RuleFault(message, events.table, seq=int(seq[place]))


@rule
def reentrant_backwards_are_left(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A reentrant backward is entered before it is left; in a complete trace each is left."""
    entered, left = facts.of(ReentrantEnter), facts.of(ReentrantLeave)
    line = timeline([(entered, 1), (left, -1)], by=["task"])
    for place in np.flatnonzero(line.after < 0):
        message = f"graph task {left['task'][line.place[place]]} is left without being entered"
        yield RuleFault(message, left.table, seq=int(line.seq[place]))
    if facts.complete:
        for task in without(entered["task"], left["task"]):
            yield RuleFault(
                f"graph task {task} is entered but never left", entered.table, id=int(task)
            )


@rule
def a_thread_that_wakes_had_waited(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A thread waits before it wakes, and does not wait twice without waking."""
    waits, wakes = facts.of(Wait), facts.of(Wake)
    line = timeline([(waits, 1), (wakes, -1)], by=["thread"])
    for place in np.flatnonzero((line.after < 0) | (line.after > 1)):
        stretch = (waits, wakes)[line.kind[place]]
        thread = stretch["thread"][line.place[place]]
        message = f"thread {thread} {'waits twice' if stretch is waits else 'wakes without a wait'}"
        yield RuleFault(message, stretch.table, seq=int(line.seq[place]))
