"""Joins the blocks a producer wrote into the tables of a trace, and applies amendments."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import orjson

from gradscope.errors import UnreadableTraceError
from gradscope.trace.arrays import distinct
from gradscope.trace.file.older_acts import typed_acts
from gradscope.trace.ragged import Data, Integers, Ragged, concatenate, frozen, take
from gradscope.trace.schema.declare import NONE, TABLES, Column, Row, columns
from gradscope.trace.shorthand import SHORT, expanded
from gradscope.trace.table import Block, FrozenColumns, Strings, Table
from gradscope.trace.text import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from gradscope.trace.file.scan import CommonBlocks


@dataclass(slots=True)
class Assembly:
    """The assembled tables, and notes about what did not fit."""

    tables: dict[str, Table[Row]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


SHORTER = 8
"""Factor by which rows in shorthand may stand for more cells than ordinary rows."""

NO_STRINGS = Strings(np.zeros(0, np.int64), np.zeros(0, object))
DTYPES = {int: np.int64, float: np.float64, bool: np.bool_, str: np.object_}


def default(column: Column, rows: int) -> Data:
    """A column that was not filled in: the default for each row."""
    if column.many:
        return Ragged(np.zeros(rows + 1, np.int64), np.zeros(0, DTYPES[column.stored]))
    if column.interned:
        return np.zeros(rows, np.int64)
    return np.full(rows, column.default, DTYPES[column.type])


def assemble(
    blocks: Iterable[Block], room: int | None = None, common: CommonBlocks | None = None
) -> Assembly:
    """Join the blocks of each table, and apply the amendments, in the order they were written.

    `room`: largest number of cells that may result. See Note [Bounded expansion]. `common`: blocks
    that other traces have, too.
    """
    blocks = typed_acts(list(blocks), Block)
    in_short = any(block.table in SHORT for block in blocks)
    if in_short:
        if room is not None:
            _check_room(*_sorted_out(blocks), room)
        blocks = expanded(taken_from(blocks), Block, room and SHORTER * room)
    plain, amendments = _sorted_out(taken_from(blocks))
    if room is not None and not in_short:
        _check_room(plain, amendments, room)
    joined = {
        name: common.joined(name, parts, _join) if common else _join(name, parts)
        for name, parts in _each_once(plain)
    }
    if in_short:
        joined = {name: _by_id(name, data) for name, data in joined.items()}
    string = joined.get("string", {"id": np.zeros(0, np.int64), "text": np.zeros(0, object)})
    strings = Strings(np.asarray(string["id"]), np.asarray(string["text"]))
    made = Assembly()
    for name in in_order({*joined, *TABLES}):
        row = TABLES.get(name)
        found = joined.pop(name, None)
        if found is None and name not in amendments:
            made.tables[name] = _empty(name)
            continue
        data = found or dict(_without_rows(name))
        if name in amendments:
            data, lost = _amend(name, data, amendments.pop(name))
            if lost:
                made.notes.append(f"{lost} amendments of {quoted(name)} name unknown rows")
        if row is not None and found is not None:
            _check_texts(name, row, data, strings)
        made.tables[name] = Table(name, row, data, strings)
    for name in sorted(amendments):
        made.notes.append(f"amendments of {quoted(name)}, which has no rows")
    return made


def taken_from(blocks: list[Block]) -> Iterator[Block]:
    """The blocks of a list, which is then empty: what is read last needs the memory."""
    blocks.reverse()
    while blocks:
        yield blocks.pop()


def _each_once(plain: Blocks) -> Iterator[tuple[str, list[Block]]]:
    for name in [*plain]:
        yield name, plain.pop(name)


@cache
def _without_rows(table: str) -> Mapping[str, Data]:
    return {column.name: frozen(default(column, 0)) for column in columns(TABLES[table])}


@cache
def _empty(table: str) -> Table[Row]:
    return Table(table, TABLES[table], _without_rows(table), NO_STRINGS)


@cache
def _names(table: str) -> frozenset[str]:
    return frozenset(column.name for column in columns(TABLES[table]))


Blocks: TypeAlias = "defaultdict[str, list[Block]]"


def _sorted_out(blocks: Iterable[Block]) -> tuple[Blocks, Blocks]:
    """Rows by table, and amendments by table."""
    plain: Blocks = defaultdict(list)
    amendments: Blocks = defaultdict(list)
    for block in blocks:
        (amendments if block.amend else plain)[block.table].append(block)
    return plain, amendments


def _check_room(
    plain: Mapping[str, Sequence[Block]], amendments: Mapping[str, Sequence[Block]], room: int
) -> None:
    for name, blocks in plain.items():
        known: frozenset[str] = _names(name) if name in TABLES else frozenset()
        names = known.union(*(block.data for block in [*blocks, *amendments.get(name, ())]))
        room -= len(names) * sum(block.rows for block in blocks)
    if room < 0:
        raise UnreadableTraceError("its blocks have more columns than their lines allow")


def in_order(names: Iterable[str]) -> list[str]:
    """Tables, then events, each in declaration order, then undeclared ones by name."""
    return [*_in_order(frozenset(names))]


@lru_cache(maxsize=16)
def _in_order(names: frozenset[str]) -> tuple[str, ...]:
    declared = {name: number for number, name in enumerate(TABLES)}
    of_events = len(declared)
    return tuple(
        sorted(names, key=lambda n: (n.startswith("event."), declared.get(n, of_events), n))
    )


def _join(name: str, blocks: Sequence[Block]) -> dict[str, Data]:
    row = TABLES.get(name)
    known = {column.name: column for column in columns(row)} if row else {}
    names = dict.fromkeys([*known, *(key for block in blocks for key in block.data)])
    return {
        key: _join_column(name, key, known.get(key), [(b.rows, b.data.get(key)) for b in blocks])
        for key in names
    }


def _join_column(
    table: str, name: str, column: Column | None, parts: Sequence[tuple[int, Data | None]]
) -> Data:
    given = [data for _, data in parts if data is not None]
    kinds = {_kind(data) for data in given}
    if not kinds <= {"i", "f"} and len(kinds) > 1:
        raise UnreadableTraceError(
            f"column {quoted(name)} of table {quoted(table)} changes its type between blocks"
        )
    fill = column or _guess(name, given[0])
    return concatenate([default(fill, rows) if data is None else data for rows, data in parts])


def _by_id(name: str, data: dict[str, Data]) -> dict[str, Data]:
    """Rows in the order of their ids, where some were written in full and some in short."""
    ids = data.get("node" if name == "edge" else "id")
    if name not in IN_ORDER or not isinstance(ids, np.ndarray) or (ids[1:] >= ids[:-1]).all():
        return data
    order = np.argsort(ids, kind="stable")
    return {key: take(column, order) for key, column in data.items()}


IN_ORDER = frozenset({"op", "node", "edge", "tensor", "storage"})


def _kind(data: Data) -> str:
    return "ragged" if isinstance(data, Ragged) else data.dtype.kind


def _guess(name: str, data: Data) -> Column:
    """Value that fills the gaps of a column this gradscope does not know."""
    types: dict[str, type[Any]] = {"i": int, "f": float, "b": bool, "O": str}
    many = isinstance(data, Ragged)
    kind = types[data.values.dtype.kind if isinstance(data, Ragged) else data.dtype.kind]
    return Column(name, kind, many, None, time=False, interned=False, default=kind())


def _amend(
    name: str, data: dict[str, Data], amendments: Sequence[Block]
) -> tuple[dict[str, Data], int]:
    """The columns with the amendments applied, and the number of rows that were not found."""
    identified = [data.get("id"), *(block.data.get("id") for block in amendments)]
    if any(column is None or _kind(column) != "i" for column in identified):
        raise UnreadableTraceError(f"{quoted(name)} cannot be amended: ids are missing")
    ids = np.concatenate([np.asarray(block.data["id"]) for block in amendments])
    rows: Table[Row] = Table(name, None, {"id": data["id"]}, NO_STRINGS)
    positions = rows.positions(ids)
    starts = np.cumsum([0, *(block.rows for block in amendments)])
    changed = dict(data)
    for key in dict.fromkeys(key for block in amendments for key in block.data if key != "id"):
        given = [
            (start, block)
            for start, block in zip(starts, amendments, strict=False)
            if key in block.data
        ]
        where = np.concatenate([positions[start : start + block.rows] for start, block in given])
        new = concatenate([block.data[key] for _, block in given])
        changed[key] = _write_over(name, key, data.get(key), new, where, len(rows))
    return changed, int(np.count_nonzero(positions == NONE))


def _write_over(
    table: str, key: str, old: Data | None, new: Data, where: Integers, length: int
) -> Data:
    if old is None:
        old = default(_guess(key, new), length)
    if _kind(old) != _kind(new):
        raise UnreadableTraceError(
            f"an amendment of {quoted(table)} has another type than column {quoted(key)}"
        )
    found = np.flatnonzero(where != NONE)
    source = np.arange(length)
    source[where[found]] = length + found  # of two amendments of one row the later one wins
    return take(concatenate([old, new]), source)


def _check_texts(name: str, row: type[Row], data: Mapping[str, Data], strings: Strings) -> None:
    all_known = strings.holds(*_text_ids(row, data))
    for column in _json_columns(name) if all_known else columns(row):
        if not column.interned:
            continue
        ids = _flat(data[column.name])
        missing = strings.missing(ids)
        if len(missing):
            raise UnreadableTraceError(
                f"{name}.{column.name} refers to string {missing[0]}, which is not in the trace"
            )
        if column.json is not None:
            _check_json(f"{name}.{column.name}", column.json, strings.get_all(distinct(ids)))


def _text_ids(row: type[Row], data: Mapping[str, Data]) -> tuple[int, int]:
    """The least and the greatest id of text; columns that tables share remember them."""
    if isinstance(data, FrozenColumns) and data.text_ids is not None:
        return data.text_ids
    ids = [_flat(data[column.name]) for column in columns(row) if column.interned]
    known = [each for each in ids if len(each)]
    found = (
        min((int(each.min()) for each in known), default=0),
        max((int(each.max()) for each in known), default=0),
    )
    if isinstance(data, FrozenColumns):
        data.text_ids = found
    return found


def _flat(cells: Data) -> Integers:
    return cells.values if isinstance(cells, Ragged) else cells


@cache
def _json_columns(table: str) -> tuple[Column, ...]:
    return tuple(column for column in columns(TABLES[table]) if column.json is not None)


def _check_json(name: str, kind: Any, texts: Iterable[str]) -> None:
    for text in filter(None, texts):
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError:
            found = None
        if type(found) is not kind:
            words = {dict: "a JSON object", list: "a JSON list"}[kind]
            raise UnreadableTraceError(
                f"{name} is {quoted(text)}, expected {words}; record it again"
            )
