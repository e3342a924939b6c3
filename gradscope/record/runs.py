"""From the notes of the engine to events: one record of a node's run becomes all it consists of."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradscope.record import native
from gradscope.trace import schema
from gradscope.trace.schema import NONE

if TYPE_CHECKING:
    from gradscope.record.native import NativeProbe
    from gradscope.record.rows import Rows
    from gradscope.trace.writer import Writer

Ints = NDArray[np.int64]
Columns = dict[str, Any]

IN_PLACE, UNDEFINED = 2, 4


class Events:
    """Gathers the events of a window by kind, orders them and writes them."""

    def __init__(self, writer: Writer, rows: Rows, base: int, start: int) -> None:
        self._writer = writer
        self._rows = rows
        self._base = base
        self._start = start
        self._seq = 0
        self.counted: dict[str, int] = defaultdict(int)
        self.task_thread: dict[int, int] = {}
        self._parts: dict[type, list[Columns]] = {}

    def flush(self, probe: NativeProbe, dependencies: list[Any]) -> None:
        """Write all events noted so far."""
        self._parts = defaultdict(list)
        self._singles(probe.events.take()[0])
        self._dependencies(dependencies)
        runs, moves = probe.runs.take()[0], probe.moves.take()[0]
        self._runs(runs, moves)
        self._moves(runs, moves)
        self._write()

    def _add(self, kind: type, order: Ints, sub: Any, t: Any, thread: Any, task: Any, **more: Any) -> None:
        if len(order):
            key = (order << 20) + sub
            self._parts[kind].append({"key": key, "t": t, "thread": thread, "task": task, **more})

    def _singles(self, table: Ints) -> None:
        order, code, t, thread, task, node, a, b, c, d = table
        ids = self._rows.ids

        def kind(number: int, row: type, **columns: Ints) -> None:
            chosen = code == number
            if chosen.any():
                picked = {name: column[chosen] for name, column in columns.items()}
                self._add(row, order[chosen], 0, t[chosen], thread[chosen], ids(task[chosen]), **picked)

        begun = code == native.TASK_BEGIN
        for number, own in zip(task[begun].tolist(), thread[begun].tolist(), strict=True):
            self.task_thread[number] = own
        at = ids(node)
        zero = np.zeros(len(order), np.int64)
        kind(native.POP, schema.Pop, node=at, queue=zero, length=a)
        kind(native.NODE_BEGIN, schema.NodeBegin, node=at)
        kind(native.NODE_END, schema.NodeEnd, node=at, failed=a != 0)
        kind(native.PUSH, schema.Push, node=at, queue=zero, depth=a, length=b)
        kind(native.TASK_BEGIN, schema.TaskBegin)
        kind(native.TASK_END, schema.TaskEnd, failed=a != 0)
        kind(native.SKIPPED, schema.Skipped, node=at)
        kind(native.HOOK_BEGIN, schema.HookBegin, node=at, hook=a, index=b, stack=c, name=d)
        kind(native.HOOK_END, schema.HookEnd, node=at, hook=a, index=b, replaced=c != 0)
        kind(native.CAPTURE, schema.Capture, node=at, input_nr=a)
        kind(native.ACCUMULATE, schema.Accumulate, node=at, tensor=ids(a), how=b)
        kind(native.RELEASED, schema.SavedReleased, node=at)
        kind(native.CALLBACK, schema.Callback, name=a)
        kind(native.ENTER, schema.ReentrantEnter, node=at, depth=a, pool=b != 0)
        kind(native.LEAVE, schema.ReentrantLeave, depth=a)
        kind(native.ERROR, schema.Error, node=at, type=a, message=b)
        gone = code == native.RELEASED
        self._rows.release(node[gone], t[gone] - self._start, task[gone])

    def _dependencies(self, noted: list[Any]) -> None:
        for order, t, task, nodes, counts in noted:
            many = len(nodes)
            thread = self.task_thread.get(task, 0)
            self._add(
                schema.Dependency, np.full(many, order), np.arange(many), np.full(many, t),
                np.full(many, thread), self._rows.ids(np.full(many, task)),
                node=self._rows.ids(nodes), count=np.array(counts, np.int64),
            )  # fmt: skip

    def _threads(self, task: Ints) -> Ints:
        """The thread that runs each task."""
        known, where = np.unique(task, return_inverse=True)
        return np.array([self.task_thread.get(int(t), 0) for t in known], np.int64)[where]

    def _runs(self, runs: Ints, moves: Ints) -> None:
        whole = runs[1] >= 0  # others were told event by event
        order, begin, ended, task, node, popped, released = runs[:, whole]
        ids = self._rows.ids
        thread, at = self._threads(task), ids(task)
        self._add(schema.Pop, order, 0, begin, thread, at, node=ids(node),
                  queue=np.zeros(len(order), np.int64), length=popped)  # fmt: skip
        self._add(schema.NodeBegin, order, 1, begin, thread, at, node=ids(node))
        self._add(schema.NodeEnd, order, 2, ended, thread, at, node=ids(node),
                  failed=np.zeros(len(order), bool))  # fmt: skip
        let = released == 1
        self._add(schema.SavedReleased, order[let], 3, ended[let], thread[let], at[let],
                  node=ids(node[let]))  # fmt: skip
        self._rows.release(node[let], ended[let] - self._start, task[let])

    def _moves(self, runs: Ints, moves: Ints) -> None:
        """Each gradient handed on: a count goes down, a buffer fills, perhaps a node becomes ready."""
        if not moves.shape[1]:
            return
        order, target, index, nr, how, left, length = moves
        run = np.searchsorted(runs[0], order)
        ended, source, task = runs[2, run], runs[4, run], runs[3, run]
        sub = 4 + 3 * index
        ids = self._rows.ids
        thread, at, node = self._threads(task), ids(task), ids(target)
        self._add(schema.Decrement, order, sub, ended, thread, at, node=node, source=ids(source),
                  index=index, remaining=left)  # fmt: skip
        undefined, kind = how >= UNDEFINED, how % UNDEFINED
        made = kind == 0
        self._add(schema.BufferMade, order[made], sub[made] + 1, ended[made], thread[made], at[made],
                  node=node[made], input_nr=nr[made], undefined=undefined[made])  # fmt: skip
        more = ~made
        self._add(schema.BufferAdded, order[more], sub[more] + 1, ended[more], thread[more], at[more],
                  node=node[more], input_nr=nr[more], in_place=kind[more] == IN_PLACE,
                  undefined=undefined[more])  # fmt: skip
        ready = left == 0
        depth = self._depths(task[ready])
        self._add(schema.Push, order[ready], sub[ready] + 2, ended[ready], thread[ready], at[ready],
                  node=node[ready], queue=np.zeros(int(ready.sum()), np.int64), depth=depth,
                  length=length[ready])  # fmt: skip

    depth_of: dict[int, int]

    def _depths(self, task: Ints) -> Ints:
        known, where = np.unique(task, return_inverse=True)
        return np.array([self.depth_of.get(int(t), 0) for t in known], np.int64)[where]

    def _write(self) -> None:
        """Number all events of the window in order, and write them kind by kind."""
        if not self._parts:
            return
        merged = {kind: _joined(parts) for kind, parts in self._parts.items()}
        keys = np.concatenate([columns["key"] for columns in merged.values()])
        rank = np.empty(len(keys), np.int64)
        rank[np.argsort(keys, kind="stable")] = np.arange(self._seq, self._seq + len(keys))
        self._seq += len(keys)
        at = 0
        for kind, columns in merged.items():
            many = len(columns["key"])
            seq = rank[at : at + many]
            at += many
            order = np.argsort(seq, kind="stable")
            rows = {name: column[order] for name, column in columns.items() if name != "key"}
            rows["t"] = rows["t"] - self._start
            self.counted[kind.KIND] += many  # type: ignore[attr-defined]
            self._writer.block(kind, {"seq": seq[order], **rows})

    @property
    def total(self) -> int:
        return self._seq


def _joined(parts: list[Columns]) -> Columns:
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


__all__ = ["NONE", "Events"]
