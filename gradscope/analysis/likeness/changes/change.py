"""One change between two runs: what it is, where, and how often."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gradscope.analysis.identity.sites import Site


class ChangeKind(StrEnum):
    """Kinds of changes: causes first, then what usually follows from them."""

    SETTING = "setting"  # of an optimizer, a seed, clipping, a mode
    REPLACED = "replaced"
    ARGUMENT = "argument"
    NEW = "new"
    GONE = "gone"
    LEAF = "leaf"  # its size or dtype
    GRADIENT = "gradient"  # a leaf that has one in only one of the runs
    SIZE = "size"  # of gradients between nodes
    RENAMED = "renamed"  # a module
    ORDER = "order"
    STEPS = "steps"
    LINE = "line"  # of the source, with an effect that no other change shows
    OTHER = "other"
    VALUES = "values"


NOWHERE = Site()
MARKED = frozenset((ChangeKind.REPLACED, ChangeKind.ARGUMENT, ChangeKind.LEAF))
"""Kinds whose nodes both runs have, though not the same."""


BEHAVIOR = frozenset(ChangeKind) - {ChangeKind.LINE}
"""Kinds that are differences of the runs, not only of the text of the program."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change. `words` say it without the number of places and the line."""

    kind: ChangeKind
    words: str
    places: int = 0  # number in one step; 0: it is not a matter of places
    one: Site = NOWHERE
    other: Site = NOWHERE
    sites: int = 1  # number of different lines
    at_least: bool = False  # `places` is a lower limit: not all of them were recorded
    when: str = ""  # "in step 3"; "" if in all steps
    gone: tuple[int, ...] = ()  # ids of nodes of the first run
    nodes: tuple[int, ...] = ()  # ids of nodes of the second run

    @property
    def text(self) -> str:
        """As in "Gelu → Tanh, 4 places, model.py:26"."""
        site = self.other if self.other.place else self.one
        parts = [self.words]
        if self.places > 1:
            parts.append(f"{'at least ' * self.at_least}{self.places:,} places")
        if site.place:
            parts.append(site.place + (f" and {counted(self.sites - 1, 'more line')}"
                                       if self.sites > 1 else ""))  # fmt: skip
        return ", ".join([*parts, *([self.when] if self.when else [])])


def counted(number: int, noun: str, more: str = "") -> str:
    """As in "1 node" and "3,615 nodes"."""
    return f"{number:,} {noun if number == 1 else more or noun + 's'}"


def some(names: Sequence[str], most: int = 2) -> str:
    """As in "`a`, `b` and 3 more"."""
    shown = [f"`{name}`" for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most:,} more"
    return " and ".join(shown)


ENDING = re.compile(r"(Backward|Backward0|Backward\d+)$")


def short(name: str) -> str:
    """The operation of a node: `Gelu` for `GeluBackward0`."""
    return ENDING.sub("", name) or name


def in_a_row(names: Iterable[str], most: int = 4) -> str:
    """Operations, repeated ones once: "Mul ×2, Add"."""
    counts: dict[str, int] = {}
    for name in names:
        counts[short(name)] = counts.get(short(name), 0) + 1
    shown = [f"{name} ×{times}" if times > 1 else name for name, times in counts.items()]
    more = [f"{len(shown) - most} other kinds"] if len(shown) > most + 1 else []
    return ", ".join([*(shown[:most] if more else shown), *more])


def steps_said(found: Sequence[int], all_steps: Sequence[int]) -> str:
    """The steps of a change: "" if these are all, else as in "from step 3 on"."""
    if len(found) == len(all_steps):
        return ""
    if len(found) == 1:
        return f"only in step {found[0]}"
    if list(found) == list(all_steps)[-len(found) :]:
        return f"from step {found[0]} on"
    return f"in {len(found):,} of {len(all_steps):,} steps, first in step {found[0]}"
