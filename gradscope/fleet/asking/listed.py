"""What exports have listed of the ranks of a fleet, for questions that need not read the files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from gradscope.analysis.ranks.whose import listed
from gradscope.fleet.asking.engine import to_bytes
from gradscope.fleet.asking.folder import Asked, Fleet
from gradscope.fleet.first_bad import OUTSIDE


class ListedBad(NamedTuple):
    """The first NaN or Inf of a rank in its values, or in its gradients."""

    run: str
    rank: int
    step: int
    gradient: bool

    @property
    def when(self) -> tuple[int, bool]:
        return self.step, self.gradient


def listed_first_bad(fleet: Fleet, kind: str) -> bytes | None:
    """The table of `ListedBad` of all ranks.

    None if an export has not listed it, or if a file is not there as it was written.
    """
    import pyarrow as pa

    rows = _first_bad(fleet, kind)
    if rows is None:
        return None
    kinds = {"run": pa.string(), "rank": pa.int64(), "step": pa.int64(), "gradient": pa.bool_()}
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds.values())]
    return to_bytes(pa.Table.from_arrays(columns, names=[*kinds]))


def bad_elsewhere(fleet: Fleet, kind: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """In words, where else NaN or Inf came up before the rows of an answer about a part.

    Of the same step, values come before gradients; and other ranks count that were not asked for.
    """
    whole = _first_bad(replace(fleet, asked=Asked(fleet.asked.runs)), kind)
    starts: dict[str, tuple[int, bool]] = {}
    for row in rows:
        step = OUTSIDE if row["step"] is None else row["step"]
        starts[row["run"]] = min((step, row["place"] in ARRIVED), starts.get(row["run"], NEVER))
    for run, start in starts.items():
        if whole is None:
            yield f"other parts of run {run} may have had NaN or Inf before: ask about all of it"
            continue
        asked = {rank for its, rank in fleet.traces if its == run}
        here = [
            each for each in whole if each.run == run
            and (each.when < start or (each.when == start and each.rank not in asked))
        ]  # fmt: skip
        if here:
            first = min(each.when for each in here)
            ranks = listed(sorted(each.rank for each in here if each.when == first))
            where = "outside of steps" if first[0] == OUTSIDE else f"in step {first[0]}"
            before = "before" if first < start else "in the same step"
            yield f"{ranks} of run {run} had NaN or Inf {where}, {before}: ask about all of it"


ARRIVED = ("leaf", "grad", "later")
"""Places of rows about gradients that arrived at parameters."""
NEVER = OUTSIDE + 1, True


def _first_bad(fleet: Fleet, kind: str) -> list[ListedBad] | None:
    if fleet.listed is None:
        return None
    try:
        found = [
            (each.run, each.rank, each.first_bad(fleet.root, kind, table), table == "grad")
            for each in fleet.listed
            for table in ("value", "grad")
        ]
    except LookupError:
        return None
    return [
        ListedBad(run, rank, step, gradient)
        for run, rank, step, gradient in found
        if step is not None
    ]
