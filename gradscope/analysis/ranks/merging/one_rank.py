"""Extracts ranks from a merged trace: ids, names and times stay the same.

The rows of all ranks are assigned and sorted once; the tables of a rank are slices of them. Texts
are shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gradscope.analysis.ranks.merging.equal_rows import SortedRows, fact_key, row_keys
from gradscope.analysis.ranks.merging.facts import meta_rows, text_rows
from gradscope.analysis.ranks.whose import Owners
from gradscope.errors import UsageError
from gradscope.trace.ragged import Integers, take
from gradscope.trace.schema import EVENTS, NONE, TABLES, Device, Meta, String
from gradscope.trace.schema.declare import Row, columns
from gradscope.trace.table import Strings, Table
from gradscope.trace.trace import Trace

OF_THE_WHOLE = frozenset(("ids", "clock_base", "cut_off", "lost"))
"""Facts of ranks that only a merged trace has."""

TELLS = ("thread", "task", "node", "tensor", "span", "leaf", "group", "step")
"""Columns that show the rank of a row without an id, the most reliable first."""


@dataclass(frozen=True, slots=True)
class RankPart:
    """One rank's part of a merged trace."""

    rank: int
    trace: Trace
    seqs: Integers  # the `seq` in the whole, by the `seq` of this part
    key: Any = None  # equal for ranks with equal rows, see `equal_rows`; None: not computed


def parts(trace: Trace) -> tuple[RankPart, ...]:
    """The part of each rank of a merged trace."""
    return tuple(_parts(trace, _ranks(trace), keys=True))


def equal_parts(trace: Trace) -> tuple[tuple[RankPart, ...], ...]:
    """The parts of a merged trace, in groups of ranks with equal rows, in order of their first."""
    groups: dict[Any, list[RankPart]] = {}
    for part in trace.once(parts):
        groups.setdefault(part.key, []).append(part)
    return tuple(map(tuple, groups.values()))


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
    return next(_parts(trace, [found[rank]])).trace


def _ranks(trace: Trace) -> list[Mapping[str, Any]]:
    ranks: list[Mapping[str, Any]] = trace.meta.get("ranks", [{"rank": trace.meta.get("rank", 0)}])
    return ranks


def _parts(
    trace: Trace, ranks: Sequence[Mapping[str, Any]], *, keys: bool = False
) -> Iterator[RankPart]:
    table = trace.table(String)
    texts = dict(zip(table["text"].tolist(), table.array("id").tolist(), strict=True))
    facts = [_facts(trace, each) for each in ranks]
    meta = [meta_rows(texts, each) for each in facts]
    said = text_rows(texts)
    strings = Strings(np.asarray(said.data["id"]), np.asarray(said.data["text"]))
    texts_of_all: Table[Row] = Table(String.TABLE, String, said.data, strings)
    ids = [each.get("ids", {}) for each in ranks]
    cuts = _cuts(trace, Owners(ids), strings)
    seqs = _events_of_each(cuts, len(ranks))
    rows = {name: SortedRows(cut.data, cut.owners, cut.starts) for name, cut in cuts.items()}
    key_of_rows = row_keys(rows, ids) if keys else []
    says_which = any("cut_off" in each for each in _ranks(trace))
    for number, each in enumerate(ranks):
        tables = {name: cut.table_of(number) for name, cut in cuts.items()}
        tables[String.TABLE] = texts_of_all
        tables[Meta.TABLE] = Table(Meta.TABLE, Meta, meta[number].data, strings)
        tables[Device.TABLE] = trace.table(Device)
        part = Trace(
            tables,
            version=trace.version,
            truncated=each.get("cut_off", trace.truncated and not says_which),
            lost=each.get("lost", 0),
            facts=facts[number],
        )
        facts_too = (
            (key_of_rows[number], fact_key(facts[number]), part.truncated, part.lost)
            if keys
            else None
        )
        yield RankPart(each.get("rank", 0), part, seqs[number], facts_too)


class _Cut:
    """A table whose rows are sorted by rank."""

    def __init__(self, table: Table[Row], owners: Integers, ranks: int, strings: Strings) -> None:
        order = None if (owners[1:] >= owners[:-1]).all() else np.argsort(owners, kind="stable")
        self._table, self._strings = table, strings
        self.data = dict(table.data)
        if order is not None:
            owners = owners[order]
            self.data = {name: take(cells, order) for name, cells in table.data.items()}
        self.owners = owners
        self.starts = np.searchsorted(owners, np.arange(ranks + 1))
        self._ends = self.starts.tolist()
        self._sorted = self._empty = table

    def finish(self) -> None:
        """Called when `data` is complete."""
        table = self._table
        self._sorted = Table(table.name, table.row_type, self.data, self._strings)
        self._empty = self._sorted.part(0, 0)

    def table_of(self, rank: int) -> Table[Row]:
        start, end = self._ends[rank : rank + 2]
        return self._sorted.part(start, end) if end > start else self._empty


def _cuts(trace: Trace, whose: Owners, strings: Strings) -> dict[str, _Cut]:
    shared = {String.TABLE, Meta.TABLE, Device.TABLE}
    return {
        name: _Cut(trace.tables[name], _owners(trace, name, whose), whose.many, strings)
        for name in TABLES
        if name not in shared
    }


def _owners(trace: Trace, name: str, whose: Owners) -> Integers:
    """The index of the rank that each row of a table belongs to; NONE for rows of others."""
    table = trace.tables[name]
    refs = {column.name: column.ref for column in columns(TABLES[name])}
    if "id" in table.data:
        return whose.of(refs["id"] or name, table.array("id"))
    found = np.full(len(table), NONE, np.int64)
    known = np.zeros(len(table), np.bool_)
    for column in TELLS:
        if column in refs:
            cells = table.array(column)
            new = ~known & (cells != NONE)
            found[new] = whose.of(refs[column] or "", cells[new])
            known |= new
    return found


def _events_of_each(cuts: Mapping[str, _Cut], ranks: int) -> list[Integers]:
    """The numbers of the events of each rank; in the cuts they are numbered again, without gaps."""
    kinds = [cuts[kind.TABLE] for kind in EVENTS.values()]
    seq = np.concatenate([np.asarray(cut.data["seq"]) for cut in kinds])
    owners = np.concatenate([cut.owners for cut in kinds])
    order = np.lexsort((seq, owners))
    seq, owners = seq[order], owners[order]
    starts = np.searchsorted(owners, np.arange(ranks + 1))
    again = np.full(int(seq.max(initial=0)) + 1, NONE, np.int64)
    mine = np.flatnonzero((owners != NONE) & (seq != NONE))
    again[seq[mine]] = mine - starts[owners[mine]]
    for cut in cuts.values():
        if "seq" in cut.data:
            old = np.asarray(cut.data["seq"])
            cut.data["seq"] = np.where(old < 0, old, again[np.minimum(old, len(again) - 1)])
        cut.finish()
    return [seq[first:end] for first, end in pairwise(starts.tolist())]


def _facts(trace: Trace, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of the whole, replaced by those of the rank."""
    own = {key: value for key, value in facts.items() if key not in OF_THE_WHOLE}
    of_one = {"ranks", "exit", "exit_code"}
    return {key: value for key, value in trace.meta.items() if key not in of_one} | own
