"""Finds the origin of input tensors: values saved by nodes that no node created, and leaves.

The observer has recorded the results of calls that created no node (watch/called/made.py). A tensor
is such a result if it has the same address, memory and version counter, and nothing later was
recorded there before a node saved it, which keeps it alive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.record.acts.source.source_lines import called_at
from gradscope.record.notes.log import Ints, latest, take_all
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import NONE, Act, ActFacts, CameInAct, DrewAct
from gradscope.watch.called import made_rows as row

if TYPE_CHECKING:
    from gradscope.record.from_pytorch.called.in_place import InPlace
    from gradscope.record.from_pytorch.called.pytorch_calls import PyTorchCalls
    from gradscope.record.session import Session
    from gradscope.watch.called.writes import TensorMemory

VIEWS = frozenset((
    "view", "select", "slice", "t", "transpose", "permute", "expand", "expand_as", "squeeze",
    "unsqueeze", "narrow", "alias", "view_as", "unfold", "diagonal", "T", "mT", "numpy_T",
))  # fmt: skip
"""Calls whose result is a view of their input."""

HOPS = 6
"""Largest depth of views of views that is resolved."""

MOST_KEPT = 1 << 13
"""Largest number of results that wait to be assigned to a node."""


class CameIn:
    """Reads the records of the observer whenever notes are flushed."""

    def __init__(self, session: Session, calls: PyTorchCalls, in_place: InPlace) -> None:
        self._session = session
        self._calls = calls
        self._in_place = in_place
        self._kept = np.zeros((0, len(row.COLUMNS)), np.int64)
        self._leaves: list[tuple[int, int, int, int, int]] = []
        self._asked: list[Ints] = []

    def leaf(self, tensor: Any, number: int, memory: TensorMemory, t: int) -> None:
        """Called when a leaf gets this number."""
        self._leaves.append((number, tensor._cdata, memory.data, memory.counter, t))

    def kept(self, tensor: Ints, address: Ints, data: Ints, counter: Ints, t: Ints) -> None:
        """Add saved values that no node created: number, address, creation time of the node."""
        chosen = np.flatnonzero(address)
        chosen = chosen[np.unique(tensor[chosen], return_index=True)[1]]
        if len(chosen):
            self._asked.append(
                np.stack([each[chosen] for each in (tensor, address, data, counter, t)])
            )

    def settle(self) -> None:
        """Write the origins of inputs, as far as they were recorded."""
        observer = self._calls.observer
        leaves, asked = take_all(self._leaves), take_all(self._asked)
        if observer is None or observer.made is None:
            return
        rows, lost = observer.made.read()
        self._drawn(rows[rows[:, row.HASH] != 0])
        seen = rows if lost else np.concatenate([self._kept, rows])
        if leaves:
            asked.append(np.array(leaves, np.int64).T)
        if asked and len(seen):
            self._find(seen, np.concatenate(asked, axis=1))
        if len(seen) > MOST_KEPT:
            _, last = np.unique(seen[::-1, row.TENSOR], return_index=True)
            seen = seen[np.sort(len(seen) - 1 - last)[-MOST_KEPT:]]
        self._kept = seen

    def _find(self, seen: Ints, asked: Ints) -> None:
        tensor, address, data, counter, t = asked
        found = latest(seen[:, row.TENSOR], seen[:, row.END], address, t)
        known = found >= 0
        for column, wanted in ((row.DATA, data), (row.COUNTER, counter)):
            known &= seen[found, column] == wanted
        chosen = np.flatnonzero(known)
        if len(chosen):
            views = found[chosen].copy()
            behind = self._behind_views(seen, found[chosen])
            lines = np.where(views == behind, 0, seen[views, row.LINE])
            self._write(seen[behind], tensor[chosen], lines)

    def _behind_views(self, seen: Ints, found: Ints) -> Ints:
        """These results, with views replaced by their base."""
        memory = seen[:, row.DATA] ^ (seen[:, row.COUNTER] << 1)
        for _ in range(HOPS):
            words = seen[found, row.WORD]
            views = [word for word in np.unique(words).tolist() if self._calls.name(word) in VIEWS]
            views_of = np.flatnonzero(np.isin(words, views))
            if not len(views_of):
                break
            of = found[views_of]
            above = latest(memory, seen[:, row.END], memory[of], seen[of, row.END] - 1)
            same = above >= 0
            for column in (row.DATA, row.COUNTER):
                same &= seen[above, column] == seen[of, column]
            found[views_of[same]] = above[same]
            if not same.any():
                break
        return found

    def _write(self, seen: Ints, tensors: Ints, views: Ints) -> None:
        """Write the origins: the calls, the tensors, and the lines of views of the results."""
        session = self._session
        acts, intern = session.acts.acts, session.writer.intern
        stacks = self._in_place.stacks_of(seen[:, row.LINE])
        words = zip(seen[:, row.LINE].tolist(), seen[:, row.WORD].tolist(), strict=True)
        by = [self._called(line) or self._calls.name(word) for line, word in words]
        chosen = [
            place
            for place, stack in enumerate(stacks.tolist())
            if stack != NONE and not acts.is_too_many(CameInAct, stack)
        ]
        seen, stacks, tensors, views = (each[chosen] for each in (seen, stacks, tensors, views))
        taken = np.where(views == 0, NONE, self._in_place.stacks_of(views))
        ids = self._put(CameInAct, seen, stacks, Ragged.of_lengths(np.ones_like(tensors), tensors))
        said = [intern(by[place]) for place in chosen]
        session.writer.block(CameInAct, {"id": ids, "by": said, "taken": taken})

    def _drawn(self, seen: Ints) -> None:
        """Write the random numbers that were measured."""
        writer, is_too_many = self._session.writer, self._session.acts.acts.is_too_many
        stacks = self._in_place.stacks_of(seen[:, row.LINE])
        known = [stack != NONE and not is_too_many(DrewAct, stack) for stack in stacks.tolist()]
        seen, stacks = seen[known], stacks[known]
        if len(seen):
            none = np.zeros(len(seen), np.int64)
            ids = self._put(DrewAct, seen, stacks, Ragged.of_lengths(none, none[:0]))
            by = [writer.intern(self._calls.name(word)) for word in seen[:, row.WORD].tolist()]
            many, digest = seen[:, row.SIZE], seen[:, row.HASH]
            writer.block(DrewAct, {"id": ids, "by": by, "many": many, "digest": digest})

    def _put(self, kind: type[ActFacts], seen: Ints, stacks: Ints, tensors: Ragged) -> Ints:
        """Write acts at the times and on the threads of these calls. Returns their ids."""
        session, acts = self._session, self._session.acts.acts
        idents = {ident: thread for thread, ident in session.contexts.threads.idents().items()}
        threads = [idents.get(ident, NONE) for ident in seen[:, row.THREAD].tolist()]
        begin = seen[:, row.END] - session.start
        one, none = np.ones(len(seen), np.int64), np.full(len(seen), NONE)
        ids = np.array([acts.next_id() for _ in range(len(seen))], np.int64)
        session.writer.block(Act, {
            "id": ids, "kind": one * session.writer.intern(kind.KIND), "of": none,
            "tensors": tensors, "module": none, "inside": none,
            "stack": stacks, "thread": np.array(threads, np.int64), "task": none,
            "step": session.contexts.steps.at(begin), "t": begin,
        })  # fmt: skip
        return ids

    def _called(self, line: int) -> str:
        """The function called by the program's own line."""
        users = self._in_place.users(line)
        return "" if users is None else called_at(*users)
