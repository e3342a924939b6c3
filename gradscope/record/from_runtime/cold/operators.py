"""Facts about each operation that allow its calls to be recorded in short form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.runtime.core.rows.operation import REGISTRY, Operation
from gradscope.runtime.core.state.thread import local
from gradscope.trace.schema import Why
from gradscope.trace.shorthand.short_calls import ABSENT, RESULT
from gradscope.trace.shorthand.tables import ShortOperator, ShortSlot

if TYPE_CHECKING:
    from gradscope.record.notes.log import Ints
    from gradscope.trace.writer import Writer


class OperatorRows:
    """Writes an operation the first time a call of it is written."""

    def __init__(self, writer: Writer, *, saved: bool) -> None:
        self._writer = writer
        self._saved = saved  # whether the trace contains saved tensors
        self._written: set[int] = set()

    def write(self, numbers: Ints) -> None:
        """Write rows for these operations, and for everything their nodes save."""
        new = set(np.flatnonzero(np.bincount(numbers)).tolist()) - self._written
        if not new:
            return
        self._written |= new
        ops = sorted((o for o in REGISTRY.values() if o.number in new), key=lambda o: o.number)
        intern = self._writer.intern
        self._writer.block(ShortOperator, {
            "number": [op.number for op in ops], "name": [intern(op.name) for op in ops],
            "node_name": [intern(op.node_name) for op in ops],
            "reason": [_reason(op) for op in ops], "sources": [_sources(op) for op in ops],
        })  # fmt: skip
        slots = [row for op in ops if self._saved for row in _slots(op, self._writer)]
        if slots:
            names = ("operator", "name", "source", "wanted")
            columns = map(list, zip(*slots, strict=True))
            self._writer.block(ShortSlot, dict(zip(names, columns, strict=True)))


def _places(op: Operation) -> dict[str, int]:
    return {p.name: i for i, p in enumerate(op.plan.tensors)}


def _sources(op: Operation) -> list[int]:
    """The input that each edge belongs to; short calls have two inputs at most."""
    places = _places(op)
    return [places[n] if places[n] < 2 else ABSENT for n in op.plan.differentiable]


def _reason(op: Operation) -> int:
    if op.plan.differentiable:
        return Why.NO_INPUT_REQUIRES_GRAD
    return Why.DETACHED if op.base_name == "detach" else Why.NOT_DIFFERENTIABLE


def why(op: Any, node: Any) -> int:
    """Why a call that was written in full created no node; MADE if it created one."""
    if node is not None or getattr(op, "made_inside", False):
        return Why.MADE
    if local.state.inference:
        return Why.INFERENCE
    if not local.state.grad_enabled:
        return Why.NO_GRAD
    return _reason(op) if isinstance(op, Operation) else Why.NO_INPUT_REQUIRES_GRAD


def _slots(op: Operation, writer: Writer) -> list[tuple[int, int, int, int]]:
    places, edges = _places(op), len(op.plan.differentiable)
    rows = []
    for slot in op.plan.slots:
        source = places[slot.source] if slot.kind == "input" else ABSENT
        source = RESULT if slot.kind == "output" else source
        everyone = not slot.wanted_by or len(slot.wanted_by) == edges
        wanted = 0 if everyone else sum(1 << i for i in slot.wanted_by)
        rows.append((op.number, writer.intern(slot.name), source, wanted))
    return rows
