"""Rules about nesting: nodes on a thread, hooks of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradscope.trace.schema.declare import NONE
from gradscope.trace.schema.events import Capture, HookBegin, HookEnd, NodeBegin, NodeEnd, Skipped
from gradscope.trace.schema.tables import GraphTask
from gradscope.trace.spec.checked_trace import timeline, unmatched
from gradscope.trace.spec.rule import RuleFault, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gradscope.trace.spec.checked_trace import CheckedTrace


@rule
def nodes_nest_on_their_thread(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A node ends on the thread it began on, after every node that began inside it."""
    begins, ends = facts.of(NodeBegin), facts.of(NodeEnd)
    line = timeline([(begins, 1), (ends, -1)], by=["thread"])
    stretches = (begins, ends)
    names = ("thread", "task", "node")
    cells = [np.concatenate([s[name] for s in stretches]) for name in names]
    at = line.place + line.kind * len(begins)
    failed = set(facts.failed_tasks.tolist())
    running: dict[int, list[tuple[int, int]]] = {}
    moves = zip(
        line.seq.tolist(), line.kind.tolist(), *(c[at].tolist() for c in cells), strict=True
    )
    for seq, kind, thread, task, node in moves:
        open_nodes = running.setdefault(thread, [])
        if kind == 0:
            open_nodes.append((task, node))
            continue
        while open_nodes and open_nodes[-1] != (task, node) and open_nodes[-1][0] in failed:
            open_nodes.pop()  # it raised
        if not open_nodes or open_nodes[-1] != (task, node):
            message = f"{facts.node(node)} ends on a thread where another node runs, or none"
            yield RuleFault(message, ends.table, seq=seq)
        else:
            open_nodes.pop()
    if facts.complete:
        left = [pair for open_nodes in running.values() for pair in open_nodes]
        for task, node in left:
            if task not in failed:
                yield RuleFault(f"{facts.node(node)} begins but never ends", begins.table, id=node)


@rule
def hooks_begin_and_end(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A hook that ends has begun; a hook that began ends, unless its graph task failed."""
    begins, ends = facts.of(HookBegin), facts.of(HookEnd)
    by = ["thread", "task", "node", "hook", "index"]
    line = timeline([(begins, 1), (ends, -1)], by=by)
    for place in np.flatnonzero(line.after < 0):
        message = f"a hook of {facts.node(ends['node'][line.place[place]])} ends but did not begin"
        yield RuleFault(message, ends.table, seq=int(line.seq[place]))
    if facts.complete:
        # A hook of the forward pass has no graph task, and no event says that its call failed.
        good = ~np.isin(begins["task"], [NONE, *facts.failed_tasks])
        for place in np.flatnonzero(good & unmatched(begins, ends, by)):
            message = f"a hook of {facts.node(begins['node'][place])} begins but never ends"
            yield RuleFault(message, begins.table, seq=int(begins["seq"][place]))


@rule
def captures_are_asked_for(facts: CheckedTrace) -> Iterator[RuleFault]:
    """Only a graph task with `inputs=` skips nodes and captures, and only planned captures."""
    tasks = facts.trace.table(GraphTask)
    asked = (tasks.ragged("inputs").lengths > 0) | (tasks.ragged("captured").lengths > 0)
    limited = asked | (tasks.ragged("needed").lengths > 0)
    wanted = _pairs(facts, "captured")
    for kind, allowed in ((Capture, asked), (Skipped, limited)):
        events = facts.of(kind)
        stray = ~np.isin(events["task"], tasks.array("id")[allowed])
        for place in np.flatnonzero(stray):
            message = f"graph task {events['task'][place]} captures or skips, but has no `inputs=`"
            yield RuleFault(message, events.table, seq=int(events["seq"][place]))
    captures = facts.of(Capture)
    listed = {task for task, _ in wanted}
    for seq, task, node in zip(
        *(captures[name].tolist() for name in ("seq", "task", "node")), strict=True
    ):
        if task in listed and (task, node) not in wanted:
            message = f"{facts.node(node)} is captured, but graph task {task} did not plan that"
            yield RuleFault(message, captures.table, seq=seq)


@rule
def skipped_nodes_do_not_run(facts: CheckedTrace) -> Iterator[RuleFault]:
    """A node that a graph task skips does not run in it, and one that runs is needed."""
    skips, begins = facts.of(Skipped), facts.of(NodeBegin)
    skipped = set(zip(skips["task"].tolist(), skips["node"].tolist(), strict=True))
    needed = _pairs(facts, "needed")
    limited = {task for task, _ in needed}
    if not skipped and not limited:
        return
    for seq, task, node in zip(
        *(begins[name].tolist() for name in ("seq", "task", "node")), strict=True
    ):
        if (task, node) in skipped:
            message = f"{facts.node(node)} runs in graph task {task}, although it was skipped"
            yield RuleFault(message, begins.table, seq=seq)
        elif task in limited and (task, node) not in needed:
            message = f"{facts.node(node)} runs in graph task {task}, although it is not needed"
            yield RuleFault(message, begins.table, seq=seq)


def _pairs(facts: CheckedTrace, column: str) -> set[tuple[int, int]]:
    """Pairs of a graph task and a node in one of its columns."""
    tasks = facts.trace.table(GraphTask)
    lists = tasks.ragged(column)
    owners = tasks.array("id")[lists.owners]
    return set(zip(owners.tolist(), lists.values.tolist(), strict=True))
