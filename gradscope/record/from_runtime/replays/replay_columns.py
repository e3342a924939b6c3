"""The content of each column: ids, times or steps; and which values a replay shifts.

# Note [Rows of replays]
All numbers that a recording assigns increase: ids, sequence numbers, spans, steps. So the rows of a
replayed step are those of its template, with each number shifted by the count of numbers assigned
since. Objects that existed before the template (parameters, their gradients, arguments) are looked
up: the same tensors have the same ids, other arguments have theirs. Times are shifted by the clock
of the replay: start and end of each piece of the plan are known, and times between are
interpolated.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.trace import schema
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import NONE, events
from gradscope.trace.schema.declare import columns
from gradscope.trace.shorthand import tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gradscope.record.notes.log import Ints
    from gradscope.trace.schema.declare import Column, Row
    from gradscope.trace.table import Block


class Filled(Enum):
    """The meaning of numbers in a column."""

    AS_IT_IS = auto()
    NUMBER = auto()  # of a call, node, tensor, storage or graph task
    SEEN = auto()  # twice that number, plus one bit
    TIME = auto()
    STEP = auto()
    SPAN = auto()
    ACT = auto()
    SEQUENCE = auto()
    CONTEXT = auto()
    VERSION = auto()  # of the tensor in the same row


NUMBERED = ("tensor", "storage", "op", "node", "graph_task")
OF_TABLE = {"step": Filled.STEP, "span": Filled.SPAN, "act": Filled.ACT}
WRITTEN_ONCE = (
    schema.String, schema.Meta, schema.Frame, schema.Stack, schema.Thread, schema.Device,
    schema.Step, schema.CapturedStep, schema.Missed, schema.Plan, schema.PlanCall, schema.Buffer,
    schema.Replay, schema.StepSummary, schema.ParameterSummary, tables.ShortOperator,
    tables.ShortSlot, tables.ShortLayout, tables.ShortContext,
)  # fmt: skip
"""Tables without rows of replays; steps are begun separately."""

STEPPED = ("id", "lr", "none", "many")
"""Columns of an optimizer's step that are also valid for its replays; others were observed."""

IN_SHORT: dict[type[Row], dict[str, Filled]] = {
    tables.ShortCall: {
        "number": Filled.NUMBER, "begin": Filled.TIME, "end": Filled.TIME,
        "context": Filled.CONTEXT,
        "sequence": Filled.SEQUENCE, "first": Filled.SEEN, "second": Filled.SEEN,
    },
    tables.ShortOrigin: {"tensor": Filled.NUMBER, "since": Filled.NUMBER, "node": Filled.NUMBER},
    tables.ShortExplicit: {"number": Filled.NUMBER},
    tables.ShortView: {"number": Filled.NUMBER, "storage": Filled.NUMBER},
    tables.ShortSaved: {
        "node": Filled.NUMBER, "tensor": Filled.NUMBER, "version": Filled.VERSION, "t": Filled.TIME,
    },
    tables.ShortRun: {
        "begin": Filled.TIME, "ended": Filled.TIME, "task": Filled.NUMBER, "node": Filled.NUMBER,
    },
    tables.ShortMove: {"begin": Filled.TIME, "target": Filled.NUMBER},
    tables.ShortSingle: {
        "t": Filled.TIME, "task": Filled.NUMBER, "node": Filled.NUMBER, "a": Filled.NUMBER,
    },
    tables.ShortCounted: {"t": Filled.TIME, "task": Filled.NUMBER, "node": Filled.NUMBER},
}  # fmt: skip


def kind_of(row: type[Row], column: Column) -> Filled:
    """The meaning of a column's numbers."""
    if row in IN_SHORT:
        return IN_SHORT[row].get(column.name, Filled.AS_IT_IS)
    if column.time:
        return Filled.TIME
    if column.name == "id" and column.ref is None:
        return Filled.NUMBER if row.TABLE in NUMBERED else OF_TABLE.get(row.TABLE, Filled.AS_IT_IS)
    if row is schema.Node and column.name == "sequence_nr":
        return Filled.SEQUENCE
    if row is schema.Version and column.name in ("old", "new"):
        return Filled.VERSION
    if column.ref in NUMBERED:
        return Filled.NUMBER
    return OF_TABLE.get(column.ref or "", Filled.AS_IT_IS)


@dataclass(frozen=True, slots=True)
class MovedColumn:
    """A column, and which of its values a replay shifts."""

    name: str
    kind: Filled
    values: Any  # flat
    lengths: Ints | None  # of each cell, if cells are lists
    inside: Any  # which values were assigned since the template began
    places: Ints  # index of each value among the tensors that are looked up, or among the times
    rows: Ints | None = None  # of a version: the index of its looked-up tensor


@dataclass(frozen=True, slots=True)
class ColumnPart:
    """One block of a template."""

    row: type[Row]
    columns: tuple[MovedColumn, ...]
    amend: bool
    count: int
    described: Ints  # of each row: the index of the looked-up tensor that it describes

    def column(self, name: str) -> MovedColumn:
        return next(each for each in self.columns if each.name == name)


@dataclass(frozen=True, slots=True)
class Basis:
    """The counts at which a template begins, and the ids that are looked up."""

    number: int
    sequence: int
    span: int
    act: int
    step: int
    known: Ints  # ids that are looked up, sorted
    moments: Ints  # sorted


def part_of(row: type[Row], block: Block, basis: Basis, memory: Mapping[int, int]) -> ColumnPart:
    """A block with its shifted values; `memory`: the storages of tensors that are views."""
    tensor = block.data.get("tensor")
    of_tensor = None
    if tensor is not None and not isinstance(tensor, Ragged):
        held = [memory.get(id, id) for id in np.asarray(tensor).tolist()]
        itself, of_memory = places(basis.known, tensor), places(basis.known, held)
        of_tensor = np.where(itself >= 0, itself, of_memory)
    made = []
    for column in columns(row):
        data = block.data.get(column.name)
        if data is not None and (row is not schema.StepAct or column.name in STEPPED):
            made.append(_moved(row, column, data, block, basis, of_tensor))
    describes = row in (schema.Tensor, schema.Storage)
    ids: Any = block.data["id"] if describes else np.full(block.rows, NONE)
    return ColumnPart(row, tuple(made), block.amend, block.rows, places(basis.known, ids))


def _moved(
    row: type[Row], column: Column, data: Any, block: Block, basis: Basis, of_tensor: Any
) -> MovedColumn:
    kind, lengths, values = kind_of(row, column), None, data
    if isinstance(data, Ragged):
        lengths, values = data.lengths, data.values
    first = {
        Filled.NUMBER: basis.number, Filled.SEEN: 2 * basis.number, Filled.SEQUENCE: basis.sequence,
        Filled.SPAN: basis.span, Filled.ACT: basis.act, Filled.STEP: basis.step,
    }.get(kind, 0)  # fmt: skip
    inside, found = values >= first if kind is not Filled.AS_IT_IS else None, NOWHERE
    if row is tables.ShortSingle and column.name == "a":
        inside = inside & (np.asarray(block.data["code"]) == events.Accumulate.CODE)
        known = np.where(np.asarray(block.data["code"]) == events.Accumulate.CODE, values, NONE)
        found = places(basis.known, known)
    elif kind is Filled.NUMBER:
        found = places(basis.known, values)
    elif kind is Filled.SEEN:
        found = np.where(values < 0, NONE, places(basis.known, values >> 1))
    elif kind is Filled.TIME:
        found = np.where(values < 0, NONE, np.searchsorted(basis.moments, values))
    return MovedColumn(column.name, kind, values, lengths, inside, found, of_tensor)


NOWHERE = np.zeros(0, np.int64)


def places(known: Ints, values: Any) -> Ints:
    """The index of each value among these; NONE if it is absent."""
    values = np.asarray(values, np.int64)
    if not len(known):
        return np.full(len(values), NONE)
    order = np.argsort(known, kind="stable")
    at = np.minimum(np.searchsorted(known[order], values), len(known) - 1)
    return np.where(known[order][at] == values, order[at], NONE)


def moments_in(blocks: Iterable[tuple[type[Row], Block]]) -> Ints:
    """All times in these rows."""
    found = [NOWHERE]
    for row, block in blocks:
        for column in columns(row):
            data = block.data.get(column.name)
            if data is not None and kind_of(row, column) is Filled.TIME:
                found.append(np.asarray(data, np.int64))
    moments = np.unique(np.concatenate(found))
    return moments[moments >= 0]
