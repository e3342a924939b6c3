"""Acts of traces before version 1.13, whose facts were a JSON object in a column of `act`."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import ACTS, Act, ActFacts
from gradscope.trace.schema.declare import Column, columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from gradscope.trace.table import Block

FACTS = "facts"
MOST = 1 << 63


def typed_acts(blocks: Sequence[Block], make: type[Block]) -> list[Block]:
    """The blocks, with a table for each kind of act instead of JSON. `make` creates a block."""
    if not any(block.table == Act.TABLE and FACTS in block.data for block in blocks):
        return [*blocks]
    texts = _texts_of(blocks)
    ids = {text: id for id, text in texts.items()}
    new: list[str] = []

    def intern(text: str) -> int:
        if text not in ids:
            ids[text] = max(ids.values(), default=0) + 1
            new.append(text)
        return ids[text] if text else 0

    found: defaultdict[type[ActFacts], list[dict[str, Any]]] = defaultdict(list)
    made: list[Block] = []
    for block in blocks:
        if block.table != Act.TABLE or FACTS not in block.data or block.amend:
            made.append(block)
            continue
        data = dict(block.data)
        _read(data, data.pop(FACTS), texts, found)
        made.append(make(block.table, block.rows, data))
    for kind, rows in found.items():
        data = {column.name: _column(column, rows, intern) for column in columns(kind)}
        made.append(make(kind.TABLE, len(rows), data))
    if new:
        numbers = np.array([ids[text] for text in new], np.int64)
        text = np.empty(len(new), object)
        text[:] = new
        made.append(make("string", len(new), {"id": numbers, "text": text}))
    return made


def _texts_of(blocks: Iterable[Block]) -> dict[int, str]:
    texts: dict[int, str] = {0: ""}
    for block in blocks:
        if block.table == "string" and {"id", "text"} <= block.data.keys():
            pairs = (np.asarray(block.data[name]).tolist() for name in ("id", "text"))
            texts.update(zip(*pairs, strict=True))
    return texts


def _read(
    data: Mapping[str, Any],
    facts: Any,
    texts: Mapping[int, str],
    found: Mapping[type[ActFacts], list[dict[str, Any]]],
) -> None:
    said: dict[int, Mapping[str, Any]] = {}
    rows = (np.asarray(each).tolist() for each in (data["id"], data["kind"], facts))
    for id, kind, text in zip(*rows, strict=True):
        typed = ACTS.get(texts.get(kind, ""))
        if typed is None or len(columns(typed)) == 1:
            continue
        if text not in said:
            said[text] = _facts(texts.get(text, ""))
        found[typed].append({"id": id, **_named_anew(typed.KIND, said[text])})


def _facts(text: str) -> Mapping[str, Any]:
    try:
        facts = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _named_anew(kind: str, facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Facts by the names of their columns."""
    groups = facts.get("groups", [])
    group = facts.get("group")
    alike = facts.get("alike", [])
    if kind == "optimizer" and isinstance(groups, list):
        objects = [each for each in groups if isinstance(each, dict)]
        names = ("lr", "weight_decay", "momentum", "many")
        return {**facts, **{name: [each.get(name) for each in objects] for name in names}}
    if kind == "param_group" and isinstance(group, dict):
        return {**facts, **group}
    if kind == "step" and isinstance(alike, list):
        pairs = [each for each in alike if isinstance(each, list) and len(each) == 2]
        return {**facts, "alike": [a for a, _ in pairs], "alike_to": [b for _, b in pairs]}
    if kind == "seed":
        seed = facts.get("seed")
        return {**facts, "seed": "" if seed is None else str(seed), "whose": facts.get("of_", "")}
    if kind == "checkpoint":
        return {**facts, "reentrant": facts.get("reentrant") is not False}
    if kind == "schedule_step":
        return {**facts, "watched": "metric" in facts}
    return facts


def _column(column: Column, rows: Sequence[Mapping[str, Any]], intern: Callable[[str], int]) -> Any:
    def item(value: Any) -> Any:
        if column.interned:
            return intern(value) if isinstance(value, str) else 0
        if isinstance(value, int | float) and math.isfinite(value):
            if column.type is not int:
                return column.type(value)
            if -MOST <= value < MOST:
                return int(value)
        return math.nan if column.type is float else 0 if column.many else column.default

    cells = [row.get(column.name) for row in rows]
    types = {int: np.int64, float: np.float64, bool: np.bool_}
    if column.many:
        lists = [[item(each) for each in cell] if isinstance(cell, list) else [] for cell in cells]
        return Ragged.of(lists, types[column.stored])
    return np.array([item(cell) for cell in cells], types[column.stored])
