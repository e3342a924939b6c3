"""Collectives without a backward through which a loss was computed.

The program passed a tensor with a graph, or its memory, and what came back went into the nodes of a
backward. There is nothing to say if the program puts its own part back, with its graph, or if what
came back was used after a later backward had begun, as in queues and running averages.

A sum that was written into a tensor with a graph is named if it is then divided by the number of
ranks, and the gradients are averaged over the same ranks, which divides them again. Without that
the gradient may be right: each rank adds the part of its own term.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np

from gradscope.analysis.identity.leaves import ACCUMULATE_GRAD
from gradscope.analysis.lookups import grouped, links
from gradscope.trace.schema import (
    NONE,
    Collective,
    Edge,
    GraphTask,
    Node,
    NodeBegin,
    Passed,
    ProcessGroup,
    Replicated,
    Span,
    Used,
)
from gradscope.trace.schema.sharding import GOES_ON
from gradscope.trace.trace import Trace

GATHERS = (
    "all_gather", "all_gather_into_tensor", "all_gather_single", "all_to_all", "all_to_all_single",
    "gather",
)  # fmt: skip
INTO_OTHERS = ("reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor")
IN_PLACE = ("all_reduce", "reduce")
SUMS = ("sum", "avg")
PRODUCTS = frozenset(("mm", "matmul", "bmm", "addmm", "linear", "einsum", "mul", "cdist"))
"""Calls in which a tensor and what was gathered are different factors: it is not put back."""
CLOSE = 1e-6
NEAR = 4
"""Number of edges between a call and the tensor that it puts back."""
DATA = "data"


class Way(Enum):
    """How the graph ends at a collective."""

    GATHERED = "gathered"
    IN_PLACE = "in place"
    DATA = "data"


@dataclass(frozen=True, slots=True)
class NotThrough:
    """One call of a collective through which no gradient passes."""

    way: Way
    span: int
    name: str
    stack: int
    step: int
    used: Used
    node: int  # that used what came back, in a backward


def not_through(trace: Trace) -> tuple[NotThrough, ...]:
    """All such calls, in the order of time."""
    passed, used = grouped(trace.rows(Passed), _span), grouped(trace.rows(Used), _span)
    called = [
        row
        for row in trace.rows(Collective)
        if not row.caller and row.span in passed and row.span in used
    ]
    if not called:
        return ()
    graphs, spans = _Graphs(trace), trace.table(Span)
    found = []
    for row in called:
        if spans.has(row.span):
            [span] = spans.take(np.array([spans.index(row.span)]))
            one = graphs.look(row, span, passed[row.span], used[row.span])
            if one is not None:
                found.append((span.begin, one))
    return tuple(one for _, one in sorted(found, key=lambda each: each[0]))


def _span(row: Passed | Used) -> int:
    return row.span


class _Graphs:
    """The nodes of a trace, and which leaves are averaged by which ranks."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        nodes = trace.table(Node)
        self._begun = np.unique(trace.table(NodeBegin)["node"])
        order = np.lexsort((nodes["sequence_nr"], nodes["thread"]))
        self._ids = nodes["id"][order]
        self._thread, self._sequence = nodes["thread"][order], nodes["sequence_nr"][order]
        edges = trace.table(Edge)
        self._links = links(edges["node"], edges["next"])
        tasks = trace.table(GraphTask)
        own = (tasks["parent"] == NONE) & tasks["accumulate_grad"]
        self._backwards = np.sort(tasks["begin"][own])
        self._backward_thread = tasks["thread"][own][np.argsort(tasks["begin"][own])]

    def look(
        self, row: Collective, span: Span, passed: Sequence[Passed], used: Sequence[Used]
    ) -> NotThrough | None:
        """What is to say about one collective."""
        way = _way(row, span, passed)
        if way is None:
            return None
        sources = [
            node
            for each in passed
            if each.through == (DATA if way is Way.DATA else "")
            for node in self._nodes(span.thread, each.sequence_nr, 1)
        ]
        if way is Way.IN_PLACE and not self._is_averaged(sources, row.group):
            return None
        until = self._next_backward(span)
        found: NotThrough | None = None
        for each in sorted(used, key=lambda use: use.t):
            nodes = self._nodes(each.thread, each.first, each.many) if each.many else []
            if each.graph != (way is Way.IN_PLACE) or each.t > until or not nodes:
                continue
            if way is Way.IN_PLACE:
                nodes = [n for n in nodes if self._averages(n, each.name, {*sources}, row.group)]
            elif each.name not in PRODUCTS and self._near(nodes, sources):
                return None
            run = [node for node in nodes if self._ran(node)]
            if run and found is None:
                name = span.name.removesuffix(GOES_ON)
                found = NotThrough(way, row.span, name, row.stack, span.step, each, run[0])
        return found

    def _nodes(self, thread: int, first: int, many: int) -> list[int]:
        """The nodes of a thread with these sequence numbers, as far as backwards reached them."""
        begin, end = np.searchsorted(self._thread, (thread, thread + 1)).tolist()
        own = self._sequence[begin:end]
        since, until = np.searchsorted(own, (first, first + many)).tolist()
        return [int(each) for each in self._ids[begin + since : begin + until]]

    def _ran(self, node: int) -> bool:
        at = int(np.searchsorted(self._begun, node))
        return at < len(self._begun) and int(self._begun[at]) == node

    def _next_backward(self, span: Span) -> int:
        """When the next backward of a thread begins after a collective."""
        later = self._backwards[
            (self._backwards > span.begin) & (self._backward_thread == span.thread)
        ]
        return int(later[0]) if len(later) else np.iinfo(np.int64).max

    def _near(self, nodes: Sequence[int], sources: Sequence[int]) -> bool:
        """Whether one of these nodes leads to one of the sources by a few edges."""
        wanted, seen = {*sources}, {*nodes}
        layer = seen
        for _ in range(NEAR):
            layer = {after for node in layer for after in self._links.of(node)} - seen
            if layer & wanted:
                return True
            seen |= layer
        return False

    def _averages(self, node: int, name: str, sources: set[int], group: int) -> bool:
        """Whether a node divides a source by the number of ranks of a group."""
        if not sources & {*self._links.of(node)}:
            return False
        size, factor = len(self._members.get(group, ())), self._factor(node, name)
        return size > 1 and abs(factor * size - 1) < CLOSE

    def _factor(self, node: int, name: str) -> float:
        """The number by which a node multiplies; 0: it is not known."""
        nodes = self._trace.table(Node)
        [row] = nodes.take(np.array([nodes.index(node)]))
        other = json.loads(row.arguments or "{}").get("other")
        known = isinstance(other, int | float) and other != 0
        if not known or name.rstrip("_") not in ("mul", "div"):
            return 0.0
        return 1 / other if name.startswith("div") else float(other)

    def _is_averaged(self, sources: Sequence[int], group: int) -> bool:
        """Whether this group also averages the gradients of what the sources were made from."""
        leaves, seen, waiting = set[int](), {*sources}, [*sources]
        combined = self._combined.get(self._members.get(group, ()), frozenset())
        while waiting and combined:
            node = waiting.pop()
            leaf = self._leaf.get(node)
            if leaf is not None:
                leaves.add(leaf)
            for after in self._links.of(node):
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)
        return bool(leaves & combined)

    @cached_property
    def _leaf(self) -> Mapping[int, int]:
        """The leaf of each node that accumulates a gradient."""
        nodes = self._trace.table(Node)
        named = nodes.texts("name")
        own = [at for at, name in enumerate(named) if name.startswith(ACCUMULATE_GRAD)]
        return {row.id: row.inputs[0] for row in nodes.take(np.array(own, np.int64)) if row.inputs}

    @cached_property
    def _members(self) -> Mapping[int, tuple[int, ...]]:
        return {row.id: row.members for row in self._trace.rows(ProcessGroup)}

    @cached_property
    def _combined(self) -> Mapping[tuple[int, ...], frozenset[int]]:
        """The parameters whose gradients are averaged, by the ranks that do it."""
        found: dict[tuple[int, ...], set[int]] = {}
        for members, parameters in self._combining():
            found.setdefault(members, set()).update(parameters)
        return {members: frozenset(several) for members, several in found.items()}

    def _combining(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        for row in self._trace.rows(Replicated):
            yield self._members.get(row.group, ()), row.parameters
        for called in self._trace.rows(Collective):
            if called.holds == "gradients" and (called.caller or called.reduces == "avg"):
                yield self._members.get(called.group, ()), called.parameters


def _way(row: Collective, span: Span, passed: Sequence[Passed]) -> Way | None:
    """How a graph may end at a collective; None: it does not."""
    name, through = span.name.removesuffix(GOES_ON), {each.through for each in passed}
    sums = row.reduces in SUMS
    if "" in through and (name in GATHERS or (sums and name in INTO_OTHERS)):
        return Way.GATHERED
    if name not in IN_PLACE or not sums:
        return None
    if "" in through:
        return Way.IN_PLACE if row.reduces == "sum" else None
    return Way.DATA if DATA in through else None
