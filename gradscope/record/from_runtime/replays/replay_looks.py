"""Lookups of tensors and of recorded rows, for a template and its replays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradscope.record.acts.of_optimizers import setting
from gradscope.record.from_runtime.replays.replay_columns import Filled, kind_of
from gradscope.trace import schema
from gradscope.trace.ragged import take
from gradscope.trace.schema import NONE
from gradscope.trace.schema.declare import columns
from gradscope.trace.shorthand import tables
from gradscope.trace.table import Block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradscope.record.from_runtime.replays.replay_columns import Basis, ColumnPart
    from gradscope.trace.schema.declare import Row

NOBODYS = NONE - 1
"""Used instead of the id of an object that is not recorded."""


def rates_of(optimizer: Any) -> tuple[float, ...]:
    """The learning rate of each parameter group."""
    return tuple([setting(group.get("lr")) for group in optimizer.param_groups])


def number_in(told: Any, base: int) -> int:
    """The number of a tensor or node of this recording, with its bit; else 0."""
    number = 0 if told is None else int(told.record_nr)
    return number if number > base else 0


class KnownLook(NamedTuple):
    """The numbers of a tensor, its storage and its node; 0: it has none."""

    itself: int  # with its bit
    storage: int
    node: int


UNKNOWN = KnownLook(0, 0, 0)


def known_of(tensor: Any, base: int) -> KnownLook:
    """The numbers of a tensor in this recording."""
    edge = tensor._edge
    node = None if edge is None else edge[0]
    return KnownLook(*(number_in(each, base) for each in (tensor, tensor._storage, node)))


def grad_of(tensor: Any) -> Any:
    """The gradient of a tensor, read without a warning."""
    return None if tensor._meta is None else tensor._meta.grad


def accumulator_of(tensor: Any) -> Any:
    """The node that accumulates its gradient, if it exists."""
    weak = None if tensor._meta is None else tensor._meta.accumulator
    return None if weak is None else weak()


def id_of(number: int, base: int) -> int:
    """The id in the trace for a number; NOBODYS for 0."""
    return (number - base - 2) >> 1 if number else NOBODYS


def gathers_in(told: Sequence[tuple[type[Row], Block]], leaves: Sequence[int]) -> dict[int, int]:
    """The new accumulation nodes of these leaves, by the index of the leaf."""
    found: dict[int, int] = {}
    of = {leaf: place for place, leaf in enumerate(leaves) if leaf != NOBODYS}
    for row, block in told:
        if row is tables.ShortOrigin:
            columns = (np.asarray(block.data[name]).tolist() for name in ("tensor", "node"))
            for tensor, node in zip(*columns, strict=True):
                if tensor in of:
                    found[of[tensor]] = node
    return found


def memory_of(told: Sequence[tuple[type[Row], Block]]) -> dict[int, int]:
    """The storages of tensors whose storage has another id."""
    found: dict[int, int] = {}
    for row, block in told:
        names = {tables.ShortView: ("number", "storage"), schema.Tensor: ("id", "storage")}.get(row)
        if names is not None and not block.amend:
            both = (np.asarray(block.data[name]).tolist() for name in names)
            found.update(pair for pair in zip(*both, strict=True) if pair[0] != pair[1])
    return found


def version_of(tensor: Any) -> int:
    versions = None if tensor is None else tensor._versions
    return 0 if versions is None else int(versions.value)


def without_older(row: type[Row], block: Block, basis: Basis) -> Block | None:
    """A block without amendments of rows from before the template; None: nothing is left."""
    id = next((column for column in columns(row) if column.name == "id"), None)
    kind = Filled.AS_IT_IS if id is None else kind_of(row, id)
    first = {
        Filled.NUMBER: basis.number,
        Filled.SPAN: basis.span,
        Filled.ACT: basis.act,
    }.get(kind)
    if not block.amend or first is None:
        return block
    kept = np.flatnonzero(np.asarray(block.data["id"]) >= first)
    if not len(kept):
        return None
    data = {name: take(data, kept) for name, data in block.data.items()}
    return Block(block.table, len(kept), data, amend=True)


def contexts_in(parts: Sequence[ColumnPart]) -> set[int]:
    """The contexts that a template refers to."""
    found: set[int] = set()
    for part in parts:
        for column in part.columns:
            if column.kind is Filled.CONTEXT:
                found.update(np.unique(column.values).tolist())
    return found


def events_in(told: Sequence[tuple[type[Row], Block]]) -> int:
    """Approximate number of events in these rows, counted like in the source."""
    many = {tables.ShortRun: 4, tables.ShortMove: 3, tables.ShortSingle: 1}
    return sum(many.get(row, 0) * block.rows for row, block in told)
