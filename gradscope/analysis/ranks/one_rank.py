"""Extracts one rank from a merged trace: ids, names and times stay the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.ranks.facts import shared_rows
from gradscope.errors import UsageError
from gradscope.trace.assemble import assemble
from gradscope.trace.ragged import Integers, take
from gradscope.trace.schema import EVENTS, NONE, TABLES, Device, Meta, String
from gradscope.trace.schema.declare import columns
from gradscope.trace.table import Block
from gradscope.trace.trace import Trace

TELLS = ("thread", "task", "node", "tensor", "span", "leaf", "group")
"""Columns that show the rank of a row without an id, the most reliable first."""


@dataclass(frozen=True, slots=True)
class RankPart:
    """One rank's part of a merged trace."""

    rank: int
    trace: Trace
    seqs: Integers  # the `seq` in the whole, by the `seq` of this part


def parts(trace: Trace) -> tuple[RankPart, ...]:
    """The part of each rank of a merged trace."""
    return tuple(_part(trace, facts) for facts in _ranks(trace))


def only(trace: Trace, rank: int | None) -> Trace:
    """The part of this rank; the whole trace for None."""
    if rank is None:
        return trace
    found = {each.get("rank"): each for each in _ranks(trace)}
    if rank not in found:
        shown = ", ".join(str(each) for each in found)
        raise UsageError(f"this trace has no rank {rank}: it has {shown}")
    if "ranks" not in trace.meta:
        return trace
    return _part(trace, found[rank]).trace


def _ranks(trace: Trace) -> list[Mapping[str, Any]]:
    ranks: list[Mapping[str, Any]] = trace.meta.get("ranks", [{"rank": trace.meta.get("rank", 0)}])
    return ranks


def _part(trace: Trace, facts: Mapping[str, Any]) -> RankPart:
    ids: Mapping[str, tuple[int, int]] = facts.get("ids", {})
    owned = [name for name in TABLES if name not in {Meta.TABLE, String.TABLE}]
    kept = {name: np.flatnonzero(_own(trace, name, ids)) for name in owned}
    seqs = np.sort(
        np.concatenate(
            [trace.tables[kind.TABLE].array("seq")[kept[kind.TABLE]] for kind in EVENTS.values()]
        )
    )
    strings = trace.table(String)
    texts = dict(zip(strings["text"].tolist(), strings.array("id").tolist(), strict=True))
    blocks = [*shared_rows({"": 0, **texts}, [], _facts(trace, facts))]
    for name, rows in kept.items():
        data = {key: take(cells, rows) for key, cells in trace.tables[name].data.items()}
        if "seq" in data:
            data["seq"] = _again(np.asarray(data["seq"]), seqs)
        blocks.append(Block(name, len(rows), data))
    part = Trace(assemble(blocks).tables, version=trace.version, truncated=trace.truncated)
    return RankPart(facts.get("rank", 0), part, seqs)


def _own(trace: Trace, name: str, ids: Mapping[str, tuple[int, int]]) -> NDArray[np.bool_]:
    table = trace.tables[name]
    if name == Device.TABLE or not len(table):
        return np.ones(len(table), np.bool_)
    refs = {column.name: column.ref for column in columns(TABLES[name])}
    if "id" in table.data:
        return _within(table.array("id"), ids.get(refs["id"] or name))
    own = np.zeros(len(table), np.bool_)
    known = np.zeros(len(table), np.bool_)
    for column in TELLS:
        if column in refs:
            cells = table.array(column)
            new = ~known & (cells != NONE)
            own |= new & _within(cells, ids.get(refs[column] or ""))
            known |= new
    return own


def _within(cells: Integers, between: tuple[int, int] | None) -> NDArray[np.bool_]:
    first, end = between or (0, 0)
    return (cells >= first) & (cells < end)


def _again(seq: Integers, kept: Integers) -> Integers:
    """Numbers of events without gaps."""
    return np.where(seq == NONE, NONE, np.searchsorted(kept, seq))


def _facts(trace: Trace, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of the whole, replaced by those of the rank."""
    own = {key: value for key, value in facts.items() if key not in {"ids", "clock_base"}}
    of_one = {"ranks", "exit", "exit_code"}
    return {key: value for key, value in trace.meta.items() if key not in of_one} | own
