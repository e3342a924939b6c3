"""Finds the tensor of each in-place write that was observed.

The version counter of PyTorch, which views of one tensor share, identifies the tensor: a leaf,
whose counter stays the same during its life; or a value saved by a node, if the writes before a
traversal match the version found then. If a tensor is written to through another counter (`.data`),
its memory identifies it, as long as the leaf or the node holds it. Other writes are dropped.
"""

from __future__ import annotations

import weakref
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.record.from_pytorch.called.came_in import CameIn
from gradscope.record.notes.log import Ints, latest, take_all
from gradscope.record.notes.place_stacks import Instruction, stack_of
from gradscope.trace import schema
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import NONE
from gradscope.watch.called import write_rows as row
from gradscope.watch.called.call_rows import NO_LINE

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from gradscope.record.from_pytorch.called.ops import Ops
    from gradscope.record.from_pytorch.called.pytorch_calls import PyTorchCalls
    from gradscope.record.session import Session
    from gradscope.watch.called.writes import TensorMemory, WatchedWrites

MOST_KEPT = 1 << 12
"""Largest number of writes that wait until a backward reaches the node that saved their tensor."""

ALIVE = np.iinfo(np.int64).max
TARGET, STORAGE_ID, OP, TOLD, GIVEN = range(len(row.COLUMNS), len(row.COLUMNS) + 5)
"""Additional columns of a write: its tensor, its storage, the number of its call, whether it was
recorded with the node that it created, and whether a call has that number."""

MEMORY = ("data", "counter", "walk", "storage", "whole", "own", "address")
"""Columns of saved values: address, version counter, time of the traversal, number of the storage,
number of elements if they are contiguous (else 0), whether it is a result of its own node; and the
address of the tensor, if no node created it."""


class InPlaceLeaf:
    """A leaf, and its state when it was first recorded."""

    __slots__ = ("about", "died", "tensor")

    def __init__(self, tensor: Any, number: int, storage_id: int, memory: TensorMemory) -> None:
        now = perf_counter_ns()
        self.about = (number, storage_id, memory.counter, memory.storage, tensor._version, now)
        self.died = ALIVE
        self.tensor = weakref.ref(tensor, self._dies)

    def _dies(self, _gone: Any, now: Callable[[], int] = perf_counter_ns) -> None:
        """Uses only its own defaults: at exit, Python may have cleared this module."""
        self.died = now()


class InPlace:
    """Reads the records of the observer whenever notes are flushed."""

    def __init__(
        self,
        session: Session,
        calls: PyTorchCalls,
        next_number: Callable[[], int],
        unseen: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._session = session
        self._next_number = next_number
        self._unseen = unseen  # context in which modes of the program see nothing
        self._calls = calls
        self._unread: list[Ints] = []
        self._kept = np.zeros((0, GIVEN + 1), np.int64)
        self._places: dict[int, int] = {NO_LINE: NONE}  # stack ids by place
        self._users: dict[int, Instruction] = {}
        self.came_in = CameIn(session, calls, self)
        self._leaves: list[InPlaceLeaf] = []
        self._settled = np.zeros(0, np.int64)  # of recently requested calls whose write is recorded
        self._told = self._kept  # at level `full`: writes whose calls are not written yet
        self._waiting = self._kept  # writes whose rows follow those of their calls

    @property
    def _observer(self) -> WatchedWrites | None:
        return self._calls.writes

    def met(self, leaf: Any, number: int, storage_id: int) -> None:
        """Called when a leaf gets this number."""
        if self._observer is not None and not leaf.is_inference():
            memory = self._observer.memory_of(leaf)
            self._leaves.append(InPlaceLeaf(leaf, number, storage_id, memory))
            self.came_in.leaf(leaf, number, memory, self._leaves[-1].about[-1])

    def memory_of(self, tensor: Any) -> tuple[int, int]:
        """The address of a tensor's memory and its version counter, if known."""
        if self._observer is None or tensor.is_inference():
            return 0, 0
        memory = self._observer.memory_of(tensor)
        return memory.data, memory.counter

    def drain_if_many(self) -> None:
        """Read writes early enough that there is room until the next opportunity."""
        if self._observer is not None and self._observer.waiting() > row.CAPACITY // 2:
            self._drain()

    def _drain(self) -> None:
        assert self._observer is not None
        rows = self._observer.read()
        if len(rows):
            known = np.full((len(rows), GIVEN + 1 - TARGET), NONE)
            if self._calls.whole:
                known[:, OP - TARGET] = [self._next_number() for _ in rows]
            self._unread.append(np.concatenate([rows, known], axis=1))
        for place in self._observer.places():
            stack, users = stack_of(self._session.sites, place.frames)
            self._places[place.number] = stack
            if users is not None:
                self._users[place.number] = users
                self._observer.is_users(*users)

    def users(self, place: int) -> Instruction | None:
        """The instruction of the program at this place."""
        return self._users.get(place)

    def ops(self, begin: Ints, thread: Ints, word: Ints) -> Ints:
        """The numbers of the calls that made these writes; NONE: the call was not recorded."""
        if self._observer is None:
            return np.full(len(begin), NONE)
        self._read()
        seen = np.concatenate([self._told, self._kept])
        if not len(seen):
            return np.full(len(begin), NONE)
        found = latest(seen[:, row.THREAD], seen[:, row.BEGIN], thread, begin)
        own = (found >= 0) & (begin <= seen[found, row.END]) & (word == seen[found, row.WORD])
        own &= seen[found, GIVEN] == NONE
        first = np.zeros(len(begin), np.bool_)  # calls of the same name may be inside
        first[np.flatnonzero(own)[np.unique(found[own], return_index=True)[1]]] = True
        numbers = np.where(own & first, seen[found, OP], NONE)
        settled = (seen[found, TARGET] != NONE) | (seen[found, TOLD] != NONE)
        self._settled = numbers[settled]
        self._told = self._told[~np.isin(self._told[:, OP], numbers)]
        self._kept[np.isin(self._kept[:, OP], numbers[numbers != NONE]), GIVEN] = 1
        return numbers

    def not_told(self, ops: Ints) -> Any:
        """Which of these calls have no recorded write; from now on they count as recorded."""
        waits = np.isin(self._kept[:, OP], ops) & (self._kept[:, OP] != NONE)
        self._kept[waits, TOLD] = 1
        return ~np.isin(ops, self._settled)

    def stacks_of(self, places: Ints) -> Ints:
        """The stacks of the latest records."""
        if self._observer is not None:
            self._drain()
        return self.stacks(places)

    def stacks(self, places: Ints) -> Ints:
        """The stacks of these places, as far as known."""
        return np.array([self._places.get(each, NONE) for each in places.tolist()], np.int64)

    # -- rows -----------------------------------------------------------------------------------

    def settle(self, ops: Ops, saved: dict[str, Any], *, over: bool) -> None:
        """Write the writes to known tensors, and set the versions of saved values in `saved`.

        A write that created a node waits until a traversal reaches that node. `over`: none will.
        """
        memory = {name: saved.pop(name) for name in MEMORY if saved}
        address = memory.pop("address", None)
        if self._observer is None:
            return
        if address is not None:
            t = saved["t"] + self._session.start
            self.came_in.kept(saved["tensor"], address, memory["data"], memory["counter"], t)
        self.came_in.settle()
        self._read()
        seen = self._kept
        self._find_leaves(seen)
        if saved and len(seen):
            kept = _Kept(saved, memory, self._session.start)
            kept.find(seen)
            kept.correct(seen)
        met = _made_a_node(ops, seen)
        later = (seen[:, row.MADE] != 0) & ~met & (not over)
        later[:-MOST_KEPT] = False
        known = (seen[:, TARGET] != NONE) & ~later
        if self._calls.whole:
            self._told = np.concatenate([self._told, seen[known]])
        mine = seen[known & (seen[:, TOLD] == NONE) & ~met]
        waits = self._calls.whole & (mine[:, GIVEN] == NONE)
        self._waiting = np.concatenate([self._waiting, mine[waits]])
        self._write(mine[~waits])
        self._kept = seen[~known][-MOST_KEPT:]

    def _read(self) -> None:
        self._drain()
        self._kept = np.concatenate([self._kept, *take_all(self._unread)])

    def told(self, ops: Ints, *, over: bool) -> None:
        """Called when these calls have their rows, at level `full`; `over`: no others will."""
        waiting = self._waiting
        has = np.isin(waiting[:, OP], ops)
        if over:
            waiting[~has, OP], has[:] = NONE, True
        self._write(waiting[has])
        self._waiting = waiting[~has]

    def versions(self, thread: Ints, t: Ints) -> Ints:
        """The versions after the writes of these threads at these times; NONE: not known."""
        if self._observer is None:
            return np.full(len(t), NONE)
        self._read()
        seen = self._kept
        found = latest(seen[:, row.THREAD], seen[:, row.BEGIN], thread, t)
        end, version = (np.append(seen[:, column], NONE) for column in (row.END, row.VERSION))
        inside = end[found] >= t
        seen[found[inside], TOLD] = 1
        return np.where(inside, version[found], NONE)

    def _find_leaves(self, seen: Ints) -> None:
        """Writes to leaves since they are known, and earlier ones if their version matches."""
        leaves = self._leaves[:]
        if not leaves:
            return
        about = np.array([(*leaf.about, leaf.died) for leaf in leaves], np.int64)
        number, storage_id, counter, storage, _, met, died = about.T
        for column, keys in ((row.COUNTER, counter), (row.STORAGE, storage)):
            order = np.argsort(keys, kind="stable")
            at = np.minimum(np.searchsorted(keys[order], seen[:, column]), len(keys) - 1)
            which = order[at]
            same = (seen[:, TARGET] == NONE) & (keys[which] == seen[:, column])
            same &= (seen[:, column] != 0) & (seen[:, row.END] <= died[which])
            since = same & (seen[:, row.BEGIN] >= met[which])
            if column == row.STORAGE:
                since &= self._still_there(leaves, which, since)
            else:
                self._find_earlier(seen, about, which, same & ~since)
            seen[since, TARGET], seen[since, STORAGE_ID] = (
                number[which[since]],
                storage_id[which[since]],
            )
        self._leaves[: len(leaves)] = [leaf for leaf in leaves if leaf.died == ALIVE]

    def _find_earlier(self, seen: Ints, about: Ints, which: Ints, chosen: Any) -> None:
        for place in np.unique(which[chosen]).tolist():
            number, storage_id, _, _, version, met, _ = about[place].tolist()
            before = np.flatnonzero(chosen & (which == place))
            run = _run(seen, before[seen[before, row.END] <= met], version)
            seen[run, TARGET], seen[run, STORAGE_ID] = number, storage_id

    def _still_there(self, leaves: list[InPlaceLeaf], which: Ints, asked: Any) -> Any:
        """Whether these leaves still have the same memory, or no longer exist."""
        assert self._observer is not None
        there = np.zeros(len(leaves), np.bool_)
        for place in np.unique(which[asked]).tolist():
            tensor = leaves[place].tensor()
            storage = leaves[place].about[3]
            with self._unseen():
                there[place] = tensor is None or self._observer.memory_of(tensor).storage == storage
        return there[which]

    def _write(self, seen: Ints) -> None:
        """The rows of writes and of their calls."""
        if not len(seen):
            return
        session, write = self._session, self._session.writer.block
        idents = {ident: thread for thread, ident in session.contexts.threads.idents().items()}
        thread = np.array([idents.get(each, NONE) for each in seen[:, row.THREAD].tolist()])
        stack = self.stacks(seen[:, row.LINE])
        begin, end = seen[:, row.BEGIN] - session.start, seen[:, row.END] - session.start
        op, one = seen[:, OP], np.ones(len(seen), np.int64)
        if not self._calls.whole:
            op = np.array([self._next_number() for _ in op], np.int64)
            names = [self._calls.name(word) for word in seen[:, row.WORD].tolist()]
            tensors = Ragged.of_lengths(one, seen[:, TARGET])
            write(schema.Op, {
                "id": op, "name": [session.writer.intern(name) for name in names],
                "begin": begin, "end": end, "inputs": tensors, "outputs": tensors,
                "stack": stack, "thread": thread, "step": session.contexts.steps.at(begin),
            })  # fmt: skip
        write(schema.Version, {
            "storage": seen[:, STORAGE_ID], "tensor": seen[:, TARGET],
            "old": seen[:, row.VERSION] - 1, "new": seen[:, row.VERSION], "op": op, "stack": stack,
            "thread": thread, "t": end,
        })  # fmt: skip


class _Kept:
    """Saved values, with their memory and version counters."""

    def __init__(self, saved: dict[str, Any], memory: dict[str, Ints], start: int) -> None:
        self._saved = saved
        (
            self._data, self._counter, self._walk, self._storage_id, self._whole, self._own
        ) = memory.values()  # fmt: skip
        self._t = saved["t"] + start

    def find(self, seen: Ints) -> None:
        """The saved value to which each write wrote."""
        version = self._saved["version"]
        for counter in np.intersect1d(self._counter, seen[:, row.COUNTER]).tolist():
            if counter:
                mine = np.flatnonzero(self._counter == counter)
                # For a tensor and its views (such as a transposed one), the tensor if possible.
                keys = (-mine, self._whole[mine], self._walk[mine])
                last = int(mine[np.lexsort(keys)[-1]])
                own = np.flatnonzero(seen[:, row.COUNTER] == counter)
                own = own[seen[own, row.END] <= self._walk[last]]
                self._put(seen, _run(seen, own, int(version[last])), last)
        # A node holds the memory from its creation, so it is not reused before the traversal.
        rest = np.flatnonzero((seen[:, TARGET] == NONE) & (seen[:, row.DATA] != 0))
        holder = latest(self._data, self._t, seen[rest, row.DATA], seen[rest, row.BEGIN])
        held = (holder >= 0) & (seen[rest, row.END] <= np.append(self._walk, 0)[holder])
        self._put(seen, rest[held], holder[held])

    def _put(self, seen: Ints, writes: Ints, kept: Any) -> None:
        if not len(writes) or seen[writes[0], TARGET] != NONE:
            return  # a leaf
        seen[writes, TARGET] = self._saved["tensor"][kept]
        seen[writes, STORAGE_ID] = self._storage_id[kept]

    def correct(self, seen: Ints) -> None:
        """The version at which it was saved: the traversal read the version at its own time.

        What a node saves of its own result has a separate version counter.
        """
        own = self._own != 0
        keys = ((~own, self._counter, row.COUNTER), (own, self._data, row.DATA))
        for chosen, kept, column in keys:
            places = np.flatnonzero(chosen & (kept != 0))
            after = latest(
                seen[:, column], -seen[:, row.BEGIN], kept[places], -self._t[places]
            )  # the first one since then
            known = (after >= 0) & (seen[after, row.END] <= self._walk[places])
            self._saved["version"][places[known]] = seen[after[known], row.VERSION] - 1


def _made_a_node(ops: Ops, seen: Ints) -> Any:
    """Such writes are recorded with their nodes (writes.py)."""
    return ops.made_in(seen[:, row.BEGIN], seen[:, row.END], seen[:, row.THREAD])


def _run(seen: Ints, chosen: Ints, version: int) -> Ints:
    """Those writes of one counter that lead to this version, in order."""
    chosen = chosen[np.argsort(seen[chosen, row.END], kind="stable")]
    found = []
    for place in reversed(chosen.tolist()):
        if seen[place, row.VERSION] != version:
            break
        found.append(place)
        version -= 1
    return np.array(found, np.int64)
