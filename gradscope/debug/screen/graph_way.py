"""The displayed node: the current one, or another one reached along the graph."""

from __future__ import annotations

from gradscope.analysis.state.node_at import NodeAt
from gradscope.debug.screen.panels import node_of
from gradscope.debug.walk import Walk
from gradscope.trace.schema import NONE


class GraphWay:
    """The displayed node and its siblings: the other neighbours of the previous node."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self.node = node_of(walk.state)
        self.found: NodeAt | None = None  # its state now
        self._beside: list[int] = []

    def at_hand(self) -> None:
        """Display the node of the current moment, if it has one."""
        here = node_of(self._walk.state)
        if here != NONE:
            self.to(here)

    def to(self, node: int) -> None:
        self.node, self.found, self._beside = node, None, []

    def go(self, way: str) -> bool:
        """Move against or along the gradient, left or right. False if there is no node."""
        if way in ("left", "right"):
            return self._sibling(-1 if way == "left" else 1)
        if self.found is None:
            return False
        if way == "against":
            there = [each.node for each in self.found.senders]
        else:
            there = [each.node for each in self.found.receivers if each.node != NONE]
        there = [*dict.fromkeys(there)]
        if not there:
            return False
        self.to(there[0])
        self._beside = there
        return True

    def _sibling(self, by: int) -> bool:
        if self.node not in self._beside:
            return False
        place = self._beside.index(self.node) + by
        if not 0 <= place < len(self._beside):
            return False
        beside = self._beside
        self.to(beside[place])
        self._beside = beside
        return True
