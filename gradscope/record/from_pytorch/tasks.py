"""Backwards as rows: what each was asked, who called it, how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from threading import get_ident
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.record.from_pytorch.tensors import put
from gradscope.record.notes.log import Log, take_all
from gradscope.record.notes.user_functions import name_of
from gradscope.record.script.tracebacks import described
from gradscope.trace import schema
from gradscope.trace.ragged import Ragged
from gradscope.trace.schema import NONE, events
from gradscope.trace.schema.events import HookKind
from gradscope.trace.shorthand import tables as short
from gradscope.trace.shorthand.foretold import SINGLE
from gradscope.trace.shorthand.runs import MODULE
from gradscope.watch.listener import Stretch, together

if TYPE_CHECKING:
    from gradscope.record.from_pytorch.called.calls import Calls
    from gradscope.record.from_pytorch.values import Values
    from gradscope.record.session import Session
    from gradscope.watch.listener import Backward


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
"""These are told of a node that is known; of others it follows from runs, or there is none."""


@dataclass(slots=True, eq=False)
class Task:
    """One backward under way."""

    id: int
    record_nr: int
    asked: Backward
    root: int  # the node that is pushed first
    parent: Task | None
    depth: int
    thread: int
    step: int
    begin: int
    ident: int = 0
    ran: Stretch | None = None


class Tasks:
    """Rows of graph tasks."""

    def __init__(self, session: Session, calls: Calls, values: Values) -> None:
        self._session = session
        self._calls = calls
        self._values = values
        self._begun: list[tuple[Any, ...]] = []
        self._ended: list[tuple[int, int, int]] = []
        self._singles = Log(len(SINGLE))
        self._ran: list[Task] = []
        self._count = 0
        self.events = 0
        self.unfinished = 0

    def begin(self, asked: Backward, root: int, stack: int, parent: Task | None) -> Task:
        """One starts; the task that runs on this thread until it ends."""
        session, contexts = self._session, self._session.contexts
        self._count += 1
        number, depth = self._count, 0 if parent is None else parent.depth + 1
        task = Task(
            number, session.base + 2 + 2 * number, asked, root, parent, depth, contexts.thread(),
            contexts.step, contexts.now(),
        )  # fmt: skip
        self._calls.begins(number, perf_counter_ns())
        if parent is not None:
            self._single(events.ReentrantEnter, task.id, NONE, task.depth, at=task.begin)
        self._single(events.TaskBegin, task.id, NONE, at=task.begin)
        self._begun.append((
            number, _nodes(asked.roots), _nodes(asked.inputs),
            asked.keep_graph, asked.create_graph, asked.accumulate_grad, depth,
            NONE if parent is None else parent.id, task.thread, stack, task.step, task.begin,
        ))  # fmt: skip
        return task

    def end(self, task: Task, error: BaseException | None, ran: Stretch | None) -> None:
        """It ended, by itself or by an exception."""
        text = "" if error is None else described(error)
        now = self._session.contexts.now()
        self._calls.drain_if_many()
        if ran is None:
            self._calls.ends(task.id)
        else:
            task.ident, task.ran = get_ident(), ran
            self._ran.append(task)
            self.events += 4 * ran.many
        if error is not None:
            intern = self._session.writer.intern
            message = intern(text.partition(": ")[2])
            self._single(events.Error, task.id, NONE, intern(type(error).__name__), message)
        self._single(events.TaskEnd, task.id, NONE, int(error is not None))
        if task.parent is not None:
            self._single(events.ReentrantLeave, task.id, NONE, task.depth)
        self._ended.append((task.id, now, self._session.writer.intern(text)))

    # -- hooks ----------------------------------------------------------------------------------

    def hook_begins(
        self, task: Task | None, kind: str, node: int, index: int, hook: Any, site: int, module: int
    ) -> tuple[int, int, int, int] | None:  # fmt: skip
        """A hook is called. Nothing is told of one in a backward, on a node that is not known."""
        code = HOOKS[kind]
        if code in ON_NODES and (task is None or not node):
            return None
        token = NONE if task is None else task.id, node or NONE, int(code), index
        name = self._session.writer.intern(name_of(hook))
        written = self._session.sites.of_function(hook)
        site = site if written == NONE else written
        of_module = MODULE * (module + 1)
        self._single(events.HookBegin, *token[:2], token[2] + of_module, index, site, name)
        return token

    def called_back(self, task: Task | None, callback: Any) -> None:
        """A callback is called at the end of a backward."""
        if task is not None:
            name = self._session.writer.intern(name_of(callback))
            self._single(events.Callback, task.id, NONE, name)

    def hook_ends(self, token: tuple[int, int, int, int], *, replaced: bool) -> None:
        """It returned."""
        self._single(events.HookEnd, *token, int(replaced))

    def _single(
        self, kind: Any, task: int, node: int, a: int = 0, b: int = 0, c: int = 0, d: int = 0,
        *, at: int | None = None,
    ) -> None:  # fmt: skip
        contexts = self._session.contexts
        self._singles.note(
            contexts.now() if at is None else at, kind.CODE, contexts.thread(), task, node,
            a, b, c, d,
        )  # fmt: skip
        self.events += 1

    def flush(self) -> None:
        """Hand new rows to the writer."""
        write = self._session.writer.block
        names = ("id", "roots", "inputs", "keep_graph", "create_graph", "accumulate_grad", "depth",
                 "parent", "thread", "stack", "step", "begin")  # fmt: skip
        begun, ended = len(self._begun), len(self._ended)
        put(write, schema.GraphTask, names, self._begun)
        singles = self._singles.take()
        if singles.size:
            write(short.Single, dict(zip(SINGLE, singles, strict=True)))
        self._runs(write)
        rows = self._ended[:ended]
        del self._ended[:ended]
        if rows:
            put(write, schema.GraphTask, ("id", "end", "error"), rows, amend=True)
        self.unfinished += begun - ended

    def _runs(self, write: Any) -> None:
        """The runs of tasks that have ended, and what those were asked."""
        tasks, stretches = [], []
        for task in take_all(self._ran):
            if task.ran is not None and task.ran.is_seen():
                tasks.append(task)
                stretches.append(task.ran)
            else:
                self._calls.ends(task.id)
        if not tasks:
            return
        start = self._session.start
        ran, many = together(stretches)
        ids = np.array([task.id for task in tasks], np.int64)
        self._values.ran(ids, np.array([task.step for task in tasks], np.int64), many, ran)
        inputs = [each for task in tasks for each in task.asked.inputs]
        lengths = np.array([len(task.asked.inputs) for task in tasks], np.int64)
        nodes = np.array([node or NONE for node, _ in inputs], np.int64)
        write(short.Asked, {
            "task": ids, "root": [task.root for task in tasks],
            "failed": [int(stretch.failed) for stretch in stretches],
            "inputs": Ragged.of_lengths(lengths, nodes),
            "input_nrs": Ragged.of_lengths(lengths, np.array([nr for _, nr in inputs], np.int64)),
        })  # fmt: skip
        write(short.Ran, {
            "task": np.repeat(ids, many), "begin": ran.begin - start, "ended": ran.end - start,
            "sequence": ran.sequence,
        })  # fmt: skip
        idents = np.array([task.ident for task in tasks], np.int64)
        inside = self._calls.inside(ids, idents, many, ran)
        if inside.size:
            write(short.Inside, dict(zip(("task", "run", "what"), inside, strict=True)))


def _nodes(ends: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    """A tuple of numbers: the program's garbage collector passes it by."""
    return tuple([node for node, _ in ends])
