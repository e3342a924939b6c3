"""What changed since the earlier trace, for the page: a row for each change, and its nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradscope.analysis.likeness import Change
from gradscope.analysis.likeness.aspects import Both
from gradscope.analysis.likeness.changes.change import MARKED
from gradscope.analysis.likeness.times import ENOUGH, Spread, StepTimes, verdict
from gradscope.analysis.lookups import Ids
from gradscope.scene.viewer.nodes import PageNodes
from gradscope.scene.viewer.text_columns import Json, Table, Texts, ints
from gradscope.trace.schema import NONE


def change_tables(
    changes: Sequence[Change], scopes: tuple[PageNodes, PageNodes], texts: Texts
) -> dict[str, Table]:
    """The changes, and the nodes of both traces that they are about."""
    earlier, later = scopes
    rows = [later.rows(ints(each.nodes)) for each in changes]
    gone = [earlier.rows(ints(each.gone)) for each in changes]
    pairs = [
        (at, side, row)
        for at, found in enumerate(zip(gone, rows, strict=True))
        for side, of_side in enumerate(found)
        for row in of_side.tolist()
        if row != NONE
    ]
    return {
        "changes": {
            "kind": texts.column(str(each.kind) for each in changes),
            "text": texts.column(each.text for each in changes),
            "one": texts.column(each.one.text for each in changes),
            "other": texts.column(each.other.text for each in changes),
            "marked": ints(each.kind in MARKED for each in changes),
        },
        "change_nodes": {
            "change": ints(at for at, _, _ in pairs),
            "later": ints(side for _, side, _ in pairs),
            "node": ints(row for _, _, row in pairs),
        },
    }


class TwoTimes:
    """The times of matched nodes: medians over steps or, of too few steps, plain values."""

    def __init__(self, both: Both) -> None:
        self._sides = StepTimes(both.one), StepTimes(both.other)
        self.steps = tuple(side.steps for side in self._sides)
        self.enough = min(self.steps) >= ENOUGH

    def columns(self, one: Ids, other: Ids, plain: tuple[Ids, Ids]) -> dict[str, Ids]:
        """By pair of nodes: both times, their quartiles, and the verdict."""
        sides = zip(("ran", "now"), self._sides, (one, other), plain, strict=True)
        found: dict[str, Ids] = {}
        spreads: list[list[Spread | None]] = []
        for name, side, nodes, ns in sides:
            known: list[Spread | None] = [None] * len(nodes)
            if self.enough:
                known = side.of(nodes)
            spreads.append(known)
            medians = ints(NONE if each is None else round(each.median) for each in known)
            found[name] = medians if self.enough else ns
            for edge in ("low", "high"):
                found[f"{name}_{edge}"] = ints(
                    NONE if each is None else round(getattr(each, edge)) for each in known
                )
        return {**found, "verdict": ints(verdict(*pair) for pair in zip(*spreads, strict=True))}

    def facts(self) -> dict[str, Json]:
        """The number of steps, and the time of a whole step before and now."""
        found: dict[str, Json] = {"enough": self.enough, "steps": list(self.steps)}
        wholes = [side.whole for side in self._sides]
        if self.enough and all(wholes):
            found["step"] = [
                [round(each.low), round(each.median), round(each.high)] for each in wholes if each
            ]
            found["verdict"] = int(verdict(wholes[0], wholes[1]))
        return found


def by_row(columns: dict[str, Ids], rows: Ids, size: int) -> Table:
    """Columns by pair of nodes as columns by row of the page; NONE elsewhere."""
    found: dict[str, Ids] = {}
    for name, column in columns.items():
        made = np.full(size, NONE, np.int64)
        made[rows] = column
        found[name] = made
    return found
