"""The notes of level `values`, and the rows made from them."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from gradscope.record.from_runtime.values.measured import Measured, named
from gradscope.record.notes.log import Log, take_all
from gradscope.record.notes.statistics import Statistics
from gradscope.trace.schema import NONE, Finding, Place, Value

if TYPE_CHECKING:
    from gradscope.record.notes.log import Ints
    from gradscope.record.session import Session

COUNTS, SIZES = Statistics._fields[:5], Statistics._fields[5:-1]

WHOLE = 256
"""Largest number of elements of a tensor whose values are all stored, at level `full`."""

SHOWN = {
    Place.OP_OUTPUT: "in the result of a call",
    Place.NODE_INPUT: "in a gradient that a node receives",
    Place.NODE_OUTPUT: "in a gradient that a node returned",
    Place.BUFFER: "in a sum of gradients",
    Place.HOOK: "in what a hook returned",
    Place.GRAD: "in .grad",
    Place.SEED: "in the gradient backward was called with",
    Place.LEAF: "in an input tensor",
}


class ValueNotes:
    """One note for each tensor that was measured; `whole`: small ones are stored completely."""

    def __init__(self, session: Session, measured: Measured, *, whole: bool) -> None:
        self._session = session
        self._base = session.base
        self._measured = measured
        self._whole = whole
        self._notes = Log(10)
        self._note = self._notes.note
        self._written = 0
        self._findings: list[tuple[Any, ...]] = []
        self._missing = {"nan", "inf"}  # kinds not found yet
        self._not_finite = self._with_nan = 0  # number of tensors with NaN or Inf, and with NaN
        session.not_finite = self.not_finite

    def not_finite(self) -> tuple[int, int]:
        """Number of tensors with NaN or Inf, and of those with NaN."""
        return self._not_finite, self._with_nan

    def note(
        self,
        place: Place,
        array: Any,
        row: tuple[int, bool],
        op: int,
        node: int,
        index: int,
        tensor: int,
        task: int,
    ) -> None:
        """Note an array; `row`: the row of its statistics, and whether it has NaN or Inf."""
        session = self._session
        now = perf_counter_ns() - session.start
        data = 0
        if self._whole and array.size <= WHOLE:
            data = session.writer.intern(_json(array))
        step = session.contexts.steps.id
        task = max(task, self._base)  # one that began before the recording is unknown
        self._note(place, op, node, index, tensor, task, step, now, row[0], data)
        if row[1]:
            self._not_finite += 1
            self._with_nan += self._measured.counts(row[0])[1] > 0
            if self._missing:
                self._found(place, op, node, now, row[0])

    def _found(self, place: Place, op: int, node: int, now: int, row: int) -> None:
        """Record a finding for the first NaN or Inf of the recording."""
        intern = self._session.writer.intern
        size, nans, infinite = self._measured.counts(row)
        for kind, count in (("nan", nans), ("inf", infinite)):
            if count and kind in self._missing:
                self._missing.discard(kind)
                name = {"nan": "NaN", "inf": "Inf"}[kind]
                message = f"the first {name} is {SHOWN[place]}: {count} of {size} elements"
                stack = self._session.sites.here(2)
                self._findings.append((
                    len(self._missing), intern(kind), intern(message), int(place), op, node, stack,
                    now,
                ))  # fmt: skip

    def flush(self) -> None:
        """Pass all notes so far to the writer."""
        notes = self._notes.take()
        if notes.shape[1]:
            self._values(notes)
        findings = take_all(self._findings)
        if findings:
            id, kind, message, place, op, node, stack, t = map(list, zip(*findings, strict=True))
            ids = self._session.ids
            self._session.writer.block(Finding, {
                "id": id, "kind": kind, "message": message, "place": place, "op": ids(op),
                "node": ids(node), "seq": [NONE] * len(id), "stack": stack, "t": t,
            })  # fmt: skip

    def _values(self, notes: Ints) -> None:
        place, op, node, index, tensor, task, step, t, row, data = notes
        first, self._written = self._written, self._written + len(row)
        ids = self._session.ids
        cells = self._measured.read(row)
        measured = dict(zip(Statistics._fields, np.ascontiguousarray(cells.T), strict=False))
        counts = {name: measured[name].astype(np.int64) for name in COUNTS}
        bad: list[tuple[int, ...]] = [()] * len(row)
        for at in np.flatnonzero(counts["nan"] + counts["posinf"] + counts["neginf"]).tolist():
            bad[at] = named(cells[at])
        columns = {
            "id": np.arange(first, self._written), "place": place, "op": ids(op),
            "node": ids(node), "index": index, "tensor": ids(tensor), "task": ids(task),
            "step": step, "seq": np.full(len(row), NONE), "t": t, "count": counts.pop("size"),
            **counts, **{name: measured[name] for name in SIZES}, "data": data,
        }  # fmt: skip
        for column in columns.values():
            column.flags.writeable = False  # there is no other reference to it
        self._session.writer.block(Value, {**columns, "bad": bad})


def _json(array: Any) -> str:
    """The values as nested lists; NaN and Inf, which JSON lacks, as text."""
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    if array.dtype.kind in "fV":
        array = array.astype(np.float64)
    values = array.tolist()
    return orjson.dumps(values if np.isfinite(array).all() else _spelled(values)).decode()


def _spelled(value: Any) -> Any:
    if isinstance(value, list):
        return [_spelled(each) for each in value]
    return value if np.isfinite(value) else str(value)
