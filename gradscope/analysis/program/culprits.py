"""Finds what wrote to a node's saved tensors, or released them, when a backward raised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.acts import Acts
from gradscope.trace.schema import (
    NONE,
    Edge,
    GraphTask,
    Node,
    Op,
    Phase,
    Saved,
    SavedReleased,
    Span,
    Tensor,
    Version,
)
from gradscope.trace.trace import Trace

VIEWS = frozenset(
    ("t", "transpose", "view", "permute", "expand", "unsqueeze", "squeeze", "slice", "select")
)
"""Calls whose result shares memory with their input."""


@dataclass(frozen=True, slots=True)
class Overwritten:
    """A saved value that was written to, and the first write."""

    slot: str
    tensor: int
    saved: int  # the version when it was saved
    written: int  # the version after the write
    op: int
    stack: int
    later: int  # further writes


@dataclass(frozen=True, slots=True)
class Release:
    """The backward that released a node's saved tensors."""

    task: int
    through: int  # the newer node that leads to it again; NONE if there is none


def overwritten(trace: Trace, node: int, before: int) -> Iterator[Overwritten]:
    """The saved values of a node that were written to after being saved and before this time."""
    saved, versions, tensors = trace.table(Saved), trace.table(Version), trace.table(Tensor)
    storages, times = versions.array("storage"), versions.array("t")
    for position in np.flatnonzero(saved.array("node") == node).tolist():
        row = saved.at(position)
        if not tensors.has(row.tensor):
            continue
        storage = tensors.row(row.tensor).storage
        same = versions.array("tensor") == row.tensor
        same |= (storages == storage) & (storage != NONE)
        new = versions.array("new")
        later = np.where(new == NONE, times > row.t, new > row.version)
        written = np.flatnonzero(same & later & (times <= before))
        if len(written):
            first = versions.at(int(written[np.argmin(times[written])]))
            yield Overwritten(
                row.slot, row.tensor, row.version, first.new, first.op, first.stack,
                len(written) - 1,
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class SteppedLeaf:
    """A parameter that a node saved, and the optimizer step after that."""

    slot: str
    optimizer: str
    act: int  # the first such step; NONE if not recorded


def stepped(trace: Trace, node: int, shape: tuple[int, ...], before: int) -> SteppedLeaf | None:
    """The saved parameter of this shape, if an optimizer has stepped since."""
    nodes, spans, saved = trace.table(Node), trace.table(Span), trace.table(Saved)
    if not nodes.has(node):
        return None
    between = (spans["phase"] == Phase.OPTIMIZER) & (spans["begin"] >= nodes.row(node).t)
    between &= (spans["end"] != NONE) & (spans["end"] <= before)
    if not between.any():
        return None
    names = " or ".join(sorted({trace.text(name) for name in spans["name"][between].tolist()}))
    for position in np.flatnonzero(saved.array("node") == node).tolist():
        row = saved.at(position)
        leaf = _parameter_of(trace, row.tensor, shape)
        if leaf != NONE:
            return SteppedLeaf(row.slot, names, _step_of(trace, leaf, nodes.row(node).t, before))
    return None


def _step_of(trace: Trace, leaf: int, after: int, before: int) -> int:
    """The first step, between two times, of an optimizer that holds a parameter."""
    steps = (
        step
        for each in trace.once(Acts).optimizers
        if leaf in each.tensors
        for step in each.steps
        if after <= step.t <= before
    )
    first = min(steps, key=lambda step: step.t, default=None)
    return NONE if first is None else first.id


def _parameter_of(trace: Trace, tensor: int, shape: tuple[int, ...]) -> int:
    """The leaf that needs a gradient and that this tensor, of this shape, is or views."""
    tensors, ops = trace.table(Tensor), trace.table(Op)
    if not tensors.has(tensor) or tensors.row(tensor).shape != shape:
        return NONE
    while tensors.has(tensor):
        row = tensors.row(tensor)
        if row.leaf:
            return tensor if row.requires_grad else NONE
        if not ops.has(row.op):
            return NONE
        call = ops.row(row.op)
        if call.name.partition(".")[0] not in VIEWS or not call.inputs or tensor in call.inputs:
            return NONE
        tensor = call.inputs[0]
    return NONE


def carried(trace: Trace, node: int, task: int) -> int:
    """The newest node whose edge leads from this backward to nodes before the last backward.

    NONE: there was no backward between, or the node is one of the newer ones.
    """
    tasks, nodes = trace.table(GraphTask), trace.table(Node)
    if not (tasks.has(task) and nodes.has(node)):
        return NONE
    began = tasks.array("begin")
    between = (began > nodes.row(node).t) & (began < tasks.row(task).begin)
    if not between.any():
        return NONE
    last = np.flatnonzero(between)[np.argmax(began[between])]
    return _through(trace, node, task, int(tasks["id"][last]))


def release(trace: Trace, node: int, task: int) -> Release | None:
    """The earlier backward that released a node which this one has reached."""
    saved = trace.table(Saved)
    tasks = saved.array("task")[saved.array("node") == node]
    let_go = (each.task for each in trace.events(SavedReleased, node=node))
    earlier = [each for each in (*tasks.tolist(), *let_go) if each not in {NONE, task}]
    if not earlier:
        return None
    return Release(earlier[0], _through(trace, node, task, earlier[0]))


class _Links:
    """The ids that each id leads to."""

    def __init__(self, sources: Ids, targets: Ids) -> None:
        order = np.argsort(sources, kind="stable")
        self._sources, self._targets = sources[order], targets[order]

    def of(self, id: int) -> list[int]:
        first, last = np.searchsorted(self._sources, (id, id + 1)).tolist()
        found: list[int] = self._targets[first:last].tolist()
        return found


def _through(trace: Trace, node: int, task: int, earlier: int) -> int:
    """The node created after the earlier backward began whose edge leads to an older node."""
    tasks = trace.table(GraphTask)
    if not (tasks.has(task) and tasks.has(earlier)):
        return NONE
    begin = tasks.row(earlier).begin
    nodes, edges = trace.table(Node), trace.table(Edge)
    sources, targets = edges.array("node"), edges.array("next")
    leading = _all_from(_Links(targets, sources), node)
    following, made = _Links(sources, targets), nodes.array("t")
    reached, pending = set(tasks.row(task).roots), list(tasks.row(task).roots)
    while pending:
        source = pending.pop()
        if not nodes.has(source) or made[nodes.index(source)] < begin:
            continue
        for target in following.of(source):
            if target in leading and made[nodes.index(target)] < begin:
                return source
            if target not in reached and target != NONE:
                reached.add(target)
                pending.append(target)
    return NONE


def _all_from(links: _Links, start: int) -> set[int]:
    """An id, and all ids that are reachable from it."""
    found, pending = {start}, [start]
    while pending:
        for each in links.of(pending.pop()):
            if each not in found:
                found.add(each)
                pending.append(each)
    return found
