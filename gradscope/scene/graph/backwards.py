"""The titles of backwards, and how several of them in one picture are distinguished."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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

    @property
    def several(self) -> bool:
        return bool(self.entries)


def backwards_of(trace: Trace, numbers: Iterable[int]) -> Backwards:
    """The legend entries of these backwards, if there are several."""
    known = sorted(set(numbers))
    if len(known) < 2:
        return Backwards()
    titles = backward_numbers(trace)
    tasks = [backward_numbered(trace, number) for number in known[:MOST_IN_LEGEND]]
    entries = tuple(
        BackwardEntry(
            titles[task.id],
            title_of(trace, task, titles),
            _call(trace, task),
            trace.once(RankOf).one(GraphTask.TABLE, task.id),
        )
        for task in tasks
    )
    left = len(known) - len(entries)
    note = f"{len(known)} backwards, the legend shows {len(entries)} of them; --task N draws one"
    return Backwards(entries, (note,) if left else ())


def title_of(
    trace: Trace, task: GraphTask, numbers: Mapping[int, int], *, rank: bool = True
) -> str:
    """As in "rank 1, backward 2 at train.py:31, inside backward 0".

    `rank`: whether to say the rank, which only a merged trace has.
    """
    of = trace.once(RankOf).words(GraphTask.TABLE, task.id) if rank else ""
    site = site_of(trace, task.stack)
    at = f" at {site}" if site.place else ""
    parent = numbers.get(task.parent)
    inside = f", inside backward {parent}" if parent is not None else ""
    return f"{of}backward {numbers[task.id]}{at}{inside}"


def _call(trace: Trace, task: GraphTask) -> str:
    return site_of(trace, task.stack).text
