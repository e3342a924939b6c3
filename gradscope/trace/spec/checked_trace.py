"""The events that rules check, sorted, grouped and summed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gradscope.trace.arrays import without
from gradscope.trace.ragged import Array, Integers, Ragged
from gradscope.trace.schema.declare import NONE, Event
from gradscope.trace.schema.events import TaskBegin, TaskEnd
from gradscope.trace.schema.tables import GraphTask, Node
from gradscope.trace.shortcomings import has_holes, unfinished
from gradscope.trace.text import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gradscope.trace.trace import Trace

T = TypeVar("T")

# Note [What can be judged]
# In a truncated trace everything up to its horizon is complete. Events after it are not judged, nor
# are beginnings without an end, which occur if a program was terminated in a backward. In a trace
# from which rows were dropped, only graph tasks that have all their events are judged.


@dataclass(frozen=True, slots=True)
class JudgedEvents:
    """The events of one kind that can be judged, in order of `seq`."""

    table: str
    data: Mapping[str, Array]

    def __len__(self) -> int:
        return len(self.data["seq"])

    def __getitem__(self, column: str) -> Array:
        return self.data[column]

    def where(self, chosen: Array) -> JudgedEvents:
        """A selection of the events."""
        return JudgedEvents(self.table, {name: data[chosen] for name, data in self.data.items()})


class CheckedTrace:
    """A trace, prepared for its rules."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.dropped = has_holes(trace)
        self.complete = not (trace.truncated or self.dropped or unfinished(trace))
        self._stretches: dict[type[Event], JudgedEvents] = {}
        self._found: dict[object, Any] = {}

    def once(self, find: Callable[[CheckedTrace], T]) -> T:
        """The result of a function, computed once for all rules that need it."""
        if find not in self._found:
            self._found[find] = find(self)
        return self._found[find]  # type: ignore[no-any-return]

    def of(self, kind: type[Event]) -> JudgedEvents:
        """The events of a kind. See Note [What can be judged]."""
        if kind not in self._stretches:
            table = self.trace.table(kind)
            keep = np.flatnonzero(self._judged(table.array("seq"), table.array("task")))
            keep = keep[np.argsort(table.array("seq")[keep], kind="stable")]
            arrays = {
                name: data for name, data in table.data.items() if not isinstance(data, Ragged)
            }
            cells = {name: data[keep] for name, data in arrays.items()}
            self._stretches[kind] = JudgedEvents(table.name, cells)
        return self._stretches[kind]

    def judges(self, task: Integers) -> Array:
        """For each graph task, whether it is judged."""
        return np.isin(task, self._whole_tasks) if self.dropped else np.ones(len(task), bool)

    def _judged(self, seq: Integers, task: Integers) -> Array:
        judged = self.judges(task)
        if self.trace.truncated and self.trace.horizon is not None:
            judged &= seq <= self.trace.horizon
        return judged

    @cached_property
    def seqs(self) -> Integers:
        """The `seq` of all events in order, including kinds this gradscope does not know."""
        found = [
            np.asarray(table.data["seq"])
            for name, table in self.trace.tables.items()
            if name.startswith("event.") and "seq" in table.data
        ]
        return np.sort(np.concatenate([seq for seq in found if seq.dtype.kind == "i"]))

    @cached_property
    def _whole_tasks(self) -> Integers:
        begins, ends = self.trace.table(TaskBegin), self.trace.table(TaskEnd)
        first = dict(zip(begins["task"].tolist(), begins["seq"].tolist(), strict=True))
        last = dict(zip(ends["task"].tolist(), ends["seq"].tolist(), strict=True))
        place = {
            task: np.searchsorted(self.seqs, [first[task], last[task]])
            for task in first
            if task in last
        }
        whole = [
            task for task, (begin, end) in place.items() if end - begin == last[task] - first[task]
        ]
        return np.array(whole, np.int64)

    # Graph tasks -----------------------------------------------------------------------------

    @cached_property
    def failed_tasks(self) -> Integers:
        """The graph tasks that ended with an error, or have not ended."""
        ends = self.of(TaskEnd)
        good = ends["task"][~ends["failed"]]
        return without(self.of(TaskBegin)["task"], good)

    @cached_property
    def full_tasks(self) -> Integers:
        """The graph tasks that ended without an error and had no `inputs=`."""
        ends = self.of(TaskEnd)
        tasks = self.trace.table(GraphTask)
        limited = (tasks.ragged("inputs").lengths > 0) | (tasks.ragged("needed").lengths > 0)
        return without(ends["task"][~ends["failed"]], tasks.array("id")[limited])

    def node(self, id: int) -> str:
        """The name of a node in messages."""
        nodes = self.trace.table(Node)
        return f"node {id} ({quoted(nodes.row(id).name)})" if nodes.has(id) else f"node {id}"


def groups(columns: Iterable[Array]) -> Integers:
    """A number for each row, the same for rows that are equal in all columns."""
    made: Any = 0
    for column in columns:
        values, places = np.unique(column, return_inverse=True)
        made = made * max(len(values), 1) + places
    return np.asarray(made, np.int64)


@dataclass(frozen=True, slots=True)
class Timeline:
    """Events of several kinds in one order, with a running sum within each group."""

    seq: Integers
    kind: Integers  # index of the group of events it is from
    place: Integers  # index in that group
    change: Integers
    after: Integers  # the sum in its group, including this event


def timeline(parts: Sequence[tuple[JudgedEvents, Integers | int]], by: Sequence[str]) -> Timeline:
    """Merge events by `seq`; each changes the sum of its group (rows equal in `by`)."""
    stretches = [stretch for stretch, _ in parts]
    lengths = [len(stretch) for stretch in stretches]
    seq = np.concatenate([stretch["seq"] for stretch in stretches])
    change = np.concatenate(
        [np.broadcast_to(change, len(stretch)) for stretch, change in parts]
    ).astype(np.int64)
    group = groups(np.concatenate([s[name] for s in stretches]) for name in by)
    kind = np.repeat(np.arange(len(parts)), lengths)
    place = np.concatenate([np.arange(length) for length in lengths])
    order = np.argsort(seq, kind="stable")
    after = running(group[order], change[order])
    return Timeline(seq[order], kind[order], place[order], change[order], after)


def running(group: Integers, change: Integers) -> Integers:
    """The sum of the changes so far within each row's group."""
    order = np.argsort(group, kind="stable")
    total = np.cumsum(change[order])
    sorted_group = group[order]
    starts = np.flatnonzero(np.diff(sorted_group, prepend=sorted_group[:1] - 1))
    before = total[starts] - change[order][starts]
    sums = np.empty(len(group), np.int64)
    sums[order] = total - np.repeat(before, np.diff(starts, append=len(group)))
    return sums


def lookup(keys: Integers, values: Integers, wanted: Integers, missing: int = NONE) -> Integers:
    """For each wanted key its value (the last one), else `missing`."""
    if not len(keys):
        return np.full(len(wanted), missing, np.int64)
    order = np.argsort(keys, kind="stable")
    found = np.searchsorted(keys[order], wanted, side="right") - 1
    hit = (found >= 0) & (keys[order][found] == wanted)
    return np.where(hit, values[order][found], missing)


def unmatched(begins: JudgedEvents, ends: JudgedEvents, by: Sequence[str]) -> Array:
    """For each beginning, whether its group has more beginnings than ends."""
    every = groups(np.concatenate([begins[name], ends[name]]) for name in by)
    _, group = np.unique(every, return_inverse=True)
    begun = np.bincount(group[: len(begins)], minlength=len(group))
    ended = np.bincount(group[len(begins) :], minlength=len(group))
    return begun[group[: len(begins)]] > ended[group[: len(begins)]]
