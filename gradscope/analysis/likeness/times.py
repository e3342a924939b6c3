"""Times of nodes in two traces: medians over all steps of each, compared with their spread."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.likeness.match import numbered
from gradscope.analysis.likeness.parts import TraceParts
from gradscope.analysis.likeness.who import KINDS, LEAF, NODE
from gradscope.analysis.lookups import Ids, ranks
from gradscope.analysis.timing.durations import look_up, node_runs
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, GraphTask

ENOUGH = 5
"""Smallest number of steps, without the first, of which times are compared."""

Floats = NDArray[np.float64]


class Verdict(IntEnum):
    """The result of comparing two times."""

    UNKNOWN = -1  # there are too few steps
    ALIKE = 0  # the difference is not clearly larger than the spread
    SLOWER = 1
    FASTER = 2


@dataclass(frozen=True, slots=True)
class Spread:
    """The quartiles of a time over the steps of a trace."""

    low: float
    median: float
    high: float
    steps: int

    @property
    def range(self) -> float:
        return self.high - self.low


class StepTimes:
    """The times of the nodes of a trace in its steps, without the first step, which warms up.

    Nodes of several steps are the same if their name, line and module are, and their place among
    those in which these are equal.
    """

    def __init__(self, part: TraceParts) -> None:
        self._part = part
        self._keys = _keys(part)
        runs, trace = node_runs(part.who.trace), part.who.trace
        ended = runs.self_ns != NONE
        key = self._key_of(runs.node[ended])
        numbers = trace.once(step_numbers)
        of_task = look_up(trace.table(GraphTask), "step", runs.task[ended]).tolist()
        step = np.array([numbers.get(each, NONE) for each in of_task], np.int64)
        known = (key != NONE) & (step != NONE)
        key, step, ns = key[known], step[known], runs.self_ns[ended][known]
        later = step > (int(step.min()) if len(step) else 0)
        key, step, ns = key[later], step[later], ns[later]
        self.steps = len(distinct(step))
        """Number of steps that count."""
        self._spreads = _spreads(key, step, ns)
        self.whole = _spreads(np.zeros(len(ns), np.int64), step, ns).get(0)
        """The time of all nodes of a step."""

    def of(self, nodes: Ids) -> list[Spread | None]:
        """The time of each of these nodes, by id; None for those that ran in no such step."""
        return [self._spreads.get(key) for key in self._key_of(nodes).tolist()]

    def _key_of(self, nodes: Ids) -> Ids:
        code = self._part.who.codes(nodes)
        number, kind = np.divmod(code, KINDS)
        found = np.full(len(code), NONE, np.int64)
        ordinary = (code >= 0) & (kind == NODE)
        found[ordinary] = self._keys[number[ordinary]]
        leaves = (code >= 0) & (kind == LEAF)
        found[leaves] = len(self._keys) + number[leaves]
        return found


def _keys(part: TraceParts) -> Ids:
    """A number for each node, the same for its equals in other steps."""
    nodes = part.nodes
    alike = [nodes[name] for name in ("name", "line", "module")]
    if not len(nodes["name"]):
        return np.zeros(0, np.int64)
    return numbered([*alike, ranks(numbered([nodes["step"], *alike]))])


def _spreads(key: Ids, step: Ids, ns: Ids) -> dict[int, Spread]:
    """The quartiles of each key's time per step."""
    if not len(key):
        return {}
    pairs = numbered([key, step])
    first = np.unique(pairs, return_index=True)[1]
    total = np.bincount(pairs, weights=ns)
    owner = key[first]
    order = np.argsort(owner, kind="stable")
    owner, total = owner[order], total[order]
    keys, starts = np.unique(owner, return_index=True)
    parts = np.split(total, starts[1:])
    found = {}
    for each, values in zip(keys.tolist(), parts, strict=True):
        low, median, high = np.percentile(values, (25, 50, 75)).tolist()
        found[each] = Spread(low, median, high, len(values))
    return found


def verdict(one: Spread | None, other: Spread | None) -> Verdict:
    """Whether the other is slower or faster: by more than both spreads together."""
    if one is None or other is None or min(one.steps, other.steps) < ENOUGH:
        return Verdict.UNKNOWN
    more = other.median - one.median
    if abs(more) <= one.range + other.range:
        return Verdict.ALIKE
    if more > 0:
        return Verdict.SLOWER if other.low > one.high else Verdict.ALIKE
    return Verdict.FASTER if other.high < one.low else Verdict.ALIKE
