"""What follows from an operation's declaration for every call of it, as arrays over all operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradscope.runtime.operation import REGISTRY, Operation
from gradscope.trace.schema import Why

if TYPE_CHECKING:
    from gradscope.trace.writer import Writer

Ints = NDArray[np.int64]

ABSENT = -9
"""No such edge or slot, or one of an input that a noted call cannot have."""
RESULT = -2
"""The slot keeps the call's result."""


class OpTable:
    """For each operation, by its number: names, where its edges lead, what its node keeps."""

    def __init__(self, writer: Writer) -> None:
        ops = list(REGISTRY.values())
        count = 1 + max((op.number for op in ops), default=0)
        self.edges = max((len(op.plan.differentiable) for op in ops), default=0)
        self.slots = max((len(op.plan.slots) for op in ops), default=0)
        self.name = np.zeros(count, np.int64)
        self.node_name = np.zeros(count, np.int64)
        self.source = np.full((count, self.edges), ABSENT)
        self.slot_source = np.full((count, self.slots), ABSENT)
        self.slot_wanted = np.zeros((count, self.slots), np.int64)
        self.slot_name = np.zeros((count, self.slots), np.int64)
        self._reason = np.full(count, Why.NO_INPUT_REQUIRES_GRAD)
        for op in ops:
            self.name[op.number] = writer.intern(op.name)
            self.node_name[op.number] = writer.intern(op.node_name)
            self._describe(op, writer)

    def _describe(self, op: Operation, writer: Writer) -> None:
        at, plan = op.number, op.plan
        places = {p.name: i for i, p in enumerate(plan.tensors)}
        for index, name in enumerate(plan.differentiable):
            self.source[at, index] = places[name]
        for index, slot in enumerate(plan.slots):
            if slot.kind == "input":
                self.slot_source[at, index] = places[slot.source]
            elif slot.kind == "output":
                self.slot_source[at, index] = RESULT
            self.slot_name[at, index] = writer.intern(slot.name)
            if len(slot.wanted_by) < len(plan.differentiable):
                self.slot_wanted[at, index] = sum(1 << i for i in slot.wanted_by)
        if not plan.differentiable:
            self._reason[at] = Why.DETACHED if op.base_name == "detach" else Why.NOT_DIFFERENTIABLE

    def why(self, op: Ints, sequence: Ints) -> Any:
        """Why calls without a node have none; a sequence number of -2 says that grad mode was off."""
        return np.where(sequence == -2, Why.NO_GRAD, self._reason[op])
