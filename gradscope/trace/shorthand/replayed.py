"""What replays find out: moments of queues, rows of events, the order of each backward."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from gradscope.trace.ragged import Array, Data, Ragged
from gradscope.trace.schema.tables import GraphTask, Order
from gradscope.trace.shorthand.replay import NOBODY, ReplayBackward, Sent
from gradscope.trace.shorthand.short_looks import AsForetold

if TYPE_CHECKING:
    from gradscope.trace.table import Block


class QueueRun(NamedTuple):
    """A run that was recorded."""

    task: int
    place: int  # among the runs of its task
    thread: int
    sequence: int
    popped: int  # the latest time at which it left its queue
    begin: int
    ended: int
    over: int  # the earliest time at which its gradients were passed on
    since: int  # the earliest time at which it left its queue
    until: int  # the latest time at which its gradients were passed on
    fails: bool = False


class Pushed(NamedTuple):
    """A node enters a queue; NONE: nothing, to wake a thread."""

    t: int
    thread: int
    task: int
    node: int
    queue: int
    length: int


class Left(NamedTuple):
    """A node leaves a queue. It then runs, or is skipped."""

    t: int
    thread: int
    task: int
    node: int
    queue: int
    length: int
    captured: tuple[int, ...] = ()
    run: QueueRun | None = None


class PassedOn(NamedTuple):
    """A run passed a gradient on."""

    t: int
    thread: int
    task: int
    node: int
    sent: Sent
    queue: int
    run: QueueRun


class Sleeps(NamedTuple):
    """A thread begins to wait for its queue, or wakes."""

    t: int
    thread: int
    wakes: bool


Moment: TypeAlias = Pushed | Left | PassedOn | Sleeps


CELLS_OF_EVENT = 8

SINGLE = ("t", "code", "thread", "task", "node", "a", "b", "c", "d")
RUN = ("begin", "ended", "task", "node", "popped", "told")
MOVE = ("begin", "target", "index", "nr", "how", "left", "length")
COUNTED = ("t", "task", "node", "count")


class ForetoldRows:
    """Short rows for the predicted events, in the form other producers write them."""

    def __init__(self) -> None:
        self.single: list[tuple[int, ...]] = []
        self.run: list[tuple[int, ...]] = []
        self.move: list[tuple[int, ...]] = []
        self.counted: list[tuple[int, ...]] = []
        self._parts: defaultdict[str, list[tuple[Array, Array]]] = defaultdict(list)
        self._put_away = 0

    def lists(self) -> dict[str, list[tuple[int, ...]]]:
        return {"single": self.single, "run": self.run, "move": self.move, "counted": self.counted}

    def cells(self) -> int:
        """Approximate number of cells they will take."""
        rows = len(self.single) + 4 * len(self.run) + 3 * len(self.move) + len(self.counted)
        return self._put_away + CELLS_OF_EVENT * rows

    def put_away(self, place: int) -> None:
        """Keep the rows collected so far, which belong at this place, in less memory."""
        self._put_away = self.cells()
        for name, rows in self.lists().items():
            if rows:
                self._parts[name].append((np.full(len(rows), place), np.array(rows, np.int64)))
                rows.clear()

    def add(self, name: str, places: Array, rows: Array) -> None:
        """Add rows that belong at these places."""
        self._parts[name].append((places, rows))

    def taken(self, name: str) -> Array | None:
        """The rows of one kind, in the order of their places; they are not kept."""
        parts = self._parts.pop(name, [])
        if not parts:
            return None
        places = np.concatenate([places for places, _ in parts])
        rows = np.concatenate([rows for _, rows in parts])
        parts.clear()
        if (places[1:] >= places[:-1]).all():
            return rows
        return rows[np.argsort(places, kind="stable")]


@dataclass(slots=True)
class ReplayResults:
    """What was found out about graph tasks, by their ids."""

    rows: ForetoldRows = field(default_factory=ForetoldRows)
    orders: dict[int, Order] = field(default_factory=dict)
    needed: dict[int, list[int]] = field(default_factory=dict)
    captured: dict[int, list[int]] = field(default_factory=dict)
    otherwise: dict[int, list[int]] = field(default_factory=dict)
    failed: dict[int, int] = field(default_factory=dict)  # the node that raised
    hooks: dict[int, dict[int, int]] = field(default_factory=dict)  # by time: the hook's node
    told: dict[int, Callable[[], AsForetold]] | None = None  # None: it is not needed later

    def as_foretold(self, id_: int, backward: ReplayBackward, found: AsForetold) -> None:
        """The nodes of a task ran in the predicted order."""
        self.orders[id_] = Order.FORETOLD if found.seen.sums_known else Order.NOT_THE_SUMS
        self.needed[id_] = sorted((backward.needed or set()) - {NOBODY})
        self.captured[id_] = sorted(set(backward.captures) - {NOBODY})
        if self.told is not None:
            self.told[id_] = lambda: found

    def amendments(self, make: type[Block]) -> Block:
        """Amendments of graph tasks: the order that was found."""
        ids = list(self.orders)
        amended: dict[str, Data] = {
            "id": np.array(ids, np.int64),
            "order": np.array([int(each) for each in self.orders.values()], np.int64),
            "needed": Ragged.of([self.needed.get(id_, []) for id_ in ids]),
            "captured": Ragged.of([self.captured.get(id_, []) for id_ in ids]),
            "otherwise": Ragged.of([self.otherwise.get(id_, []) for id_ in ids]),
        }
        return make(GraphTask.TABLE, len(ids), amended, amend=True)


def put(rows: ForetoldRows, short: dict[str, list[Block]], make: type[Block]) -> None:
    """Add rows to the short tables."""
    for table, names, kind in (
        ("short.event", SINGLE, "single"),
        ("short.run", RUN, "run"),
        ("short.move", MOVE, "move"),
        ("short.dependency", COUNTED, "counted"),
    ):
        found = rows.taken(kind)
        if found is not None:
            columns = np.ascontiguousarray(found.T)
            short[table].append(make(table, len(found), dict(zip(names, columns, strict=True))))
