"""When a program computes with a history, and what it cuts for a look at numbers only."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import numpy as np

from gradscope.analysis.columns import Ids
from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.program.acts import Done
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import GraphTask, Node, Unreached
from gradscope.trace.trace import Trace


class Forwards:
    """When something was computed with a history, and when backwards began."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        unreached = trace.table(Unreached)
        made = [trace.table(Node)["t"], unreached["t"], unreached["until"]]
        self._made = np.sort(np.concatenate(made))
        self._begun = np.sort(trace.table(GraphTask)["begin"])
        inferred = trace.meta.get("absent", ())
        self._all = "unreached" not in inferred

    def between(self, t: int) -> bool:
        """Whether a backward follows, and something was computed since the one before."""
        place = int(np.searchsorted(self._begun, t))
        if place == len(self._begun):
            return False
        if not place:
            return True
        since = int(self._begun[place - 1])
        first, last = np.searchsorted(self._made, (since, t))
        return bool(last > first) or not self._all

    @cached_property
    def _lines(self) -> dict[str, Ids]:
        """When each line computed something with a history that a backward came to."""
        nodes, found = self._trace.table(Node), defaultdict[str, list[Ids]](list)
        for stack in distinct(nodes["stack"]).tolist():
            found[site_of(self._trace, stack).place].append(nodes["t"][nodes["stack"] == stack])
        return {place: np.sort(np.concatenate(times)) for place, times in found.items()}

    def takes(self, act: Done) -> bool:
        """Whether the line that cut computes with it right away, before the next backward."""
        place = site_of(self._trace, act.stack).place
        made = self._lines.get(place, np.zeros(0, np.int64)) if place else np.zeros(0, np.int64)
        first = int(np.searchsorted(made, act.t))
        begun = int(np.searchsorted(self._begun, act.t))
        if first == len(made) or begun == len(self._begun):
            return False
        return bool(made[first] < self._begun[begun])
