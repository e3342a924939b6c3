"""Times by line of the program: operations, nodes created there, and the time before them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from gradscope.analysis.identity.sites import Site, own_site
from gradscope.analysis.lookups import Ids
from gradscope.analysis.timing.durations import look_up, node_runs, took
from gradscope.analysis.timing.own_work import OwnWorkTimes
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Act, GraphTask, Node, Op, Phase, Span, Step
from gradscope.trace.schema.sharding import GOES_ON
from gradscope.trace.trace import Trace

LOADING = "DataLoader"
"""The name of the spans in which a program makes or waits for a batch."""


@dataclass(slots=True)
class LineTiming:
    """The time of a line of the program. It excludes gradscope's own work, and what ran inside.

    Optimizers, data loaders and collectives have no line: their row has their name.
    """

    site: Site = field(default_factory=Site)
    calls: int = 0
    ops_ns: int = 0  # in operations, outside of backward
    backward_ns: int = 0  # of nodes created at the line; at a call of backward, the rest of it
    between_ns: int = 0  # from the end of what ran before to each of its calls

    @property
    def ns(self) -> int:
        return self.ops_ns + self.backward_ns + self.between_ns


def timing_by_line(trace: Trace) -> tuple[LineTiming, ...]:
    """The lines of the program, slowest first."""
    calls = ProgramCalls(trace)
    lines: dict[str, LineTiming] = {}

    def add(name: str, keys: Ids, numbers: Ids) -> None:
        groups, inverse = np.unique(keys, return_inverse=True)
        sums = np.zeros(len(groups), np.int64)
        np.add.at(sums, inverse.reshape(-1), numbers)
        for key, number in zip(groups.tolist(), sums.tolist(), strict=True):
            site = calls.site(key)
            line = lines.setdefault(site.place, LineTiming(site))
            setattr(line, name, getattr(line, name) + number)

    add("calls", calls.key[calls.is_call], np.ones(int(calls.is_call.sum()), np.int64))
    add("ops_ns", calls.key, calls.own_times())
    add("between_ns", calls.key, calls.gaps())
    for keys, numbers in _backward(trace):
        add("backward_ns", keys, numbers)
    found = (each for each in lines.values() if each.site.place and each.ns)
    return tuple(sorted(found, key=lambda line: (-line.ns, line.site.place)))


def _backward(trace: Trace) -> Iterator[tuple[Ids, Ids]]:
    """The own time of nodes by the stack that created them, and the rest by the call of backward.

    The rest: leaves, the engine itself, and hooks.
    """
    runs = node_runs(trace)
    created = look_up(trace.table(Node), "stack", runs.node)
    timed = (runs.self_ns != NONE) & (created != NONE)
    yield created[timed], runs.self_ns[timed]
    tasks = trace.table(GraphTask)
    ended = tasks["end"] != NONE
    thread, begin, end = (tasks[name][ended] for name in ("thread", "begin", "end"))
    _, left = took(trace.once(OwnWorkTimes), thread, begin, end)
    place = tasks.positions(runs.task[timed])
    spent = np.zeros(len(tasks), np.int64)
    np.add.at(spent, place[place != NONE], runs.self_ns[timed][place != NONE])
    yield tasks["stack"][ended], np.maximum(left - spent[ended], 0)


class ProgramCalls:
    """What the program called outside of backward, in equal-length columns, for times by line.

    `key` is the stack or, below NONE, the name of a span.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        ops, acts = trace.table(Op), trace.table(Act)
        tasks, spans = trace.table(GraphTask), trace.table(Span)
        called, asked, outer = ops["task"] == NONE, acts["task"] == NONE, tasks["parent"] == NONE
        names = spans.texts("name")
        loads = np.array([name == LOADING for name in names], bool)
        goes_on = np.array([name.endswith(GOES_ON) for name in names], bool)
        named = np.isin(spans["phase"], (Phase.OPTIMIZER, Phase.COLLECTIVE)) & ~goes_on | loads
        parts = ((ops, called), (tasks, outer), (spans, named))
        self.thread, self.step, self.begin, self.end = (
            np.concatenate([*(table[name][rows] for table, rows in parts), acts[other][asked]])
            for name, other in (("thread",) * 2, ("step",) * 2, ("begin", "t"), ("end", "t"))
        )
        stacks = (ops["stack"][called], tasks["stack"][outer])
        spanned = NONE - 1 - spans["name"][named]
        self.key = np.concatenate([*stacks, spanned, acts["stack"][asked]])
        self.is_call = np.ones(len(self.key), bool)
        self.is_collective = np.zeros(len(self.key), bool)
        first = len(stacks[0]) + len(stacks[1])
        exchanges = spans["phase"][named] == Phase.COLLECTIVE
        self.is_collective[first : first + len(spanned)] = exchanges
        self.is_call[len(self.key) - int(asked.sum()) :] = False
        self._is_task = np.zeros(len(self.key), bool)
        self._is_task[len(stacks[0]) : len(stacks[0]) + len(stacks[1])] = True
        self._own = trace.once(OwnWorkTimes)
        self._sites: dict[int, Site] = {NONE: Site()}

    def site(self, key: int) -> Site:
        if key not in self._sites:
            is_span = key < NONE
            text = self._trace.text(NONE - 1 - key) if is_span else ""
            self._sites[key] = Site(text) if is_span else own_site(self._trace, key)
        return self._sites[key]

    def own_times(self) -> Ids:
        """Of each operation and span, without what ran inside; 0 for backwards."""
        order = np.argsort(self.begin, kind="stable")
        _, ns = took(self._own, self.thread[order], self.begin[order], self.end[order])
        own = np.zeros(len(order), np.int64)
        own[order] = np.maximum(ns, 0)
        own[self._is_task] = 0
        return own

    def gaps(self) -> Ids:
        """The time before each call in which nothing ran that was recorded.

        Only within a thread, and not over steps that were not recorded.
        """
        return self.gaps_after()[0]

    def gaps_after(self) -> tuple[Ids, Ids]:
        """The same, and the row of the call that ended before it; NONE for a first call."""
        gaps, after = np.zeros(len(self.key), np.int64), np.full(len(self.key), NONE, np.int64)
        number = look_up(self._trace.table(Step), "number", self.step)
        for each in distinct(self.thread).tolist():
            rows = np.flatnonzero(self.thread == each)
            rows = rows[np.argsort(self.begin[rows], kind="stable")]
            begin = self.begin[rows]
            until = np.maximum.accumulate(np.maximum(self.end[rows], begin))
            before = np.concatenate([begin[:1], until[:-1]])
            before = np.minimum(before, begin)
            free = begin - before - self._own.within(self.thread[rows], before, begin)
            free[1:][np.abs(np.diff(number[rows])) > 1] = 0
            gaps[rows] = np.maximum(free, 0)
            ends = np.where(self.end[rows] >= until, np.arange(len(rows)), 0)
            after[rows[1:]] = rows[np.maximum.accumulate(ends)[:-1]]
        return gaps, after
