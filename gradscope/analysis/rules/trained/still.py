"""What passes on only zeros, where only the gradients of parameters were recorded."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.graph.selection import leaf_nodes
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.program.numbers import TensorNumbers
from gradscope.analysis.program.training import Training
from gradscope.trace.schema import NONE, Edge, HookAct, Node
from gradscope.trace.trace import Trace

LOOKS = 3
"""In how many checked steps a gradient must be zero throughout."""

DEEP, SOME = 2000, 4
"""Limits: the depth of a graph, and the number of steps that created its nodes."""

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Still:
    """A node that receives gradients other than zero, and passes on only zeros."""

    node: int
    tensors: frozenset[int]


class StillParameters:
    """Parameters whose gradient was zero in all checked steps, at least three."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        held, self.looks, self.zero, step = trace.once(Training).held, 0, set[int](), NONE
        acts = trace.once(Acts).by_id
        for series in trace.once(TensorNumbers).gradients:
            if series.acts and len(series.acts) >= LOOKS and series.tensor in held:
                if not series.rms.any():
                    self.zero.add(series.tensor)
                step, self.looks = acts[series.acts[0]].step, len(series.acts)
        self._step = step

    @cached_property
    def _ways(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Edges of the first checked step, as positions of nodes."""
        nodes, edges = self.trace.table(Node), self.trace.table(Edge)
        node, after = nodes.positions(edges["node"]), nodes.positions(edges["next"])
        known = (node != NONE) & (after != NONE)
        ago = self._step - nodes["step"][node[known]]
        known[known] &= (ago >= 0) & (ago < SOME)
        return node[known], after[known]

    @cached_property
    def _gather(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The positions of nodes that accumulate gradients, and the leaf of each."""
        nodes = self.trace.table(Node)
        places = nodes.positions(leaf_nodes(self.trace))
        inputs = nodes.ragged("inputs")
        mine = np.isin(inputs.owners, places)
        return inputs.owners[mine], inputs.values[mine]

    def _leads(self, places: NDArray[np.int64]) -> Bools | None:
        """Which nodes lead there; None if the graph is too deep."""
        node, after = self._ways
        found = np.zeros(len(self.trace.table(Node)), np.bool_)
        found[places] = True
        for _ in range(DEEP):
            new = node[found[after] & ~found[node]]
            if not len(new):
                return found
            found[new] = True
        return None

    def nodes(self) -> list[Still]:
        """The first nodes that lead only to such parameters."""
        if not self.zero:
            return []
        places, leaves = self._gather
        still = np.isin(leaves, list(self.zero))
        zero, others = self._leads(places[still]), self._leads(places[~still])
        if zero is None or others is None:
            return []
        node, after = self._ways
        first = np.unique(after[zero[after] & ~others[after] & others[node]])
        ids = self.trace.table(Node)["id"]
        return [Still(int(ids[at]), self.behind(int(at))) for at in first]

    def behind(self, at: int) -> frozenset[int]:
        """The parameters to which the node at a position leads."""
        (node, after), (places, leaves) = self._ways, self._gather
        found = np.zeros(len(self.trace.table(Node)), np.bool_)
        found[at] = True
        for _ in range(DEEP):
            new = after[found[node] & ~found[after]]
            if not len(new):
                break
            found[new] = True
        return frozenset(leaves[found[places]].tolist())

    def hooked(self) -> list[tuple[int, frozenset[int]]]:
        """Hooks on such parameters themselves: the event of each, and its parameters."""
        hooks = self.trace.once(Acts).of(HookAct)
        found = ((act.id, frozenset(act.tensors) & self.zero) for act in hooks)
        return [(act, tensors) for act, tensors in found if tensors]

    def leads_to(self, tensors: Collection[int]) -> Bools:
        """Which nodes lead to the gradients of these parameters."""
        places, leaves = self._gather
        found = self._leads(places[np.isin(leaves, list(tensors))])
        return np.zeros(len(self.trace.table(Node)), np.bool_) if found is None else found
