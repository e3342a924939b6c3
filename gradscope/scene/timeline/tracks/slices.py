"""Slices of time as columns: steps, spans, modules, operations, backwards, nodes, hooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.trace.schema import NONE
from gradscope.trace.text import visible

LONGEST_NAME = 500


class Sort(IntEnum):
    """The kind of a slice. If two begin and end together, the first kind is the outer one."""

    STEP = 0
    SPAN = 1
    BACKWARD = 2
    MODULE = 3
    NODE = 4
    HOOK = 5
    OP = 6
    OWN_WORK = 7

    @property
    def title(self) -> str:
        """The name of the kind in files."""
        return {Sort.OP: "operation", Sort.OWN_WORK: "gradscope"}.get(self, self.name.lower())


class TrackWords:
    """Unique texts of a program, with all characters visible; columns hold their numbers."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.texts: list[str] = []
        self.add("")

    def add(self, text: str) -> int:
        """The number of a text; 0 is the empty one."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(visible(text, LONGEST_NAME))
        return number

    def column(self, texts: Iterable[str]) -> Ids:
        add = self.add
        return np.array([add(text) for text in texts], np.int64)


WORDS = frozenset(("name", "node", "leaf", "module", "file", "code"))
"""Columns of numbers of words; the others are numbers."""
ABOUT = (
    "node", "leaf", "module", "file", "line", "code", "step", "backward", "waited_ns", "replaced",
    "failed", "did_not_end",
)  # fmt: skip
"""What may be known about a slice besides its name and times, in the order shown."""
DEFAULTS = {"replaced": 0, "failed": 0, "did_not_end": 0, **dict.fromkeys(WORDS, 0)}


@dataclass(slots=True)
class Slices:
    """Some slices: equal-length columns."""

    thread: Ids  # NONE: the whole program
    begin: Ids
    end: Ids  # NONE: it did not end
    sort: Ids
    name: Ids
    of: Ids  # the id of its row; NONE if it stands for several
    about: dict[str, Ids] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.begin)

    def column(self, name: str) -> Ids:
        """A column, filled with "unknown" if the slices lack it."""
        found = self.about.get(name)
        if found is None:
            found = np.full(len(self), DEFAULTS.get(name, NONE), np.int64)
        return found


def joined(parts: Sequence[Slices]) -> Slices:
    def all(columns: Iterator[Ids]) -> Ids:
        return np.concatenate([np.zeros(0, np.int64), *columns]).astype(np.int64)

    names = [name for name in ABOUT if any(name in part.about for part in parts)]
    return Slices(
        thread=all(part.thread for part in parts),
        begin=all(part.begin for part in parts),
        end=all(part.end for part in parts),
        sort=all(part.sort for part in parts),
        name=all(part.name for part in parts),
        of=all(part.of for part in parts),
        about={name: all(part.column(name) for part in parts) for name in names},
    )


def taken(slices: Slices, rows: Ids) -> Slices:
    return Slices(
        slices.thread[rows],
        slices.begin[rows],
        slices.end[rows],
        slices.sort[rows],
        slices.name[rows],
        slices.of[rows],
        {name: column[rows] for name, column in slices.about.items()},
    )
