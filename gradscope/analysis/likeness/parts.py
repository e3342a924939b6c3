"""The comparable parts of a trace: tables of numbers that mean the same in any trace."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.likeness.who import KINDS, LEAF, NODE, NOWHERE, STRANGER, Who, WordNumbers
from gradscope.analysis.lookups import Ids, ranks
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import (
    EVENTS,
    NONE,
    Edge,
    GraphTask,
    HookBegin,
    HookEnd,
    HookKind,
    Node,
    Op,
    Saved,
    SavedReleased,
    Tensor,
    Value,
    Wait,
    Wake,
)
from gradscope.trace.schema.declare import Column, Event, columns
from gradscope.trace.trace import Trace

Columns: TypeAlias = Mapping[str, Ids]
Numbers: TypeAlias = Mapping[str, NDArray[np.float64]]

OF_THREADS = (Wait, Wake)
"""Kinds of events about threads, not about the graph."""

NOT_SAID = frozenset({"seq", "t", "thread", "task", "node", "queue", "pool", "tensor"})
"""Columns of events that are ids, clocks or threads, or are compared separately."""

WIDEST = 6
"""Largest number of further columns of an event."""

COUNTS = ("count", "nan", "posinf", "neginf", "zero")
MEASURES = ("min", "max", "mean", "rms", "norm")


OF_ANOTHER_MOMENT = frozenset({"saved.version"})
"""Columns that describe a different moment when inferred than when observed."""


def not_seen(*traces: Trace) -> frozenset[str]:
    """Kinds of events and columns that one of the traces lacks."""
    absent = [set(trace.meta.get("absent", ())) for trace in traces]
    inferred = [OF_ANOTHER_MOMENT.intersection(t.meta.get("inferred", ())) for t in traces]
    same = frozenset.intersection(*inferred) if inferred else frozenset()
    if len({"version" in each for each in absent}) > 1:  # one follows from recorded writes
        same = frozenset()
    return frozenset().union(*absent, *inferred) - (same - set().union(*absent))


@dataclass(frozen=True, slots=True)
class TraceParts:
    """A trace without ids, clocks and threads. Nodes are codes, texts are words."""

    who: Who
    absent: frozenset[str]  # kinds of events and columns that are left out
    nodes: Columns  # by number
    edges: Columns  # by node, then index
    saved: Columns  # by node, then slot
    tasks: Columns  # by number
    asked: Columns  # the nodes of each task, by role
    events: Columns  # by task, then in order
    values: Columns
    measures: Numbers  # of the same values


def parts(trace: Trace, words: WordNumbers, absent: Collection[str] = ()) -> TraceParts:
    """The comparable parts of a trace, without `absent` kinds of events and columns."""
    who = Who(trace, words)
    about, measures = _values(who)
    saved = _saved(who, absent)
    return TraceParts(
        who=who,
        absent=frozenset(absent),
        nodes=_nodes(who),
        edges=_edges(who),
        saved=saved,
        tasks=_tasks(who),
        asked=_asked(who, absent),
        events=_events(who, absent, saved),
        values=about,
        measures=measures,
    )


def _nodes(who: Who) -> Columns:
    table = who.trace.table(Node)
    at = who.nodes
    inputs = table.ragged("inputs").take(at)
    metas = who.metas(inputs.values)
    texts, offsets = who.words.texts, inputs.offsets.tolist()
    takes = [
        who.words.number(", ".join(texts[meta] for meta in metas[begin:end].tolist()))
        for begin, end in pairwise(offsets)
    ]
    return {
        "name": who.names(table["name"][at]),
        "site": who.sites(table["stack"][at]),
        "line": who.lines(table["stack"][at]),
        "module": who.modules(table["module"][at]),
        "step": who.steps(table["step"][at]),
        "made_in": who.task_numbers(table["task"][at]),
        "takes": np.array(takes, np.int64),
        "arguments": who.arguments(table["arguments"][at]),
    }


def _edges(who: Who) -> Columns:
    table = who.trace.table(Edge)
    source = who.codes(table["node"])
    of_nodes = (source >= 0) & (source % KINDS == NODE)
    order = np.flatnonzero(of_nodes)[np.lexsort((table["index"][of_nodes], source[of_nodes]))]
    return {
        "node": source[order] // KINDS,
        "index": table["index"][order],
        "target": who.codes(table["next"])[order],
        "input_nr": table["input_nr"][order],
    }


OPERANDS = ("self", "other")


def _saved(who: Who, absent: Collection[str]) -> Columns:
    """Saved values, except scalars: one engine saves them as tensors, another as numbers."""
    table, tensors = who.trace.table(Saved), who.trace.table(Tensor)
    code = who.codes(table["node"])
    lengths = np.append(tensors.ragged("shape").lengths, -1)
    of_nodes = np.isin(table["tensor"], who.trace.table(Node).ragged("inputs").values)
    number = (lengths[tensors.positions(table["tensor"])] == 0) & ~of_nodes
    number &= who.are(table["slot"], OPERANDS)
    kept = np.flatnonzero((code >= 0) & (code % KINDS == NODE) & ~number)
    slots = np.array(who.trace.texts(table["slot"][kept]), str)
    alphabetical = np.unique(slots, return_inverse=True)[1]
    order = kept[np.lexsort((table["id"][kept], alphabetical, code[kept]))]
    return {
        "node": code[order] // KINDS,
        "slot": who.names(table["slot"][order]),
        "meta": who.metas(np.where(table["hooked"], NONE, table["tensor"])[order]),
        "version": table["version"][order] * ("saved.version" not in absent),
        "hooked": table["hooked"][order].astype(np.int64),
    }


def _tasks(who: Who) -> Columns:
    table = who.trace.table(GraphTask)
    at = table.positions(np.array([task.id for task in who.tasks], np.int64))
    flags = ("keep_graph", "create_graph", "accumulate_grad")
    return {
        "site": who.sites(table["stack"][at]),
        "line": who.lines(table["stack"][at]),
        "step": who.steps(table["step"][at]),
        "depth": table["depth"][at],
        "parent": who.task_numbers(table["parent"][at]),
        **{flag: table[flag][at].astype(np.int64) for flag in flags},
        "error": who.heads(table["error"][at]),
    }


ROLES = ("roots", "inputs", "needed", "captured")


def _asked(who: Who, absent: Collection[str]) -> Columns:
    """Roles of nodes; only inputs that can be reached, since others differ by engine."""
    table = who.trace.table(GraphTask)
    at = table.positions(np.array([task.id for task in who.tasks], np.int64))
    met = who.met_by_tasks()
    made: list[Ids] = [np.zeros((4, 0), np.int64)]
    for role, name in enumerate(ROLES):
        if f"graph_task.{name}" in absent:
            continue
        lists = table.ragged(name).take(at)
        task, code = lists.owners, who.codes(lists.values)
        place = np.arange(len(code)) - lists.offsets[:-1][task]
        if name != "roots":
            code = np.where(np.isin(who.pairs(task, code), met), code, STRANGER)
        if role >= 2:  # sets, whose order depends on the engine
            _, chosen = np.unique(who.pairs(task, code), return_index=True)
            chosen = chosen[code[chosen] >= 0]
            task, code = task[chosen], code[chosen]
            place = ranks(task)
        made.append(np.array([task, np.full(len(task), role), place, code]))
    rows = np.concatenate(made, axis=1)
    rows = rows[:, np.lexsort((rows[2], rows[1], rows[0]))]
    return dict(zip(("task", "role", "place", "node"), rows, strict=True))


# -- events -------------------------------------------------------------------------------------


def said_columns(kind: type[Event]) -> list[Column]:
    """The columns of an event besides its node, in order."""
    return [each for each in columns(kind) if each.name not in NOT_SAID]


def _events(who: Who, absent: Collection[str], saved: Columns) -> Columns:
    """All events, one row each; the columns of a kind are its further columns, in order."""
    made: list[Ids] = []
    for number, (name, kind) in enumerate(EVENTS.items()):
        table = who.trace.table(kind)
        if kind in OF_THREADS or name in absent or not len(table):
            continue
        rows = np.zeros((4 + WIDEST, len(table)), np.int64)
        rows[0] = who.task_numbers(table["task"])
        rows[1] = table["seq"]
        rows[2] = number
        said = "node" in table.data and f"{name}.node" not in absent
        rows[3] = who.codes(table["node"]) if said else NOWHERE
        for place, column in enumerate(said_columns(kind)):
            if f"{name}.{column.name}" not in absent:
                rows[4 + place] = _meaning(who, column, table[column.name])
        made.append(rows)
    if not made:
        made = [np.zeros((4 + WIDEST, 0), np.int64)]
    rows = np.concatenate(made, axis=1)
    rows = rows[:, _of_seen_hooks(rows, absent)]
    rows = rows[:, _is_told(rows, KINDS * distinct(saved["node"]) + NODE)]
    rows = rows[:, np.lexsort((rows[1], rows[0]))]
    names = ("task", "seq", "kind", "node", *(f"said{n}" for n in range(WIDEST)))
    return dict(zip(names, rows, strict=True))


def _of_seen_hooks(rows: Ids, absent: Collection[str]) -> Ids:
    """Events without calls of hooks of an absent kind, as in `hook_begin.POST`."""
    kinds = list(EVENTS.values())
    unseen = [int(kind) for kind in HookKind if f"{HookBegin.KIND}.{kind.name}" in absent]
    calls = np.isin(rows[2], [kinds.index(HookBegin), kinds.index(HookEnd)])
    return np.flatnonzero(~(calls & np.isin(rows[4], unseen)))


def _is_told(rows: Ids, keeps: Ids) -> Ids:
    """Whether a release is compared: not if the node saves nothing that is compared.

    CopySlices releases the node it holds, and others release numbers.
    """
    releases = rows[2] == list(EVENTS.values()).index(SavedReleased)
    return np.flatnonzero(~releases | np.isin(rows[3], keeps))


def _meaning(who: Who, column: Column, data: Any) -> Ids:
    if column.ref == Node.TABLE:
        return who.codes(data)
    if column.ref == "stack":
        return who.sites(data)
    if column.ref == "module":
        return who.modules(data)
    if column.ref == Saved.TABLE:
        saved = who.trace.table(Saved)
        slots = np.append(saved["slot"], 0)[saved.positions(data)]
        return who.names(slots)
    return who.heads(data) if column.interned else data.astype(np.int64)


# -- values -------------------------------------------------------------------------------------


def _values(who: Who) -> tuple[Columns, Numbers]:
    """Statistics of values that nodes and leaves receive, return and were created with."""
    table, ops = who.trace.table(Value), who.trace.table(Op)
    nodes = np.where(
        table["node"] != NONE,
        table["node"],
        np.append(ops["node"], NONE)[ops.positions(table["op"])],
    )
    code = who.codes(nodes)
    found = np.flatnonzero((code >= 0) & (code % KINDS <= LEAF))
    found = found[np.lexsort((table["id"][found], table["t"][found]))]
    about = {
        "task": who.task_numbers(table["task"][found]),
        "place": table["place"][found],
        "node": code[found],
        "index": table["index"][found],
    }
    keys = np.zeros(len(found), np.int64)
    for column in about.values():
        keys = np.unique(keys * (int(column.max(initial=0)) + 2) + column + 1, return_inverse=True)[
            1
        ]
    return (
        {**about, "time": ranks(keys), **{name: table[name][found] for name in COUNTS}},
        {name: table[name][found] for name in MEASURES},
    )
