"""When a program computes with a graph, and what it cuts only to look at values."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.lookups import Ids
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.source.files import SourceFiles
from gradscope.analysis.source.looked_at import looked_at
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, ActFacts, CameInAct, CutAct, GraphTask, Node, Unreached
from gradscope.trace.trace import Trace


class Forwards:
    """When something was computed with a graph, and when backwards began."""

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
        """When each line computed something with a graph that a backward reached."""
        nodes, found = self._trace.table(Node), defaultdict[str, list[Ids]](list)
        for stack in distinct(nodes["stack"]).tolist():
            found[site_of(self._trace, stack).place].append(nodes["t"][nodes["stack"] == stack])
        return {place: np.sort(np.concatenate(times)) for place, times in found.items()}

    def takes(self, act: Done[ActFacts]) -> bool:
        """Whether the line of a cut also computes with the result before the next backward."""
        place = site_of(self._trace, act.stack).place
        made = self._lines.get(place, np.zeros(0, np.int64)) if place else np.zeros(0, np.int64)
        first = int(np.searchsorted(made, act.t))
        begun = int(np.searchsorted(self._begun, act.t))
        if first == len(made) or begun == len(self._begun):
            return False
        return bool(made[first] < self._begun[begun])


def only_looked_at(trace: Trace) -> set[tuple[str, object]]:
    """Lines, and what cuts there, where the result of the cut cannot get into a loss."""
    looks = trace.once(SourceFiles).across(looked_at)
    return {(each.site.place, each.found.by) for each in looks}


def cuts_that_go_on(trace: Trace) -> list[Done[CutAct]]:
    """The cuts without those that were read for a log: nothing can be computed from their result.

    A loss that is read after its backward is not cut from anything, either.
    """
    acts, forwards, looks = trace.once(Acts), trace.once(Forwards), only_looked_at(trace)
    return [
        act
        for act in acts.of(CutAct)
        if (acts.place(act), act.facts.by) not in looks
        and (forwards.between(act.t) or forwards.takes(act))
    ]


LOOKUPS = ("embedding", "index_select", "index")
LAYERS = frozenset(("addmm", "mm", "bmm", "linear", "matmul", "convolution"))
NEAREST = "argmin"


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Rows of a learned table that are nearest to a tensor with a graph, and go into a layer."""

    choice: Done[ActFacts]  # the cut
    at: int  # the call that looks them up
    layer: int

    def behind(self, calls: Calls) -> set[int]:
        """The leaves that the choice was computed from, except the table."""
        return {*self.choice.tensors} - {*map(calls.origin_leaf, calls.inputs(self.at))}


def looked_up(trace: Trace) -> list[LookedUp]:
    """The lookups of a program, one for each line."""
    calls, acts = trace.once(Calls), trace.once(Acts)
    cuts = {acts.place(each): each for each in acts.of(CutAct)[::-1] if each.facts.by == NEAREST}
    if not cuts:
        return []
    came = [each for each in acts.of(CameInAct) if acts.place(each) in cuts]
    chosen = {tensor: acts.place(each) for each in came for tensor in each.tensors}
    found: dict[int, LookedUp] = {}
    for at in calls.with_tensors(*LOOKUPS).tolist():
        if calls.stack(at) in found or not calls.needs_grad(calls.outputs(at)[0]):
            continue
        for index in calls.inputs(at):
            made = calls.origin(index)
            place = chosen.get(index) or (calls.site(made).place if made != NONE else "")
            layers = (e for e in calls.following(at) if calls.name(e) in LAYERS)
            layer = next(layers, NONE) if place in cuts else NONE
            if layer != NONE:
                found[calls.stack(at)] = LookedUp(cuts[place], at, layer)
    return list(found.values())
