"""The tables `event`, `node` and `saved`."""

from __future__ import annotations

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.analysis.timing.durations import look_up, node_runs
from gradscope.fleet.export.cells import Flags, FleetCells, coded, ids, integers, named, nothing
from gradscope.fleet.export.rows.rank_trace import RankTrace, StepOrder
from gradscope.fleet.tables import TABLES
from gradscope.trace.schema import (
    NONE,
    Accumulation,
    Event,
    HookKind,
    Node,
    NodeBegin,
    Saved,
    Tensor,
    columns,
)

HOOKS = [kind.name.lower() for kind in HookKind]
WAYS = [way.name.lower() for way in Accumulation]


def event_rows(of: RankTrace) -> tuple[StepOrder, dict[str, FleetCells]]:
    """The events of all kinds, in order."""
    trace = of.trace
    tasks, seq = of.event_tasks, trace.order().seq
    order = of.order(of.of_tasks(tasks), seq)
    events = _Events(of, order.rows)
    kinds = [kind.KIND for kind in trace.event_kinds]
    found = {
        "seq": integers(seq[order.rows]),
        "kind": coded(events.kind, kinds),
        "happened_at": of.moments(events.all_of("t")),
        "thread": ids(events.all_of("thread")),
        "task": ids(tasks[order.rows]),
        "hook": events.enum("hook", HOOKS),
        "how": events.enum("how", WAYS),
        "module": of.modules(events.all_of("module")),
        "parameter": of.parameters(events.all_of("tensor")),
        "line_hash": of.lines.of(events.all_of("stack")),
    }
    others = [name for name in TABLES["event"].names if name not in {"step", "k", *found}]
    return order, found | {name: events.column(name) for name in others}


class _Events:
    """The columns of events of all kinds, in an order of rows."""

    def __init__(self, of: RankTrace, rows: Ids) -> None:
        order = of.trace.order()
        self._of = of
        self.kind = order.kind[rows]
        position = order.position[rows]
        self._kinds: list[tuple[type[Event], Ids, Ids]] = []  # with its rows, and places in tables
        for number, kind in enumerate(of.trace.event_kinds):
            if len(of.trace.table(kind)):
                where = np.flatnonzero(self.kind == number)
                self._kinds.append((kind, where, position[where]))

    def _having(self, name: str) -> list[tuple[type[Event], Ids, Ids]]:
        return [each for each in self._kinds if name in each[0].__match_args__]

    def all_of(self, name: str) -> Ids:
        """A column of ids or times; NONE for kinds that do not have it."""
        found = np.full(len(self.kind), NONE, np.int64)
        for kind, where, places in self._having(name):
            found[where] = self._of.trace.table(kind)[name][places]
        return found

    def _filled(self, name: str) -> tuple[np.ndarray, Flags]:
        having = self._having(name)
        dtype = self._of.trace.table(having[0][0])[name].dtype
        values, known = np.zeros(len(self.kind), dtype), np.zeros(len(self.kind), bool)
        for kind, where, places in having:
            values[where] = self._of.trace.table(kind)[name][places]
            known[where] = True
        return values, known

    def enum(self, name: str, words: list[str]) -> FleetCells:
        """A column of members of an enum."""
        return named(self.all_of(name), words)

    def column(self, name: str) -> FleetCells:
        """A column as it is in the trace; NULL for kinds that do not have it."""
        having = self._having(name)
        if not having:
            return nothing(len(self.kind))
        declared = next(each for each in columns(having[0][0]) if each.name == name)
        values, known = self._filled(name)
        if declared.interned:
            return self._of.strings(values)
        if declared.ref is not None:
            known &= values != NONE
        return FleetCells(values, known)


def node_rows(of: RankTrace) -> tuple[StepOrder, dict[str, FleetCells]]:
    """The nodes, in the order of creation."""
    trace = of.trace
    nodes = trace.table(Node)
    order = of.order(nodes.array("step"), nodes.array("t"), nodes.array("id"))
    rows = order.rows
    has_runs = len(trace.table(NodeBegin)) > 0
    runs, spent = _runs(of) if has_runs else (np.zeros(len(nodes), np.int64),) * 2
    inputs = nodes.ragged("inputs").take(rows)
    numbers = nodes["sequence_nr"][rows]
    one = inputs.lengths == 1
    leaf = np.full(len(rows), NONE, np.int64)
    leaf[one] = inputs.values[inputs.offsets[:-1][one]]
    names = of.text(nodes, "name", rows)
    fills = np.array([word == "AccumulateGrad" for word in _words(names)], bool)
    leaf[~fills[names.values] if len(fills) else one] = NONE
    known = np.full(len(rows), has_runs)
    return order, {
        "id": integers(nodes["id"][rows]),
        "name": names,
        "sequence_nr": ids(numbers),
        "op": ids(nodes["op"][rows]),
        "task": ids(nodes["task"][rows]),
        "module": of.modules(nodes["module"][rows]),
        "parameter": of.parameters(leaf),
        "line_hash": of.lines.of(nodes["stack"][rows]),
        "thread": ids(nodes["thread"][rows]),
        "happened_at": of.moments(nodes["t"][rows]),
        "runs": FleetCells(runs[rows], known),
        "backward_ns": FleetCells(spent[rows], known),
    }


def _words(cells: FleetCells) -> list[str]:
    return [] if cells.texts is None else [*cells.texts.texts]


def _runs(of: RankTrace) -> tuple[Ids, Ids]:
    """How often each node ran, and how long without the nodes inside, in the order of the table."""
    nodes, runs = of.trace.table(Node), node_runs(of.trace)
    at = nodes.positions(runs.node) if len(nodes) else np.full(len(runs.node), NONE)
    many, spent = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)
    known = at != NONE
    np.add.at(many, at[known], 1)
    timed = known & (runs.self_ns != NONE)
    np.add.at(spent, at[timed], runs.self_ns[timed])
    return many, spent


def saved_rows(of: RankTrace) -> tuple[StepOrder, dict[str, FleetCells]]:
    """What nodes saved, in the order in which they did."""
    trace = of.trace
    saved, nodes, tensors = trace.table(Saved), trace.table(Node), trace.table(Tensor)
    step = look_up(nodes, "step", saved.array("node"))
    order = of.order(step, saved.array("t"), saved.array("id"))
    rows = order.rows
    node, tensor = saved["node"][rows], saved["tensor"][rows]
    at = tensors.positions(tensor) if len(tensors) else np.full(len(rows), NONE, np.int64)
    there = at != NONE
    leaf = tensors["leaf"][np.maximum(at, 0)] if len(tensors) else np.zeros(len(rows), bool)
    return order, {
        "id": integers(saved["id"][rows]),
        "node": ids(node),
        "name": of.strings(look_up(nodes, "name", node)),
        "slot": of.text(saved, "slot", rows),
        "tensor": ids(tensor),
        "storage": ids(look_up(tensors, "storage", tensor)),
        "leaf": FleetCells(leaf, there),
        "parameter": of.parameters(tensor),
        "bytes": integers(saved["bytes"][rows]),
        "hooked": integers(saved["hooked"][rows]),
        "saved_at": of.moments(saved["t"][rows]),
        "released_at": of.moments(saved["released"][rows]),
        "module": of.modules(look_up(nodes, "module", node)),
        "line_hash": of.lines.of(look_up(nodes, "stack", node)),
    }
