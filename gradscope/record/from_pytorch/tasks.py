"""Rows of backwards: arguments, calling line, and end of each."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from operator import attrgetter
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.record.from_pytorch.called.pytorch_calls import HOW
from gradscope.record.from_pytorch.threads import of_engine
from gradscope.record.notes.log import Ints, Log, take_all
from gradscope.record.notes.own_time import GRAPHS
from gradscope.record.notes.user_functions import name_of
from gradscope.record.script.tracebacks import described
from gradscope.trace import schema
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import NONE, events
from gradscope.trace.schema.events import HookKind
from gradscope.trace.schema.tables import Order
from gradscope.trace.shorthand import tables
from gradscope.trace.shorthand.foretold import SINGLE
from gradscope.trace.shorthand.run_events import MODULE
from gradscope.trace.shorthand.tables import ADDED, ADDED_IN_PLACE, SEEN, UNDER_WAY
from gradscope.watch.called.call_rows import ADD, ADD_IN_PLACE
from gradscope.watch.listener import BackwardRuns, RunColumns, together

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gradscope.record.from_pytorch.called.pytorch_calls import PyTorchCalls
    from gradscope.record.from_pytorch.values import PyTorchValues
    from gradscope.record.session import Session
    from gradscope.watch.listener import BackwardCall, SeenGradients
    from gradscope.watch.values.devices.device_times import TookOnDevice


HOOKS = {
    "register_hook": HookKind.TENSOR,
    "register_post_accumulate_grad_hook": HookKind.POST_ACCUMULATE,
    "register_prehook": HookKind.PRE,
    "register_hook of a node": HookKind.POST,
    "pack_hook": HookKind.PACK,
    "unpack_hook": HookKind.UNPACK,
    "register_forward_pre_hook": HookKind.MODULE_FORWARD_PRE,
    "register_forward_hook": HookKind.MODULE_FORWARD,
    "register_full_backward_pre_hook": HookKind.MODULE_BACKWARD_PRE,
    "register_full_backward_hook": HookKind.MODULE_BACKWARD,
    "register_step_pre_hook": HookKind.OPTIMIZER_PRE,
    "register_step_post_hook": HookKind.OPTIMIZER_POST,
}
ON_NODES = {HookKind.TENSOR, HookKind.POST_ACCUMULATE}
"""Hooks that are reported with their node; for others it follows from runs, or there is none."""


@dataclass(slots=True, eq=False)
class PyTorchTask:
    """One backward."""

    id: int
    record_nr: int
    asked: BackwardCall
    root: int  # the node that is pushed first
    parent: PyTorchTask | None
    depth: int
    thread: int
    stack: int
    step: int
    begin: int
    end: int = NONE
    error: int = 0  # the text
    failed: int = 0
    ident: int = 0
    ran: BackwardRuns | None = None
    own: int = 0  # nanoseconds spent on traversing its graph
    number: int = NONE  # of PyTorch's graph task, if it is known
    before: PyTorchTask | None = None  # what its thread ran before it began


class Tasks:
    """Rows of graph tasks."""

    def __init__(self, session: Session, calls: PyTorchCalls, values: PyTorchValues) -> None:
        self._session = session
        self._calls = calls
        self._values = values
        self._begun: list[PyTorchTask] = []
        self._ended: list[PyTorchTask] = []
        self._under_way: dict[int, PyTorchTask] = {}
        self._numbered: dict[int, PyTorchTask] = {}  # by number of PyTorch's graph task
        self._singles = Log(len(SINGLE))
        self._not_seen: list[int] = []
        self._count = 0
        self.events = 0
        self.unfinished = 0

    def begin(
        self, asked: BackwardCall, root: int, stack: int, parent: PyTorchTask | None, thread: int
    ) -> PyTorchTask:
        """Called when a backward starts. Returns its task, which runs on this thread."""
        session = self._session
        self._count += 1
        number, depth = self._count, 0 if parent is None else parent.depth + 1
        task = PyTorchTask(
            number, session.base + 2 + 2 * number, asked, root, parent, depth, thread, stack,
            session.contexts.steps.id, perf_counter_ns() - session.start,
        )  # fmt: skip
        self._under_way[number] = task
        self._begun.append(task)
        if self._calls.observer is not None:
            self._calls.drain_if_many(self._calls.observer)
        return task

    def end(self, task: PyTorchTask, error: BaseException | None, ran: BackwardRuns | None) -> None:
        """Called when it ended, normally or with an exception."""
        task.ident, task.ran = get_ident(), ran
        self.events += 2 if ran is None else 2 + 4 * ran.many
        if error is not None:
            intern, text = self._session.writer.intern, described(error)
            task.failed, task.error = 1, intern(text)
            message = intern(text.partition(": ")[2])
            self._single(events.Error, task.id, NONE, intern(type(error).__name__), message)
        task.end = perf_counter_ns() - self._session.start
        self._ended.append(task)
        self._under_way.pop(task.id, None)
        self._numbered.pop(task.number, None)

    def here(self, own: PyTorchTask | None) -> PyTorchTask | None:
        """The backward whose node or hook runs on this thread; None: not known, or none.

        `own`: the backward that this thread called last. A thread of the engine runs nodes of any
        backward: PyTorch has a number for each, and it is assigned if there is one possibility.
        """
        number = sys.modules["torch"]._C._current_graph_task_id()
        if number < 0:
            return own
        found = self._numbered.get(number)
        if found is None:
            unknown = [each for each in [*self._under_way.values()] if each.number == NONE]
            possible = [each for each in unknown if each is own] or unknown
            if len(possible) == 1:
                found = self._numbered[number] = possible[0]
                found.number = number
        return found

    def only_one(self) -> PyTorchTask | None:
        """The only running backward that is not inside another one."""
        under_way = [each for each in [*self._under_way.values()] if each.parent is None]
        return under_way[0] if len(under_way) == 1 else None

    @property
    def under_way_since(self) -> int:
        """When the first of the running backwards began; the current time if there is none.

        Backwards that another thread begins from now on, while notes are written, also count.
        """
        now = self._session.contexts.now()
        begun = [task.begin for task in list(self._under_way.values())]
        return min(begun, default=now) + self._session.start

    # -- hooks ----------------------------------------------------------------------------------

    def hook_begins(
        self, task: PyTorchTask | None, kind: str, node: int, index: int, hook: Any, site: int,
        module: int,
    ) -> tuple[int, int, int, int] | None:  # fmt: skip
        """Called before a hook. Hooks in a backward on an unknown node are not recorded."""
        code = HOOKS[kind]
        if code in ON_NODES and (task is None or not node):
            return None
        token = NONE if task is None else task.id, node or NONE, int(code), index
        name = self._session.writer.intern(name_of(hook))
        written = self._session.sites.of_function(hook)
        site = site if written == NONE else written
        of_module = MODULE * (module + 1)
        self._single(events.HookBegin, *token[:2], token[2] + of_module, index, site, name)
        if self._session.places is not None:
            self._session.places.hook(hook, code)
        return token

    def called_back(self, task: PyTorchTask | None, callback: Any) -> None:
        """A callback is called at the end of a backward."""
        if task is not None:
            name = self._session.writer.intern(name_of(callback))
            self._single(events.Callback, task.id, NONE, name)

    def hook_ends(self, token: tuple[int, int, int, int], *, replaced: bool) -> None:
        """Called after a hook or callback."""
        self._single(events.HookEnd, *token, int(replaced))

    def _single(
        self, kind: Any, task: int, node: int, a: int = 0, b: int = 0, c: int = 0, d: int = 0
    ) -> None:
        contexts = self._session.contexts
        self._singles.note(
            contexts.now(), kind.CODE, contexts.threads.here().id, task, node, a, b, c, d
        )
        self.events += 1

    # -- rows -----------------------------------------------------------------------------------

    def flush(self) -> None:
        """Pass new rows to the writer."""
        begun, ended = take_all(self._begun), take_all(self._ended)
        self._session.own_time.add(GRAPHS, sum([task.own for task in ended]))
        self.unfinished += len(begun) - len(ended)
        self._write_begun(begun)
        singles = self._singles.take()
        if singles.size:
            self._session.writer.block(tables.ShortSingle, dict(zip(SINGLE, singles, strict=True)))
        self._runs(ended)
        self._write_ended(ended)

    def so_far(self, task: PyTorchTask | None, backwards: list[BackwardRuns]) -> list[PyTorchTask]:
        """Rows of the runs of running backwards, innermost first, for a snapshot."""
        tasks = []
        for backward in backwards:
            if task is None:
                break
            tasks.append(replace(task, ran=backward, failed=UNDER_WAY, ident=get_ident()))
            task = task.parent
        self._runs(tasks)
        return tasks

    def _write_begun(self, tasks: list[PyTorchTask]) -> None:
        if not tasks:
            return
        parents = [NONE if task.parent is None else task.parent.id for task in tasks]
        asked = [task.asked for task in tasks]
        columns = {
            name: _column(tasks, name) for name in ("id", "depth", "thread", "stack", "step",
                                                    "begin")
        }  # fmt: skip
        self._events(events.ReentrantEnter, columns, "begin", columns["depth"])
        self._events(events.TaskBegin, columns, "begin")
        self._session.writer.block(schema.GraphTask, columns | {
            "roots": _nodes([each.roots for each in asked]),
            "inputs": _nodes([each.inputs for each in asked]),
            "keep_graph": [each.keep_graph for each in asked],
            "create_graph": [each.create_graph for each in asked],
            "accumulate_grad": [each.accumulate_grad for each in asked],
            "parent": parents,
        })  # fmt: skip

    def _write_ended(self, tasks: list[PyTorchTask]) -> None:
        if tasks:
            names = ("id", "depth", "thread", "end", "failed", "error")
            columns = {name: _column(tasks, name) for name in names}
            self._events(events.TaskEnd, columns, "end", columns.pop("failed"))
            self._events(events.ReentrantLeave, columns, "end", columns["depth"])
            columns = {name: columns[name] for name in ("id", "end", "error")}
            self._session.writer.block(schema.GraphTask, columns, amend=True)
        unseen = take_all(self._not_seen)
        if unseen:
            orders = {"id": unseen, "order": [int(Order.NOT_SEEN)] * len(unseen)}
            self._session.writer.block(schema.GraphTask, orders, amend=True)

    def on_devices(self, measured: Sequence[TookOnDevice], number: Callable[[Any], int]) -> None:
        """Write how long backwards took on their devices. `number`: that of a device."""
        if measured:
            self._session.writer.block(schema.DeviceTime, {
                "task": [each.task.id for each in measured],
                "device": [number(each.device) for each in measured],
                "took": [each.took for each in measured],
                "since": [NONE if each.since is None else each.since for each in measured],
            })  # fmt: skip

    def _events(self, kind: Any, tasks: dict[str, Ints], at: str, a: Ints | None = None) -> None:
        """An event of each of these; that of a nested backward only of nested ones."""
        nested = kind in {events.ReentrantEnter, events.ReentrantLeave}
        own = np.flatnonzero(tasks["depth"] > 0) if nested else np.arange(len(tasks["id"]))
        if len(own):
            nothing = np.zeros(len(own), np.int64)
            self._session.writer.block(tables.ShortSingle, {
                "t": tasks[at][own], "code": nothing + kind.CODE, "thread": tasks["thread"][own],
                "task": tasks["id"][own], "node": nothing + NONE,
                "a": nothing if a is None else a[own], "b": nothing, "c": nothing, "d": nothing,
            })  # fmt: skip

    def _runs(self, ended: list[PyTorchTask]) -> None:
        """The runs of tasks that have ended, and the arguments of those tasks."""
        tasks, backwards = [], []
        for task in ended:
            if task.ran is not None and task.ran.is_seen():
                tasks.append(task)
                backwards.append(task.ran)
            elif task.ran is not None:
                self._not_seen.append(task.id)
        if not tasks:
            return
        write = self._session.writer.block
        start = self._session.start
        ran, many = together(backwards)
        ids = _column(tasks, "id")
        self._values.ran(ids, _column(tasks, "step"), many, ran)
        inputs = [task.asked.inputs for task in tasks]
        numbers = np.array([nr for each in inputs for _, nr in each], np.int64)
        write(tables.ShortAsked, {
            "task": ids, "root": _column(tasks, "root"),
            "failed": _column(tasks, "failed"),
            "inputs": _nodes(inputs, otherwise=NONE),
            "input_nrs": Ragged.of_lengths(np.array([*map(len, inputs)], np.int64), numbers),
        })  # fmt: skip
        write(tables.ShortSeenRun, {
            "task": np.repeat(ids, many), "begin": ran.begin - start, "ended": ran.end - start,
            "sequence": ran.sequence, "thread": self._threads_of(tasks, many, ran),
        })  # fmt: skip
        inside = self._calls.inside(ids, many, ran)
        hooked = [
            (task.id, task.ran.gradients) for task in tasks if task.ran and task.ran.gradients
        ]
        if hooked:
            inside = hooked_gradients(hooked, self._calls.sums)
        if inside.size:
            write(tables.ShortInside, dict(zip(("task", "run", "what"), inside, strict=True)))

    def _threads_of(self, tasks: list[PyTorchTask], many: Ints, ran: RunColumns) -> Ints:
        """The threads of these runs, by their numbers in the trace."""
        threads = np.repeat(_column(tasks, "thread"), many)
        others = np.flatnonzero(ran.thread != np.repeat(_column(tasks, "ident"), many))
        if len(others):
            places = self._session.contexts.threads
            known = {ident: id for id, ident in places.idents().items()}
            for ident in np.unique(ran.thread[others]).tolist():
                id = known[ident] if ident in known else places.of(of_engine(ident)).id
                threads[others[ran.thread[others] == ident]] = id
        return threads


def hooked_gradients(tasks: Sequence[tuple[int, SeenGradients]], sums: list[Ints]) -> Ints:
    """Rows of `short.inside` for tasks whose gradients hooks have shown.

    Columns as those of `PyTorchCalls.inside`; the measured sums are added to `sums`.
    """
    rows: list[tuple[int, int, int]] = []
    measured: list[tuple[int, int, int, int]] = []
    for task, seen in tasks:
        rows.append((task, -1, SEEN))
        for run, kind, look in seen.took:
            rows.append((task, run, int(HOW[kind])))
            if look and kind in {ADD, ADD_IN_PLACE}:
                measured.append((look, task, run, NONE))
        last, place = -1, 0
        for run, _, kind, look in seen.added:
            place = place + 1 if run == last else 0
            last = run
            rows.append((task, run, ADDED_IN_PLACE if kind == ADD_IN_PLACE else ADDED))
            if look:
                measured.append((look, task, run, place))
    if measured:
        sums.append(np.array(measured, np.int64).T)
    return np.array(rows, np.int64).reshape(-1, 3).T


def _column(tasks: list[PyTorchTask], name: str) -> Ints:
    get = attrgetter(name)
    return np.fromiter(map(get, tasks), np.int64, len(tasks))


def _nodes(ends: list[tuple[tuple[int, int], ...]], *, otherwise: int = 0) -> Ragged:
    """The nodes of each task; 0 stands for no node."""
    nodes = np.array([node or otherwise for each in ends for node, _ in each], np.int64)
    return Ragged.of_lengths(np.array([*map(len, ends)], np.int64), nodes)
