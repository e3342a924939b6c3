"""Matches the nodes, leaves and backwards of two traces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gradscope.analysis.likeness.parts import TraceParts
from gradscope.analysis.likeness.who import KINDS, LEAF, NODE, NOWHERE, ROOT
from gradscope.analysis.lookups import Ids
from gradscope.trace.schema import NONE

OTHERS = -3
"""The code of nodes that only the second trace has."""

MOST = 500
"""Largest number of insertions and removals that are searched for in a range."""

Pairs: TypeAlias = "list[tuple[int, int]]"


@dataclass(frozen=True, slots=True)
class Match:
    """For each node, leaf, root and backward of the second its match in the first, or NONE."""

    nodes: Ids
    leaves: Ids
    roots: Ids
    tasks: Ids

    def codes(self, codes: Ids) -> Ids:
        """The codes of the second trace translated to the first."""
        number, kind = np.divmod(codes, KINDS)
        found = np.full(len(codes), OTHERS, np.int64)
        for each, of in ((NODE, self.nodes), (LEAF, self.leaves), (ROOT, self.roots)):
            chosen = (codes >= 0) & (kind == each)
            mine = np.append(of, NONE)[np.minimum(number[chosen], len(of))]
            found[chosen] = np.where(mine == NONE, OTHERS, KINDS * mine + each)
        return np.where(codes <= NOWHERE, codes, found)


def match(one: TraceParts, other: TraceParts) -> Match:
    """Match nodes by name and line in the order of creation, and the rest by the nodes."""
    nodes = _nodes(one, other)
    leaves = _leaves(one, other, nodes)
    roots = _by_number(len(one.who.roots), len(other.who.roots))
    so_far = Match(nodes, leaves, roots, np.zeros(0, np.int64))
    return Match(nodes, leaves, roots, _tasks(one, other, so_far))


def _by_number(ours: int, theirs: int) -> Ids:
    numbers = np.arange(theirs)
    return np.where(numbers < ours, numbers, NONE)


# -- nodes --------------------------------------------------------------------------------------


def _nodes(one: TraceParts, other: TraceParts) -> Ids:
    """Match nodes of each step: by name, line and module, then by name, then by position."""
    exact = [_keys(one, other, names) for names in (("name", "line", "module"), ("name",))]
    made = np.full(len(other.nodes["name"]), NONE, np.int64)
    for _, mine, theirs in nodes_of_steps(one, other):
        if len(mine) == len(theirs) and np.array_equal(exact[0][0][mine], exact[0][1][theirs]):
            made[theirs] = mine  # nearly always
            continue
        for a, b in _aligned(mine.tolist(), theirs.tolist(), exact):
            made[b] = a
    return made


def _keys(one: TraceParts, other: TraceParts, names: tuple[str, ...]) -> tuple[Ids, Ids]:
    """A number for each node, the same for nodes that are equal in these columns."""
    split = len(one.nodes["name"])
    joined = [np.concatenate([part.nodes[name] for part in (one, other)]) for name in names]
    keys = numbered(joined)
    return keys[:split], keys[split:]


def numbered(columns: list[Ids]) -> Ids:
    """A number for each row, the same for equal rows."""
    keys = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        part = np.unique(column, return_inverse=True)[1]
        keys = np.unique(keys * (int(part.max(initial=0)) + 1) + part, return_inverse=True)[1]
    return keys.astype(np.int64)


def nodes_of_steps(one: TraceParts, other: TraceParts) -> list[tuple[int, Ids, Ids]]:
    """Each step with its nodes in both traces; all at once (step NONE) if only one has steps."""
    mine, theirs = one.nodes["step"], other.nodes["step"]
    if not len(mine) or not len(theirs) or not np.isin(mine, theirs).any():
        return [(NONE, np.arange(len(mine)), np.arange(len(theirs)))]
    steps = np.unique(np.concatenate([mine, theirs])).tolist()
    sides = [(np.argsort(part, kind="stable"), np.sort(part)) for part in (mine, theirs)]
    found = []
    for step in steps:
        pair = [
            order[np.searchsorted(rising, step) : np.searchsorted(rising, step, "right")]
            for order, rising in sides
        ]
        found.append((step, pair[0], pair[1]))
    return found


def _aligned(mine: list[int], theirs: list[int], keys: list[tuple[Ids, Ids]]) -> Pairs:
    """Pairs of nodes: by the first keys, in between by the next ones, finally by position."""
    if not keys:
        return list(zip(mine, theirs, strict=True)) if len(mine) == len(theirs) else []
    (own, others), *rest = keys
    pairs = common([int(own[n]) for n in mine], [int(others[n]) for n in theirs])
    found: Pairs = []
    a = b = 0
    for x, y in [*pairs, (len(mine), len(theirs))]:
        if x > a and y > b:
            found += _aligned(mine[a:x], theirs[b:y], rest)
        if x < len(mine):
            found.append((mine[x], theirs[y]))
        a, b = x + 1, y + 1
    return found


def common(one: list[int], other: list[int]) -> Pairs:
    """A longest common subsequence as pairs of places (Myers); by position if too different."""
    begin = 0
    least = min(len(one), len(other))
    while begin < least and one[begin] == other[begin]:
        begin += 1
    end = 0
    while end < least - begin and one[-1 - end] == other[-1 - end]:
        end += 1
    head = [(n, n) for n in range(begin)]
    tail = [(len(one) - n, len(other) - n) for n in range(end, 0, -1)]
    a, b = one[begin : len(one) - end], other[begin : len(other) - end]
    inner = _shortest(a, b) if a and b else []
    if inner is None:
        inner = [(n, n) for n in range(min(len(a), len(b))) if a[n] == b[n]]
    return [*head, *((x + begin, y + begin) for x, y in inner), *tail]


def _shortest(a: list[int], b: list[int]) -> Pairs | None:
    """The pairs on a shortest edit path; None if it is longer than MOST."""
    reach = {1: 0}
    trail: list[dict[int, int]] = []
    for edits in range(min(len(a) + len(b), MOST) + 1):
        trail.append(dict(reach))
        for k in range(-edits, edits + 1, 2):
            down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
            x = reach[k + 1] if down else reach[k - 1] + 1
            while x < len(a) and x - k < len(b) and a[x] == b[x - k]:
                x += 1
            reach[k] = x
            if x >= len(a) and x - k >= len(b):
                return _way_back(trail, (len(a), len(b)))
    return None


def _way_back(trail: list[dict[int, int]], end: tuple[int, int]) -> Pairs:
    """The diagonal steps of the path, traced back from the end."""
    x, y = end
    found: Pairs = []
    for edits in range(len(trail) - 1, -1, -1):
        reach, k = trail[edits], x - y
        down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
        before = k + 1 if down else k - 1
        start = reach[before]
        while x > start and y > start - before:
            x, y = x - 1, y - 1
            found.append((x, y))
        x, y = start, start - before
    return found[::-1]


# -- leaves and backwards -----------------------------------------------------------------------


def _leaves(one: TraceParts, other: TraceParts, nodes: Ids) -> Ids:
    """Match leaves by the first edges that lead to them."""
    made = np.full(len(other.who.leaves), NONE, np.int64)
    mine = _edges_to_leaves(one, lambda numbers: numbers)
    theirs = _edges_to_leaves(other, lambda numbers: nodes[numbers])
    taken: set[int] = set()
    for edge, leaf in theirs.items():
        found = mine.get(edge, NONE)
        if found != NONE and made[leaf] == NONE and found not in taken:
            made[leaf] = found
            taken.add(found)
    if len(one.who.leaves) == len(other.who.leaves):
        left = np.flatnonzero(made == NONE)
        free = [n for n in range(len(one.who.leaves)) if n not in taken]
        made[left] = free
    return made


def _edges_to_leaves(of: TraceParts, number: Callable[[Ids], Ids]) -> dict[tuple[int, int], int]:
    """The leaf of each edge, by node and index; only the first edge to each leaf."""
    target = of.edges["target"]
    chosen = np.flatnonzero((target >= 0) & (target % KINDS == LEAF))
    node = number(of.edges["node"][chosen])
    known = node != NONE
    rows = zip(
        node[known].tolist(),
        of.edges["index"][chosen][known].tolist(),
        (target[chosen][known] // KINDS).tolist(),
        strict=True,
    )
    return {(node, index): leaf for node, index, leaf in rows}


def _tasks(one: TraceParts, other: TraceParts, so_far: Match) -> Ids:
    """Match backwards in order, by their lines and their roots."""
    keys = []
    for part in (one, other):
        asked = part.asked
        first = (asked["role"] == 0) & (asked["place"] == 0)
        root = np.full(len(part.tasks["line"]), NOWHERE, np.int64)
        codes = asked["node"][first]
        root[asked["task"][first]] = codes if part is one else so_far.codes(codes)
        keys.append((root, part.tasks["line"]))
    joined = [np.concatenate([mine, theirs]) for mine, theirs in zip(*keys, strict=True)]
    number, split = numbered(joined), len(keys[0][0])
    made = np.full(len(keys[1][0]), NONE, np.int64)
    mine, theirs = number[:split].tolist(), number[split:].tolist()
    if len(mine) == len(theirs):
        return np.arange(len(mine), dtype=np.int64)
    for a, b in common(mine, theirs):
        made[b] = a
    return made
