"""In which module, phase and backward a thread was when it called something: at level `full`.

A node remembers where it was made. A call that makes none is only seen with its time and thread;
so each move of a thread is noted, and a call was where its thread was last.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING

import numpy as np

from gradscope.record.notes.log import take_all

if TYPE_CHECKING:
    from gradscope.record.from_pytorch.called.nesting import Ints
    from gradscope.record.notes.positions.contexts import Contexts
    from gradscope.record.notes.positions.thread_places import WatchedThread


class Moves:
    """When each thread moved, and where to: the number of a context."""

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts
        self._new: list[tuple[int, int, int]] = []
        self._known = np.zeros((0, 3), np.int64)  # thread, when, context; sorted

    def start(self) -> None:
        """Be told of all moves from here on."""
        self._contexts.moved = self._moved

    def stop(self) -> None:
        """No longer."""
        self._contexts.moved = None

    def _moved(self, state: WatchedThread) -> None:
        place = self._contexts.threads.of(state)
        self._new.append((place.id, perf_counter_ns(), self._contexts.of(state)))

    def at(self, threads: Ints, t: Ints) -> Ints:
        """The rows of contexts that these threads were in at these times."""
        if new := take_all(self._new):
            both = np.concatenate([self._known, np.array(new, np.int64)])
            self._known = both[np.lexsort((both[:, 1], both[:, 0]))]
        found = np.zeros(len(t), np.int64)
        for thread in np.unique(threads).tolist():
            own, asked = self._known[self._known[:, 0] == thread], threads == thread
            last = np.searchsorted(own[:, 1], t[asked], side="right")
            found[asked] = np.append(0, own[:, 2])[last]
        return np.array(self._contexts.rows, np.int64)[found]

    def forget(self, before: int) -> None:
        """Nobody will ask what was before, but for where each thread was then."""
        known = self._known
        older = np.flatnonzero(known[:, 1] < before)
        followed = np.append(known[1:, 0] == known[:-1, 0], False)[older]
        followed &= np.append(known[1:, 1] < before, False)[older]
        self._known = np.delete(known, older[followed], axis=0)
