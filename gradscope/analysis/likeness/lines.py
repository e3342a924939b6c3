"""The facts of a trace without ids, clocks, threads and engine, as lines of text."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import IntEnum

import numpy as np

from gradscope.analysis.likeness.parts import (
    COUNTS,
    MEASURES,
    ROLES,
    Columns,
    TraceParts,
    parts,
    said_columns,
)
from gradscope.analysis.likeness.who import KINDS, NOWHERE, STRANGER, WordNumbers
from gradscope.analysis.lookups import member
from gradscope.trace.schema import EVENTS, NONE, Accumulation, HookKind, Place
from gradscope.trace.schema.declare import Column
from gradscope.trace.trace import Trace

KINDS_OF_EVENTS = tuple(EVENTS.items())
NAMED: dict[str, type[IntEnum]] = {"hook": HookKind, "how": Accumulation}
"""Columns of events whose values are enums."""


def in_words(named: IntEnum) -> str:
    """As in `out of place`."""
    return named.name.lower().replace("_", " ")


def likeness(trace: Trace, *, absent: Collection[str] = ()) -> Iterator[str]:
    """Nodes with their edges and saved values; backwards with all their events; values.

    `absent`: kinds of events and columns (`accumulate.how`) to leave out because the other trace
    lacks them.
    """
    words = WordNumbers()
    told = LikenessLines(parts(trace, words, absent), words)
    yield from told.nodes()
    yield from told.leaves()
    yield from told.tasks()
    yield from told.values()


class LikenessLines:
    """Rows of `TraceParts` as text."""

    def __init__(self, found: TraceParts, words: WordNumbers) -> None:
        self._parts, self._texts = found, words.texts

    def name(self, code: int) -> str:
        number, kind = divmod(code, KINDS)
        if code == NOWHERE:
            return "nothing"
        if code == STRANGER:
            return "a node that no backward reached"
        return f"{('node', 'leaf', 'root')[kind]} {number}"

    def nodes(self) -> Iterator[str]:
        """Each node, with its edges and saved values."""
        edges, saved = self._by_node(self._parts.edges), self._by_node(self._parts.saved)
        for number, row in enumerate(_rows(self._parts.nodes)):
            yield f"node {number} {self.node(row)}"
            for edge in edges.get(number, ()):
                yield f"  edge {self.edge(edge)}"
            for kept in saved.get(number, ()):
                yield f"  keeps {self.kept(kept)}"

    def _by_node(self, columns: Columns) -> dict[int, list[dict[str, int]]]:
        found: dict[int, list[dict[str, int]]] = {}
        for row in _rows(columns):
            found.setdefault(row["node"], []).append(row)
        return found

    def node(self, row: dict[str, int]) -> str:
        said = [self._texts[row["name"]]]
        said += [f"at {self._texts[row['site']]}"] * bool(row["site"])
        said += [f"in {self._texts[row['module']]}"] * bool(row["module"])
        said += [f"step {row['step']}"] * (row["step"] != NONE)
        said += [f"made in backward {row['made_in']}"] * (row["made_in"] != NONE)
        return " ".join([*said, f"takes {self._texts[row['takes']] or 'nothing'}"])

    def edge(self, row: dict[str, int]) -> str:
        to = f", input {row['input_nr']}" if row["target"] >= 0 else ""
        return f"{row['index']} to {self.name(row['target'])}{to}"

    def kept(self, row: dict[str, int]) -> str:
        slot, meta = self._texts[row["slot"]], self._texts[row["meta"]]
        said = [slot, *([meta] if meta else []), f"version {row['version']}"]
        return " ".join(said + ["packed"] * bool(row["hooked"]))

    def leaves(self) -> Iterator[str]:
        who = self._parts.who
        inputs = who.trace.tables["node"].ragged("inputs").take(who.leaves)
        for number, tensors in enumerate(inputs):
            meta = who.metas(tensors[:1])
            yield f"leaf {number} {self._texts[int(meta[0])] if len(meta) else ''}".rstrip()

    def tasks(self) -> Iterator[str]:
        """Each backward, its arguments, and all its events."""
        events, asked = self._parts.events, self._parts.asked
        count = len(self._parts.tasks["site"])
        bounds = np.searchsorted(events["task"], np.arange(NONE, count + 1))
        yield from self._events("outside of backwards", bounds[0], bounds[1])
        for number, row in enumerate(_rows(self._parts.tasks)):
            yield f"backward {number} {self.task(row)}"
            for role, name in enumerate(ROLES):
                of = (asked["task"] == number) & (asked["role"] == role)
                if of.any():
                    yield f"  {name} {', '.join(map(self.name, asked['node'][of].tolist()))}"
            yield from self._events("", bounds[number + 1], bounds[number + 2])

    def task(self, row: dict[str, int]) -> str:
        flags = [flag for flag in ("keep_graph", "create_graph", "accumulate_grad") if row[flag]]
        said = [f"at {self._texts[row['site']]}"] * bool(row["site"])
        said += [f"step {row['step']}"] * (row["step"] != NONE)
        said += [f"inside backward {row['parent']}"] * (row["parent"] != NONE)
        said += [f"depth {row['depth']}"] * bool(row["depth"])
        said += [f"failed: {self._texts[row['error']]}"] * bool(row["error"])
        return " ".join([*said[:2], *flags, *said[2:]])

    def _events(self, head: str, begin: int, end: int) -> Iterator[str]:
        if head and begin < end:
            yield head
        for row in _rows({name: c[begin:end] for name, c in self._parts.events.items()}):
            yield f"  {self.event(row)}"

    def event(self, row: dict[str, int]) -> str:
        name, kind = KINDS_OF_EVENTS[row["kind"]]
        said = [name, *([self.name(row["node"])] if row["node"] != NOWHERE else [])]
        for place, column in enumerate(said_columns(kind)):
            if f"{name}.{column.name}" not in self._parts.absent:
                told = self._cell(column, row[f"said{place}"])
                said += [f"{column.name} {told}"] * bool(told)
        return " ".join(said)

    def _cell(self, column: Column, value: int) -> str:
        if column.ref == "node":
            return self.name(value)
        if column.interned or column.ref is not None:
            return self._texts[value]
        if column.name in NAMED:
            named = member(NAMED[column.name], value)
            return str(value) if named is None else in_words(named)
        return str(bool(value)).lower() if column.type is bool else str(value)

    def values(self) -> Iterator[str]:
        columns = self._parts.measures
        measures = zip(*(columns[name].tolist() for name in MEASURES), strict=True)
        for row, numbers in zip(_rows(self._parts.values), measures, strict=True):
            measured = self.measured(row, dict(zip(MEASURES, numbers, strict=True)))
            yield f"value {self.value(row)} {measured}"

    def value(self, row: dict[str, int]) -> str:
        named = member(Place, row["place"])
        place = str(row["place"]) if named is None else in_words(named)
        index = f" {row['index']}" if row["index"] != NONE else ""
        task = f" in backward {row['task']}" if row["task"] != NONE else ""
        again = f", time {row['time'] + 1}" if row["time"] else ""
        return f"{place}{index} of {self.name(row['node'])}{task}{again}"

    def measured(self, row: dict[str, int], measures: dict[str, float]) -> str:
        counts = [f"{name} {row[name]}" for name in COUNTS if row[name]]
        return " ".join([*counts, *(f"{name} {measures[name]:.5g}" for name in MEASURES)])


def _rows(columns: Columns) -> Iterator[dict[str, int]]:
    names = list(columns)
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        yield dict(zip(names, row, strict=True))
