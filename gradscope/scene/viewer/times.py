"""Tables over time: backwards, runs of nodes, events, and the lanes of the timeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gradscope.analysis.graph.critical_path import critical_path
from gradscope.analysis.graph.memory import SavedRows, held, over_time
from gradscope.analysis.graph.selection import Selection
from gradscope.analysis.identity.backwards import backward_numbers
from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.lookups import Ids, member, paired
from gradscope.analysis.ranks.whose import RankOf
from gradscope.analysis.timing.durations import Runs, node_runs
from gradscope.analysis.timing.own_work import FOREVER
from gradscope.analysis.timing.passages import NodePassages, passages
from gradscope.analysis.timing.schedule import hook_calls, sleeps
from gradscope.analysis.timing.spans import marks, spans
from gradscope.scene.graph.backwards import title_of
from gradscope.scene.readable import ACCUMULATED
from gradscope.scene.viewer.nodes import PageNodes
from gradscope.scene.viewer.text_columns import Table, Texts, ints
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Accumulation,
    Error,
    GraphTask,
    HookKind,
    Mark,
    Node,
    Op,
    Phase,
    Pop,
    Push,
    Saved,
    Span,
    Step,
    Thread,
)
from gradscope.trace.trace import Trace

ARGUMENTS = {
    "push": "length",
    "pop": "length",
    "decrement": "source",
    "dependency": "count",
    "buffer_made": "input_nr",
    "buffer_added": "input_nr",
    "accumulate": "how",
    "hook_begin": "hook",
    "hook_end": "hook",
    "node_end": "failed",
    "task_end": "failed",
    "reentrant_enter": "depth",
    "capture": "input_nr",
}
"""The column of each kind of event that the page shows next to its node."""


SAME = -2
"""Stands for a time that the page knows from other columns."""

Part: TypeAlias = tuple[int, int]
"""A period of time, as begin and end."""


@dataclass(frozen=True, slots=True)
class Times:
    """Data shared by the tables of times."""

    scope: PageNodes
    passages: NodePassages
    runs: Runs
    events: Ids  # places in the trace's order of the events on the page, by rank

    def place(self, places: Ids) -> Ids:
        """The event of the page at each place; NONE where there is none."""
        if not len(self.events):
            return np.full(len(places), NONE)
        order = np.argsort(self.events, kind="stable")
        at = order[np.minimum(np.searchsorted(self.events[order], places), len(order) - 1)]
        return np.where(places == NONE, NONE, at)


def times_of(scope: PageNodes) -> Times:
    trace = scope.trace
    task = trace.event_column("task")
    events = np.flatnonzero(np.isin(task, scope.tasks) | (task == NONE))
    if len(scope.tasks) and len(scope.tasks) < len(trace.table(GraphTask)):
        events = np.flatnonzero(np.isin(task, scope.tasks))
    ranks = trace.once(RankOf)
    if ranks.numbers:  # the events of a rank follow each other
        of = ranks.of(Thread.TABLE, trace.event_column("thread")[events])
        events = events[np.argsort(of, kind="stable")]
    return Times(scope, passages(trace), node_runs(trace), events)


def backward_table(times: Times, texts: Texts) -> Table:
    """The backwards of each rank, in the order in which they started."""
    scope, trace = times.scope, times.scope.trace
    table = trace.table(GraphTask)
    rows = table.take(table.positions(scope.tasks)) if len(scope.tasks) else []
    numbers = backward_numbers(trace)
    owner = trace.event_column("task")[times.events]
    first, last = _first_and_last(owner, ints(row.id for row in rows))
    errors = {row.task: f"{row.type}: {row.message}" for row in trace.rows(Error)}
    steps = step_numbers(trace)
    return {
        "number": ints(numbers[row.id] for row in rows),
        "title": texts.column(title_of(trace, row, numbers, rank=False) for row in rows),
        "rank": trace.once(RankOf).of(GraphTask.TABLE, scope.tasks),
        "call": texts.column(site_of(trace, row.stack).text for row in rows),
        "stack": ints(row.stack for row in rows),
        "step": ints(steps.get(row.step, NONE) for row in rows),
        "begin": ints(row.begin for row in rows),
        "end": ints(row.end for row in rows),
        "first": first,
        "last": last,
        "order": ints(row.order for row in rows),
        "error": texts.column(errors.get(row.id, row.error) for row in rows),
    }


def _by_key(keys: Ids, wanted: Ids) -> tuple[Ids, Ids, Ids]:
    """The rows by key, and where those of each wanted key begin and end among them."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    return order, np.searchsorted(ordered, wanted), np.searchsorted(ordered, wanted, "right")


def _first_and_last(owner: Ids, tasks: Ids) -> tuple[Ids, Ids]:
    """The places of the first and the last event of each task; NONE where it has none."""
    order, begin, end = _by_key(owner, tasks)
    there = end > begin
    first, last = np.full(len(tasks), NONE), np.full(len(tasks), NONE)
    first[there], last[there] = order[begin[there]], order[end[there] - 1]
    return first, last


def run_table(times: Times, *, events: bool = True) -> Table:
    """Every run of a node: the events at which it was pushed, started and ended.

    They are in the order in which they started, as the timeline paints them. The own time of most
    is the time from their start to their end: the page computes it if it has the `events`.
    """
    scope, found, runs = times.scope, times.passages, times.runs
    mine = np.flatnonzero(np.isin(found.task, scope.tasks))
    mine = mine[np.argsort(found.begun[mine], kind="stable")]
    at = paired((runs.task, runs.node), (found.task[mine], found.node[mine]))
    has = at != NONE

    whole = events & (runs.end != NONE) & (runs.self_ns == runs.end - runs.begin)

    def of_run(column: Ids) -> Ids:
        return np.where(has, column[at], NONE) if len(column) else np.full(len(mine), NONE)

    return {
        "backward": scope.task_rows(found.task[mine]),
        "node": scope.rows(found.node[mine]),
        "thread": of_run(runs.thread),
        "queue": found.queue[mine],
        "pushed": times.place(found.pushed[mine]),
        "begun": times.place(found.begun[mine]),
        "ended": times.place(found.ended[mine]),
        "self_ns": of_run(np.where(whole, SAME, runs.self_ns)),
        "position": of_run(runs.position),
        "failed": found.failed[mine].astype(np.int64),
        "after": scope.rows(found.after[mine]),
    }


def event_table(times: Times) -> Table:
    trace, scope = times.scope.trace, times.scope
    order = trace.order()
    kind, position = order.kind[times.events], order.position[times.events]
    argument = np.full(len(times.events), NONE, np.int64)
    for number, event in enumerate(trace.event_kinds):
        column = ARGUMENTS.get(event.TABLE.removeprefix("event."))
        chosen = kind == number
        if column is not None and chosen.any():
            values = trace.table(event).array(column)[position[chosen]].astype(np.int64)
            argument[chosen] = scope.rows(values) if column == "source" else values
    return {
        "t": trace.event_column("t")[times.events],
        "kind": kind,
        "node": scope.rows(trace.event_column("node")[times.events]),
        "thread": trace.event_column("thread")[times.events],
        "backward": scope.task_rows(trace.event_column("task")[times.events]),
        "argument": argument,
    }


def queue_table(times: Times) -> Table:
    """The length of each ready queue from one event on."""
    trace, scope = times.scope.trace, times.scope
    parts = []
    for kind in (Push, Pop):
        table = trace.table(kind)
        mine = np.isin(table["task"], scope.tasks)
        parts.append(np.stack([table[name][mine] for name in ("seq", "queue", "length")]))
    seq, queue, length = np.concatenate(parts, axis=1)
    order = np.argsort(seq, kind="stable")
    event = times.place(np.searchsorted(trace.order().seq, seq[order]))
    return {"event": event, "queue": queue[order], "length": length[order]}


def hook_table(times: Times, texts: Texts) -> Table:
    scope, trace = times.scope, times.scope.trace
    of_tasks = [hook_calls(trace, task) for task in scope.tasks.tolist()]
    calls = [call for of_task in of_tasks for call in of_task]
    return {
        "backward": ints(row for row, of_task in enumerate(of_tasks) for _ in of_task),
        "node": scope.rows(ints(call.node for call in calls)),
        "kind": texts.column(_words(call.kind) for call in calls),
        "name": texts.column(call.name for call in calls),
        "place": texts.column(call.site.place for call in calls),
        "thread": ints(call.thread for call in calls),
        "begin": ints(call.begin for call in calls),
        "end": ints(call.end for call in calls),
        "replaced": ints(int(call.replaced) for call in calls),
    }


def _words(kind: HookKind | Phase | None) -> str:
    return "unknown" if kind is None else kind.name.lower().replace("_", " ")


def arrival_table(times: Times, texts: Texts) -> Table:
    """Gradients that arrived in `.grad`."""
    scope, table = times.scope, times.scope.trace.table(Accumulate)
    mine = np.flatnonzero(np.isin(table["task"], scope.tasks))
    mine = mine[np.argsort(table["seq"][mine], kind="stable")]
    return {
        "backward": scope.task_rows(table["task"][mine]),
        "t": table["t"][mine],
        "thread": table["thread"][mine],
        "node": scope.rows(table["node"][mine]),
        "how": texts.column(
            "unknown" if known is None else ACCUMULATED[known]
            for known in (member(Accumulation, how) for how in table["how"][mine].tolist())
        ),
    }


def sleep_table(times: Times) -> Table:
    """When threads waited for work from others."""
    t = times.scope.trace.event_column("t")[times.events]
    begin, end = (int(t.min()), int(t.max())) if len(t) else (0, 0)
    found = [*sleeps(times.scope.trace, begin, end)]
    return {
        "thread": ints(each.thread for each in found),
        "begin": ints(each.begin for each in found),
        "end": ints(each.end for each in found),
    }


def part_of_time(scope: PageNodes, selection: Selection) -> Part:
    """From the creation of the selected nodes, or the start of the step, to the last backward."""
    if selection.step is None and selection.backward is None:
        return 0, FOREVER
    wanted = {*selection.steps(scope.trace)}
    rows: list[Step | GraphTask] = [row for row in scope.trace.rows(Step) if row.id in wanted]
    table = scope.trace.table(GraphTask)
    rows += [table.row(task) for task in scope.tasks.tolist()]
    begins = [*(row.begin for row in rows), *scope.of("t").tolist()]
    ends = [FOREVER if row.end == NONE else row.end for row in rows]
    return min((each for each in begins if each != NONE), default=0), max(ends, default=FOREVER)


def span_table(scope: PageNodes, texts: Texts, part: Part) -> Table:
    """Spans of the program, and gradscope's own work."""
    since, until = part
    found = [
        each
        for each in spans(scope.trace)
        if each.begin <= until and (each.end == NONE or each.end >= since)
    ]
    return {
        "name": texts.column(each.name for each in found),
        "phase": texts.column(_words(each.phase) for each in found),
        "thread": ints(each.thread for each in found),
        "begin": ints(each.begin for each in found),
        "end": ints(each.end for each in found),
    }


def mark_table(scope: PageNodes, texts: Texts, part: Part) -> Table:
    found = [each for each in marks(scope.trace) if part[0] <= each.t <= part[1]]
    return {
        "name": texts.column(each.name for each in found),
        "note": texts.column(each.note for each in found),
        "thread": ints(each.thread for each in found),
        "t": ints(each.t for each in found),
    }


def critical_table(times: Times) -> Table:
    """The critical path of each backward, from its first node."""
    scope, runs = times.scope, times.runs
    backward: list[int] = []
    found: list[int] = []
    order, begin, end = _by_key(runs.task, scope.tasks)
    for row, (start, stop) in enumerate(zip(begin.tolist(), end.tolist(), strict=True)):
        mine = order[start:stop]
        nodes, ns = runs.node[mine].tolist(), runs.self_ns[mine].tolist()
        path = critical_path(scope.trace, nodes, dict(zip(nodes, ns, strict=True)))
        backward += [row] * len(path)
        found += path
    return {"backward": ints(backward), "node": scope.rows(ints(found))}


def memory_table(scope: PageNodes, part: Part) -> Table:
    """The bytes that the graph of each process keeps alive over time, each storage once."""
    ids = scope.trace.table(Saved).array("id")
    of, rows = scope.trace.once(RankOf).of(Saved.TABLE, ids), held(scope.trace)
    ranks = distinct(of).tolist()
    levels = [_levels(rows.of(of == rank), part) for rank in ranks]
    return {
        "t": np.concatenate([t for t, _ in levels] or [ids]),
        "bytes": np.concatenate([total for _, total in levels] or [ids]),
        "rank": np.repeat(ints(ranks), ints(len(t) for t, _ in levels)),
    }


def _levels(rows: SavedRows, part: Part) -> tuple[Ids, Ids]:
    """Moments, and the bytes that are held from each of them on."""
    over = over_time(rows)
    t, total = over.t, over.bytes
    last = np.ones(len(t), bool)
    last[:-1] = t[1:] != t[:-1]
    t, total = t[last], total[last]
    first = max(int(np.searchsorted(t, part[0], "right")) - 1, 0)  # what was held at the start
    mine = slice(first, int(np.searchsorted(t, part[1], "right")))
    return np.maximum(t[mine], part[0]), total[mine]


def thread_table(trace: Trace, texts: Texts) -> Table:
    rows = [*trace.rows(Thread)]
    return {
        "id": ints(row.id for row in rows),
        "name": texts.column(row.name or f"thread {row.id}" for row in rows),
        "rank": trace.once(RankOf).of(Thread.TABLE, ints(row.id for row in rows)),
    }


def start_of(trace: Trace) -> int:
    """The moment from which the page counts times."""
    begins = ((Node, "t"), (Saved, "t"), (Mark, "t"), (Op, "begin"), (Span, "begin"))
    columns = [trace.table(kind).array(name) for kind, name in (*begins, (GraphTask, "begin"))]
    columns.append(trace.event_column("t"))
    return min((int(column.min()) for column in columns if len(column)), default=0)
