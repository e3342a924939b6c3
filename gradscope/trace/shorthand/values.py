"""Assigns values to their events, where a producer left that open.

A value is measured right after the event it belongs to, but events are numbered only when they are
expanded. What a node received or returned belongs to its one run in that graph task, and so does
what arrived in `.grad`; the result of a hook belongs to the last hook of the node that had returned
by then. The sums at an input of a node belong to the additions there, in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.trace.schema import events
from gradscope.trace.schema.declare import NONE, Event
from gradscope.trace.schema.tables import Finding, Place, Value
from gradscope.trace.shorthand.short_columns import Ints

if TYPE_CHECKING:
    from gradscope.trace.table import Block

Made = Mapping[type[Event], Sequence[Mapping[str, Any]]]

EVENT_OF: dict[Place, type[Event]] = {
    Place.NODE_INPUT: events.NodeBegin,
    Place.NODE_OUTPUT: events.NodeEnd,
    Place.BUFFER: events.BufferAdded,
    Place.HOOK: events.HookEnd,
    Place.GRAD: events.Accumulate,
    Place.SEED: events.TaskBegin,
}
NODE = ["task", "node"]
NEEDED = ("id", "place", "task", "node", "index", "seq", "t")


def with_events(blocks: Sequence[Block], made: Made, make: type[Block]) -> list[Block]:
    """The blocks, with the events of values and findings filled in."""
    values = [b for b in blocks if b.table == Value.TABLE and not b.amend]
    if not values or not all(_is_whole(block, NEEDED) for block in values):
        return list(blocks)
    column = {name: np.concatenate([b.data[name] for b in values]) for name in NEEDED}
    seq = column["seq"].copy()
    for place, kind in EVENT_OF.items():
        chosen = np.flatnonzero((column["place"] == place) & (seq == NONE))
        if len(chosen) and made.get(kind):
            rows = {name: values[chosen] for name, values in column.items()}
            seq[chosen] = _events_of(rows, kind, made[kind])
    found, start = [], 0
    for block in blocks:
        if block.table == Value.TABLE and not block.amend:
            found.append(_changed(block, seq[start : start + block.rows], make))
            start += block.rows
        elif block.table == Finding.TABLE and _is_whole(block, ("seq", "t")):
            found.append(_changed(block, _seq_at(block, column["t"], seq), make))
        else:
            found.append(block)
    return found


def _is_whole(block: Block, names: Sequence[str]) -> bool:
    return all(getattr(block.data.get(name), "dtype", None) == np.int64 for name in names)


def _changed(block: Block, seq: Ints, make: type[Block]) -> Block:
    return make(block.table, block.rows, {**block.data, "seq": seq}, block.amend)


def _seq_at(block: Block, t: Ints, seq: Ints) -> Ints:
    """Assign each finding to the event of the value that was measured at the same time."""
    own, at = np.asarray(block.data["seq"]), np.asarray(block.data["t"])
    order = np.argsort(t, kind="stable")
    place = np.minimum(np.searchsorted(t[order], at), len(t) - 1)
    same = (t[order][place] == at) & (own == NONE)
    return np.where(same, seq[order][place], own)


def _events_of(values: Mapping[str, Ints], kind: type[Event], made: Any) -> Ints:
    event = {name: np.concatenate([part[name] for part in made]) for name in made[0]}
    if kind is events.BufferAdded:
        defined = ~event["undefined"]
        event = {name: column[defined] for name, column in event.items()}
    names = {events.BufferAdded: [*NODE, "index"], events.TaskBegin: ["task"]}.get(kind, NODE)
    others = ["input_nr" if name == "index" else name for name in names]
    first, second = [values[name] for name in names], [event[name] for name in others]
    if kind is events.HookEnd:
        return _last(first, values["t"], second, event["t"], event["seq"])
    if kind is events.BufferAdded:
        first = [*first, _rank(first, values["id"])]
        second = [*second, _rank(second, event["seq"])]
    always = np.zeros(len(first[0]), np.int64), np.zeros(len(second[0]), np.int64)
    return _last(first, always[0], second, always[1], event["seq"])


def _rank(keys: Sequence[Ints], by: Ints) -> Ints:
    """The index of each row among those with the same keys."""
    order = np.lexsort((by, *keys))
    new = np.zeros(len(order), bool)
    for key in keys:
        new[1:] |= key[order][1:] != key[order][:-1]
    place = np.arange(len(order))
    start = np.maximum.accumulate(np.where(new, place, 0))
    rank = np.empty(len(order), np.int64)
    rank[order] = place - start
    return rank


def _last(keys: Sequence[Ints], t: Any, others: Sequence[Ints], at: Any, seq: Ints) -> Ints:
    """For each row, the seq of the last event with the same keys that is not later."""
    many = len(keys[0])
    pairs = [np.concatenate(pair) for pair in zip(keys, others, strict=True)]
    _, key = np.unique(np.stack(pairs), axis=1, return_inverse=True)
    _, time = np.unique(np.concatenate([t, at]), return_inverse=True)
    place = key.ravel() * (int(time.max()) + 1) + time.ravel()
    order = np.lexsort((seq, place[many:]))
    found = np.searchsorted(place[many:][order], place[:many], side="right") - 1
    nearest = order[np.maximum(found, 0)]
    same = (found >= 0) & (key.ravel()[many:][nearest] == key.ravel()[:many])
    return np.where(same, seq[nearest], NONE)
