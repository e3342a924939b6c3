"""Arguments and results of each call, at level `full`.

A tensor has its existing number if a node created or saved it, or if it is a known leaf; otherwise
it gets a new one (tensor_rows.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradscope.record.from_pytorch.called.identities import Identities
from gradscope.record.from_pytorch.called.tensor_rows import STORAGE, TENSOR, TensorRows
from gradscope.record.notes.log import Ints
from gradscope.trace.ragged import Ragged
from gradscope.watch.called import operand_rows as row

if TYPE_CHECKING:
    from gradscope.record.from_pytorch.called.ops import Ops
    from gradscope.record.from_pytorch.called.pytorch_calls import PyTorchCalls
    from gradscope.record.from_pytorch.tensors import PyTorchTensors
    from gradscope.watch.called.operands import OperandObserver

MANY = 1 << 14
"""Number of rows that are read even if they are not needed yet."""

WRITTEN = ("place", "tensor", "storage", "old", "new")
"""Columns of an in-place write: the index of its call, and those of Version."""


class CallOperands(NamedTuple):
    """Arguments and results of calls, and their in-place writes."""

    inputs: Ragged
    outputs: Ragged
    writes: dict[str, Ints]


class OperandRows:
    """Reads the records of the observer and identifies the tensors."""

    def __init__(self, tensors: PyTorchTensors, calls: PyTorchCalls, rows: TensorRows) -> None:
        self.observer: OperandObserver | None = None
        self.rows = rows
        self._tensors, self._calls = tensors, calls
        self._identities = Identities()
        self._waiting = np.zeros((0, row.WIDTH + 2), np.int64)  # of calls that are not written yet
        self._told_at: dict[int, tuple[int, int, int, int]] = {}
        self.lost = 0

    def watch(self, observer: OperandObserver | None) -> bool:
        """Start. Returns whether operands are observed."""
        self.observer = observer
        if observer is not None:
            self.rows.kinds = observer.kinds
            self._tensors.told_as = self._told_as
        return observer is not None

    def drain_if_many(self) -> None:
        """Read records early enough that there is room until the next opportunity."""
        if self.observer is not None and self.observer.waiting() > MANY:
            self._read()

    def _read(self) -> None:
        """Read new records. Calls are read before, so that all their operands are available."""
        assert self.observer is not None
        rows, lost = self.observer.read()
        if lost:
            self.lost += lost
            self._identities.forget()
        if len(rows):
            seen = self._identities.of(rows)
            both = np.column_stack([rows, seen.tensor, seen.storage])
            self._waiting = np.concatenate([self._waiting, both])
            self.rows.begun(both, seen.tensor[seen.begins])

    def _of(self, stamps: Ints) -> list[Ints]:
        """The operands of each of these calls, in order: arguments, results."""
        call, rows = self._sorted(stamps)
        return np.split(rows, np.cumsum(np.bincount(call, minlength=len(stamps)))[:-1])

    def _sorted(self, stamps: Ints) -> tuple[Ints, Ints]:
        """The operands of all calls in one sequence, each with the index of its call."""
        order = np.argsort(stamps, kind="stable")
        at = np.minimum(np.searchsorted(stamps[order], self._waiting[:, row.CALL]), len(order) - 1)
        own = np.flatnonzero(stamps[order][at] == self._waiting[:, row.CALL])
        call, rows = order[at[own]], self._waiting[own]
        sort = np.lexsort((np.abs(rows[:, row.AT]), rows[:, row.AT] < 0, call))
        return call[sort], rows[sort]

    # -- calls that made nodes ------------------------------------------------------------------

    def settle(self, ops: Ops, saved: dict[str, Ints]) -> dict[int, int]:
        """Set the arguments of calls that created nodes.

        Returns saved values that have another number now.
        """
        if self.observer is None:
            return {}
        self._read()
        self._know_leaves()
        if not len(ops.rows):
            return {}
        outputs, sources = ops.outputs.tuples(), ops.sources.tuples()
        of = self._of(ops.rows)
        for place, alone, seen in zip(ops.last.tolist(), ops.is_alone.tolist(), of, strict=True):
            if alone:
                self._know_results(seen, outputs[place])
        for place, seen in zip(ops.last.tolist(), of, strict=True):
            self._know_sources(seen, sources[place])
        others = self._know_kept(ops, saved, of) if saved else {}
        inputs, returned = ops.inputs.tuples(), list(outputs)
        self.rows.told(ops.rows, ops.column("id")[ops.last])
        for place, alone, seen in zip(ops.last.tolist(), ops.is_alone.tolist(), of, strict=True):
            tensors = [self.rows.number(each) for each in seen[:, TENSOR].tolist()]
            many = int(np.count_nonzero(seen[:, row.AT] >= 0))
            if alone:
                returned[place] = tuple(dict.fromkeys((*outputs[place], *tensors[many:])))
            known = {*tensors[:many], *returned[place]}
            more = inputs[place][: len(sources[place])]  # saved values follow
            inputs[place] = (*tensors[:many], *(each for each in more if each not in known))
        ops.inputs, ops.outputs = Ragged.of(inputs), Ragged.of(returned)
        return others

    def _know_leaves(self) -> None:
        """Identify the last records at the addresses of leaves as these leaves."""
        rows, who = self._identities.last()
        at = {address: place for place, address in enumerate(rows[:, row.TENSOR].tolist())}
        writes = self._calls.writes
        if writes is None:
            return
        with self._tensors.is_unseen():
            for leaf in self._tensors.leaves():
                place = at.get(leaf._cdata)
                if place is None or leaf.is_inference():
                    continue
                memory, seen = writes.memory_of(leaf), rows[place]
                if (memory.storage, memory.counter) == (seen[row.STORAGE], seen[row.COUNTER]):
                    self.rows.is_known(int(who[place]), self._tensors.number_of(leaf))

    def _know_results(self, seen: Ints, outputs: tuple[int, ...]) -> None:
        """Identify the results of calls as outputs of their nodes."""
        made = seen[(seen[:, row.AT] < 0) & (seen[:, row.NODE] >= row.FIRST)]
        for tensor, nr in made[:, [TENSOR, row.NODE]].tolist():
            if nr - row.FIRST < len(outputs) and not self.rows.has(tensor):
                self.rows.is_known(tensor, outputs[nr - row.FIRST])

    def _know_sources(self, seen: Ints, sources: tuple[int, ...]) -> None:
        """Identify arguments that require gradients by the edges of the node, in order."""
        needing = seen[(seen[:, row.AT] >= 0) & (seen[:, row.NODE] > 0)]
        if len(needing) == len(sources):
            for tensor, source in zip(needing[:, TENSOR].tolist(), sources, strict=True):
                if not self.rows.has(tensor):
                    self.rows.is_known(tensor, source)

    def _know_kept(self, ops: Ops, saved: dict[str, Ints], of: list[Ints]) -> dict[int, int]:
        """Identify saved values that no node created, which have separate numbers per traversal.

        Returns the final numbers, by those assigned by a traversal.
        """
        call_of = {
            number: place
            for place, number in enumerate(ops.column("id")[ops.last].tolist())
            if len(of[place])
        }
        others: dict[int, int] = {}
        kept = np.flatnonzero(saved["address"])
        columns = ("node", "address", "tensor", "storage")
        for node, address, number, memory in zip(
            *(saved[name][kept].tolist() for name in columns), strict=True
        ):
            seen = of[call_of[node]] if node in call_of else self._waiting[:0]
            tensors = seen[seen[:, row.TENSOR] == address, TENSOR]
            if not len(tensors):
                continue
            tensor = int(tensors[0])
            if not self.rows.has(tensor):
                self.rows.is_known(tensor, number, memory)
            others[number] = self.rows.number(tensor)
        for place in kept.tolist():
            number = int(saved["tensor"][place])
            saved["tensor"][place] = others.get(number, number)
        return others

    # -- calls that made none -------------------------------------------------------------------

    def of_calls(self, stamps: Ints, ids: Ints) -> CallOperands:
        """Arguments, results and writes of these calls."""
        if self.observer is None or not len(stamps):
            none = Ragged.of([()] * len(stamps))
            return CallOperands(none, none, {})
        self._read()
        self._know_leaves()
        self.rows.told(stamps, ids)
        call, seen = self._sorted(stamps)
        known, which = np.unique(seen[:, TENSOR], return_inverse=True)
        numbers = np.array([self.rows.number(each) for each in known.tolist()], np.int64)[which]
        given = seen[:, row.AT] >= 0
        inputs, outputs = (
            Ragged.of_lengths(np.bincount(call[own], minlength=len(stamps)), numbers[own])
            for own in (given, ~given)
        )
        return CallOperands(inputs, outputs, self._written(call, seen, numbers, given))

    def _written(self, call: Ints, seen: Ints, numbers: Ints, given: Any) -> dict[str, Ints]:
        """Results that are also arguments and whose version has increased: in-place writes."""
        keys = call * (int(seen[:, TENSOR].max(initial=0)) + 1) + seen[:, TENSOR]
        _, first = np.unique(keys[given], return_index=True)
        before = np.flatnonzero(given)[first]
        _, first = np.unique(keys[~given], return_index=True)
        after = np.flatnonzero(~given)[first]
        _, at, then = np.intersect1d(
            keys[before], keys[after], assume_unique=True, return_indices=True
        )
        before, after = before[at], after[then]
        old, new = seen[before, row.VERSION], seen[after, row.VERSION]
        more = old < new
        place, after, old, new = (each[more] for each in (call[after], after, old, new))
        memory = np.array([self.rows.storage(m) for m in seen[after, STORAGE].tolist()], np.int64)
        return dict(zip(WRITTEN, (place, numbers[after], memory, old, new), strict=True))

    def forget(self, waiting: Ints, until: int) -> None:
        """Forget operands except those of these calls, which are not written yet."""
        if self.observer is None:
            return
        calls = self._waiting[:, row.CALL]
        self._waiting = self._waiting[(calls > until) | np.isin(calls, waiting)]
        last, who = self._identities.last()
        self.rows.forget(self._waiting, who)
        self._told_at = {
            int(seen[row.TENSOR]): (seen[row.STORAGE], seen[row.COUNTER], *known)
            for seen, known in zip(last, self.rows.told_of(who), strict=True)
            if known is not None
        }

    def _told_as(self, tensor: Any) -> tuple[int, int] | None:
        """The numbers of a tensor and its storage, if it was an operand of a written call."""
        told, writes = self._told_at.get(tensor._cdata), self._calls.writes
        if told is None or writes is None or tensor.is_inference():
            return None
        memory = writes.memory_of(tensor)
        return told[2:] if told[:2] == (memory.storage, memory.counter) else None
