"""The critical path: the chain of nodes that more threads cannot shorten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.trace.ragged import within
from gradscope.trace.schema import NONE, Edge
from gradscope.trace.trace import Trace


def critical_path(trace: Trace, nodes: Iterable[int], own_ns: Mapping[int, int]) -> list[int]:
    """The chain along edges between these nodes with the largest sum of own times.

    From the node that runs first to the one that runs last. If several are equally long, the one
    with the most nodes.
    """
    edges = trace.table(Edge)
    order = list(nodes)
    rows = trace.once(_EdgesOfNodes).of(np.array(order, np.int64))
    rows = rows[np.isin(edges["next"][rows], order) & (edges["next"][rows] != NONE)]
    users: dict[int, list[int]] = {node: [] for node in order}
    for node, target in zip(
        edges["node"][rows].tolist(), edges["next"][rows].tolist(), strict=True
    ):
        users[target].append(node)
    best: dict[int, tuple[int, int]] = {}  # by node: time and length of the chain that ends here
    before: dict[int, int] = {}
    for node in _users_first(users):
        spent, length, via = max(
            ((*best[user], user) for user in users[node] if user in best), default=(0, 0, NONE)
        )
        best[node] = spent + max(own_ns.get(node, 0), 0), length + 1
        before[node] = via
    path = [max(best, key=lambda node: (*best[node], -node))] if best else []
    while path and before[path[-1]] != NONE:
        path.append(before[path[-1]])
    return path[::-1]


class _EdgesOfNodes:
    """Looks up the edges of some nodes, without a pass over all edges."""

    def __init__(self, trace: Trace) -> None:
        nodes = trace.table(Edge).array("node")
        self._order = np.argsort(nodes, kind="stable")
        self._nodes = nodes[self._order]

    def of(self, nodes: Ids) -> Ids:
        """The positions of the edges that begin at these nodes, in order."""
        nodes = np.unique(nodes)
        first = np.searchsorted(self._nodes, nodes, "left")
        many = np.searchsorted(self._nodes, nodes, "right") - first
        return np.sort(self._order[np.repeat(first, many) + within(many)])


def _users_first(users: Mapping[int, list[int]]) -> list[int]:
    """The nodes, each after those that send it gradients; nodes on a cycle are left out."""
    targets: dict[int, list[int]] = {node: [] for node in users}
    for node, senders in users.items():
        for sender in senders:
            targets[sender].append(node)
    left = {node: len(senders) for node, senders in users.items()}
    order = [node for node, senders in users.items() if not senders]
    for node in order:  # grows while it is read
        for target in targets[node]:
            left[target] -= 1
            if not left[target]:
                order.append(target)
    return order
