"""The contents of each panel at a moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import overload

import numpy as np

from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.report import inspect
from gradscope.analysis.state.node_at import GradientTraffic, NodeAt, Stage, node_at
from gradscope.analysis.state.state import State, TraceStretches, at
from gradscope.debug.commands import answer
from gradscope.debug.screen.entries import PanelLine, fact, heading
from gradscope.debug.screen.program_lines import ProgramLines, nothing
from gradscope.debug.walk import Walk
from gradscope.errors import GradscopeError
from gradscope.render.terminal.styles import ALARM, BOLD, SEVERITY_STYLES, WARN
from gradscope.scene.answers.answer import Answer
from gradscope.scene.answers.node_now import came, hooks, now, receiver, sender
from gradscope.scene.answers.state import held_sections, progress, under_way
from gradscope.scene.moments import MomentWords
from gradscope.scene.readable import byte_count, count, plural
from gradscope.trace.schema import NONE, GraphTask, Node, NodeBegin

TABS = ("values", "findings", "grads", "saved")
"""The contents that the last panel can show."""
REMEMBERED = 1 << 12
"""Number of descriptions of moments that are cached."""
MOST = 60
"""Largest number of lines of each section; the rest is counted."""
CONTEXT = 3
"""Number of source lines before and after the current one."""


def node_of(state: State) -> int:
    """The node of a moment, or else the innermost running one, or NONE."""
    node = int(getattr(state.happened, "node", NONE))
    if node == NONE and state.backward is not None:
        begun = [each.node for each in state.backward.running]
        node = begun[-1] if begun else NONE
    return node


def place(state: State) -> str:
    """As in "step 3, backward 0: 2 of 4 nodes"."""
    step = "" if state.step is None else f"step {state.step.number}"
    backward = state.backward
    if backward is None:
        return step
    begun, many = backward.progress
    ran = f"backward {backward.number}: {count(begun)} of {plural(many, 'node')}"
    return f"{step}, {ran}" if step else ran


def warm(walk: Walk) -> None:
    """Compute in advance what the first moves need."""
    begun = walk.trace.once(TraceStretches).moments.of(NodeBegin)
    if len(begun):
        state = at(walk.trace, int(begun[0]))
        neighbours(state, node_of(state))
        for _ in queue(state):
            pass
        walk.trace.once(GradientTraffic).warm()


class Events(Sequence[PanelLine]):
    """All moments of the trace; descriptions are created on demand."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._said = lru_cache(REMEMBERED)(self._saying)

    def __len__(self) -> int:
        return self._walk.last + 1

    def _saying(self, moment: int) -> str:
        trace, wide = self._walk.trace, len(f"{self._walk.last:,}")
        return f"{moment:>{wide},} {trace.once(MomentWords).said(at(trace, moment).happened)}"

    @overload
    def __getitem__(self, place: int) -> PanelLine: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[PanelLine]: ...
    def __getitem__(self, place: int | slice) -> PanelLine | Sequence[PanelLine]:
        if isinstance(place, slice):
            return [self[each] for each in range(len(self))[place]]
        here = place == self._walk.moment
        stopped = any(_holds(stop.moments, place) for stop in self._walk.stops.values())
        sign = f"{'>' if here else ' '}{'●' if stopped else ' '}"
        return PanelLine(self._said(place), BOLD if here else "", sign, f"goto {place}")


def _holds(moments: np.ndarray, moment: int) -> bool:
    place = int(np.searchsorted(moments, moment))
    return place < len(moments) and int(moments[place]) == moment


def queue(state: State) -> Iterator[PanelLine]:
    """Running, queued and waiting nodes."""
    say = state.trace.once(MomentWords)
    if not state.backwards:
        yield heading("no backward is running")
    for backward in reversed(state.backwards):
        yield PanelLine(f"backward {progress(state, backward)}", BOLD)
        for each in reversed(backward.running):
            verb = "running" if each.begun else "taken from the queue"
            yield PanelLine(f"  {say.node(each.node)} {verb}", BOLD, node=each.node)
    for row in state.asleep:
        yield PanelLine(f"{say.cells.thread(row.thread)} sleeps: queue {row.queue} is empty")
    for section, nodes in held_sections(state, say, MOST):
        if section.lines:
            yield heading(section.title)
            unnamed = (NONE,) * (len(section.lines) - len(nodes))
            for text, node in zip(section.lines, (*nodes, *unnamed), strict=True):
                yield PanelLine(f"  {text}", node=node)
    for section in under_way(state, say):
        if section.lines:
            yield heading(section.title)
            yield from (PanelLine(f"  {text}") for text in section.lines)


def neighbours(state: State, node: int) -> tuple[NodeAt | None, list[PanelLine]]:
    """The state of a node, its senders and its receivers."""
    trace = state.trace
    if not trace.table(Node).has(node):
        return None, [heading("no current node here: > goes to the next one that runs")]
    say, backward = trace.once(MomentWords), state.backward
    found = node_at(trace, node, NONE if backward is None else backward.task.id, state.moment)
    senders = [PanelLine(f"  {sender(each, say)}", node=each.node) for each in found.senders]
    receivers = [PanelLine(f"  {receiver(each, say)}", node=each.node) for each in found.receivers]
    return found, [
        *_about(state, found, say),
        *_listed("receives gradients from", found.sender_count, senders),
        *_listed("sends gradients to", found.receiver_count, receivers),
    ]


def _about(state: State, found: NodeAt, say: MomentWords) -> Iterator[PanelLine]:
    row = state.trace.table(Node).row(found.node)
    yield PanelLine(say.node(found.node), BOLD, node=found.node)
    yield fact("now", now(found, say))
    if found.count != NONE and found.stage is not Stage.WAITING:
        yield fact("gradients", came(found))
    if found.hooks:
        yield fact("hooks", hooks(found))
    made = site_of(state.trace, row.stack)
    if made.place:
        yield fact("created at", f"{made.place}  {made.text}".rstrip())
    if state.modules and node_of(state) == found.node:
        yield fact("module", f"{state.modules[-1].path or '(root)'} ({state.modules[-1].type})")
    kept = state.saved_by(found.node)
    if kept:
        yield fact(
            "saved", f"{plural(len(kept), 'value')}, {byte_count(sum(k.bytes for k in kept))}"
        )


def _listed(title: str, many: int, entries: list[PanelLine]) -> Iterator[PanelLine]:
    yield heading(title if many else f"{title}: none")
    yield from entries
    if many > len(entries):
        yield heading(f"  and {count(many - len(entries))} more; node lists them all")


def source(state: State, node: int, lines: ProgramLines) -> list[PanelLine]:
    """The source lines that led here: of the moment, the node, and the call of the backward."""
    trace, seen, found = state.trace, set[int](), list[PanelLine]()
    nodes, backward = trace.table(Node), state.backward
    task: GraphTask | None = None if backward is None else backward.task
    for title, stack in (
        ("at", int(getattr(state.happened, "stack", NONE))),
        ("created at", int(nodes.row(node).stack) if nodes.has(node) else NONE),
        ("backward called at", NONE if task is None else task.stack),
    ):
        if stack != NONE and stack not in seen:
            seen.add(stack)
            found += lines.of(title, trace.frames(stack), CONTEXT if not found else 1)
    return found or [nothing()]


# -- the last panel: one of several ---------------------------------------------------------------


def values(walk: Walk, _: int) -> Iterator[PanelLine]:
    """The values that were recorded here."""
    yield from _close(answer(walk, "values"))


def findings(walk: Walk, _: int) -> Iterator[PanelLine]:
    """The findings of `inspect`, worst first; selecting one goes there."""
    said = answer(walk, "findings")
    found = walk.trace.once(inspect).findings
    yield heading(said.title)
    lines = said.sections[0].lines if said.sections else ()
    for text, each in zip(lines, found, strict=True):
        style = SEVERITY_STYLES[each.severity]
        yield PanelLine(text, style, command=f"goto #{each.id}")


def grads(walk: Walk, _: int) -> Iterator[PanelLine]:
    """The leaves with a `.grad`, the latest first; selecting one goes to its arrival."""
    said = answer(walk, "grads")
    yield heading(said.title)
    lines = said.sections[0].lines if said.sections else ()
    for text, each in zip(lines, walk.state.gradients[::-1], strict=True):
        yield PanelLine(text, command=f"goto {each.since}")


def saved(walk: Walk, node: int) -> Iterator[PanelLine]:
    """The saved values of all graphs and of this node."""
    kept = walk.state.saved
    yield heading(
        f"{plural(kept.values, 'value')} saved for backward, {byte_count(kept.bytes)} in total"
    )
    if node != NONE:
        yield from _close(answer(walk, f"saved {node}"))


def _close(said: Answer) -> Iterator[PanelLine]:
    """The lines of an answer, without separators."""
    yield heading(said.title)
    yield from (PanelLine(text) for section in said.sections for text in section.lines)
    yield from (PanelLine(text, WARN) for text in said.notes)


SHOWN: dict[str, Callable[[Walk, int], Iterator[PanelLine]]] = {
    "values": values,
    "findings": findings,
    "grads": grads,
    "saved": saved,
}


def tab(walk: Walk, name: str, node: int) -> list[PanelLine]:
    """The contents of the last panel, or what the trace lacks."""
    try:
        return [*SHOWN[name](walk, node)]
    except GradscopeError as error:
        return [PanelLine(str(error), ALARM if name == "findings" else WARN)]
