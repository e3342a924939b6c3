"""What the page folds: steps, calls of modules, turns of loops, and stretches of long lists.

Each group is an unbroken run of nodes in the order in which they were made, so that folding one
never makes a cycle. Leaves belong to the group of whoever uses them first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

import numpy as np

from gradscope.analysis.columns import Ids
from gradscope.analysis.graph.repeats import Repeat, repeats
from gradscope.analysis.identity.backwards import backward_numbers
from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.program.modules import module_names, parts_of
from gradscope.scene.readable import count, plural, shorten
from gradscope.scene.viewer.columns import Table, Texts, ints
from gradscope.scene.viewer.nodes import Scope
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Edge, Module

LONGEST = 40
"""A group with more parts than this is cut into stretches."""
STRETCHES = 12
FEWEST_WITH_LOOPS = 6
"""A turn of fewer parts holds no loop."""
CODE_LENGTH = 44


class GroupForm(IntEnum):
    """What a group is."""

    ALL = 0
    STEP = 1
    BACKWARD = 2  # what a double backward made
    MODULE = 3
    LOOP = 4
    TURN = 5
    STRETCH = 6  # of a list too long to be shown at once


Part: TypeAlias = "Group | int"
"""A group, or the row of a node."""


@dataclass(slots=True)
class Group:
    """One group; its parts are groups, and rows of nodes."""

    form: GroupForm
    title: str
    path: str = ""
    parts: list[Part] = field(default_factory=list)
    turns: int = 0  # of a loop
    key: int = NONE  # groups with the same key did the same
    ns: int = 0
    nodes: int = 0
    number: int = 0  # which call of the module
    within: object = None  # … of those in the same step


class _Keys:
    """A number for each thing, the same for those alike."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}

    def of(self, thing: object) -> int:
        return self._known.setdefault(thing, len(self._known))


class Grouping:
    """The groups of a scope. `own_ns`: by row, how long the node ran."""

    def __init__(self, scope: Scope, own_ns: Ids) -> None:
        self.scope = scope
        self.own_ns = np.maximum(own_ns, 0).tolist()
        self.leaf = scope.beside
        self._keys = _Keys()
        self._name, self._stack = scope.of("name").tolist(), scope.of("stack").tolist()
        self._types = _types_of(scope)
        self.root = Group(GroupForm.ALL, "everything")
        self._calls: Counter[object] = Counter()
        self._fill()
        self._number_calls()
        self._close(self.root)

    # Groups as the program has them --------------------------------------------------------------

    def _fill(self) -> None:
        scope = self.scope
        rows = np.flatnonzero(~self.leaf)
        if not len(rows):
            return
        steps, made_in, modules = (scope.of(name)[rows] for name in ("step", "task", "module"))
        several = len(distinct(steps)) > 1
        changes = np.zeros(len(rows), bool)
        for column in (steps, made_in, modules):
            changes[1:] |= column[1:] != column[:-1]
        starts = [0, *np.flatnonzero(changes).tolist()]
        numbers = step_numbers(scope.trace)
        backwards = backward_numbers(scope.trace)
        names = module_names(scope.trace)
        open_groups: list[tuple[object, Group]] = []
        for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
            step, task, module = int(steps[start]), int(made_in[start]), int(modules[start])
            chain: list[tuple[object, GroupForm, str, str]] = []
            if several and step in numbers:
                chain.append((("s", step), GroupForm.STEP, f"step {numbers[step]}", ""))
            if task != NONE:
                title = f"made during backward {backwards.get(task, '?')} (create_graph)"
                chain.append((("b", task), GroupForm.BACKWARD, title, ""))
            chain += [
                (("m", part), GroupForm.MODULE, part, part)
                for part in parts_of(names.get(module, ""))
            ]
            self._enter(open_groups, chain).parts += rows[start:end].tolist()

    def _enter(
        self,
        open_groups: list[tuple[object, Group]],
        chain: list[tuple[object, GroupForm, str, str]],
    ) -> Group:
        """Leave the groups that are not in the chain, and enter those that are not open."""
        same = 0
        while same < min(len(chain), len(open_groups)) and open_groups[same][0] == chain[same][0]:
            same += 1
        del open_groups[same:]
        for key, form, title, path in chain[same:]:
            parent = open_groups[-1][1] if open_groups else self.root
            group = Group(form, title, path)
            if form is GroupForm.MODULE:
                within = chain[0][0] if chain[0][1] is GroupForm.STEP else None
                group.within = (within, path)
                self._calls[group.within] += 1
                group.number = self._calls[group.within]
            parent.parts.append(group)
            open_groups.append((key, group))
        return open_groups[-1][1] if open_groups else self.root

    def _number_calls(self) -> None:
        for group in _groups_in(self.root):
            if group.form is GroupForm.MODULE:
                parts = [group.path, self._types.get(group.path, "")]
                if self._calls[group.within] > 1:
                    total = count(self._calls[group.within])
                    parts.append(f"call {count(group.number)} of {total}")
                group.title = " · ".join(part for part in parts if part)

    # Loops, and long lists -----------------------------------------------------------------------

    def _close(self, group: Group) -> None:
        """Sum up a group, after those in it; fold its repeats, and cut what is still too long."""
        for part in group.parts:
            if isinstance(part, Group):
                self._close(part)
        keys = [self._key(part) for part in group.parts]
        kind = self._types.get(group.path, "") if group.form is GroupForm.MODULE else ""
        group.key = self._keys.of((group.form, kind, tuple(keys)))
        group.nodes = sum(self._nodes(part) for part in group.parts)
        group.ns = sum(self._ns(part) for part in group.parts)
        found = repeats(ints(keys)) if len(keys) > 1 else []
        parts: list[Part] = []
        at = 0
        for repeat in found:
            parts += group.parts[at : repeat.first]
            parts.append(self._loop(group.parts[repeat.first : repeat.end], repeat))
            at = repeat.end
        group.parts = _cut(parts + group.parts[at:], self._stretch)

    def _loop(self, parts: list[Part], repeat: Repeat) -> Group:
        turns: list[Part] = []
        of_modules = _of_modules(parts)
        for number in range(repeat.count):
            inside = parts[number * repeat.period : (number + 1) * repeat.period]
            title = _modules(inside) if of_modules else f"turn {count(number + 1)}"
            turns.append(inside[0] if repeat.period == 1 else self._turn(title, inside))
        loop = self._sum(
            Group(GroupForm.LOOP, self._loop_title(parts, repeat), parts=turns, turns=repeat.count)
        )
        slowest = max(range(repeat.count), key=lambda place: (self._ns(turns[place]), -place))
        loop.parts = self._shown_turns(turns, slowest)
        return loop

    def _turn(self, title: str, inside: list[Part]) -> Group:
        turn = Group(GroupForm.TURN, title, parts=inside)
        if len(inside) < FEWEST_WITH_LOOPS:
            return self._sum(turn)
        self._close(turn)
        return turn

    def _shown_turns(self, turns: list[Part], slowest: int) -> list[Part]:
        """The first, the slowest and the last; what is between them in stretches."""
        if len(turns) <= STRETCHES:
            return turns
        shown: list[Part] = []
        at = 0
        for place in dict.fromkeys((0, slowest, len(turns) - 1)):
            if place > at:
                shown.append(self._turns_between(turns, at, place))
            shown.append(turns[place])
            at = place + 1
        return shown

    def _turns_between(self, turns: list[Part], first: int, end: int) -> Part:
        if end - first == 1:
            return turns[first]
        inside = turns[first:end]
        title = f"turns {count(first + 1)} to {count(end)}"
        group = self._sum(Group(GroupForm.STRETCH, title, parts=inside))
        if len(inside) > STRETCHES:
            size = _stretch_size(len(inside))
            group.parts = [
                self._turns_between(turns, at, min(at + size, end))
                for at in range(first, end, size)
            ]
        return group

    def _loop_title(self, parts: list[Part], repeat: Repeat) -> str:
        first, last = parts[0], parts[-1]
        each = plural(sum(self._nodes(part) for part in parts[: repeat.period]), "node")
        said = self._title(first)
        if repeat.period == 1 and isinstance(first, Group):
            if first.form is GroupForm.STEP:
                said = f"{first.title} to {last.title}" if isinstance(last, Group) else first.title
            else:
                said = self._types.get(first.path, "") or first.path or first.title
        elif repeat.period > 1 and _of_modules(parts):
            said = _modules(parts)
        elif repeat.period > 1:
            said = shorten(self._code(first), CODE_LENGTH) or said
        return f"×{count(repeat.count)} · {said} · {each} each"

    def _code(self, part: Part) -> str:
        while isinstance(part, Group):
            part = part.parts[0]
        return site_of(self.scope.trace, self._stack[part]).text

    def _title(self, part: Part) -> str:
        if isinstance(part, Group):
            return part.title
        return self.scope.trace.text(self._name[part])

    def _stretch(self, parts: list[Part], first: int, total: int) -> Group:
        title = f"{self._title(parts[0])} … {self._title(parts[-1])}"
        where = f"{count(first + 1)} to {count(first + len(parts))} of {count(total)}"
        return self._sum(Group(GroupForm.STRETCH, f"{where} · {title}", parts=parts))

    def _sum(self, group: Group) -> Group:
        group.nodes = sum(self._nodes(part) for part in group.parts)
        group.ns = sum(self._ns(part) for part in group.parts)
        return group

    def _key(self, part: Part) -> int:
        if isinstance(part, Group):
            return part.key
        return self._keys.of((self._name[part], self._stack[part]))

    def _nodes(self, part: Part) -> int:
        return part.nodes if isinstance(part, Group) else 1

    def _ns(self, part: Part) -> int:
        return part.ns if isinstance(part, Group) else self.own_ns[part]

    # Columns -------------------------------------------------------------------------------------

    def table(self, texts: Texts) -> tuple[Table, Ids]:
        """The groups, parents first; and for each node the group it is a part of."""
        of_node = np.zeros(len(self.scope.ids), np.int64)
        groups: list[Group] = []
        parents: list[int] = []
        waiting: list[tuple[Group, int]] = [(self.root, NONE)]
        while waiting:
            group, parent = waiting.pop()
            place = len(groups)
            groups.append(group)
            parents.append(parent)
            of_node[[part for part in group.parts if not isinstance(part, Group)]] = place
            waiting += [(p, place) for p in reversed(group.parts) if isinstance(p, Group)]
        self._place_leaves(of_node)
        table: Table = {
            "parent": ints(parents),
            "form": ints(group.form for group in groups),
            "title": texts.column(group.title for group in groups),
            "path": texts.column(group.path for group in groups),
            "turns": ints(group.turns for group in groups),
        }
        return table, of_node

    def _place_leaves(self, of_node: Ids) -> None:
        """Each leaf is where it is used first."""
        edges = self.scope.trace.table(Edge)
        tail, head = self.scope.rows(edges["node"]), self.scope.rows(edges["next"])
        used = (tail != NONE) & (head != NONE)
        tail, head = tail[used], head[used]
        to_leaf = self.leaf[head]
        order = np.argsort(tail[to_leaf], kind="stable")[::-1]  # of several, the first one stays
        of_node[head[to_leaf][order]] = of_node[tail[to_leaf][order]]


def _types_of(scope: Scope) -> dict[str, str]:
    names = module_names(scope.trace)
    return {names[module.id]: module.type for module in scope.trace.rows(Module)}


def _groups_in(root: Group) -> Iterator[Group]:
    waiting: list[Group] = [root]
    while waiting:
        group = waiting.pop()
        yield group
        waiting += [part for part in group.parts if isinstance(part, Group)]


def _of_modules(parts: list[Part]) -> bool:
    """Whether each turn is one module after another, each of them called in one turn only."""
    paths = [part.path for part in parts if isinstance(part, Group) and part.path]
    return len(set(paths)) == len(parts)


def _modules(parts: list[Part]) -> str:
    """As in "blocks 4–9", "modules 4–9" of those in no other, and "conv1 to bn2"."""
    first, last = (part.path for part in (parts[0], parts[-1]) if isinstance(part, Group))
    (around, _, one), (other, _, end) = first.rpartition("."), last.rpartition(".")
    numbered = around == other and one.isdecimal() and end.isdecimal()
    return f"{around or 'modules'} {one}–{end}" if numbered else f"{first} to {last}"


def _stretch_size(length: int) -> int:
    """So long is a stretch that there are at most so many, at every depth."""
    size = 1
    while size * STRETCHES < length:
        size *= STRETCHES
    return size


def _cut(parts: list[Part], stretch: Callable[[list[Part], int, int], Group]) -> list[Part]:
    """The parts; where there are too many, stretches of them, and stretches of these."""
    total = len(parts)

    def cut(first: int, end: int) -> list[Part]:
        if end - first <= LONGEST:
            return parts[first:end]
        size = _stretch_size(end - first)
        found: list[Part] = []
        for at in range(first, end, size):
            group = stretch(parts[at : min(at + size, end)], at, total)
            group.parts = cut(at, min(at + size, end))
            found.append(group)
        return found

    return cut(0, total)
