"""Which rank waited for which, a line each."""

from __future__ import annotations

from collections import Counter

from gradscope.analysis.ranks.waits import RankWaits
from gradscope.scene.readable import count, duration, plural
from gradscope.scene.table_scenes import TableColumn, TableScene
from gradscope.trace.schema import NONE

NOT_SEEN = "waits in DDP are not listed"


def wait_table(found: RankWaits, rows: int) -> TableScene:
    """The longest waits, at most `rows` of them; 0 for all."""
    shown = found.waits[:rows] if rows else found.waits
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
        tuple(
            (
                f"rank {wait.rank}",
                duration(wait.ns),
                f"rank {wait.on}",
                wait.name,
                "" if wait.step == NONE else str(wait.step),
                wait.place,
            )
            for wait in shown
        ),
        "; ".join([*_left_out(found, len(shown)), *wait_notes(found)]),
    )


def _left_out(found: RankWaits, shown: int) -> list[str]:
    left = len(found.waits) - shown
    return [f"and {count(left)} more"] if left else []


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
    return [*notes, NOT_SEEN]
