"""Marks of nodes: origins of NaN and Inf, failures, hooks, focus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.graph.took_part import NodesInBackwards
from gradscope.analysis.nonfinite.births import Birth, births, nonfinite_nodes
from gradscope.scene.graph.picture import BoxLine, Tone
from gradscope.scene.kinds import BoxMark
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, GraphTask, HookBegin, NodeBegin, NodeEnd, Op, Place
from gradscope.trace.trace import Trace

BORN = {"NaN": BoxMark.NAN_BORN, "Inf": BoxMark.INF_BORN}

PLACES = {
    Place.OP_OUTPUT: "in the forward pass",
    Place.NODE_OUTPUT: "in this backward",
    Place.BUFFER: "in the sum of incoming gradients",
    Place.HOOK: "in a hook",
    Place.GRAD: "in the addition to .grad",
    Place.SEED: "in the gradient passed to backward",
    Place.NODE_INPUT: "in the incoming gradient",
    Place.LEAF: "in the data",
}


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of nodes, and where a NaN or Inf was first produced."""

    marks: Mapping[int, frozenset[BoxMark]]
    births: Mapping[int, tuple[BoxLine, ...]]
    ran: frozenset[int] | None  # None: not recorded

    def of(self, nodes: Iterable[int]) -> tuple[BoxMark, ...]:
        """The marks of these nodes; for a single one, also that it did not run."""
        known = list(nodes)
        marks = {mark for node in known for mark in self.marks.get(node, ())}
        if len(known) == 1 and self.ran is not None and known[0] not in self.ran:
            marks |= {BoxMark.NOT_RUN} if not marks & {BoxMark.CAPTURED, BoxMark.INSIDE} else set()
        return tuple(mark for mark in BoxMark if mark in marks)

    @property
    def findings(self) -> list[int]:
        """The nodes where a NaN or Inf was first produced or that failed."""
        wrong = {BoxMark.NAN_BORN, BoxMark.INF_BORN, BoxMark.FAILED}
        return [node for node, marks in self.marks.items() if marks & wrong]

    def lines(self, node: int) -> tuple[BoxLine, ...]:
        return self.births.get(node, ())


def marks_of(
    trace: Trace, focus: Iterable[int], tasks: Collection[int] | None, parts: NodesInBackwards
) -> Marks:
    """The marks of all nodes, as seen in these graph tasks, or in all of them."""
    found: dict[int, set[BoxMark]] = defaultdict(set)
    lines: dict[int, list[BoxLine]] = defaultdict(list)
    for node in nonfinite_nodes(trace, tasks):
        found[node].add(BoxMark.NON_FINITE)
    for birth in births(trace).births:
        node = _node_of(trace, birth)
        if node != NONE and (tasks is None or birth.task == NONE or birth.task in tasks):
            found[node].add(BORN[birth.kind])
            lines[node].append(BoxLine(f"{birth.kind} {PLACES[birth.place]}", Tone.ALARM))
    for node in _nodes_in(trace, NodeEnd, tasks, failed=True):
        found[node].add(BoxMark.FAILED)
    for node in _nodes_in(trace, HookBegin, tasks):
        found[node].add(BoxMark.HOOKED)
    for node in focus:
        found[node].add(BoxMark.FOCUS)
    for task in trace.rows(GraphTask):
        for node in task.roots:
            found[node].add(BoxMark.ROOT)
    for node in parts.captured:
        found[node].add(BoxMark.CAPTURED)
    for node in parts.inside:
        found[node].add(BoxMark.INSIDE)
    for marks in found.values():
        if marks & {BoxMark.NAN_BORN, BoxMark.INF_BORN}:
            marks.discard(BoxMark.NON_FINITE)
    return Marks(
        {node: frozenset(marks) for node, marks in found.items()},
        {node: tuple(dict.fromkeys(each)) for node, each in lines.items()},
        _who_ran(trace, tasks),
    )


def _node_of(trace: Trace, birth: Birth) -> int:
    """The node of an origin; in the forward pass, the node created by its call."""
    ops = trace.table(Op)
    if birth.node != NONE or not ops.has(birth.op):
        return birth.node
    return int(ops["node"][ops.index(birth.op)])


def _who_ran(trace: Trace, tasks: Collection[int] | None) -> frozenset[int] | None:
    if not len(trace.table(NodeBegin)):
        return None
    return frozenset(_nodes_in(trace, NodeBegin, tasks))


def _nodes_in(
    trace: Trace,
    kind: type[NodeBegin | NodeEnd | HookBegin],
    tasks: Collection[int] | None,
    *,
    failed: bool = False,
) -> list[int]:
    table = trace.table(kind)
    chosen = np.ones(len(table), bool) if tasks is None else np.isin(table["task"], list(tasks))
    if failed:
        chosen &= table["failed"]
    return [int(node) for node in distinct(table["node"][chosen])]
