"""Differences of two runs: order of nodes and additions, other events, values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.likeness.aspects import (
    Aspect,
    Both,
    Difference,
    DifferenceList,
    Section,
    Side,
)
from gradscope.analysis.likeness.match import OTHERS, numbered
from gradscope.analysis.likeness.parts import COUNTS, MEASURES, WIDEST, Columns, said_columns
from gradscope.analysis.likeness.who import KINDS, NODE, NOWHERE
from gradscope.analysis.lookups import Ids
from gradscope.trace.schema import EVENTS, NONE, Accumulate, Decrement, Node, NodeBegin

KINDS_OF_EVENTS = list(EVENTS.values())
ADDITIONS = (Decrement, Accumulate)
COUNTED = tuple(name for name in COUNTS if name != "zero")
"""Counts that must be equal; zeros are excluded because they depend on rounding."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The tolerance of values: absolute, and relative to the larger one."""

    relative: float = 1e-4
    absolute: float = 1e-6


class Orders:
    """The events of matched backwards, translated to the first trace."""

    def __init__(self, both: Both) -> None:
        self._both = both
        self._events = both.one.events, _translated(both)

    def execution(self) -> Section:
        """Compare the order in which nodes ran."""
        chosen = [self._of(place, (NodeBegin,)) for place in (0, 1)]
        ran = f"{len(chosen[0]):,} runs"
        return self._compared(
            chosen, ("node",), (Aspect.EXECUTION, "backwards run nodes in a different order", ran)
        )

    def accumulation(self) -> Section:
        """Compare the order in which gradients were added."""
        chosen = [self._of(place, ADDITIONS) for place in (0, 1)]
        sent = f"{len(chosen[0]):,} gradients"
        names = ("kind", "node", "said0", "said1")
        return self._compared(
            chosen,
            names,
            (Aspect.ACCUMULATION, "backwards add gradients in a different order", sent),
        )

    def others(self) -> Section:
        """Compare all events with all their columns."""
        chosen = [np.arange(len(events["task"])) for events in self._events]
        names = ("kind", "node", *(f"said{n}" for n in range(WIDEST)))
        told = f"{len(chosen[0]):,} events"
        return self._compared(
            chosen, names, (Aspect.EVENTS, "backwards have different events", told)
        )

    def _of(self, place: int, kinds: tuple[type, ...]) -> Ids:
        """The events of these kinds about nodes that both traces have."""
        events = self._events[place]
        numbers = [KINDS_OF_EVENTS.index(kind) for kind in kinds]
        chosen = np.isin(events["kind"], numbers) & self._known(events["node"])
        sent = events["kind"] == KINDS_OF_EVENTS.index(Decrement)
        chosen &= self._known(np.where(sent, events["said0"], NOWHERE))
        return np.flatnonzero(chosen)

    def _known(self, codes: Ids) -> NDArray[np.bool_]:
        nodes = (codes >= 0) & (codes % KINDS == NODE)
        matched: NDArray[np.bool_] = self._in_both[np.where(nodes, codes // KINDS, -1)]
        known: NDArray[np.bool_] = (codes != OTHERS) & (~nodes | matched)
        return known

    @cached_property
    def _in_both(self) -> NDArray[np.bool_]:
        made = np.zeros(len(self._both.one.nodes["name"]) + 1, bool)
        made[self._both.nodes[0]] = True
        return made

    def _compared(
        self, chosen: list[Ids], names: tuple[str, ...], told: tuple[Aspect, str, str]
    ) -> Section:
        """Compare the selected events in these columns, backward by backward."""
        kind, many, of = told
        found = DifferenceList()
        sides = [
            {name: events[name][which] for name in ("task", *names)}
            for events, which in zip(self._events, chosen, strict=True)
        ]
        split = len(sides[0]["task"])
        rows = numbered([np.concatenate([side[name] for side in sides]) for name in names])
        keys = rows[:split], rows[split:]
        tasks = [side["task"] for side in sides]
        if not self._both.whole:
            (keys, tasks, chosen) = self._of_both(keys, tasks, chosen)
        mine = [NONE, *self._both.tasks[0].tolist()]
        bounds = [(np.searchsorted(t, mine), np.searchsorted(t, mine, "right")) for t in tasks]
        first: dict[int, int] = {}
        for at, task in enumerate(mine):
            a, b = (keys[n][bounds[n][0][at] : bounds[n][1][at]] for n in (0, 1))
            if not np.array_equal(a, b):
                least = min(len(a), len(b))
                apart = np.flatnonzero(a[:least] != b[:least])
                first[task] = int(apart[0]) if len(apart) else least

        def describe(task: int) -> Difference:
            at, place = mine.index(task), first[task]
            told = []
            for n in (0, 1):
                begin, end = int(bounds[n][0][at]), int(bounds[n][1][at])
                there = int(chosen[n][begin + place]) if begin + place < end else NONE
                told.append(self._side(n, there, place, kind))
            return Difference(WHAT[kind], told[0], told[1], when=task)

        found.add(many, np.array(sorted(first), np.int64), describe)
        return found.section(kind, of)

    def _of_both(
        self, keys: tuple[Ids, Ids], tasks: list[Ids], chosen: list[Ids]
    ) -> tuple[tuple[Ids, Ids], list[Ids], list[Ids]]:
        """Where graphs differ, only events that occur in both: the rest is a consequence."""
        pairs = numbered([np.concatenate(tasks), np.concatenate(keys)])
        split = len(keys[0])
        kept = [np.isin(pairs[:split], pairs[split:]), np.isin(pairs[split:], pairs[:split])]
        return (
            (keys[0][kept[0]], keys[1][kept[1]]),
            [task[which] for task, which in zip(tasks, kept, strict=True)],
            [each[which] for each, which in zip(chosen, kept, strict=True)],
        )

    def _side(self, place: int, at: int, nth: int, kind: Aspect) -> Side:
        if at == NONE:
            return Side("nothing more")
        part = (self._both.one, self._both.other)[place]
        row = {name: int(column[self._original(place, at)]) for name, column in part.events.items()}
        code = row["node"]
        title = self._both.title(place, code)
        site = self._both.site(part, code)
        if kind is Aspect.EXECUTION:
            return Side(f"{title} runs as number {nth + 1}", site)
        if KINDS_OF_EVENTS[row["kind"]] is Decrement:
            source = self._both.title(place, row["said0"])
            return Side(f"{source} sends gradient {row['said1']} to {title}", site)
        said = self._both.lines[place].event(row)
        return Side(said.replace(self._both.lines[place].name(code), title, 1), site)

    def _original(self, place: int, at: int) -> int:
        """The position of the event in its own trace."""
        return at if place == 0 else int(self._events[1]["origin"][at])


WHAT = {
    Aspect.EXECUTION: "a different node runs",
    Aspect.ACCUMULATION: "a different gradient arrives",
    Aspect.EVENTS: "a different event",
}


def _translated(both: Both) -> Columns:
    """The events of the second trace, translated to tasks and nodes of the first."""
    events = both.other.events
    made = dict(events)
    task = np.append(both.match.tasks, NONE)[events["task"]]
    made["task"] = np.where((events["task"] != NONE) & (task == NONE), OTHERS, task)
    made["node"] = both.match.codes(events["node"])
    for number, kind in enumerate(KINDS_OF_EVENTS):
        for place, column in enumerate(said_columns(kind)):
            if column.ref == Node.TABLE:
                name, of = f"said{place}", events["kind"] == number
                made[name] = np.where(of, both.match.codes(events[name]), made[name])
    order = np.lexsort((np.arange(len(task)), made["task"]))
    made["origin"] = np.arange(len(task))
    return {name: column[order] for name, column in made.items()}


# -- values -------------------------------------------------------------------------------------


def values(both: Both, tolerance: Tolerance) -> Section:
    """Compare statistics of values that both traces have."""
    found = DifferenceList()
    one, other = both.one.values, dict(both.other.values)
    task = np.append(both.match.tasks, NONE)[other["task"]]
    other["task"] = np.where((other["task"] != NONE) & (task == NONE), OTHERS, task)
    other["node"] = both.match.codes(other["node"])
    names = ("task", "place", "node", "index", "time")
    split = len(one["task"])
    rows = numbered([np.concatenate([one[name], other[name]]) for name in names])
    _, mine, theirs = np.intersect1d(rows[:split], rows[split:], return_indices=True)
    order = np.argsort(mine, kind="stable")
    mine, theirs = mine[order], theirs[order]
    apart = np.zeros(len(mine), bool)
    for name in COUNTED:
        apart |= one[name][mine] != other[name][theirs]
    a, b = ({n: c[at] for n, c in part.measures.items()}
            for part, at in ((both.one, mine), (both.other, theirs)))  # fmt: skip
    apart |= _far(a, b, tolerance)

    def describe(place: int) -> Difference:
        at = int(np.searchsorted(mine, place))
        sides = [_value_side(both, n, int(pair[at])) for n, pair in enumerate((mine, theirs))]
        row = {name: int(column[place]) for name, column in one.items()}
        what = f"different value: {both.lines[0].value(row)}"
        step = both.step(row["node"] // KINDS) if row["node"] % KINDS == NODE else NONE
        return Difference(what, sides[0], sides[1], when=row["task"], step=step)

    found.add("values differ by more than the tolerance", mine[apart], describe)
    alone = len(rows) - 2 * len(mine)
    of = f"{len(mine):,} values" + f", and {alone:,} in only one trace" * bool(alone)
    return found.section(Aspect.VALUES, of)


def _far(
    one: dict[str, NDArray[np.float64]], other: dict[str, NDArray[np.float64]], by: Tolerance
) -> NDArray[np.bool_]:
    """Whether a statistic differs; compared relative to the range, since a mean may be near 0."""
    far = np.zeros(len(one["mean"]), bool)
    with np.errstate(invalid="ignore"):
        range_ = np.fmax.reduce(
            [abs(side[name]) for side in (one, other) for name in ("min", "max")]
        )
        for name in MEASURES:
            a, b = one[name], other[name]
            large = np.fmax(abs(a), abs(b)) if name == "norm" else range_
            near = abs(a - b) <= by.absolute + by.relative * large
            far |= ~near & ~(np.isnan(a) & np.isnan(b))
    return far


def _value_side(both: Both, place: int, at: int) -> Side:
    part = (both.one, both.other)[place]
    row = {name: int(column[at]) for name, column in part.values.items()}
    measured = {name: float(column[at]) for name, column in part.measures.items()}
    text = f"{both.title(place, row['node'])}: {both.lines[place].measured(row, measured)}"
    return Side(text, both.site(part, row["node"]), part.who.id(row["node"]))
