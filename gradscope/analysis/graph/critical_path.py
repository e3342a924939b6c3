"""The critical path: the chain of nodes that more threads cannot shorten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from gradscope.trace.schema import NONE, Edge
from gradscope.trace.trace import Trace


def critical_path(trace: Trace, nodes: Iterable[int], own_ns: Mapping[int, int]) -> list[int]:
    """The chain along edges between these nodes with the largest sum of own times.

    From the node that runs first to the one that runs last. If several are equally long, the one
    with the most nodes.
    """
    edges = trace.table(Edge)
    order = list(nodes)
    inside = np.isin(edges["node"], order) & np.isin(edges["next"], order)
    inside &= edges["next"] != NONE
    users: dict[int, list[int]] = {node: [] for node in order}
    for node, target in zip(
        edges["node"][inside].tolist(), edges["next"][inside].tolist(), strict=True
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
