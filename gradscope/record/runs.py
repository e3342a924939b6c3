"""From the notes of the engine to events: one record of a node's run becomes all it consists of."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradscope.record import native
from gradscope.trace import schema
from gradscope.trace.declare import Row

if TYPE_CHECKING:
    from gradscope.record.native import NativeProbe
    from gradscope.record.rows import Rows
    from gradscope.trace.writer import Writer

Ints = NDArray[np.int64]
Columns = dict[str, Any]

IN_PLACE, UNDEFINED = 2, 4  # see runtime/autograd/input_buffer.py


class Events:
    """Orders what was noted in a window, and writes it event by event.

    # Note [Order of events]
    Events are ordered by time. A run is noted once but is many events; nothing else of its thread
    can lie between them, so a run is placed as a whole and its events are counted off within it.
    """

    def __init__(self, writer: Writer, rows: Rows, start: int) -> None:
        self._writer = writer
        self._rows = rows
        self._start = start
        self.total = 0
        self.counted: Counter[str] = Counter()
        self.task_thread: dict[int, int] = {}
        self.depth_of: dict[int, int] = {}
        self._parts: defaultdict[type[Row], list[Columns]] = defaultdict(list)

    def flush(self, probe: NativeProbe, dependencies: list[Any]) -> None:
        """Write all events noted so far."""
        singles, runs, moves = (log.take()[0] for log in (probe.events, probe.runs, probe.moves))
        runs = _sorted(runs, runs[0])
        run_of = np.searchsorted(runs[0], moves[0])
        moves, run_of = _sorted(moves, run_of), np.sort(run_of)
        whole = runs[5] >= 0  # the others were told event by event, but for their moves
        own = np.where(whole, 3 + runs[5], 0)
        each = 2 + (moves[5] == 0)
        sent = np.bincount(run_of, weights=each, minlength=runs.shape[1]).astype(np.int64)
        keys = [singles[0], [d[0] for d in dependencies], np.where(whole, runs[0], runs[1])]
        counts = [np.ones(singles.shape[1]), [len(d[2]) for d in dependencies], own + sent]
        first = self._placed(keys, counts)
        at = np.cumsum([0, *map(len, keys)])
        self._singles(singles, first[: at[1]])
        self._dependencies(dependencies, first[at[1] : at[2]])
        self._runs(runs[:, whole], first[at[2] :][whole])
        before = np.cumsum(each) - each  # events of earlier moves, then of earlier moves of this run
        starts = np.cumsum(sent) - sent
        self._moves(moves, runs[:, run_of], (first[at[2] :] + own - starts)[run_of] + before)
        self._write()

    def _placed(self, keys: list[Any], counts: list[Any]) -> Ints:
        """The first seq of each record, all kinds of records ordered by time."""
        key = np.concatenate([np.asarray(k, np.int64) for k in keys])
        count = np.concatenate([np.asarray(c, np.int64) for c in counts])
        order = np.argsort(key, kind="stable")
        ends = np.cumsum(count[order])
        first = np.empty(len(key), np.int64)
        first[order] = self.total + ends - count[order]
        self.total += int(ends[-1]) if len(ends) else 0
        return first

    def _add(self, kind: type[Row], seq: Ints, t: Ints, thread: Ints, task: Ints, **more: Any) -> None:
        if len(seq):
            columns = {"seq": seq, "t": t - self._start, "thread": thread, "task": task, **more}
            self._parts[kind].append(columns)

    def _singles(self, table: Ints, seq: Ints) -> None:
        t, code, thread, task, node, a, b, c, d = table
        ids = self._rows.ids
        at = ids(node)
        zero = np.zeros(len(t), np.int64)

        def kind(number: int, row: type[Row], **columns: Ints) -> None:
            chosen = code == number
            if chosen.any():
                picked = {name: column[chosen] for name, column in columns.items()}
                self._add(row, seq[chosen], t[chosen], thread[chosen], ids(task[chosen]), **picked)

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

    def _dependencies(self, noted: list[Any], first: Ints) -> None:
        for (t, task, nodes, counts), seq in zip(noted, first.tolist(), strict=True):
            many = len(nodes)
            thread = np.full(many, self.task_thread.get(task, 0))
            self._add(
                schema.Dependency, np.arange(seq, seq + many), np.full(many, t), thread,
                self._rows.ids(np.full(many, task)), node=self._rows.ids(nodes),
                count=np.array(counts, np.int64),
            )  # fmt: skip

    def _of_tasks(self, known: dict[int, int], task: Ints) -> Ints:
        """What is known of each task."""
        if len(task) and (task == task[0]).all():
            return np.full(len(task), known.get(int(task[0]), 0))
        tasks, where = np.unique(task, return_inverse=True)
        return np.array([known.get(int(t), 0) for t in tasks], np.int64)[where]

    def _runs(self, runs: Ints, seq: Ints) -> None:
        begin, ended, task, node, popped, released = runs
        thread, at, node_id = self._of_tasks(self.task_thread, task), self._rows.ids(task), self._rows.ids(node)
        queue = np.zeros(len(seq), np.int64)
        self._add(schema.Pop, seq, begin, thread, at, node=node_id, queue=queue, length=popped)
        self._add(schema.NodeBegin, seq + 1, begin, thread, at, node=node_id)
        self._add(schema.NodeEnd, seq + 2, ended, thread, at, node=node_id, failed=queue > 0)
        let = released == 1
        self._add(schema.SavedReleased, seq[let] + 3, ended[let], thread[let], at[let],
                  node=node_id[let])  # fmt: skip
        self._rows.release(node[let], ended[let] - self._start, task[let])

    def _moves(self, moves: Ints, runs: Ints, seq: Ints) -> None:
        """Each gradient handed on: a count goes down, a buffer fills, perhaps a node becomes ready."""
        if not len(seq):
            return
        _, target, index, nr, how, left, length = moves
        _, ended, task, source, _, _ = runs
        ids = self._rows.ids
        thread, at, node = self._of_tasks(self.task_thread, task), ids(task), ids(target)
        self._add(schema.Decrement, seq, ended, thread, at, node=node, source=ids(source),
                  index=index, remaining=left)  # fmt: skip
        made, ready = how % UNDEFINED == 0, left == 0

        def some(kind: type[Row], chosen: Any, offset: int, **columns: Ints) -> None:
            picked = {name: column[chosen] for name, column in columns.items()}
            self._add(kind, seq[chosen] + offset, ended[chosen], thread[chosen], at[chosen],
                      node=node[chosen], **picked)  # fmt: skip

        some(schema.BufferMade, made, 1, input_nr=nr, undefined=how >= UNDEFINED)
        some(schema.BufferAdded, ~made, 1, input_nr=nr, undefined=how >= UNDEFINED,
             in_place=how % UNDEFINED == IN_PLACE)  # fmt: skip
        depth = self._of_tasks(self.depth_of, task)
        some(schema.Push, ready, 2, queue=np.zeros(len(seq), np.int64), depth=depth, length=length)

    def _write(self) -> None:
        """Write the events of the window, kind by kind, each in order."""
        for kind, parts in self._parts.items():
            columns = _joined(parts)
            if len(parts) > 1:
                order = np.argsort(columns["seq"], kind="stable")
                columns = {name: column[order] for name, column in columns.items()}
            self.counted[kind.TABLE] += len(columns["seq"])
            self._writer.block(kind, columns)
        self._parts.clear()


def _sorted(table: Ints, by: Ints) -> Ints:
    """The records in the order of `by`; nearly always they are."""
    if (by[1:] >= by[:-1]).all():
        return table
    return np.ascontiguousarray(table[:, np.argsort(by, kind="stable")])


def _joined(parts: list[Columns]) -> Columns:
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
