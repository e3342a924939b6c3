"""Everything about one node, tensor or operation: its row, rows that mention it, and context."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.answers.compiled_facts import region_of
from gradscope.analysis.answers.meant import node_meant, op_meant, tensor_meant
from gradscope.analysis.findings import Evidence
from gradscope.analysis.identity.backwards import backward_numbers
from gradscope.analysis.identity.fingerprints import SHORT
from gradscope.analysis.identity.sharding import Sharding
from gradscope.analysis.identity.sites import at
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.program.acts import Acts, moved_by
from gradscope.analysis.program.mentions import events_about
from gradscope.analysis.ranks.whose import RankOf
from gradscope.analysis.report import inspect
from gradscope.analysis.timing.durations import device_threads, node_runs
from gradscope.analysis.timing.own_work import OwnWorkTimes
from gradscope.analysis.timing.spans import marks, spans_at
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.answers.around import WRITES, Surroundings
from gradscope.scene.answers.grad_of import moved_it
from gradscope.scene.answers.not_recorded import not_at_level
from gradscope.scene.cells import Cells
from gradscope.scene.graph.blocks.region_words import inside
from gradscope.scene.readable import duration, ordinal
from gradscope.trace.schema import (
    NONE,
    GraphTask,
    Node,
    NotFiniteAct,
    Op,
    Push,
    Storage,
    Tensor,
    Version,
)
from gradscope.trace.schema.declare import Row
from gradscope.trace.trace import Trace

LABELS = {"born": "allocated", "died": "freed"}
"""Names of columns that are shown differently."""


@dataclass(frozen=True, slots=True)
class _Moment:
    """A moment in the life of a node, tensor or operation."""

    what: str  # "it was created"
    thread: int
    t: int


def chosen_node(trace: Trace, wanted: str) -> Answer:
    """Everything about a node; by id or unique name."""
    row = trace.table(Node).row(node_meant(trace, wanted))
    runs, moments = _runs(trace, row.id)
    made = [_Moment("it was created", row.thread, row.t)]
    region = region_of(trace, row)
    parts = () if region is None else tuple(inside(region))
    title = "inside the compiled region (reported when it was compiled)"
    first = [*runs, Topic(title, parts)]
    return _scene(trace, row, Cells(trace).node(row.id), first, [*made, *moments])


def chosen_tensor(trace: Trace, wanted: str) -> Answer:
    """Everything about a tensor and its storage; by id or unique name."""
    row = trace.table(Tensor).row(tensor_meant(trace, wanted))
    ops = trace.table(Op)
    made = []
    if ops.has(row.op):
        maker = ops.row(row.op)
        made.append(_Moment("it was created", maker.thread, maker.begin))
    first = [
        Topic("optimizer steps that updated it", tuple(_moves(trace, row.id))),
        *_memory(trace, row),
    ]
    return _scene(trace, row, Cells(trace).tensor(row.id), first, made)


def chosen_op(trace: Trace, wanted: str) -> Answer:
    """Everything about a forward call; by id or unique name."""
    row = trace.table(Op).row(op_meant(trace, wanted))
    began = _Moment("it started", row.thread, row.begin)
    return _scene(trace, row, Cells(trace).op(row.id), [], [began])


def _scene(
    trace: Trace, row: Node | Tensor | Op, title: str, first: list[Topic], moments: list[_Moment]
) -> Answer:
    cells = Cells(trace)
    evidence = Evidence(row.TABLE, row.id)
    findings = [each for each in inspect(trace).findings if evidence in each.evidence]
    around = [*Surroundings(trace, cells).sections(row.TABLE, row.id)]
    writes = [each for each in around if each.title == WRITES]
    sections = [
        Topic(
            "findings",
            tuple(
                f"{each.rule} {each.slug} #{each.id[:SHORT]}: {each.message}" for each in findings
            ),
        ),
        *writes,
        *first,
        *(each for each in around if each not in writes),
        Topic("spans it was in", tuple(_spans(trace, moments))),
        Topic("marks near it", tuple(_marks(trace, moments))),
        Topic("events", tuple(_events(trace, cells, row.TABLE, row.id))),
    ]
    notes = not_at_level(trace, "engine", "what ran, what was saved, what the program did")
    facts = [*_facts(cells, row)]
    if isinstance(row, Tensor):
        facts += trace.once(Sharding).story(row.id)
    return Answer(title, tuple(facts), filled(*sections), notes, row)


def _facts(cells: Cells, row: Row) -> Iterator[tuple[str, str]]:
    """The columns of its own row, except those in the title."""
    for name, text in cells.words(row, leave_out=("id", "name", "thread", "op")):
        later = isinstance(row, Tensor) and name == "version" and _later_version(cells.trace, row)
        shown = {"stack": "line", "t": "created"}.get(name, name.replace("_", " "))
        yield shown, f"{text}{later or ''}"


def _later_version(trace: Trace, tensor: Tensor) -> str:
    """ " when it was first recorded, 9 after the last write", if it was written to since."""
    versions = trace.table(Version)
    last = int(versions["new"][versions["tensor"] == tensor.id].max(initial=NONE))
    later = last > tensor.version
    return f" when it was first recorded, {last} after the last write" if later else ""


# -- context ------------------------------------------------------------------------------------


def _runs(trace: Trace, node: int) -> tuple[list[Topic], list[_Moment]]:
    """How the engine ran a node in each backward; `--order` says why."""
    numbers, runs, pushes = backward_numbers(trace), node_runs(trace), trace.table(Push)
    ranks, devices = trace.once(RankOf), trace.once(device_threads)
    mine, pushed = np.flatnonzero(runs.node == node), np.flatnonzero(pushes["node"] == node)
    ready = {
        task: (t, queue)
        for task, t, queue in zip(
            *(pushes[name][pushed].tolist() for name in ("task", "t", "queue")), strict=True
        )
    }
    own, lines, moments = OwnWorkTimes(trace), [], []
    columns = (runs.task, runs.position, runs.thread, runs.begin, runs.self_ns, runs.failed)
    for row in zip(*(column[mine].tolist() for column in columns), strict=True):
        task, position, thread, begin, self_ns, failed = row
        backward = f"{ranks.words(GraphTask.TABLE, task)}backward {numbers.get(task, task)}"
        device = f" on {devices[thread]}" if thread in devices else ""
        waited = ""
        if task in ready:
            since, queue = ready[task]
            queued = max(begin - since - own.on((thread,), since, begin), 0)
            waited = f", waited {duration(queued)} in queue {queue}"
        took = "did not end" if self_ns == NONE else f"own time {duration(self_ns)}"
        raised = ", raised an exception" if failed else ""
        lines.append(f"{backward}: ran {ordinal(position)}{device}{waited}, {took}{raised}")
        moments.append(_Moment(f"it ran in {backward}", thread, begin))
    return [Topic("runs", tuple(lines))], moments


def _moves(trace: Trace, tensor: int) -> Iterator[str]:
    """What steps of each optimizer did to a parameter: those that were not finite come first."""
    acts, numbers = trace.once(Acts), step_numbers(trace)
    rank = trace.once(RankOf).words(Tensor.TABLE, tensor)
    for act in acts.of(NotFiniteAct):
        if tensor in act.tensors and act.facts.what == "parameters":
            after = (
                f"after {rank}step {numbers[act.step]}" if act.step in numbers else "after a step"
            )
            others = {"before": "before the first step", "end": "at the end"}
            when = others.get(act.facts.when, after)
            yield f"first seen to hold {act.facts.value} {when}{at(acts.site(act))}"
    for optimizer in acts.optimizers:
        steps = optimizer.steps if tensor in optimizer.tensors else ()
        known = [
            (*moved_by(step, optimizer, tensor), numbers.get(step.step, NONE)) for step in steps
        ]
        # A known size without a known update: the difference was not finite.
        bad = [str(step) for by, size, step in known if math.isnan(by) and not math.isnan(size)]
        if bad:
            were = f"s {', '.join(bad)} were" if len(bad) > 1 else f" {bad[0]} was"
            updates = f"the update{'s' * (len(bad) > 1)} of step{were}"
            yield f"{rank}{optimizer.type}: {updates} not finite, or too large to measure"
        moves = sorted(each for each in known if not math.isnan(each[0]))
        all_ = f" measured, of {len(steps)} steps" if len(moves) < len(steps) else ""
        for by, size, step in dict.fromkeys((*moves[:1], *moves[-1:])):
            most = "largest" if (by, size, step) == moves[-1] else "smallest"
            which = f" ({most} of {len(moves)}{all_})" if len(steps) > 1 else ""
            yield f"{optimizer.type}, {rank}step {step}{moved_it(by, size)}{which}"


def _memory(trace: Trace, tensor: Tensor) -> list[Topic]:
    """The storage of a tensor, and the rows that mention it."""
    storages, cells = trace.table(Storage), Cells(trace)
    if not storages.has(tensor.storage):
        return []
    row = storages.row(tensor.storage)
    own = Topic(f"storage {row.id}", (_line(cells, row, "id"),))
    return [own, *Surroundings(trace, cells).of_storage(row.id, tensor)]


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


def _events(trace: Trace, cells: Cells, table: str, id: int) -> Iterator[str]:
    for event in events_about(trace, table, id):
        facts = dict(cells.words(event, leave_out=("seq", "t", "thread", "task", "stack")))
        told = ", ".join(f"{name} {text}" for name, text in facts.items())
        thread, task = cells.thread(event.thread), cells.backward(event.task)
        yield f"{event.seq} {event.KIND} at {duration(event.t)}, {task}, {thread}: {told}"


def _line(cells: Cells, row: Row, known: str) -> str:
    facts = dict(cells.words(row, leave_out=(known,)))
    return ", ".join(
        f"{LABELS.get(name, name.replace('_', ' '))} {text}" for name, text in facts.items()
    )
