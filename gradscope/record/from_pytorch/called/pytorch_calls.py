"""The call that created a node, its times, and how gradients were added and accumulated.

The rows of the observer (watch/called) are joined with nodes and runs when notes are flushed: the
call that created a node is the innermost one that was running on its thread at that time.
"""

from __future__ import annotations

from threading import Lock
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradscope.record.from_pytorch.called.nesting import OPEN, Ints, Nesting
from gradscope.record.notes.log import take_all
from gradscope.trace.ragged import within
from gradscope.trace.schema import NONE
from gradscope.trace.schema.events import Accumulation
from gradscope.trace.shorthand.tables import ADDED, ADDED_IN_PLACE, SEEN
from gradscope.watch.called import call_rows as observed
from gradscope.watch.listener import RunColumns

if TYPE_CHECKING:
    from gradscope.watch.called.observer import CallObserver
    from gradscope.watch.called.writes import WatchedWrites

MOST_KEPT = 1 << 15
"""Largest number of calls that wait for a backward to reach the nodes they created."""

MANY = 1 << 13
"""Number of rows that are read even if they are not needed yet."""

LINE = observed.THREAD + 1
"""Additional column of a call: the place that called it, at level `full`."""

ALONE = "begin", "end", "thread", "word", "line", "row"
"""Columns of a call that created no node; the row is its stamp."""

HOW = np.zeros(len(observed.GRADIENTS), np.int64)
"""How a gradient is accumulated if that begins with such a call."""

HOW[observed.ADD] = Accumulation.OUT_OF_PLACE
HOW[observed.ADD_IN_PLACE] = Accumulation.IN_PLACE
HOW[[observed.DETACH, observed.NEW_SPARSE]] = Accumulation.STOLEN
HOW[[observed.CLONE, observed.NEW_EMPTY]] = Accumulation.CLONED

ADDS = (observed.ADD, observed.ADD_IN_PLACE)


class _Table:
    """Calls in columns, sorted by their start."""

    def __init__(self, columns: Ints) -> None:
        self.columns = columns
        self.begin, self.end, self.sequence, self.thread = columns[:4]
        self.word, self.text, self.matched, self.row, self.line = columns[4:]

    def where(self, chosen: NDArray[np.bool_]) -> _Table:
        return self if chosen.all() else _Table(self.columns[:, chosen])


class PyTorchCalls:
    """Reads the records of the observer and assigns calls to nodes."""

    def __init__(self) -> None:
        self.observer: CallObserver | None = None
        self._reading = Lock()
        self._unread: list[Ints] = []
        self._begun = np.zeros((9, 0), np.int64)  # not ended when they were read
        self._kept = _Table(np.zeros((9, 0), np.int64))
        self._last_read = 0
        self._lost_until = 0  # calls that began earlier were not read
        self._dropped_until = 0  # earlier ones were dropped, unless a backward needs them
        self.lost = 0
        self._names: dict[int, str] = {}
        self.whole = False  # whether calls without a node are also recorded
        self._alone: list[_Table] = []  # calls without a node
        self.keeps_sums = False
        self.sums: list[Ints] = []
        """Calls that added gradients, in columns: their rows, task, run, and their index after that
        run; NONE: in the run of a leaf's node."""

    @property
    def writes(self) -> WatchedWrites | None:
        """The observer of in-place writes, if they are observed."""
        return None if self.observer is None else self.observer.writes

    def drain(self) -> None:
        """Read new records from the ring of the observer."""
        if self.observer is not None:
            with self._reading:
                rows, lost = self.observer.read()
                if len(rows):
                    columns = np.zeros((9, len(rows)), np.int64)
                    columns[:LINE] = rows.T
                    self._last_read = int(rows[-1, observed.STAMP])
                    if self.whole:
                        columns[LINE] = self.observer.lines(rows)
                    self._unread.append(columns)
                    if lost:
                        self.lost += lost
                        self._lost_until = int(rows[0, observed.BEGIN])

    def drain_if_many(self, observer: CallObserver) -> None:
        """Read records early enough that there is room until the next opportunity."""
        if observer.waiting() > MANY:
            self.drain()

    def _prepare(self) -> None:
        """Add new calls to the stored ones."""
        self.drain()
        unread = take_all(self._unread)
        if not unread:
            return
        under_way, dropped = self._under_way_then()
        self.lost += dropped
        parts = [under_way, *unread] if under_way.shape[1] else unread
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        ended = (rows[observed.END] != 0) & (rows[observed.NANOSECONDS] != 0)
        self._begun = rows[:, ~ended]
        end = rows[observed.END] * 1_000_000_000 + rows[observed.NANOSECONDS]
        kept = self._kept.where(self._kept.end != OPEN).columns
        both = np.empty((9, kept.shape[1] + rows.shape[1]), np.int64)
        both[:, : kept.shape[1]], new = kept, both[:, kept.shape[1] :]
        new[0], new[1] = rows[observed.BEGIN], np.where(ended, end, OPEN)
        new[2], new[3] = rows[observed.SEQUENCE], rows[observed.THREAD]
        new[4], new[5] = rows[observed.WORD], rows[observed.WORD] < 0
        new[6], new[7], new[8] = 0, rows[observed.STAMP], rows[LINE]
        is_sorted = bool((both[0, 1:] >= both[0, :-1]).all())
        self._kept = _Table(both if is_sorted else both[:, np.argsort(both[0], kind="stable")])
        self._names.clear()  # the address of a freed schema may be reused

    def _under_way_then(self) -> tuple[Ints, int]:
        """Update calls that had not ended when they were read. Returns how many are lost."""
        if self.observer is None or not self._begun.shape[1]:
            return self._begun, 0
        now, kept = self.observer.ended(self._begun[observed.STAMP])
        both = np.concatenate([now.T, self._begun[LINE:, kept]])
        return both, int(np.count_nonzero(~kept))

    def of(self, thread: Ints, sequence: Ints, t: Ints) -> Ints:
        """The indices of the calls that created these nodes (threads, numbers, times), or -1."""
        self._prepare()
        made = np.full(len(t), -1)
        kept = self._kept
        for each in np.unique(thread).tolist():
            places = np.flatnonzero((kept.thread == each) & (kept.sequence >= 0))
            chosen = np.flatnonzero(thread == each)
            found = Nesting(kept.begin[places], kept.end[places]).around(t[chosen])
            made[chosen] = np.where(found >= 0, np.append(places, -1)[found], -1)
        right = (made >= 0) & (np.append(kept.sequence, 0)[made] <= sequence)
        kept.matched[made[right]] = 1
        made[~right] = -1
        return made

    def had_one(self, t: Ints) -> int:
        """Number of nodes created at these times without a known call that may have had one."""
        return int(np.count_nonzero(t <= max(self._lost_until, self._dropped_until)))

    def times(self, places: Ints) -> tuple[Ints, Ints, Ints]:
        """When calls began and ended (OPEN: they have not), and their rows.

        Until the next reading.
        """
        kept = self._kept
        return kept.begin[places], kept.end[places], kept.row[places]

    def words(self, places: Ints) -> Ints:
        """The words that identify the names of these calls; 0: none."""
        kept = self._kept
        return np.where(kept.text[places] != 0, 0, kept.word[places])

    def name(self, word: int) -> str:
        """The name for such a word; "": not known."""
        if word == 0:
            return ""
        known = self._names.get(word)
        if known is None:
            from gradscope.watch.called.in_memory import name_at  # it imports PyTorch

            try:
                name, _ = name_at(word)
            except (OSError, ValueError):
                name = ""  # its library has been unloaded
            known = self._names[word] = name.removeprefix("aten::")
        return known

    def forget(self, since: int) -> None:
        """Drop calls that are no longer needed. `since`: start of the running backwards."""
        kept = self._kept
        stays = (kept.sequence >= 0) & (kept.end != OPEN) & (kept.matched == 0)
        older = np.flatnonzero(stays)[:-MOST_KEPT]
        if len(older):
            stays[older] = False
            self._dropped_until = int(kept.end[older].max())
        stays |= (kept.begin >= since) & (kept.end != OPEN)
        self._let_go(~stays)
        self._kept = kept.where(stays)

    def _let_go(self, chosen: Any) -> None:
        """Drop these calls; if all calls are recorded, they are written without a node."""
        kept = self._kept
        if self.whole:
            alone = chosen & (kept.end != OPEN) & (kept.matched == 0) & (kept.text == 0)
            if alone.any():
                self._alone.append(kept.where(alone))

    def alone(self, *, over: bool) -> list[tuple[list[str], Ints]]:
        """Calls that created no node: names, and columns ALONE.

        `over`: the recording ends, so all remaining calls are included.
        """
        self._prepare()
        if over:
            self._let_go(np.ones(len(self._kept.begin), np.bool_))
            self._kept = self._kept.where(np.zeros(len(self._kept.begin), np.bool_))
        return [
            (
                [self.name(word) for word in table.word.tolist()],
                np.stack([getattr(table, name) for name in ALONE]),
            )
            for table in take_all(self._alone)
        ]

    def waiting(self) -> tuple[Ints, int]:
        """The rows of calls that are not written yet, and the last one read."""
        return np.concatenate([self._kept.row, self._begun[observed.STAMP]]), self._last_read

    def since(self) -> int:
        """The start of the first call that is not written yet."""
        begun = [self._kept.begin, self._begun[observed.BEGIN]]
        return int(np.concatenate(begun).min(initial=perf_counter_ns()))

    # -- inside backwards -----------------------------------------------------------------------

    def inside(self, tasks: Ints, many: Ints, ran: RunColumns) -> Ints:
        """What was done with gradients in these tasks, given the number of runs of each.

        Columns: task, index of the run, and what was done.
        """
        made = [np.zeros((3, 0), np.int64)]
        if self.observer is not None and len(tasks):
            self._prepare()
            first = np.cumsum(many) - many
            begun = np.append(ran.begin, 0)[first]
            seen = (many == 0) | (begun >= self._lost_until)
            ids = tasks[seen]
            made.append(np.stack([ids, np.full(len(ids), -1), np.full(len(ids), SEEN)]))
            whose = np.stack([np.repeat(tasks, many), within(many)])
            chosen = np.repeat(seen, many)
            for thread in np.unique(ran.thread[chosen]).tolist():
                own = chosen & (ran.thread == thread)
                calls = self._kept.where(self._kept.thread == thread)
                made += self._on_thread(calls, whose[:, own], RunColumns(*np.stack(ran)[:, own]))
        return np.concatenate(made, axis=1)

    def _on_thread(self, calls: _Table, whose: Ints, ran: RunColumns) -> list[Ints]:
        """The same for runs of one thread. `whose`: the task and index of each run."""
        assert self.observer is not None
        task, place = whose
        begin, end = ran.begin, ran.end
        leaf = ran.sequence == -1
        kinds = self.observer.gradients
        kind_of = np.full(len(calls.word), -1)
        for word, each in kinds.items():
            kind_of[calls.word == word] = each
        at = np.flatnonzero((kind_of >= 0) & (calls.text == 0))
        kind, wanted_begin = kind_of[at], calls.begin[at]
        runs = np.flatnonzero(leaf)
        first = np.searchsorted(wanted_begin, begin[runs])
        taken_over = np.append(wanted_begin, OPEN)[first] <= end[runs]
        runs, how = runs[taken_over], HOW[kind[first[taken_over]]]
        adds = np.flatnonzero(kind <= observed.ADD_IN_PLACE)
        attended = np.flatnonzero((calls.text != 0) & (calls.word == observed.EVALUATE))
        nesting = Nesting(calls.begin[attended], calls.end[attended])
        run_of = np.full(len(attended) + 1, -1)
        around = nesting.around(begin)
        run_of[around[around >= 0]] = np.flatnonzero(around >= 0)
        behind = run_of[nesting.around(wanted_begin[adds])]
        right = behind >= 0
        right[right] = wanted_begin[adds[right]] >= end[behind[right]]
        adds, behind = adds[right], behind[right]
        if self.keeps_sums:
            rows = calls.row[at]
            sums = np.isin(kind[first[taken_over]], ADDS)
            leafs = rows[first[taken_over]], task[runs], place[runs], np.full(len(runs), NONE)
            self.sums.append(np.stack(leafs)[:, sums])
            self.sums.append(np.stack([rows[adds], task[behind], place[behind], _rank(behind)]))
        what = np.where(kind[adds] == observed.ADD_IN_PLACE, ADDED_IN_PLACE, ADDED)
        return [
            np.stack([task[runs], place[runs], how]),
            np.stack([task[behind], place[behind], what]),
        ]


def _rank(keys: Ints) -> Ints:
    """The index of each item among equal items."""
    order = np.argsort(keys, kind="stable")
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.arange(len(keys)) - np.searchsorted(keys[order], keys[order])
    return rank
