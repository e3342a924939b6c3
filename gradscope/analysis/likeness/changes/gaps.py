"""Nodes that were replaced, added, removed or moved, found between matched neighbors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gradscope.analysis.identity.sites import Site
from gradscope.analysis.likeness.aspects import Both
from gradscope.analysis.likeness.changes.change import (
    Change,
    ChangeKind,
    counted,
    in_a_row,
    some,
    steps_said,
)
from gradscope.analysis.likeness.changes.model import ModulesOfBoth
from gradscope.analysis.likeness.match import nodes_of_steps
from gradscope.analysis.likeness.parts import TraceParts
from gradscope.analysis.likeness.who import KINDS, NODE
from gradscope.trace.schema import NONE


@dataclass(frozen=True, slots=True)
class Gap:
    """Neighbors in one step that differ: the numbers of the nodes in the first and the second."""

    step: int
    gone: tuple[int, ...]
    new: tuple[int, ...]


@dataclass(slots=True)
class GapGroup:
    """The same difference in several places."""

    kind: ChangeKind
    words: str
    by_step: dict[int, int] = field(default_factory=dict)
    sites: dict[Site, Site] = field(default_factory=dict)  # in the second by those in the first
    gone: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)  # of replaced modules


def gaps(both: Both, steps: Sequence[tuple[int, np.ndarray, np.ndarray]]) -> Iterator[Gap]:
    """The differences of each step that both have."""
    matched, names = both.match.nodes, (both.one.nodes["name"], both.other.nodes["name"])
    for step, mine, theirs in steps:
        found = matched[theirs]
        same = found != NONE
        same[same] = names[0][found[same]] == names[1][theirs[same]]
        if len(mine) == len(theirs) and bool(same.all()):
            continue
        place = {node: at for at, node in enumerate(mine.tolist())}
        a = 0
        new: list[int] = []
        for node, pair, known in zip(theirs.tolist(), found.tolist(), same.tolist(), strict=True):
            at = place.get(pair, NONE) if known else NONE
            if at < a:
                new.append(node)
                continue
            if new or at > a:
                yield Gap(step, tuple(mine[a:at].tolist()), tuple(new))
            a, new = at + 1, []
        if new or a < len(mine):
            yield Gap(step, tuple(mine[a:].tolist()), tuple(new))


class Gaps:
    """All gaps of two traces, in groups."""

    def __init__(self, both: Both, modules: ModulesOfBoth) -> None:
        self._both, self._modules = both, modules
        self._groups: dict[object, GapGroup] = {}
        parts = nodes_of_steps(both.one, both.other)
        self._steps = [each for each in parts if len(each[1]) and len(each[2])]
        self.step_numbers = [step for step, _, _ in self._steps]

    def changes(self) -> Iterator[Change]:
        """A change for each group, in the order of the first trace's nodes."""
        of_steps: dict[int, list[Gap]] = {}
        for gap in gaps(self._both, self._steps):
            of_steps.setdefault(gap.step, []).append(gap)
        for step, found in of_steps.items():
            moved = self._moved(step, found)
            for gap in found:
                gone = [node for node in gap.gone if (0, node) not in moved]
                new = [node for node in gap.new if (1, node) not in moved]
                self._sort(step, gone, new)
        yield from map(self._change, self._groups.values())

    # -- sorting ----------------------------------------------------------------------------------

    def _moved(self, step: int, found: Sequence[Gap]) -> set[tuple[int, int]]:
        """Nodes that are gone in one place and new in another, from a line of the same text."""
        waiting: dict[tuple[int, ...], list[int]] = {}
        for gap in found:
            for node in gap.gone:
                waiting.setdefault(self._key(0, node), []).append(node)
        moved: set[tuple[int, int]] = set()
        for gap in found:
            for node in gap.new:
                same = waiting.get(self._key(1, node))
                if same:
                    before = same.pop(0)
                    moved |= {(0, before), (1, node)}
                    key = ("order", *self._key(1, node)[:2])
                    words = f"{in_a_row([self._name(1, node)])} is computed in another order"
                    self._add(key, ChangeKind.ORDER, words, step, [before], [node])
        return moved

    def _key(self, place: int, node: int) -> tuple[int, ...]:
        nodes = self._part(place).nodes
        return tuple(int(nodes[name][node]) for name in ("name", "line", "module"))

    def _sort(self, step: int, gone: list[int], new: list[int]) -> None:
        """Take out what is of modules that only one trace has; the rest is replaced."""
        gone = self._of_modules(0, step, gone)
        new = self._of_modules(1, step, new)
        if not gone and not new:
            return
        both = gone and new
        old_names = tuple(self._name(0, node) for node in gone)
        new_names = tuple(self._name(1, node) for node in new)
        if both:
            words, path = self._modules.replaced(self._paths(0, gone), self._paths(1, new))
            words = words or f"{in_a_row(old_names)} → {in_a_row(new_names)}"
            key = old_names, new_names, words
            self._add(key, ChangeKind.REPLACED, words, step, gone, new)
            self._groups[key].paths.add(path)
        else:
            kind = ChangeKind.GONE if gone else ChangeKind.NEW
            are = "are" if len(gone or new) > 1 else "is"
            words = f"{in_a_row(old_names or new_names)} {are} {kind}"
            self._add((old_names, new_names), kind, words, step, gone, new)

    def _of_modules(self, place: int, step: int, nodes: list[int]) -> list[int]:
        """Add nodes of modules that only this trace has; returns the others."""
        left = []
        for node in nodes:
            root = self._modules.only(place, self._paths(place, [node])[0])
            if not root:
                left.append(node)
                continue
            kind = ChangeKind.NEW if place else ChangeKind.GONE
            sides: tuple[list[int], list[int]] = ([], [node]) if place else ([node], [])
            self._add(("module", place, root), kind, root, step, *sides)
        return left

    def _add(
        self, key: object, kind: ChangeKind, words: str, step: int, gone: list[int], new: list[int]
    ) -> None:
        group = self._groups.setdefault(key, GapGroup(kind, words))
        group.by_step[step] = group.by_step.get(step, 0) + 1
        group.gone += gone
        group.new += new
        one = self._site(0, gone[0]) if gone else Site()
        other = self._site(1, new[0]) if new else Site()
        group.sites.setdefault(one if gone else other, other)

    # -- results ----------------------------------------------------------------------------------

    def _change(self, group: GapGroup) -> Change:
        most = max(group.by_step.values())
        words, places = group.words, most
        if self._modules.is_only(group.words):
            parts = [counted(most, "node")]
            leaves = self._modules.leaves[group.words]
            parts += [counted(leaves, "leaf", "leaves")] if leaves else []
            words, places = f"`{group.words}` is {group.kind}: {' and '.join(parts)}", 0
        if len(group.paths) == 1 and all(group.paths):
            words = f"{words} ({some(sorted(group.paths))})"
        first = next(iter(group.sites.items()))
        one = first[0] if group.gone else Site()
        return Change(
            group.kind, words, places, one, first[1], sites=len(group.sites) if places else 1,
            when=steps_said(sorted(group.by_step), self.step_numbers),
            gone=self._ids(0, group.gone), nodes=self._ids(1, group.new),
        )  # fmt: skip

    def _part(self, place: int) -> TraceParts:
        return (self._both.one, self._both.other)[place]

    def _name(self, place: int, node: int) -> str:
        part = self._part(place)
        return part.who.words.texts[int(part.nodes["name"][node])]

    def _paths(self, place: int, nodes: Sequence[int]) -> list[str]:
        part = self._part(place)
        return [part.who.words.texts[int(part.nodes["module"][node])] for node in nodes]

    def _site(self, place: int, node: int) -> Site:
        return self._both.site(self._part(place), KINDS * node + NODE)

    def _ids(self, place: int, nodes: Sequence[int]) -> tuple[int, ...]:
        who = self._part(place).who
        return tuple(who.id(KINDS * node + NODE) for node in nodes)
