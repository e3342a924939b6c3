"""The traces of several ranks as one: ids follow each other, times are on one clock.

The rows of each rank stay in order; `meta.ranks` contains the ids of each rank. Texts and devices
are shared. Events of all ranks are ordered by time, without changing the order within a rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradscope.analysis.ranks.merging.clocks import clocks
from gradscope.analysis.ranks.merging.facts import facts_of_all, shared_rows
from gradscope.analysis.ranks.whose import listed
from gradscope.errors import UsageError
from gradscope.trace.assemble import assemble
from gradscope.trace.ragged import Data, Integers, Ragged, concatenate
from gradscope.trace.schema import EVENTS, NONE, TABLES, Device, Meta, String, Thread
from gradscope.trace.schema.declare import Column, Row, columns
from gradscope.trace.table import Block, FrozenColumns, Table
from gradscope.trace.trace import Trace

SHARED = frozenset({String.TABLE, Device.TABLE, Meta.TABLE})


@dataclass(slots=True)
class _Rank:
    """One of the traces, and the offsets of its ids."""

    trace: Trace
    shift: int  # ns
    first: dict[str, int] = field(default_factory=dict)  # by table: the new id of its id 0
    ends: dict[str, int] = field(default_factory=dict)  # by table: the one after its last new id
    first_queue: int = 0
    strings: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    devices: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    seqs: tuple[Integers, Integers] = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def rank_of(trace: Trace) -> int:
    rank: int = trace.meta.get("rank", 0)
    return rank


def merged(traces: Sequence[Trace]) -> Trace:
    """A single trace of all, in the order of ranks."""
    traces = sorted(traces, key=rank_of)
    numbers = [rank_of(trace) for trace in traces]
    _refuse_several_attempts(traces)
    if len({*numbers}) < len(numbers) or any("ranks" in trace.meta for trace in traces):
        shown = ", ".join(map(str, numbers))
        raise UsageError(
            f"these traces are not of different ranks, but of ranks {shown}; gradscope diff "
            "compares two runs"
        )
    time = clocks(dict(zip(numbers, traces, strict=True)))
    ranks = [_Rank(trace, shift) for trace, shift in zip(traces, time.shifts, strict=True)]
    texts, names = _number_all(ranks)
    _order_events(ranks)
    blocks = [*map(_in_order_of_seq, _blocks(ranks, texts))]
    facts = facts_of_all(traces, [_ids_of(rank) for rank in ranks], time)
    blocks += shared_rows(texts, list(names), facts)
    made = assemble(blocks)
    together = Trace(
        made.tables,
        version=max(trace.version for trace in traces),
        truncated=any(trace.truncated for trace in traces),
        horizon=min(
            (_horizon(rank) for rank in ranks if rank.trace.horizon is not None), default=None
        ),
        lost=sum(trace.lost for trace in traces),
    )
    ages = [trace.last_written for trace in traces if trace.truncated]
    if ages and None not in ages:
        together.last_written = max(age for age in ages if age is not None)
    return together


def _refuse_several_attempts(traces: Sequence[Trace]) -> None:
    """A launcher that starts all ranks again makes another run of them."""
    attempts: dict[int, list[int]] = {}
    for trace in traces:
        attempts.setdefault(trace.meta.get("restarts", 0), []).append(rank_of(trace))
    if len(attempts) > 1:
        shown = "; ".join(
            f"{f'restart {restarts}' if restarts else 'the first attempt'} has {listed(ranks)}"
            for restarts, ranks in sorted(attempts.items())
        )
        raise UsageError(
            f"these traces are of several attempts of one program: {shown}; take the files of one "
            "attempt: trace.rank*.json, or trace.restart1.rank*.json"
        )


def _number_all(ranks: Sequence[_Rank]) -> tuple[dict[str, int], dict[str, int]]:
    """Assign offsets to all ranks. Returns the texts and the names of devices, with their ids."""
    texts: dict[str, int] = {"": 0}
    names: dict[str, int] = {}
    following: dict[str, int] = dict.fromkeys(TABLES, 0)
    queue = 0
    for rank in ranks:
        strings, devices = rank.trace.table(String), rank.trace.table(Device)
        rank.strings = _numbered(strings.array("id"), strings["text"].tolist(), texts)
        called = rank.trace.texts(devices.array("name"))
        rank.devices = _numbered(devices.array("id"), called, names)
        rank.first, rank.first_queue = dict(following), queue
        for name, table in rank.trace.tables.items():
            if not len(table) or name in SHARED or name not in following:
                continue
            if isinstance(table.data.get("id"), np.ndarray):
                following[name] += _greatest(table.data, "id") + 1
                rank.ends[name] = following[name]
        queue += 1 + max(
            (_greatest(data, "queue") for data in _with(rank.trace, "queue")), default=0
        )
    return texts, names


def _numbered(ids: Integers, names: Sequence[str], known: dict[str, int]) -> Integers:
    """The new id of each old id, as an array."""
    becomes = np.zeros(int(ids.max()) + 1 if len(ids) else 1, np.int64)
    for id, name in zip(ids.tolist(), names, strict=True):
        becomes[id] = known.setdefault(name, len(known))
    return becomes


def _greatest(columns: Mapping[str, Data], name: str) -> int:
    """The greatest number in a column; of columns that traces share, it is looked for once."""
    if isinstance(columns, FrozenColumns):
        return columns.greatest(name)
    return int(np.asarray(columns[name]).max())


def _with(trace: Trace, column: str) -> Iterator[Mapping[str, Any]]:
    for kind in EVENTS.values():
        table = trace.tables[kind.TABLE]
        if len(table) and column in table.data:
            yield table.data


def _order_events(ranks: Sequence[_Rank]) -> None:
    """Number events by time over all ranks; the order within a rank stays."""
    seqs, keys, whose = [], [], []
    for number, rank in enumerate(ranks):
        seq = np.concatenate([data["seq"] for data in _with(rank.trace, "seq")] or [_NOTHING])
        t = np.concatenate([data["t"] for data in _with(rank.trace, "seq")] or [_NOTHING])
        order = np.argsort(seq, kind="stable")
        seqs.append(seq[order])
        keys.append(np.maximum.accumulate(t[order]) + rank.shift if len(t) else t)
        whose.append(np.full(len(seq), number))
    owner, key = np.concatenate(whose), np.concatenate(keys)
    place = np.empty(len(key), np.int64)
    place[np.argsort(key, kind="stable")] = np.arange(len(key))
    for number, rank in enumerate(ranks):
        rank.seqs = seqs[number], place[owner == number]


_NOTHING = np.zeros(0, np.int64)


def _blocks(ranks: Sequence[_Rank], texts: dict[str, int]) -> Iterator[Block]:
    """A block for each table, with the rows of all ranks."""
    numbers = _Numbers.of(ranks)
    for name, row in TABLES.items():
        if name in SHARED:
            continue
        tables = [rank.trace.tables[name] for rank in ranks]
        places = [place for place, table in enumerate(tables) if len(table)]
        if not places:
            continue
        given = _RankColumns(ranks, places, [tables[place].data for place in places], numbers)
        data = {column.name: given.translated(name, column) for column in columns(row)}
        if name == Thread.TABLE:
            data |= _threads([(ranks[place], tables[place]) for place in places], texts)
        yield Block(name, sum(len(tables[place]) for place in places), data)


def _threads(given: Sequence[tuple[_Rank, Table[Row]]], texts: dict[str, int]) -> dict[str, Data]:
    """Add the rank to the names of threads, to distinguish them."""
    called, numbers = [], []
    for rank, table in given:
        number = rank_of(rank.trace)
        called += [f"rank {number} {name}".rstrip() for name in table.texts("name")]
        numbers += [number] * len(table)
    for name in called:
        texts.setdefault(name, len(texts))
    return {
        "name": np.array([texts[name] for name in called], np.int64),
        "rank": np.array(numbers, np.int64),
    }


@dataclass(frozen=True, slots=True)
class _NewIds:
    """The new id of each old id of all ranks, one rank after the other."""

    ids: Integers
    starts: Integers  # by rank
    lengths: Integers

    @classmethod
    def of(cls, ranks: Sequence[Integers]) -> _NewIds:
        lengths = np.array([len(each) for each in ranks], np.int64)
        return cls(np.concatenate(ranks), np.cumsum(lengths) - lengths, lengths)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """What is added to ids and times of each rank, and what replaces them."""

    strings: _NewIds
    devices: _NewIds
    first: Mapping[str, Integers]  # by table, then by rank
    first_queue: Integers
    shifts: Integers

    @classmethod
    def of(cls, ranks: Sequence[_Rank]) -> _Numbers:
        return cls(
            _NewIds.of([rank.strings for rank in ranks]),
            _NewIds.of([rank.devices for rank in ranks]),
            {name: np.array([rank.first[name] for rank in ranks], np.int64) for name in TABLES},
            np.array([rank.first_queue for rank in ranks], np.int64),
            np.array([rank.shift for rank in ranks], np.int64),
        )


class _RankColumns:
    """The columns of a table, of the ranks that have rows in it."""

    def __init__(
        self,
        ranks: Sequence[_Rank],
        places: Sequence[int],
        cells: Sequence[Mapping[str, Data]],
        numbers: _Numbers,
    ) -> None:
        self._ranks, self._places, self._cells = ranks, np.array(places, np.int64), cells
        self._numbers = numbers
        self._are_shared = all(each is cells[0] for each in cells)

    def translated(self, table: str, column: Column) -> Data:
        """A column of all ranks, with the new ids and times."""
        if column.name == "seq":
            parts = zip(self._places.tolist(), self._cells, strict=True)
            return np.concatenate([
                _found(np.asarray(cells["seq"]), *self._ranks[place].seqs) for place, cells in parts
            ])  # fmt: skip
        whole, many = self._whole(column.name)
        lists = isinstance(whole, Ragged)
        values = whole.values if isinstance(whole, Ragged) else whole
        numbers = self._numbers

        def by_rank(of_ranks: Integers) -> Integers:
            return np.repeat(of_ranks[self._places], many)

        def looked_up(ids: Integers, becomes: _NewIds) -> Integers:
            # Negative ids count from the end, as in Python.
            own = np.where(ids < 0, ids + by_rank(becomes.lengths), ids)
            found: Integers = becomes.ids[own + by_rank(becomes.starts)]
            return found

        if column.interned:
            values = looked_up(values, numbers.strings)
        elif column.time and not lists:
            values = np.where(values == NONE, values, values + by_rank(numbers.shifts))
        elif column.name == "queue":
            values = _moved(values, by_rank(numbers.first_queue))
        elif column.ref == Device.TABLE and not lists:
            values = np.where(values < 0, values, looked_up(np.maximum(values, 0), numbers.devices))
        elif column.name == "id" or column.ref is not None:
            values = _moved(values, by_rank(numbers.first[column.ref or table]))
        return Ragged(whole.offsets, values) if isinstance(whole, Ragged) else values

    def _whole(self, name: str) -> tuple[Data, Integers]:
        """A column of all ranks, and the number of values that each rank has in it."""
        if self._are_shared:  # as tables of ranks that do the same often are: see CommonBlocks
            one, times = self._cells[0][name], len(self._cells)
            values = one.values if isinstance(one, Ragged) else one
            many = np.full(times, len(values), np.int64)
            if isinstance(one, Ragged):
                return Ragged.of_lengths(np.tile(one.lengths, times), np.tile(values, times)), many
            return np.tile(values, times), many
        cells = [each[name] for each in self._cells]
        lengths = [len(each.values) if isinstance(each, Ragged) else len(each) for each in cells]
        return concatenate(cells), np.array(lengths, np.int64)


def _moved(ids: Integers, by: Integers) -> Integers:
    return np.where(ids < 0, ids, ids + by)


def _found(cells: Integers, old: Integers, new: Integers) -> Integers:
    """The new numbers of events; NONE for other numbers."""
    if not len(old):
        return cells
    place = np.minimum(np.searchsorted(old, cells), len(old) - 1)
    return np.where(old[place] == cells, new[place], NONE)


def _in_order_of_seq(block: Block) -> Block:
    """The block; rows of events are sorted by `seq` over all ranks."""
    if not block.table.startswith("event."):
        return block
    return block.take(np.argsort(np.asarray(block.data["seq"]), kind="stable"))


def _ids_of(rank: _Rank) -> dict[str, tuple[int, int]]:
    """For each table, the first id of this rank, and the first one after its last."""
    return {name: (rank.first[name], rank.ends[name]) for name in TABLES if name in rank.ends}


def _horizon(rank: _Rank) -> int:
    """The last event up to which nothing is missing."""
    old, new = rank.seqs
    whole = new[old <= (rank.trace.horizon or 0)]
    return int(whole.max()) if len(whole) else NONE
