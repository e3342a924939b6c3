"""The titles of backwards, and how several of them in one picture are distinguished."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from gradscope.analysis.identity.backwards import backward_numbered, backward_numbers
from gradscope.analysis.identity.sites import site_of
from gradscope.analysis.ranks.whose import RankOf
from gradscope.scene.graph.picture import BackwardEntry
from gradscope.trace.schema import GraphTask
from gradscope.trace.trace import Trace

MOST_IN_LEGEND = 8


@dataclass(frozen=True, slots=True)
class Backwards:
    """The backwards of a picture, if there are several; empty for one."""

    entries: tuple[BackwardEntry, ...] = ()
    notes: tuple[str, ...] = ()
    several: bool = False


def backwards_of(trace: Trace, numbers: Iterable[int]) -> Backwards:
    """The legend entries of these backwards, if there are several."""
    known = sorted(set(numbers))
    if len(known) < 2:
        return Backwards()
    titles = backward_numbers(trace)
    rows = [
        list(tasks)
        for _, tasks in groupby(
            (backward_numbered(trace, number) for number in known),
            key=lambda task: (_rank(trace, task), _call(trace, task), _where(trace, task, titles)),
        )
    ]
    entries = tuple(_entry(trace, row, titles) for row in rows[:MOST_IN_LEGEND])
    shown = sum(1 + len(entry.others) for entry in entries)
    note = f"{len(known)} backwards, the legend shows {shown} of them; --task N draws one"
    return Backwards(entries, (note,) if shown < len(known) else (), several=True)


def _entry(trace: Trace, tasks: Sequence[GraphTask], titles: Mapping[int, int]) -> BackwardEntry:
    """The row of backwards that the same line called one after the other."""
    first, *others = (titles[task.id] for task in tasks)
    title = title_of(trace, tasks[0], titles)
    if others:
        numbers = [first, *others]
        in_row = others[-1] - first == len(others)
        which = f"{first} to {others[-1]}" if in_row else ", ".join(map(str, numbers))
        title = f"{_rank(trace, tasks[0])}backwards {which}{_where(trace, tasks[0], titles)}"
    rank = trace.once(RankOf).one(GraphTask.TABLE, tasks[0].id)
    return BackwardEntry(first, title, _call(trace, tasks[0]), rank, tuple(others))


def title_of(
    trace: Trace, task: GraphTask, numbers: Mapping[int, int], *, rank: bool = True
) -> str:
    """As in "rank 1, backward 2 at train.py:31, inside backward 0".

    `rank`: whether to say the rank, which only a merged trace has.
    """
    of = _rank(trace, task) if rank else ""
    return f"{of}backward {numbers[task.id]}{_where(trace, task, numbers)}"


def _rank(trace: Trace, task: GraphTask) -> str:
    return trace.once(RankOf).words(GraphTask.TABLE, task.id)


def _where(trace: Trace, task: GraphTask, numbers: Mapping[int, int]) -> str:
    site = site_of(trace, task.stack)
    at = f" at {site}" if site.place else ""
    parent = numbers.get(task.parent)
    return at + (f", inside backward {parent}" if parent is not None else "")


def _call(trace: Trace, task: GraphTask) -> str:
    return site_of(trace, task.stack).text
