"""The module, phase and backward of calls that created no node, at level `full`.

A node stores where it was created. A call without a node is only recorded with its time and thread;
so each change of a thread's position is recorded, and a call has the last position of its thread.
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
    """Times of position changes of threads, with the number of the new context."""

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts
        self._new: list[tuple[int, int, int]] = []
        self._known = np.zeros((0, 3), np.int64)  # thread, when, context; sorted

    def start(self) -> None:
        """Start recording position changes."""
        self._contexts.moved = self._moved

    def stop(self) -> None:
        """Stop."""
        self._contexts.moved = None

    def _moved(self, state: WatchedThread) -> None:
        place = self._contexts.threads.of(state)
        self._new.append((place.id, perf_counter_ns(), self._contexts.of(state)))

    def at(self, threads: Ints, t: Ints) -> Ints:
        """The contexts of these threads at these times, as rows."""
        if new := take_all(self._new):
            both = np.concatenate([self._known, np.array(new, np.int64)])
            self._known = both[np.lexsort((both[:, 1], both[:, 0]))]
        found = np.zeros(len(t), np.int64)
        for thread in np.unique(threads).tolist():
            own, asked = self._known[self._known[:, 0] == thread], threads == thread
            last = np.searchsorted(own[:, 1], t[asked], side="right")
            found[asked] = np.append(0, own[:, 2])[last]
        return self._contexts.columns(found.tolist())

    def forget(self, before: int) -> None:
        """Forget earlier positions, except the last one of each thread."""
        known = self._known
        older = np.flatnonzero(known[:, 1] < before)
        followed = np.append(known[1:, 0] == known[:-1, 0], False)[older]
        followed &= np.append(known[1:, 1] < before, False)[older]
        self._known = np.delete(known, older[followed], axis=0)
