"""The backwards in which each node took part: it ran, was captured, or was run by another node.

A node may take part without an event that says it ran: a gradient requested by `inputs=` is
captured without running its node, and the node of a write through a view runs inside CopySlices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.graph.selection import adjacency, reach
from gradscope.analysis.identity.backwards import backward_numbers, backwards
from gradscope.analysis.lookups import Ids, paired
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import Capture, Edge, Node, NodeBegin
from gradscope.trace.trace import Trace

COPY_SLICES = "CopySlices"


@dataclass(frozen=True, slots=True)
class NodesInBackwards:
    """How nodes took part in some backwards."""

    backwards: dict[int, tuple[int, ...]]  # by node: the numbers of the backwards
    captured: frozenset[int]  # nodes whose gradient was captured for `inputs=`
    inside: dict[int, int]  # by node: the CopySlices that ran it


def took_part_unseen(trace: Trace, tasks: Collection[int] | None = None) -> NodesInBackwards:
    """The nodes that took part without running; fast for many nodes."""
    captured = frozenset(node for node, _ in _of_tasks(trace, Capture, tasks))
    return NodesInBackwards({}, captured, _ran_inside(trace, tasks))


def took_part(trace: Trace, tasks: Collection[int] | None = None) -> NodesInBackwards:
    """How all nodes took part in these graph tasks, or in all of them."""
    unseen = took_part_unseen(trace, tasks)
    inside = unseen.inside
    numbers = backward_numbers(trace)
    found: dict[int, set[int]] = defaultdict(set)
    if len(trace.table(NodeBegin)):
        for kind in (NodeBegin, Capture):
            for node, task in _of_tasks(trace, kind, tasks):
                if task in numbers:
                    found[node].add(numbers[task])
        for node, around in inside.items():
            found[node] |= found[around]
    else:  # edges are the only information
        onward, _ = adjacency(trace)
        for each in backwards(trace):
            if tasks is None or each.id in tasks:
                for node in reach(each.roots, onward):
                    found[node].add(numbers[each.id])
    return NodesInBackwards(
        backwards={node: tuple(sorted(each)) for node, each in found.items()},
        captured=unseen.captured,
        inside=inside,
    )


def _of_tasks(
    trace: Trace, kind: type[NodeBegin | Capture], tasks: Collection[int] | None
) -> set[tuple[int, int]]:
    table = trace.table(kind)
    nodes, of = table["node"], table["task"]
    chosen = np.ones(len(of), bool) if tasks is None else np.isin(of, list(tasks))
    return set(zip(nodes[chosen].tolist(), of[chosen].tolist(), strict=True))


def _ran_inside(trace: Trace, tasks: Collection[int] | None) -> dict[int, int]:
    """The nodes of writes, each with the CopySlices that ran it."""
    written = written_by(trace)
    ran = {node for node, _ in _of_tasks(trace, NodeBegin, tasks)} if written else set()
    return {write: slices for slices, write in written.items() if slices in ran}


def written_by(trace: Trace) -> dict[int, int]:
    """For each CopySlices the node of its write.

    The trace does not record it, but it was created just before on the same thread, and CopySlices
    has its edges, except for the first.
    """
    nodes = trace.table(Node)
    names = distinct(nodes["name"]).tolist()
    called = [name for name in names if trace.text(name) == COPY_SLICES]
    places = np.flatnonzero(np.isin(nodes["name"], called))
    if not len(places):
        return {}
    threads, numbers = nodes["thread"], nodes["sequence_nr"]
    before = paired((threads, numbers), (threads[places], numbers[places] - 1))
    slices, written = nodes["id"][places[before != -1]], nodes["id"][before[before != -1]]
    edges = _later_edges(trace, np.concatenate([slices, written]))
    pairs = zip(slices.tolist(), written.tolist(), strict=True)
    return {each: write for each, write in pairs if edges[each] == edges[write]}


def _later_edges(trace: Trace, wanted: Ids) -> dict[int, list[tuple[int, int, int]]]:
    """All edges of each node except the first."""
    edges = trace.table(Edge)
    found: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for row in edges.take(np.flatnonzero(np.isin(edges["node"], wanted) & (edges["index"] > 0))):
        found[row.node].append((row.index, row.next, row.input_nr))
    return found
