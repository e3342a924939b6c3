"""Times of nodes and operations, including and excluding what ran inside them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradscope.analysis.lookups import Ids, paired, ranks
from gradscope.analysis.timing.own_work import FOREVER, OwnWorkTimes
from gradscope.analysis.timing.phases import ProgramPart, ops_of
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Device, Node, NodeBegin, NodeEnd, Op, Thread
from gradscope.trace.trace import Table, Trace


@dataclass(frozen=True, slots=True)
class Runs:
    """Every execution of a node, in order; equal-length columns."""

    node: Ids
    task: Ids
    thread: Ids
    position: Ids  # 1 for the first node of its graph task
    seq: Ids
    begin: Ids
    end: Ids  # NONE when it did not end
    ns: Ids  # NONE when it did not end
    self_ns: Ids  # without the nodes run inside it; NONE when it did not end
    failed: np.ndarray


@dataclass(frozen=True, slots=True)
class Timing:
    """The time of all nodes or operations with one name."""

    name: str
    count: int
    total: int
    self: int  # excluding what ran inside, so that all names add up to the total
    longest: int  # of the times excluding what ran inside


def node_runs(trace: Trace) -> Runs:
    """Every execution of a node, in the order in which they started."""
    begins, ends = trace.table(NodeBegin), trace.table(NodeEnd)
    order = np.argsort(begins["seq"], kind="stable")
    own = OwnWorkTimes(trace)
    node, task = begins["node"][order], begins["task"][order]
    thread, begin = begins["thread"][order], begins["t"][order]
    end, failed = _ends_of(task, node, ends)
    ns, self_ns = took(own, thread, begin, end)
    return Runs(
        node=node,
        task=task,
        thread=thread,
        position=ranks(task) + 1,
        seq=begins["seq"][order],
        begin=begin,
        end=end,
        ns=ns,
        self_ns=self_ns,
        failed=failed,
    )


def device_threads(trace: Trace) -> dict[int, str]:
    """The threads that run the nodes of a device, with its name."""
    devices = {each.name for each in trace.rows(Device)}
    return {each.id: each.name for each in trace.rows(Thread) if each.name in devices}


def own_ns(trace: Trace, nodes: Ids, tasks: Collection[int] | None = None) -> Ids:
    """The own time of each of these nodes (sorted ids), in these graph tasks or in all.

    0 for nodes that did not run, or did not end.
    """
    runs = node_runs(trace)
    timed = (runs.self_ns != NONE) & np.isin(runs.node, nodes)
    if tasks is not None:
        timed &= np.isin(runs.task, sorted(tasks))
    spent = np.zeros(len(nodes), np.int64)
    np.add.at(spent, np.searchsorted(nodes, runs.node[timed]), runs.self_ns[timed])
    return spent


def durations(begin: Ids, end: Ids) -> Ids:
    """Durations; NONE for what did not end, 0 where the end of a damaged trace precedes the start.

    Times are limited to FOREVER.
    """
    begin, end = np.clip(begin, -FOREVER, FOREVER), np.clip(end, -FOREVER, FOREVER)
    return np.where(end == NONE, NONE, np.maximum(end - begin, 0))


def timing_by_node_name(trace: Trace) -> tuple[Timing, ...]:
    """Backward times by name of the node, largest own time first."""
    runs = node_runs(trace)
    names = look_up(trace.table(Node), "name", runs.node)
    return _grouped(trace, names, runs.ns, runs.self_ns)


def timing_by_op(trace: Trace, part: ProgramPart) -> tuple[Timing, ...]:
    """Times by name of operations that ended, largest own time first."""
    rows, ns, self_ns = op_runs(trace, part)
    return _grouped(trace, trace.table(Op)["name"][rows], ns, self_ns)


def op_runs(trace: Trace, part: ProgramPart) -> tuple[Ids, Ids, Ids]:
    """The rows of a part's operations that ended, in order; their times, and their own times."""
    ops = trace.table(Op)
    order = np.argsort(ops["begin"], kind="stable")
    order = order[(ops_of(trace, part) & (ops["end"] != NONE))[order]]
    thread, begin, end = ops["thread"][order], ops["begin"][order], ops["end"][order]
    ns, self_ns = took(trace.once(OwnWorkTimes), thread, begin, end)
    return order, ns, self_ns


def own_ns_of_calls(trace: Trace) -> list[int]:
    """The time of each operation in table order, excluding gradscope's own work."""
    ops = trace.table(Op)
    begin, end = ops["begin"], ops["end"]
    ns, _ = took(trace.once(OwnWorkTimes), ops["thread"], begin, end)
    found: list[int] = ns.tolist()
    return found


def backward_ns_of_modules(trace: Trace) -> dict[int, int]:
    """Backward time by id of the module, excluding submodules."""
    runs = node_runs(trace)
    modules = look_up(trace.table(Node), "module", runs.node)
    ended = runs.self_ns != NONE
    found: dict[int, int] = {}
    for module, ns in zip(modules[ended].tolist(), runs.self_ns[ended].tolist(), strict=True):
        found[module] = found.get(module, 0) + ns
    return found


def ns_of_ops(trace: Trace, part: ProgramPart, by: str) -> dict[int, int]:
    """The time of operations of a part, by one of their columns: "module", "step"."""
    rows, _, self_ns = op_runs(trace, part)
    groups, inverse = np.unique(trace.table(Op)[by][rows], return_inverse=True)
    total = np.zeros(len(groups), np.int64)
    np.add.at(total, inverse.reshape(-1), self_ns)
    return dict(zip(groups.tolist(), total.tolist(), strict=True))


def _ends_of(task: Ids, node: Ids, ends: Table[NodeEnd]) -> tuple[Ids, np.ndarray]:
    """The end of each started (task, node), and whether it failed."""
    if not len(task) or not len(ends):
        return np.full(len(task), NONE, dtype=np.int64), np.zeros(len(task), dtype=bool)
    found = paired((ends["task"], ends["node"]), (task, node))
    known = found != -1
    end = np.where(known, ends["t"][found], NONE)
    return end, known & ends["failed"][found].astype(bool)


def took(own: OwnWorkTimes, thread: Ids, begin: Ids, end: Ids) -> tuple[Ids, Ids]:
    """Times excluding gradscope's own work, and also excluding what ran inside."""
    ns = durations(begin, end)
    ns = np.where(end == NONE, NONE, np.maximum(ns - own.within(thread, begin, end), 0))
    return ns, _without_inner(thread, begin, end, ns)


def _without_inner(thread: Ids, begin: Ids, end: Ids, ns: Ids) -> Ids:
    """Durations minus those of spans directly inside, per thread."""
    own = ns.copy()
    for each in distinct(thread).tolist():
        of_thread = np.flatnonzero((thread == each) & (end != NONE))
        begins, ends = begin[of_thread], end[of_thread]
        if np.all(begins[1:] >= ends[:-1]):
            continue
        _subtract_inner(own, ns, of_thread.tolist(), begins.tolist(), ends.tolist())
    return own


def _subtract_inner(
    own: Ids, ns: Ids, places: list[int], begins: list[int], ends: list[int]
) -> None:
    open_spans: list[tuple[int, int]] = []  # (end, place)
    for place, begin, end in zip(places, begins, ends, strict=True):
        while open_spans and open_spans[-1][0] <= begin:
            open_spans.pop()
        if open_spans and end <= open_spans[-1][0]:
            outer = open_spans[-1][1]
            own[outer] = max(int(own[outer]) - int(ns[place]), 0)
        open_spans.append((end, place))


def look_up(table: Table[Any], column: str, ids: Ids) -> Ids:
    """The value of a column for each id; NONE for unknown ids."""
    if not len(table):
        return np.full(len(ids), NONE, dtype=np.int64)
    found = table.positions(ids)
    return np.where(found == -1, NONE, table[column][found])


def _grouped(trace: Trace, names: Ids, ns: Ids, own: Ids) -> tuple[Timing, ...]:
    """The times of these runs by name, given the id of the text of each."""
    if not len(names):
        return ()
    groups: dict[str, list[int]] = {}
    order = np.argsort(names, kind="stable")
    ids, starts = np.unique(names[order], return_index=True)
    for name, rows in zip(trace.texts(ids), np.split(order, starts[1:]), strict=True):
        ended = rows[ns[rows] != NONE]
        entry = groups.setdefault(name, [0, 0, 0, 0])
        entry[0] += len(rows)
        entry[1] += _sum(ns[ended])
        entry[2] += _sum(own[ended])
        entry[3] = max(entry[3], int(own[ended].max(initial=0)))
    found = [Timing(name, *entry) for name, entry in groups.items()]
    return tuple(sorted(found, key=lambda timing: (-timing.self, timing.name)))


def _sum(values: Ids) -> int:
    """The sum, which may be wider than 64 bits."""
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())
