"""Which rank waited for which, a line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gradscope.analysis.lookups import grouped
from gradscope.analysis.ranks.waits import RankWait, RankWaits
from gradscope.analysis.ranks.whose import listed
from gradscope.scene.readable import count, duration, plural
from gradscope.scene.table_scenes import TableColumn, TableScene
from gradscope.trace.schema import NONE

LONGEST = 32
"""Most characters of a list of ranks; for a longer one, their number is shown."""


def wait_table(found: RankWaits, rows: int) -> TableScene:
    """The longest waits, at most `rows` of them; 0 for all. A row has all that waited together."""
    together = grouped(found.waits, lambda wait: (wait.on, wait.begin + wait.ns, wait.group))
    every = [*together.values()]
    shown = every[:rows] if rows else every
    left = len(every) - len(shown)
    return TableScene(
        "waits between ranks (inferred)",
        (
            TableColumn("rank"),
            TableColumn("waited", is_number=True),
            TableColumn("for"),
            TableColumn("in"),
            TableColumn("step"),
            TableColumn("at"),
        ),
        tuple(map(_cells, shown)),
        "; ".join([*[f"and {count(left)} more"] * bool(left), *wait_notes(found)]),
    )


def _cells(waits: Sequence[RankWait]) -> tuple[str, ...]:
    """Waits for the same call, the longest first."""
    wait, *others = waits
    ranks = listed([each.rank for each in waits])
    return (
        ranks if len(ranks) <= LONGEST else plural(len(waits), "rank"),
        "up to " * bool(others) + duration(wait.ns),
        f"rank {wait.on}",
        wait.name,
        "" if wait.step == NONE else str(wait.step),
        wait.place,
    )


def wait_notes(found: RankWaits) -> list[str]:
    """The rank that waited longest, how waits were inferred, and what is not known."""
    total: Counter[int] = Counter()
    for wait in found.waits:
        total[wait.rank] += wait.ns
    most = total.most_common(1)
    notes = [f"longest in total: rank {rank}, {duration(ns)}" for rank, ns in most]
    notes.append(f"{plural(found.collectives, 'collective')} matched by group and order")
    if found.unmatched:
        notes.append(f"{plural(found.unmatched, 'call')} not matched")
    return notes
