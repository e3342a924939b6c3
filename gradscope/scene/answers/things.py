"""All there is about one node, tensor or operation: its row, what names it, and what was around."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gradscope.analysis.answers.meant import node_meant, op_meant, tensor_meant
from gradscope.analysis.findings import Evidence
from gradscope.analysis.identity.backwards import backward_numbers, backwards
from gradscope.analysis.program.mentions import events_about, mentions
from gradscope.analysis.report import inspect
from gradscope.analysis.timing.schedule import Execution, schedule
from gradscope.analysis.timing.spans import marks, spans_at
from gradscope.scene.answers.answer import Answer, Section, filled
from gradscope.scene.cells import Cells
from gradscope.scene.readable import duration, ordinal, plural
from gradscope.trace.schema import NONE, Node, NodeBegin, Op, Storage, Tensor
from gradscope.trace.schema.declare import Row
from gradscope.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class _Moment:
    """A moment in the life of what is looked at."""

    what: str  # "it was made"
    thread: int
    t: int


def chosen_node(trace: Trace, wanted: str) -> Answer:
    """A node, by its id or a name that only it has."""
    row = trace.table(Node).row(node_meant(trace, wanted))
    runs, moments = _runs(trace, row.id)
    made = [_Moment("it was made", row.thread, row.t)]
    return _scene(trace, row, Cells(trace).node(row.id), runs, [*made, *moments])


def chosen_tensor(trace: Trace, wanted: str) -> Answer:
    """A tensor, by its id or a name that only it has; with the memory it lies in."""
    row = trace.table(Tensor).row(tensor_meant(trace, wanted))
    ops = trace.table(Op)
    made = []
    if ops.has(row.op):
        maker = ops.row(row.op)
        made.append(_Moment("it was made", maker.thread, maker.begin))
    return _scene(trace, row, Cells(trace).tensor(row.id), _memory(trace, row), made)


def chosen_op(trace: Trace, wanted: str) -> Answer:
    """A forward call, by its id or a name that only it has."""
    row = trace.table(Op).row(op_meant(trace, wanted))
    began = _Moment("it began", row.thread, row.begin)
    return _scene(trace, row, Cells(trace).op(row.id), [], [began])


def _scene(
    trace: Trace, row: Node | Tensor | Op, title: str, first: list[Section], moments: list[_Moment]
) -> Answer:
    cells = Cells(trace)
    evidence = Evidence(row.TABLE, row.id)
    findings = [each for each in inspect(trace).findings if evidence in each.evidence]
    sections = [
        Section("findings", tuple(f"{each.rule}: {each.message}" for each in findings)),
        *first,
        Section("spans it was in", tuple(_spans(trace, moments))),
        Section("marks near it", tuple(_marks(trace, moments))),
        *_mentioned(trace, cells, row.TABLE, row.id),
        Section("events", tuple(_events(trace, cells, row.TABLE, row.id))),
    ]
    return Answer(title, tuple(cells.words(row)), filled(*sections), data=row)


# What is around it -----------------------------------------------------------------------------


def _runs(trace: Trace, node: int) -> tuple[list[Section], list[_Moment]]:
    """How a node went through the engine, in each backward."""
    numbers, cells = backward_numbers(trace), Cells(trace)
    lines, moments = [], []
    ran = trace.table(NodeBegin)
    tasks = set(ran["task"][ran["node"] == node].tolist())
    for task in (each for each in backwards(trace) if each.id in tasks):
        for run in schedule(trace, task).executions:
            if run.node != node:
                continue
            backward = f"backward {numbers[task.id]}"
            lines.append(f"{backward}: ran {ordinal(run.position)}{_in_queue(run, cells)}")
            moments.append(_Moment(f"it ran in {backward}", run.thread, run.begin))
    return [Section("runs", tuple(lines))], moments


def _in_queue(run: Execution, cells: Cells) -> str:
    parts = []
    if run.ready != NONE:
        parts.append(f", waited {duration(run.queued_ns)} in queue {run.queue}")
    if run.waited_for:
        sent = plural(len(run.waited_for), "gradient")
        parts.append(f", after {sent}, the last from {cells.node(run.waited_for[-1])}")
    took = "did not end" if run.end == NONE else f"took {duration(run.self_ns)} of its own"
    return f"{''.join(parts)}, {took}{', and raised' if run.failed else ''}"


def _memory(trace: Trace, tensor: Tensor) -> list[Section]:
    """The storage of a tensor, and what else the trace says of it."""
    storages, cells = trace.table(Storage), Cells(trace)
    if not storages.has(tensor.storage):
        return []
    row = storages.row(tensor.storage)
    own = Section(f"storage {row.id}", (_line(cells, row, "id"),))
    return [own, *_mentioned(trace, cells, "storage", row.id, tensor)]


def _spans(trace: Trace, moments: Iterable[_Moment]) -> Iterator[str]:
    for moment in moments:
        for span in spans_at(trace, moment.thread, moment.t):
            took = "did not end" if span.end == NONE else duration(span.end - span.begin)
            yield f"{span.name} ({took}), when {moment.what}"


def _marks(trace: Trace, moments: Iterable[_Moment]) -> Iterator[str]:
    """The last mark before each moment, and the next one after it."""
    known = marks(trace)
    for moment in moments:
        before = [mark for mark in known if mark.t <= moment.t][-1:]
        after = [mark for mark in known if mark.t > moment.t][:1]
        for mark in (*before, *after):
            note = f": {mark.note}" if mark.note else ""
            side = "before" if mark.t <= moment.t else "after"
            yield f"{mark.name}{note} ({duration(abs(moment.t - mark.t))} {side} {moment.what})"


def _mentioned(
    trace: Trace, cells: Cells, table: str, id: int, but: Row | None = None
) -> Iterator[Section]:
    """A section for each table and column that names the row."""
    for mention in mentions(trace, table, id):
        rows = [row for row in mention.rows if row != but]
        verb = "hold" if mention.many else "is"
        title = f"{mention.table}, where {mention.column.replace('_', ' ')} {verb} {table} {id}"
        lines = tuple(_line(cells, row, mention.column) for row in rows)
        yield Section(title, lines)


def _events(trace: Trace, cells: Cells, table: str, id: int) -> Iterator[str]:
    for event in events_about(trace, table, id):
        facts = dict(cells.words(event, leave_out=("seq", "t", "thread", "task", "stack")))
        told = ", ".join(f"{name} {text}" for name, text in facts.items())
        thread, task = cells.thread(event.thread), cells.backward(event.task)
        yield f"{event.seq} {event.KIND} at {duration(event.t)}, {task}, {thread}: {told}"


def _line(cells: Cells, row: Row, known: str) -> str:
    facts = dict(cells.words(row, leave_out=(known,)))
    return ", ".join(f"{name.replace('_', ' ')} {text}" for name, text in facts.items())
