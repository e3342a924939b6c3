"""The state of the engine and the program at a moment, in words."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.state.backward import BackwardState, BufferedGradient, Queued, Waiting
from gradscope.analysis.state.replayed import ReplayedCalls, replayed_at
from gradscope.analysis.state.state import State
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.answers.not_recorded import inferred, not_added_up, not_at_level
from gradscope.scene.moments import MomentWords
from gradscope.scene.readable import byte_count, count, duration, ordinal, plural
from gradscope.trace.schema import NONE, Node

FEW = 3
ALL = 1 << 62
"""A limit that is never reached."""


def state_answer(state: State) -> Answer:
    """The state right after its moment."""
    say = state.trace.once(MomentWords)
    sections = [section for section, _ in held_sections(state, say)]
    return Answer(
        title(state, say),
        tuple(_facts(state, say)),
        filled(
            *sections, *under_way(state, say),
        ),
        (
            *not_at_level(state.trace, "engine", "what the engine did"),
            *(inferred(state.trace, "push", "counts and queues") if state.backwards else ()),
            *(not_added_up(state.trace) if state.backwards else ()),
        ),
    )  # fmt: skip


def held_sections(
    state: State, say: MomentWords, most: int = ALL
) -> Iterator[tuple[Topic, tuple[int, ...]]]:
    """What backwards hold, the innermost first; with each section the nodes of its lines.

    `most`: the largest number of lines of a section; the rest is counted.
    """
    for backward in reversed(state.backwards):
        of = f" of backward {backward.number}" if len(state.backwards) > 1 else ""
        for title, lines, nodes, left in _parts(backward, say, most):
            more = (f"and {count(left)} more",) if left else ()
            yield Topic(f"{title}{of}", (*lines, *more)), nodes


def under_way(state: State, say: MomentWords) -> tuple[Topic, Topic]:
    """Hooks and operations that have started and not ended."""
    hooks = tuple(f"{row.name or '?'}, {say.node(row.node)}" for row in state.hooks)
    calls = tuple(f"{say.said(row)}{_at(say.line(row))}" for row in state.calls[::-1])
    return (
        Topic("running hooks", hooks),
        Topic("running operations, innermost first", calls),
    )


def title(state: State, say: MomentWords) -> str:
    """As in "moment 60 of 357, at 4.65 s: MulBackward0#2 begins"."""
    moment = f"moment {count(state.moment)} of {count(len(state))}, at {duration(state.t)}"
    return f"{moment}: {say.said(state.happened)}"


def _replayed(found: ReplayedCalls) -> str:
    """Position in a plan that is replayed, and whether its times are proportional shares."""
    name = found.step.rpartition("<locals>.")[2]
    where = f"{name}, {ordinal(found.number)} replay"
    if not found.piece:
        return f"{where}, outside its calls on arrays"
    labels = ", ".join(list(dict.fromkeys(found.labels))[:FEW])
    how = f" in one kernel ({count(len(found.labels))} calls, whose times are shares of it)"
    return f"{where}: piece {found.piece} of {found.pieces}, {labels}{how if found.fused else ''}"


def _at(place: str) -> str:
    return f" ({place})" if place else ""


def _facts(state: State, say: MomentWords) -> Iterator[tuple[str, str]]:
    line = site_of(state.trace, getattr(state.happened, "stack", NONE))
    if line.place:
        yield "line", f"{line.place}  {line.text}".rstrip()
    node, nodes = getattr(state.happened, "node", NONE), state.trace.table(Node)
    if nodes.has(node):
        made = site_of(state.trace, nodes.row(node).stack)
        if made.place:
            yield "created at", f"{made.place}  {made.text}".rstrip()
    named = [f"{each.path or '(root)'} ({each.type})" for each in state.modules]
    if named:
        yield "module", named[-1]
    if state.step is not None:
        yield "step", str(state.step.number)
    replayed = replayed_at(state.trace, state.t, getattr(state.happened, "thread", NONE))
    if replayed is not None:
        yield "replayed", _replayed(replayed)
    for backward in state.backwards:
        yield "backward", progress(state, backward)
        running = [
            f"{say.node(each.node)}{'' if each.begun else ', taken from the queue, not started'}"
            for each in backward.running
        ]
        if running:
            yield "running", ", inside it ".join(running)
    for row in state.asleep:
        yield "idle", f"{say.cells.thread(row.thread)}, waiting for queue {row.queue}"
    if state.gradients:
        many = len(state.gradients)
        named = [say.short(each.tensor) for each in state.gradients[-FEW:]]
        more = f" and {count(many - FEW)} more" if many > FEW else ""
        yield ".grad", f"in {', '.join(named)}{more}"
    if state.saved.values:
        values = plural(state.saved.values, "value")
        yield "saved", f"{values} for backward, {byte_count(state.saved.bytes)}"


def progress(state: State, backward: BackwardState) -> str:
    """As in "0, called at train.py:9: 3 of 4 nodes started"."""
    begun, many = backward.progress
    called = site_of(state.trace, backward.task.stack)
    at = f", called at {called.place}" if called.place else ""
    if backward.task.end == NONE:  # the total is not known yet
        return f"{backward.number}{at}: {plural(begun, 'node')} started so far"
    return f"{backward.number}{at}: {count(begun)} of {plural(many, 'node')} started"


def _parts(
    backward: BackwardState, say: MomentWords, most: int
) -> Iterator[tuple[str, list[str], tuple[int, ...], int]]:
    """Title and lines of each section, the nodes of the lines, and how many are left out."""
    queued = backward.first_queued(most)
    left = backward.queued_count - len(queued)
    for queue in sorted({each.queue for each in queued}):
        mine = [each for each in queued if each.queue == queue]
        title = f"queue {queue}, next node first"
        of_it = left if queue == queued[-1].queue else 0
        yield title, [_queued(each, say) for each in mine], tuple(each.node for each in mine), of_it
    waiting = backward.waiting[:most]
    come = [_waiting(each, backward, say) for each in waiting]
    left = backward.waiting_count - len(backward.waiting)
    if left:
        come.append(f"{plural(left, 'node')} without a gradient so far")
    cut = len(backward.waiting) - len(waiting)
    yield "not ready", come, tuple(each.node for each in waiting), cut
    buffers = backward.first_buffers(most)
    left = backward.buffer_count - len(buffers)
    title = "gradients buffered for nodes that have not started"
    yield title, [_kept(each, say) for each in buffers], tuple(each.node for each in buffers), left
    captured = backward.captured[:most]
    lines = [f"{say.node(node)}, input {nr}" for node, nr in captured]
    left = len(backward.captured) - len(captured)
    yield "captured for inputs=", lines, tuple(node for node, _ in captured), left


def _kept(each: BufferedGradient, say: MomentWords) -> str:
    return (
        f"{say.node(each.node)}, input {each.input_nr}"
        + (": received None" if each.undefined else "")
        + (f", {plural(each.added, 'gradient')} added" if each.added else "")
        + (f" ({each.in_place} in place)" if each.in_place else "")
    )


def _queued(each: Queued, say: MomentWords) -> str:
    first = "runs before all others" if each.sequence_nr < 0 else f"sequence {each.sequence_nr}"
    return f"{say.node(each.node)} ({first}), since moment {count(each.since)}"


def _waiting(each: Waiting, backward: BackwardState, say: MomentWords) -> str:
    senders = ", ".join(say.node(came.source) for came in backward.arrived(each.node)[:FEW])
    more = ", …" * (each.came > FEW)
    return f"{say.node(each.node)}: {each.came} of {each.count} gradients, from {senders}{more}"
