"""A recorded run: what happened, immutable, looked up by id, time, thread, task and step."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import orjson

from gradscope.errors import UnknownNameError, UnreadableTraceError
from gradscope.trace.arrays import distinct
from gradscope.trace.assemble import in_order
from gradscope.trace.ragged import Integers, Ragged, same
from gradscope.trace.schema import (
    MINOR,
    SINCE,
    VERSION,
    WRITTEN_LAST,
    Frame,
    Meta,
    Stack,
    String,
)  # fmt: skip
from gradscope.trace.schema.declare import EVENTS, NONE, Event, Row
from gradscope.trace.schema.run_facts import misfits
from gradscope.trace.shortcomings import notes_of
from gradscope.trace.table import CHUNK, Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gradscope.trace.file.reading.of_step import AllNodes

__all__ = ["EventOrder", "Ragged", "Table", "Trace"]

R = TypeVar("R", bound=Row)
Made = TypeVar("Made")


class EventOrder(NamedTuple):
    """All events in order of `seq`: kind (in `Trace.event_kinds`) and position in its table."""

    seq: Integers
    kind: Integers
    position: Integers


class Trace:
    """The trace of one run. Everything in it is read-only."""

    def __init__(
        self,
        tables: Mapping[str, Table[Row]],
        *,
        version: tuple[int, int] = (VERSION, MINOR),
        truncated: bool = False,
        horizon: int | None = None,
        lost: int = 0,
        remarks: tuple[str, ...] = (),
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self.tables = {name: tables[name] for name in in_order(tables)}
        """Every table by name, including those this gradscope does not know."""
        self.version = version
        self.truncated = truncated
        """Whether the recording ended without closing the file: killed, crashed, or cut since."""
        self.horizon = horizon
        """Up to and including this `seq` no event is missing; None: to the end."""
        self.lost = lost
        """Number of bytes after the last whole line of the file, which could not be read."""
        self.last_written: float | None = None
        """If a process is still writing the file: seconds from its last write until it was loaded;
        else None."""
        self.file_name = ""
        """Name of the file it was loaded from, without folders."""
        self.all_nodes: AllNodes | None = None
        """The nodes of the whole trace, if only a part was read: see Note [One step]."""
        self._remarks = remarks
        self._facts = facts
        self._made: dict[Any, Any] = {}
        self._strings = self.table(String).strings
        self.event_kinds: tuple[type[Event], ...] = tuple(EVENTS.values())

    def __repr__(self) -> str:
        rows = ", ".join(f"{len(table)} {name}" for name, table in self.tables.items() if table)
        return f"<Trace: {rows}>"

    def once(self, make: Callable[[Trace], Made]) -> Made:
        """The result of a function of this trace, computed once and shared."""
        if make not in self._made:
            self._made[make] = make(self)
        found: Made = self._made[make]
        return found

    def sees(self, name: str) -> bool:
        """Whether this part of the format was recorded, according to version and `meta`."""
        meta = self.meta
        away = name in meta.get("absent", ()) or name in meta.get("left_out", ())
        away = away or (name in WRITTEN_LAST and not self.tables[name])
        return not away and self.version >= SINCE.get(name, (1, 0))

    # Tables ----------------------------------------------------------------------------------

    def table(self, row: type[R]) -> Table[R]:
        """The table of a schema class; empty if nothing of that kind was recorded."""
        return self.tables[row.TABLE]  # type: ignore[return-value]

    def rows(self, row: type[R]) -> Iterator[R]:
        """All rows of a table, in the order they were written."""
        return self.table(row).rows()

    @cached_property
    def meta(self) -> Mapping[str, Any]:
        """Facts about the run, as declared in `RunFacts`; the last row of a key counts."""
        if self._facts is not None:
            return self._facts
        facts = {row.key: _json(row.value) for row in self.rows(Meta) if row.value}
        for misfit in misfits(facts):
            raise UnreadableTraceError(f"{misfit}; record it again")
        return facts

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What is missing and why, one sentence each."""
        return (*notes_of(self), *self._remarks)

    # Text ------------------------------------------------------------------------------------

    def text(self, string_id: int) -> str:
        """Interned text; "" for NONE."""
        return self._strings[string_id]

    def texts(self, string_ids: Integers) -> list[str]:
        """The interned text of each id."""
        return self._strings.get_all(string_ids)

    def frames(self, stack_id: int) -> tuple[Frame, ...]:
        """A call stack, innermost frame first. Frames missing from the trace are left out."""
        frames, stacks = self.table(Frame), self.table(Stack).chain(stack_id, "parent")
        return tuple(frames.row(stack.frame) for stack in stacks if frames.has(stack.frame))

    def _innermost(self, stack_id: int) -> Frame | None:
        stacks, frames = self.table(Stack), self.table(Frame)
        if not stacks.has(stack_id):
            return None
        frame = int(stacks["frame"][stacks.index(stack_id)])
        return frames.row(frame) if frames.has(frame) else None

    def site(self, stack_id: int) -> str:
        """The innermost line as `train.py:41`; "" if it is not known."""
        frame = self._innermost(stack_id)
        return f"{frame.file}:{frame.line}" if frame else ""

    def source(self, stack_id: int) -> str:
        """The text of the innermost line; "" if it is not known."""
        frame = self._innermost(stack_id)
        return frame.text if frame else ""

    # Events ----------------------------------------------------------------------------------

    @property
    def event_count(self) -> int:
        return sum(len(self.table(kind)) for kind in self.event_kinds)

    def order(self) -> EventOrder:
        """All events by `seq`, as three arrays of the same length."""
        return self._order

    @cached_property
    def _order(self) -> EventOrder:
        tables = [self.table(kind) for kind in self.event_kinds]
        lengths = [len(table) for table in tables]
        seq = np.concatenate([table.array("seq") for table in tables])
        kind = np.repeat(np.arange(len(tables)), lengths)
        position = np.concatenate([np.arange(length) for length in lengths])
        rising = np.argsort(seq, kind="stable")
        return EventOrder(seq[rising], kind[rising], position[rising])

    def event_column(self, name: str) -> Integers:
        """A column of all events in `order()`, such as "task"; NONE for kinds without it."""
        order = self.order()
        values = np.full(len(order.seq), NONE, np.int64)
        for number, kind in enumerate(self.event_kinds):
            table = self.table(kind)
            if len(table) and name in table.data:
                of_kind = order.kind == number
                values[of_kind] = table.array(name)[order.position[of_kind]]
        return values

    def events(
        self,
        *kinds: type[Event],
        task: int | None = None,
        thread: int | None = None,
        node: int | None = None,
    ) -> Iterator[Any]:
        """Events in order: of these kinds (or all), of this graph task, thread or node."""
        order = self.order()
        chosen = np.ones(len(order.seq), bool)
        if kinds:
            wanted = np.array([kind in kinds for kind in self.event_kinds])
            chosen &= wanted[order.kind]
        for name, value in (("task", task), ("thread", thread), ("node", node)):
            if value is not None:
                chosen &= self.event_column(name) == value
        places = np.flatnonzero(chosen)
        for start in range(0, len(places), CHUNK):
            yield from self._events_at(places[start : start + CHUNK])

    def _events_at(self, places: Integers) -> list[Event]:
        kinds, positions = self.order().kind[places], self.order().position[places]
        found: dict[int, Event] = {}
        for number in distinct(kinds):
            of_kind = np.flatnonzero(kinds == number)
            rows = self.table(self.event_kinds[number]).take(positions[of_kind])
            found.update(zip(of_kind.tolist(), rows, strict=True))
        return [found[place] for place in range(len(places))]

    def place_of(self, seq: int) -> int:
        """The index in `order()` of the event with this `seq`."""
        place = int(np.searchsorted(self.order().seq, seq))
        if place == self.event_count or self.order().seq[place] != seq:
            raise UnknownNameError(f"there is no event {seq} in this trace")
        return place

    # Comparison ------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """Whether rows, their order and the missing parts are equal. String ids may differ."""
        if not isinstance(other, Trace):
            return NotImplemented
        state = (self.version, self.truncated, self.horizon)
        if state != (other.version, other.truncated, other.horizon):
            return False
        names = [name for name in in_order({*self.tables, *other.tables}) if name != String.TABLE]
        return all(_same(self.tables.get(name), other.tables.get(name)) for name in names)

    def __hash__(self) -> int:
        return hash(tuple((name, len(table)) for name, table in self.tables.items() if table))


def _json(text: str) -> Any:
    """A meta value; text that is not JSON is returned as it is."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _same(left: Table[Row] | None, right: Table[Row] | None) -> bool:
    if left is None or right is None:
        return not left and not right
    if len(left) != len(right):
        return False
    if not left:
        return True
    return left.data.keys() == right.data.keys() and all(
        _said(left, key) == _said(right, key)
        if key in left.text_columns
        else same(left.data[key], right.data[key])
        for key in left.data
    )


def _said(table: Table[Row], column: str) -> list[str] | list[tuple[str, ...]]:
    is_list = isinstance(table.data[column], Ragged)
    return table.lists_of_texts(column) if is_list else table.texts(column)
