"""Backwards whose nodes several threads ran: on devices, or deeply nested ones."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gradscope.trace.schema.declare import NONE
from gradscope.trace.schema.tables import Device, Order, String, Tensor, Thread
from gradscope.trace.shorthand.graph_columns import ReplayColumns
from gradscope.trace.shorthand.replay import ReplayBackward, ReplayGraph
from gradscope.trace.shorthand.replayed import Moment, QueueRun
from gradscope.trace.shorthand.seen import (
    AFTER,
    SeenHook,
    SeenTask,
    SeenTasks,
    Task,
    column,
    inputs_of,
)
from gradscope.trace.shorthand.several.queue_rows import QueueRows
from gradscope.trace.shorthand.several.queues import OtherOrderError, QueueTask, SeveralQueues

if TYPE_CHECKING:
    from gradscope.trace.shorthand.replayed import ReplayResults
    from gradscope.trace.table import Block

NEVER = 1 << 62
ON_THE_CALLER = ("cpu", "meta", "lazy")
"""Types of devices whose nodes the calling thread runs."""


class SeveralThreads:
    """Replays these backwards, together with those that ran at the same time."""

    def __init__(
        self,
        tasks: Mapping[int, Task],
        seen: SeenTasks,
        columns: ReplayColumns,
        plain: Sequence[Block],
    ) -> None:
        self._tasks, self._all, self._columns, self._plain = tasks, seen, columns, plain
        self._asleep: set[int] = set()

    def replay(self, found: ReplayResults) -> None:
        """Add what follows for each of them."""
        groups = [*self._groups()]
        if not groups:
            return
        every = range(len(self._columns.ids))
        self._graph, self._leaves = self._columns.whole(), self._columns.leaves(every)
        self._saving = self._columns.saving(every)
        places = Places(self._plain, self._graph)
        for group in groups:
            self._together(group, places, found)

    def _groups(self) -> Iterator[list[Task]]:
        """Backwards that ran at the same time, if one of them ran nodes on several threads."""
        group: list[Task] = []
        until = NONE
        for task in sorted(self._tasks.values(), key=lambda task: task.begin):
            if task.begin > until and group:
                if any(map(self._has_several, group)):
                    yield group
                group = []
            group.append(task)
            until = max(until, task.begin, self._all.until(task.id))
        if any(map(self._has_several, group)):
            yield group

    def _has_several(self, task: Task) -> bool:
        return self._all.has_other_threads(task.id, task.thread)

    def _together(self, group: list[Task], places: Places, found: ReplayResults) -> None:
        """Replay a group, without those whose order is not the predicted one."""
        usable: dict[int, QueueTask] = {}
        self._seen = {task.id: self._all[task.id] for task in group if task.id in self._all}
        for task in group:
            known = task.id in self._seen and task.root in self._graph.edges
            found.orders[task.id] = Order.OTHERWISE if task.id in self._seen else Order.NOT_SEEN
            if known:
                backward = ReplayBackward(
                    self._graph, task.root, task.inputs, accumulates=task.accumulates,
                    depth=task.depth,
                )  # fmt: skip
                others = {*self._seen[task.id].threads} - {task.thread, NONE}
                usable[task.id] = QueueTask(task, backward, places.queues(task, others))
        while usable:
            seen = {id_: self._seen[id_] for id_ in usable}
            replay = SeveralQueues(usable, runs_of(usable, seen), self._asleep, places.engine)
            rows = QueueRows(usable, seen, self._leaves, self._saving, self._graph)
            try:
                moments, wrong = _replayed(replay, rows)
            except OtherOrderError as error:
                del usable[error.task]
                self._differs(error, found)
                continue
            if wrong == NONE:
                rows.tell(moments, found)
                self._asleep = replay.asleep
                return
            self._seen[wrong].sums_known = False

    def _differs(self, error: OtherOrderError, found: ReplayResults) -> None:
        """The order of a task is not the predicted one, or it is not known whether it is."""
        if not error.certain:
            found.orders[error.task] = Order.NOT_SEEN
            return
        ran = [NONE]
        if error.sequence not in (NONE, -1):
            counts = self._graph.sequence
            ran = [node for node, number in counts.items() if number == error.sequence] or ran
        found.otherwise[error.task] = [ran[0] if len(ran) == 1 else NONE, error.foretold]


def _replayed(replay: SeveralQueues, rows: QueueRows) -> tuple[list[Moment], int]:
    """What happened, and a task with fewer additions than predicted; NONE: there is none."""
    while True:
        moments = replay.moments()
        wrong = rows.without_sums(moments)
        swapped = None if wrong == NONE else rows.exchanged(wrong)
        if swapped is None or not replay.delay(*swapped):
            return moments, wrong


class Places:
    """The queue of each node: the number of the thread of its device, or of the caller."""

    def __init__(self, plain: Sequence[Block], graph: ReplayGraph) -> None:
        def rows(table: str) -> list[Block]:
            return [block for block in plain if block.table == table and not block.amend]

        texts = {
            id_: str(text)
            for block in rows(String.TABLE)
            for id_, text in zip(column([block], "id"), block.data["text"], strict=True)
        }
        names = {
            table: {
                id_: texts.get(name, "")
                for id_, name in zip(
                    column(rows(table), "id"), column(rows(table), "name"), strict=True
                )
            }
            for table in (Device.TABLE, Thread.TABLE)
        }
        devices = {
            id_: name
            for id_, name in names[Device.TABLE].items()
            if name.partition(":")[0] not in ON_THE_CALLER
        }
        tensors = rows(Tensor.TABLE)
        device_of = {
            tensor: devices[device]
            for tensor, device in zip(column(tensors, "id"), column(tensors, "device"), strict=True)
            if device in devices
        }
        self._edges = graph.edges
        self._devices = {
            node: [device_of.get(each, "") for each in inputs]
            for node, inputs in inputs_of(plain)
            if inputs
        }
        known = {*devices.values()}
        self._threads = {name: id_ for id_, name in names[Thread.TABLE].items() if name in known}
        # One thread runs the nodes of all devices with the same index.
        self._by_index = {_index(name): id_ for name, id_ in self._threads.items()}
        self.engine = {*self._threads.values()}

    def queues(self, task: Task, others: set[int]):  # type: ignore[no-untyped-def]  # noqa: ANN201
        """The queue of each node in this task. `others`: threads that ran nodes for the caller."""
        unnamed = others - self.engine
        if len(unnamed) == 1 and not self.engine:  # the system has no name for it
            self.engine |= unnamed

        def of(node: int) -> int:
            device = self._device(node, task)
            if not device:
                return task.thread
            thread = self._threads.get(device, self._by_index.get(_index(device), NONE))
            if thread == NONE:
                thread = next(iter(unnamed)) if len(unnamed) == 1 else task.thread
            return thread

        return of

    def _device(self, node: int, task: Task) -> str:
        """The first device that has a thread, among those of the gradients a node receives.

        The node above several roots receives their gradients.
        """
        devices = self._devices.get(node, [])
        if node == task.root and node not in self._devices:
            ends = [(self._devices.get(to, []), nr) for to, nr in self._edges[node]]
            devices = [each[nr] for each, nr in ends if nr < len(each)]
        return next(filter(None, devices), "")


def _index(device: str) -> str:
    return device.rpartition(":")[2]


def runs_of(tasks: Mapping[int, QueueTask], seen: Mapping[int, SeenTask]) -> list[QueueRun]:
    """All runs of these tasks, in the order in which they began."""
    raw: defaultdict[int, list[tuple[int, int, int, int, int]]] = defaultdict(list)
    hooks: defaultdict[int, list[SeenHook]] = defaultdict(list)
    called: defaultdict[int, list[int]] = defaultdict(list)
    for id_, (task, _, queue_of) in tasks.items():
        own = seen[id_]
        called[task.thread].append(task.begin)
        for place, (row, thread) in enumerate(zip(own.rows, own.threads, strict=True)):
            if place == 0 and row[0] == row[1]:  # no hook saw the node above the roots
                thread = queue_of(task.root)  # noqa: PLW2901
            raw[task.thread if thread == NONE else thread].append((*row, id_, place))
        for hook in own.hooks:
            hooks[hook.thread].append(hook)
    found: list[QueueRun] = []
    for thread, rows in raw.items():
        found += _on_thread(thread, rows, sorted(hooks[thread]), called[thread])
    failing = {_failing(id_, found) for id_, each in tasks.items() if each.task.failed == 1}
    runs = [run._replace(fails=True) if run in failing else run for run in found]
    return sorted(runs, key=lambda run: run.begin)


def _on_thread(
    thread: int,
    rows: list[tuple[int, int, int, int, int]],
    hooks: list[SeenHook],
    called: list[int],
) -> Iterator[QueueRun]:
    """The runs of one thread, with the periods in which their nodes left and passed on."""
    stamps = sorted({*(row[0] for row in rows), *(row[1] for row in rows)})
    before = [hook.t for hook in hooks if hook.kind not in AFTER and not hook.returns]
    after = [hook.t for hook in hooks if hook.kind in AFTER and hook.returns]
    times = []
    for begin, ended, *_ in rows:
        last = stamps[at - 1] if (at := bisect_left(stamps, begin)) else NONE
        following = stamps[at] if (at := bisect_right(stamps, ended)) < len(stamps) else NEVER
        first = bisect_right(before, last)
        popped = before[first] - 1 if first < len(before) and before[first] < begin else begin
        behind = bisect_left(after, following) - 1
        over = after[behind] if behind >= 0 and after[behind] > ended else ended
        times.append((popped, max(over, popped + 1)))
    known = sorted({*called, *(popped for popped, _ in times), *(over for _, over in times)})
    for (begin, ended, sequence, task, place), (popped, over) in zip(rows, times, strict=True):
        since = known[at - 1] if (at := bisect_left(known, popped)) else NONE
        until = known[at] if (at := bisect_right(known, over)) < len(known) else NEVER
        yield QueueRun(task, place, thread, sequence, popped, begin, ended, over, since, until)


def _failing(task: int, runs: Sequence[QueueRun]) -> QueueRun | None:
    """The run that raised: the last one that ended, unless a hook raised after it."""
    own = [run for run in runs if run.task == task]
    return max(own, key=lambda run: run.ended, default=None)
