"""Differences between two traces in one aspect: their number and the first one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from gradscope.analysis.identity.sites import Site, site_of
from gradscope.analysis.likeness.lines import LikenessLines
from gradscope.analysis.likeness.match import Match
from gradscope.analysis.likeness.parts import TraceParts
from gradscope.analysis.likeness.who import KINDS, LEAF, NODE, ROOT
from gradscope.analysis.lookups import Ids
from gradscope.trace.arrays import without
from gradscope.trace.schema import NONE, GraphTask, Node


class Aspect(StrEnum):
    """What is compared, in order."""

    STRUCTURE = "structure"
    NAMES = "names"
    ARGUMENTS = "arguments"
    SAVED = "saved values"
    EXECUTION = "execution order"
    ACCUMULATION = "accumulation order"
    EVENTS = "events"
    VALUES = "values"


NOWHERE = Site()


@dataclass(frozen=True, slots=True)
class Side:
    """The side of one trace in a difference."""

    text: str = ""  # "" if it has nothing
    site: Site = NOWHERE
    node: int = NONE  # the id of the node


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference: what differs, and both sides."""

    what: str
    one: Side
    other: Side
    when: int = NONE  # the number of the backward it is in, in the first trace
    step: int = NONE


@dataclass(frozen=True, slots=True)
class Section:
    """The result of comparing one aspect."""

    kind: Aspect
    first: Difference | None
    counts: tuple[tuple[str, int], ...] = ()  # "nodes that only the first has", 3
    of: str = ""  # what was compared: "206 nodes, 340 edges"

    @property
    def count(self) -> int:
        return sum(count for _, count in self.counts)


@dataclass(frozen=True, slots=True)
class SameNodes:
    """The ids of nodes and leaves: pairs that both traces have, and the others."""

    one: Ids
    other: Ids
    only_one: Ids  # in the order of creation
    only_other: Ids


class DifferenceList:
    """Collects the differences in one aspect: the number of each kind, and the first of all."""

    def __init__(self) -> None:
        self._counts: list[tuple[str, int]] = []
        self._first: tuple[int, Difference] | None = None

    def add(self, what: str, places: Ids, describe: Callable[[int], Difference]) -> None:
        """Add differences of one kind: their places in order, and a description of one."""
        if not len(places):
            return
        self._counts.append((what, len(places)))
        first = int(places.min())
        if self._first is None or first < self._first[0]:
            self._first = first, describe(first)

    def section(self, kind: Aspect, of: str) -> Section:
        return Section(kind, self._first and self._first[1], tuple(self._counts), of)


class Both:
    """Two traces and their matching parts; describes nodes and backwards."""

    def __init__(self, one: TraceParts, other: TraceParts, matched: Match) -> None:
        self.one, self.other, self.match = one, other, matched
        self.lines = LikenessLines(one, one.who.words), LikenessLines(other, other.who.words)
        self.nodes = _pairs(matched.nodes)
        self.tasks = _pairs(matched.tasks)

    @property
    def whole(self) -> bool:
        """Whether every node and backward of one trace has a match in the other."""
        nodes = len(self.one.nodes["name"]), len(self.other.nodes["name"])
        tasks = len(self.one.tasks["site"]), len(self.other.tasks["site"])
        return nodes == (len(self.nodes[0]),) * 2 and tasks == (len(self.tasks[0]),) * 2

    def side(self, place: int, code: int, text: str = "{}") -> Side:
        """A side about a node; `{}` in the text is the node."""
        of = (self.one, self.other)[place]
        return Side(
            text.replace("{}", self.title(place, code)), self.site(of, code), of.who.id(code)
        )

    def same(self) -> SameNodes:
        """The nodes that match, and those that only one trace has."""
        pairs = self.nodes, _pairs(self.match.leaves)
        who = self.one.who, self.other.who
        both, only = [], []
        for place, each in enumerate(who):
            ids = each.ids(NODE), each.ids(LEAF)
            found = [known[pair[place]] for known, pair in zip(ids, pairs, strict=True)]
            both.append(np.concatenate(found))
            only.append(without(np.concatenate(ids), both[place]))
        return SameNodes(both[0], both[1], only[0], only[1])

    def title(self, place: int, code: int) -> str:
        """The name of a node, and its number among those that backwards reached."""
        if code < 0:
            return self.lines[place].name(code)
        number, kind = divmod(code, KINDS)
        if kind == ROOT:
            return f"the root above several ({number})"
        of = (self.one, self.other)[place]
        if kind == NODE:
            name = of.who.words.texts[int(of.nodes["name"][number])]
            module = of.who.words.texts[int(of.nodes["module"][number])]
            return f"{name} (node {number}{f' in {module}' if module else ''})"
        return f"leaf {number}{of.who.leaf_name(number)}"

    def site(self, of: TraceParts, code: int) -> Site:
        """The line that created a node."""
        if code < 0 or code % KINDS != NODE:
            return Site()
        table = of.who.trace.table(Node)
        return site_of(of.who.trace, int(table["stack"][of.who.position(code)]))

    def step(self, number: int) -> int:
        """The step of a node of the first trace."""
        return int(self.one.nodes["step"][number])

    def task_side(self, place: int, number: int, text: str) -> Side:
        who = (self.one, self.other)[place].who
        return Side(text, site_of(who.trace, who.tasks[number].stack))

    def task(self, number: int) -> GraphTask:
        """A backward of the first trace."""
        return self.one.who.tasks[number]


def _pairs(of: Ids) -> tuple[Ids, Ids]:
    """Numbers in the first trace and in the second, sorted by the first."""
    theirs = np.flatnonzero(of != NONE)
    mine = of[theirs]
    order = np.argsort(mine, kind="stable")
    return mine[order], theirs[order]
