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
from gradscope.trace.schema.tables import GraphTask, Node
from gradscope.trace.shorthand.graph_columns import integers
from gradscope.trace.shorthand.replay import ReplayStep, Sent
from gradscope.trace.shorthand.run_events import MODULE, UNKNOWN
from gradscope.trace.shorthand.short_columns import Ints
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

    def call(self, t: int, code: int, thread: int, node: int, kind: int) -> None:
        """A hook was called, or returned."""
        returns = code == events.HookEnd.CODE
        self.hooks.append(SeenHook(t, kind % MODULE, thread, node, returns))
        if node == NONE:
            return
        if returns:
            self.hooks_over[node] = t
        else:
            after = kind % MODULE == HookKind.POST_ACCUMULATE
            (self.after if after else self.first_hook).setdefault(node, t)

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


class SeenTasks:
    """What was recorded about the runs of each task. A `SeenTask` is made when it is asked for."""

    def __init__(self, short: dict[str, list[Block]]) -> None:
        ran = short["short.ran"]
        names = ("begin", "ended", "sequence", "thread")
        columns = {name: integers(ran, name, NONE if name == "thread" else None) for name in names}
        self._runs, runs = _by_task(integers(ran, "task"), columns)
        self.begin, self.ended, self._sequence, self._thread = (runs[name] for name in names)
        self._asked = dict.fromkeys([*self._runs, *column(short["short.asked"], "task")])
        inside = short["short.inside"]
        columns = {name: integers(inside, name) for name in ("run", "what")}
        self._inside, self._sums = _by_task(integers(inside, "task"), columns)
        events_ = short["short.event"]
        columns = {name: integers(events_, name) for name in ("t", "code", "thread", "node", "a")}
        called = np.isin(columns["code"], [*HOOKS])
        task = integers(events_, "task")[called]
        columns = {name: values[called] for name, values in columns.items()}
        self._hooks, self._calls = _by_task(task, columns)

    def __contains__(self, task: int) -> bool:
        return task in self._asked

    def __len__(self) -> int:
        return len(self._asked)

    def __getitem__(self, task: int) -> SeenTask:
        """The runs of a task, in order, and the times of its hooks; a new object each time."""
        if task not in self._asked:
            raise KeyError(task)
        runs = self.runs(task)
        rows = zip(*(c[runs].tolist() for c in (self.begin, self.ended)), self.numbers(task),
                   strict=True)  # fmt: skip
        seen = SeenTask([*rows], self._thread[runs].tolist())
        inside = self._inside.get(task, NO_ROWS)
        for run, what in zip(*(self._sums[n][inside].tolist() for n in ("run", "what")),
                             strict=True):  # fmt: skip
            if what == SEEN:
                seen.inside = True
            elif what in {ADDED, ADDED_IN_PLACE}:
                seen.sums[run].append(what)
            else:
                seen.took[run] = what
        called = self._hooks.get(task, NO_ROWS)
        for row in zip(*(values[called].tolist() for values in self._calls.values()), strict=True):
            seen.call(*row)
        return seen

    def get(self, task: int) -> SeenTask | None:
        return self[task] if task in self._asked else None

    def runs(self, task: int) -> slice:
        """Where the runs of a task are in `begin` and `ended`."""
        return self._runs.get(task, NO_ROWS)

    def numbers(self, task: int) -> list[int]:
        """The sequence numbers of the nodes that ran."""
        found: list[int] = self._sequence[self.runs(task)].tolist()
        return found

    def has_hooks(self, task: int) -> bool:
        return task in self._hooks

    def sums(self, task: int) -> bytes:
        """What was done with gradients; equal for tasks that did the same."""
        inside = self._inside.get(task, NO_ROWS)
        return b"".join(self._sums[name][inside].tobytes() for name in ("run", "what"))

    def until(self, task: int) -> int:
        """When the last run of a task ended; NONE: nothing ran."""
        return int(max(self.ended[self.runs(task)], default=NONE))

    def has_other_threads(self, task: int, thread: int) -> bool:
        """Whether another thread than this one ran a node."""
        threads = self._thread[self.runs(task)]
        return bool(((threads != NONE) & (threads != thread)).any())


NO_ROWS = slice(0, 0)


def _by_task(task: Ints, columns: dict[str, Ints]) -> tuple[dict[int, slice], dict[str, Ints]]:
    """The rows in the order of their tasks, and where those of each task are."""
    order = np.argsort(task, kind="stable")
    ids, starts = np.unique(task[order], return_index=True)
    ends = [*starts[1:].tolist(), len(task)]
    places = map(slice, starts.tolist(), ends)
    return dict(zip(ids.tolist(), places, strict=False)), {
        name: values[order] for name, values in columns.items()
    }


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


def inputs_of(plain: Sequence[Block]) -> list[tuple[int, list[int]]]:
    """Each node, and the tensors whose gradients it receives."""
    nodes = [block for block in plain if block.table == Node.TABLE and not block.amend]
    return [*zip(column(nodes, "id"), lists(nodes, "inputs"), strict=True)]


def column(blocks: Sequence[Block], name: str) -> list[int]:
    """A column of these blocks, as Python integers."""
    found: list[int] = integers(blocks, name).tolist()
    return found


def lists(blocks: Sequence[Block], name: str) -> list[list[int]]:
    made: list[list[int]] = []
    for block in blocks:
        cells = block.data.get(name)
        if not isinstance(cells, Ragged):
            raise UnreadableTraceError(f"{block.table}.{name} is missing or holds no lists")
        made += [list(cell) for cell in cells.tuples()]
    return made
