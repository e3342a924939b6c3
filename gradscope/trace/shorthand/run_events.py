"""Expands short rows of runs and moves to the events they stand for, in order."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from gradscope.errors import UnreadableTraceError
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import events
from gradscope.trace.schema.declare import CELLS, EVENTS, NONE, Event, columns
from gradscope.trace.shorthand.short_columns import Ints, Tables, lookup

Rows = dict[str, Any]

IN_PLACE, UNDEFINED, UNKNOWN = 2, 4, 8
"""In `short.move.how`."""

MODULE = 32
"""In short form, the kind of a module's hook is increased by this times (the module's id + 1)."""


class ShortRuns:
    """Orders short records by time and numbers their events.

    # Note [Order of events]
    A run is one record but many events. No other event of its thread can be between them, so a run
    is placed as a whole, by its time, and its events are numbered within it.
    """

    def __init__(self, tables: Tables, tasks: Rows) -> None:
        self._single = tables["short.event"]
        self._counted = tables["short.dependency"]
        self._run = tables["short.run"]
        self._move = tables["short.move"]
        self._tasks = tasks
        self.made: defaultdict[type[Event], list[Rows]] = defaultdict(list)
        self.released: list[tuple[Ints, Ints, Ints]] = []

    def write(self) -> None:
        """Fill `made` and `released`."""
        order = np.argsort(self._run["begin"], kind="stable")
        run = {name: self._run[name][order] for name in
               ("begin", "ended", "task", "node", "popped", "told")}  # fmt: skip
        run_of = np.searchsorted(run["begin"], self._move["begin"])
        ended = np.flatnonzero(np.append(run["begin"], NONE)[run_of] == self._move["begin"])
        by_run = ended[np.argsort(run_of[ended], kind="stable")]  # without a run that was cut off
        run_of = run_of[by_run]
        move = {name: self._move[name][by_run] for name in
                ("target", "index", "nr", "how", "left", "length")}  # fmt: skip
        whole = run["told"] >= 0
        own = np.where(whole, 3 + (run["told"] == 1), 0)
        each = 1 + (move["how"] != UNKNOWN) + (move["left"] == 0)
        sent = np.bincount(run_of, weights=each, minlength=len(order)).astype(np.int64)
        singles = self._single.rows
        keys = [self._single["t"], self._counted["t"], np.where(whole, run["begin"], run["ended"])]
        counts = [np.ones(singles + self._counted.rows, np.int64), own + sent]
        first = _placed(np.concatenate(keys), np.concatenate(counts))
        self._singles(first[:singles])
        self._dependencies(first[singles : singles + self._counted.rows])
        start = first[singles + self._counted.rows :]
        self._runs({name: c[whole] for name, c in run.items()}, start[whole])
        before = np.cumsum(each) - each  # events of all earlier moves of the same run
        base = (start + own - (np.cumsum(sent) - sent))[run_of]
        self._moves(move, {name: c[run_of] for name, c in run.items()}, base + before)

    def _of_task(self, name: str, task: Ints) -> Ints:
        return lookup(self._tasks["id"], self._tasks[name], task, 0)

    def _add(
        self, kind: type[Event], seq: Ints, t: Ints, thread: Ints, task: Ints, **more: Any
    ) -> None:
        if len(seq):
            self.made[kind].append({"seq": seq, "t": t, "thread": thread, "task": task, **more})

    def _singles(self, seq: Ints) -> None:
        table = self._single
        code = table["code"]
        forms = {number: (kind, names) for kind in EVENTS.values()
                 for number, names in kind.SHORT.items()}  # fmt: skip
        for number in distinct(code).tolist():
            if number not in forms:
                raise UnreadableTraceError(f"short.event.code {number} is not the code of an event")
            kind, names = forms[number]
            chosen = code == number
            types = {column.name: column.type for column in columns(kind)}
            more: Rows = {"node": table["node"][chosen]} if "node" in types else {}
            for letter, name in zip(CELLS, names, strict=False):
                value = table[letter][chosen]
                more[name] = value != 0 if types[name] is bool else value
            if kind is events.HookBegin:
                more["module"], more["hook"] = np.divmod(more["hook"], MODULE)
                more["module"] -= 1
            if kind in QUEUED and "queue" not in names:
                more["queue"] = table["thread"][chosen]
            t, task = table["t"][chosen], table["task"][chosen]
            self._add(kind, seq[chosen], t, table["thread"][chosen], task, **more)
            if kind is events.SavedReleased:
                self.released.append((table["node"][chosen], t, task))

    def _dependencies(self, seq: Ints) -> None:
        table = self._counted
        thread = self._of_task("thread", table["task"])
        self._add(events.Dependency, seq, table["t"], thread, table["task"],
                  node=table["node"], count=table["count"])  # fmt: skip

    # Each thread has its own queue, which has the number of the thread.

    def _runs(self, run: Rows, seq: Ints) -> None:
        thread, task, node = self._of_task("thread", run["task"]), run["task"], run["node"]
        self._add(events.Pop, seq, run["begin"], thread, task, node=node, queue=thread,
                  length=run["popped"])  # fmt: skip
        self._add(events.NodeBegin, seq + 1, run["begin"], thread, task, node=node)
        self._add(events.NodeEnd, seq + 2, run["ended"], thread, task, node=node,
                  failed=np.zeros(len(seq), np.bool_))  # fmt: skip
        let = run["told"] == 1
        t = run["ended"][let]
        self._add(events.SavedReleased, seq[let] + 3, t, thread[let], task[let], node=node[let])
        self.released.append((node[let], t, task[let]))

    def _moves(self, move: Rows, run: Rows, seq: Ints) -> None:
        """For each gradient passed on: a decrement, a buffer event, a push if the node is ready.

        There is no buffer event where it is not known whether the gradient was added.
        """
        t, task, node, how = run["ended"], run["task"], move["target"], move["how"]
        thread = self._of_task("thread", task)
        self._add(events.Decrement, seq, t, thread, task, node=node, source=run["node"],
                  index=move["index"], remaining=move["left"])  # fmt: skip

        def some(kind: type[Event], chosen: Any, offset: Any, **columns: Any) -> None:
            picked = {name: column[chosen] for name, column in columns.items()}
            self._add(kind, (seq + offset)[chosen], t[chosen], thread[chosen], task[chosen],
                      node=node[chosen], **picked)  # fmt: skip

        known, made, undefined = how != UNKNOWN, how % UNDEFINED == 0, how >= UNDEFINED
        some(events.BufferMade, known & made, 1, input_nr=move["nr"], undefined=undefined)
        some(events.BufferAdded, known & ~made, 1, input_nr=move["nr"],
             in_place=how % UNDEFINED == IN_PLACE, undefined=undefined)  # fmt: skip
        some(events.Push, move["left"] == 0, 1 + known, queue=thread,
             depth=self._of_task("depth", task), length=move["length"])  # fmt: skip


QUEUED = {events.Pop, events.Push}


def _placed(key: Ints, count: Ints) -> Ints:
    """The first seq of each record, with all records ordered by time."""
    order = np.argsort(key, kind="stable")
    ends = np.cumsum(count[order])
    first = np.empty(len(key), np.int64)
    first[order] = ends - count[order]
    return first
