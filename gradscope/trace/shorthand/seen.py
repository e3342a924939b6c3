"""What a file contains about graph tasks of an engine observed from outside."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gradscope.errors import UnreadableTraceError
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import events
from gradscope.trace.schema.declare import NONE
from gradscope.trace.schema.events import HookKind
from gradscope.trace.schema.tables import Edge, GraphTask, Node
from gradscope.trace.shorthand.replay import NOBODY, ReplayGraph, ReplayStep, Sent, graph_of
from gradscope.trace.shorthand.run_events import MODULE, UNKNOWN
from gradscope.trace.shorthand.tables import ADDED, ADDED_IN_PLACE, SEEN

if TYPE_CHECKING:
    from gradscope.trace.table import Block


class Task(NamedTuple):
    """What the file contains about one graph task observed from outside."""

    id: int
    root: int
    inputs: tuple[tuple[int, int], ...]
    thread: int
    depth: int
    begin: int
    keeps: bool
    accumulates: bool
    failed: int
    parent: int
    waiting: int  # nodes of outer tasks in the queue
    others_inside: Sequence[int]  # start times of the tasks that ran inside its nodes


class SeenHook(NamedTuple):
    """When a hook was called, or returned. `node`: NONE, if it is not known yet."""

    t: int
    kind: int
    thread: int
    node: int
    returns: bool


class SeenTask:
    """The runs of one task, and the hooks that were called in it."""

    def __init__(
        self, rows: list[tuple[int, int, int]], threads: Sequence[int] | None = None
    ) -> None:
        self.rows = rows  # begin, end, sequence number
        self.threads = [NONE] * len(rows) if threads is None else threads  # NONE: the caller's
        self.first_hook: dict[int, int] = {}  # by node: when its first hook was called
        self.hooks_over: dict[int, int] = {}  # by node: when the last hook seen returned
        self.after: dict[int, int] = {}  # when the first hook after an accumulation was called
        self.hooks: list[SeenHook] = []
        self.after_run: dict[int, int] = {}  # by node: until when hooks were called
        self.hooks_within: list[int] = []  # when hooks were called while a node ran
        self.inside = False  # whether it was recorded what was done with gradients
        self.took: dict[int, int] = {}  # by run: how a gradient was accumulated into a leaf
        self.sums: defaultdict[int, list[int]] = defaultdict(list)  # by run: additions, in order
        self.sums_known = True  # whether it is known which gradients were added

    def sums_of(self, run: int, sent: Sequence[Sent]) -> Iterator[int]:
        """`short.move.how` for each gradient that is passed on."""
        if not self.sums_known:
            yield from [UNKNOWN] * len(sent)
            return
        foretold = sum(each.added for each in sent)
        seen = self.sums[run][-foretold:] if foretold else []  # hooks may add before
        codes = iter(seen or [ADDED] * foretold)
        for each in sent:
            yield next(codes) - ADDED + 1 if each.added else 0

    def adds_up(self, ran: Sequence[ReplayStep]) -> bool:
        """Whether the recorded number of additions is the predicted one: None is not added."""
        if not self.inside:
            return True
        runs = [*zip(range(len(self.rows)), ran, strict=False)]
        return all(
            len(self.sums[run]) >= sum(sent.added for sent in step.sent)
            for run, step in runs[: len(self.rows) - 1 or None]
        )

    def on_thread(self, thread: int, runs: Sequence[int]) -> SeenTask:
        """The runs of one thread, and the hooks that it called."""
        found = SeenTask([self.rows[run] for run in runs])
        found.hooks = [hook for hook in self.hooks if hook.thread == thread]
        return found

    def find_nodes(self, nodes: Sequence[int]) -> dict[int, int]:
        """The node of each hook by its time, given the predicted order of nodes.

        A hook is called before the run that follows it, or after the run before it; or within a
        run, which then cannot be written as a whole.
        """
        begins, ends = [row[0] for row in self.rows], [row[1] for row in self.rows]
        found: dict[int, int] = {}
        for t, kind, _, of, _ in self.hooks:
            if of != NONE:
                continue
            within = bisect_right(begins, t) - 1
            if within < 0 or t >= ends[within]:
                within = NONE
            else:
                self.hooks_within.append(t)
            if kind == HookKind.PRE:
                run = bisect_right(begins, t)
            elif kind in AFTER and within == NONE:
                run = bisect_right(ends, t) - 1
            else:
                run = within if kind in AFTER | WITHIN else NONE
            if 0 <= run < len(nodes):
                node = found[t] = nodes[run]
                if kind == HookKind.PRE:
                    self.first_hook[node] = min(t, self.first_hook.get(node, t))
                elif kind in AFTER:
                    self.after_run[node] = max(t, self.after_run.get(node, t))
        return found


AFTER = {HookKind.POST, HookKind.MODULE_BACKWARD_PRE, HookKind.MODULE_BACKWARD}
"""Hooks called after the run of their node: hooks of modules are called by hooks of nodes."""

WITHIN = {HookKind.PACK, HookKind.UNPACK}
"""Hooks called while their node runs. All others without a node belong to none."""

HOOKS = {events.HookBegin.CODE, events.HookEnd.CODE}


def seen_in(short: dict[str, list[Block]]) -> dict[int, SeenTask]:
    """The runs of each task, in order, and the times of its hooks."""
    runs: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    threads: dict[int, list[int]] = defaultdict(list)
    names = ("task", "begin", "ended", "sequence", "thread")
    ran = (column(short["short.ran"], n, NONE if n == "thread" else None) for n in names)
    for task, begin, ended, sequence, thread in zip(*ran, strict=True):
        runs[task].append((begin, ended, sequence))
        threads[task].append(thread)
    for task in column(short["short.asked"], "task"):
        runs.setdefault(task, [])
    seen = {task: SeenTask(rows, threads[task]) for task, rows in runs.items()}
    inside = (column(short["short.inside"], n) for n in ("task", "run", "what"))
    for task, run, what in zip(*inside, strict=True):
        if task in seen:
            if what == SEEN:
                seen[task].inside = True
            elif what in {ADDED, ADDED_IN_PLACE}:
                seen[task].sums[run].append(what)
            else:
                seen[task].took[run] = what
    singles = (
        column(short["short.event"], n) for n in ("t", "code", "thread", "task", "node", "a")
    )
    for t, code, thread, task, node, kind in zip(*singles, strict=True):
        if task in seen and code in HOOKS:
            returns = code == events.HookEnd.CODE
            seen[task].hooks.append(SeenHook(t, kind % MODULE, thread, node, returns))
            if node == NONE:
                continue
        if code == events.HookBegin.CODE and task in seen:
            after = kind % MODULE == HookKind.POST_ACCUMULATE
            into = seen[task].after if after else seen[task].first_hook
            into.setdefault(node, t)
        if code == events.HookEnd.CODE and task in seen:
            seen[task].hooks_over[node] = t
    return seen


def tasks_of(plain: Sequence[Block], short: dict[str, list[Block]]) -> dict[int, Task]:
    """The arguments of each task."""
    asked = {}
    rows = short["short.asked"]
    columns = zip(*(column(rows, name) for name in ("task", "root", "failed")), strict=True)
    inputs, nrs = lists(rows, "inputs"), lists(rows, "input_nrs")
    for place, (task, root, failed) in enumerate(columns):
        if len(inputs[place]) != len(nrs[place]):
            raise UnreadableTraceError("short.asked.inputs and input_nrs differ in length")
        asked[task] = root, tuple(zip(inputs[place], nrs[place], strict=True)), failed
    names = ("id", "thread", "depth", "begin", "keep_graph", "accumulate_grad", "parent")
    tables = [block for block in plain if block.table == GraphTask.TABLE and not block.amend]
    found = zip(*(column(tables, name) for name in names), strict=True)
    tasks: dict[int, Task] = {}
    inside: dict[int, list[int]] = defaultdict(list)
    for id_, thread, depth, begin, keeps, accumulates, parent in found:
        inside[parent].append(begin)
        if id_ in asked:
            root, wanted, failed = asked[id_]
            tasks[id_] = Task(
                id_, root, wanted, thread, depth, begin, bool(keeps), bool(accumulates), failed,
                parent, 0,                inside[id_],
            )  # fmt: skip
    return tasks


def nodes_of(plain: Sequence[Block]) -> tuple[ReplayGraph, dict[int, int]]:
    """The nodes and edges of a trace, and the leaf of each AccumulateGrad."""
    nodes = [block for block in plain if block.table == Node.TABLE and not block.amend]
    links = [block for block in plain if block.table == Edge.TABLE and not block.amend]
    names = ("id", "sequence_nr", "topological_nr")
    ids, sequence, topological = (column(nodes, name) for name in names)
    known = set(ids)
    rows = zip(
        *(column(links, name) for name in ("node", "index", "next", "input_nr")), strict=True
    )
    graph, unknown = graph_of(
        zip(ids, sequence, topological, strict=True),
        ((n, index, to if to in known else NOBODY, nr) for n, index, to, nr in rows),
    )
    if unknown:
        raise UnreadableTraceError(f"edges of node {min(unknown)} are missing")
    leaves = {
        node: inputs[0]
        for (node, inputs), number in zip(inputs_of(plain), sequence, strict=True)
        if number == -1 and inputs
    }
    return graph, leaves


def inputs_of(plain: Sequence[Block]) -> list[tuple[int, list[int]]]:
    """Each node, and the tensors whose gradients it receives."""
    nodes = [block for block in plain if block.table == Node.TABLE and not block.amend]
    return [*zip(column(nodes, "id"), lists(nodes, "inputs"), strict=True)]


def column(blocks: Sequence[Block], name: str, otherwise: int | None = None) -> list[int]:
    """A column of these blocks, as Python integers; `otherwise`: where it is missing."""
    made: list[int] = []
    for block in blocks:
        values = block.data.get(name)
        if values is None and otherwise is not None:
            values = np.full(block.rows, otherwise)
        if values is None or isinstance(values, Ragged) or values.dtype.kind not in "ib":
            raise UnreadableTraceError(f"{block.table}.{name} is missing or holds no integers")
        made += values.tolist()
    return made


def lists(blocks: Sequence[Block], name: str) -> list[list[int]]:
    made: list[list[int]] = []
    for block in blocks:
        cells = block.data.get(name)
        if not isinstance(cells, Ragged):
            raise UnreadableTraceError(f"{block.table}.{name} is missing or holds no lists")
        made += [list(cell) for cell in cells.tuples()]
    return made
