"""Graphs that no backward traversed, and how many of them existed at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.graph.took_part import COPY_SLICES, took_part_unseen
from gradscope.analysis.identity.leaves import ACCUMULATE_GRAD
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.program.modes import Modes
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Edge, GraphTask, Module, Node, NodeBegin, RanAct, Unreached
from gradscope.trace.trace import Table, Trace

Flags = NDArray[np.bool_]
LONGEST = np.iinfo(np.int64).max
COLUMNS = "reached", "is_told", "many", "until", "t", "died", "stack", "module", "thread"
ROOTS = (ACCUMULATE_GRAD, "GraphRoot")


@dataclass(frozen=True, slots=True)
class IdleStretch:
    """Consecutive nodes of a thread that no backward reached."""

    nodes: int
    begin: int
    end: int
    rows: Ids  # indices in `IdleGraphs`
    passes: int  # number of times the model was run
    together: int  # number of these alive at once; 0: not recorded
    last: bool  # no later node was reached by a backward


class IdleGraphs:
    """Nodes of forward passes, by thread and time, and whether a backward reached them."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        nodes, others = trace.table(Node), trace.table(Unreached)
        leaf = np.isin(nodes["name"], [n for n in distinct(nodes["name"]).tolist()
                                       if trace.text(n) in ROOTS])  # fmt: skip
        chosen = ~leaf & (nodes["task"] == NONE) & (nodes["stack"] != NONE)
        own = np.flatnonzero(others["task"] == NONE)
        self.reached = _both(reached(trace)[chosen], np.zeros(len(own), bool))
        self.is_told = _both(np.ones(int(chosen.sum()), bool), np.zeros(len(own), bool))
        self.many = _both(np.ones(int(chosen.sum()), np.int64), others["many"][own])
        self.until = _both(nodes["t"][chosen], others["until"][own])
        self.t, self.died, self.stack, self.module, self.thread = (
            _both(nodes[name][chosen], others[name][own])
            for name in ("t", "died", "stack", "module", "thread")
        )
        order = np.lexsort((self.t, self.thread))
        for name in COLUMNS:
            setattr(self, name, getattr(self, name)[order])
        self._leave_out(self._slices(nodes, chosen)[order])
        self.sees_ends = trace.sees("node.died")

    def _slices(self, nodes: Table[Node], chosen: Flags) -> Flags:
        names = nodes["name"][chosen]
        called = [n for n in distinct(names).tolist() if self.trace.text(n) == COPY_SLICES]
        found: Flags = np.zeros(len(self.many), bool)
        found[: len(names)] = np.isin(names, called)
        return found

    def _leave_out(self, slices: Flags) -> None:
        """Leave out the nodes of writes through views, which CopySlices runs itself."""
        behind = np.flatnonzero(slices[1:] & ~self.is_told[:-1])
        behind = behind[self.stack[behind] == self.stack[behind + 1]]
        self.many[behind] -= 1
        self.reached[behind] |= self.many[behind] == 0

    @cached_property
    def stretches(self) -> tuple[IdleStretch, ...]:
        """The ranges in which a whole model ran that was also trained."""
        modules = self._trained
        found = []
        for first, last in self._between():
            rows = np.arange(first, last)
            own = {*self.module[first:last].tolist()}
            roots = [root for root, parts in modules.items() if parts <= own]
            if roots:
                found.append(self._stretch(rows, frozenset().union(*(modules[r] for r in roots))))
        return tuple(found)

    @cached_property
    def _trained(self) -> dict[int, frozenset[int]]:
        """For each model, the modules with parameters that a backward reached."""
        modes = self.trace.once(Modes)
        has = {row.id for row in self.trace.rows(Module) if row.parameters}
        found: dict[int, set[int]] = defaultdict(set)
        for module in distinct(self.module[self.reached]).tolist():
            if module in has:
                found[modes.root(module)].add(module)
        return {root: frozenset(parts) for root, parts in found.items()}

    def _between(self) -> Iterator[tuple[int, int]]:
        """The ranges of rows without a node that a backward reached."""
        breaks = self.reached
        starts = np.flatnonzero(np.append(True, self.thread[1:] != self.thread[:-1]))
        edges = distinct(np.concatenate((np.flatnonzero(breaks), starts[: len(breaks)])))
        ends = np.append(edges[1:], len(breaks))
        firsts = edges + breaks[edges]
        for place in np.flatnonzero(ends > firsts).tolist():
            yield int(firsts[place]), int(ends[place])

    def _stretch(self, rows: Ids, parts: frozenset[int]) -> IdleStretch:
        module, stack = self.module[rows], self.stack[rows]
        new = np.append(True, (module[1:] != module[:-1]) | (stack[1:] != stack[:-1]))
        runs: dict[tuple[int, int], list[int]] = defaultdict(list)
        for place in np.flatnonzero(new).tolist():
            if int(module[place]) in parts:
                runs[int(module[place]), int(stack[place])].append(int(rows[place]))
        most = max(runs.values(), key=len)
        # The first also has the accumulation nodes, which are freed with the last graph.
        counted = most[1:] if self.many[most[0]] > self.many[most[-1]] else most
        born, died = self.t[counted], self.died[counted]
        return IdleStretch(
            nodes=int(self.many[rows].sum()),
            begin=int(self.t[rows[0]]),
            end=int(self.until[rows].max()),
            rows=rows,
            passes=len(most),
            together=_together(born, died) if self.sees_ends else 0,
            last=bool(rows[-1] + 1 == len(self.t)),
        )

    def called_from(self, stretch: IdleStretch) -> Done[RanAct] | None:
        """The first call of a model in it from a new line."""
        acts, first = self.trace.once(Acts), int(stretch.rows[0])
        is_first = first == 0 or self.thread[first - 1] != self.thread[first]
        since = -1 if is_first else int(self.until[first - 1])
        former: set[str] = set()
        for act in acts.of(RanAct):
            if act.inside != NONE or not act.facts.grad:
                continue
            place = acts.place(act)
            if since < act.t <= stretch.end and place not in former:
                return act
            former.add(place)
        return None

    @cached_property
    def lines_reached(self) -> frozenset[int]:
        """The stacks of nodes that backwards reached."""
        return frozenset(distinct(self.stack[self.reached]).tolist())

    def own_lines(self, stretch: IdleStretch) -> list[int]:
        """The stacks of its nodes that no backward ever reached, most frequent first."""
        found: dict[int, int] = defaultdict(int)
        pairs = zip(
            self.stack[stretch.rows].tolist(), self.many[stretch.rows].tolist(), strict=True
        )
        for stack, many in pairs:
            if stack not in self.lines_reached and stack != NONE:
                found[stack] += many
        return sorted(found, key=lambda stack: -found[stack])


def reached(trace: Trace) -> Flags:
    """Whether each node ran in a backward, or was left out by one that started above it."""
    nodes, edges = trace.table(Node), trace.table(Edge)
    ids = nodes["id"]
    ran: Flags = np.isin(ids, trace.table(NodeBegin)["node"])
    ran |= np.isin(ids, trace.table(GraphTask).ragged("roots").values)
    ran |= np.isin(ids, [*took_part_unseen(trace).inside])
    if ran.all():
        return ran
    to = nodes.positions(edges["next"])
    open_ = (to != NONE) & ~ran[to]
    source, target = nodes.positions(edges["node"][open_]), to[open_]
    onward: dict[int, list[int]] = defaultdict(list)
    for one, other in zip(source.tolist(), target.tolist(), strict=True):
        onward[one].append(other)
    waiting = [one for one in onward if ran[one]]
    while waiting:
        for other in onward.get(waiting.pop(), ()):
            if not ran[other]:
                ran[other] = True
                waiting.append(other)
    return ran


def _together(born: Ids, died: Ids) -> int:
    """The largest number that existed at once."""
    gone = np.where(died == NONE, LONGEST, died)
    t = np.concatenate([born, gone])
    change = np.concatenate([np.ones(len(born), np.int64), -np.ones(len(gone), np.int64)])
    order = np.lexsort((change, t))
    return int(np.cumsum(change[order]).max(initial=0))


def _both(one: Any, other: Any) -> Any:
    return np.concatenate([one, other])
