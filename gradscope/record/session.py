"""One recording: the probe's notes on their way into the writer, window by window."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.errors import RecordingError
from gradscope.record.cold.catalog import Catalog
from gradscope.record.cold.modules import Modules
from gradscope.record.cold.operators import Operators
from gradscope.record.cold.rows import Rows
from gradscope.record.error_lines.added import Answers
from gradscope.record.error_lines.recent import called, released
from gradscope.record.hot.compiling import Compiling
from gradscope.record.hot.contexts import Contexts
from gradscope.record.hot.frees import SMALLEST, Frees
from gradscope.record.hot.layouts import Layouts
from gradscope.record.hot.log import taken
from gradscope.record.hot.numbers import Numbers
from gradscope.record.hot.runtime_probe import RuntimeProbe
from gradscope.record.hot.sites import Sites
from gradscope.record.one_at_a_time import Alone
from gradscope.trace import schema
from gradscope.trace.shorthand import tables as short

if TYPE_CHECKING:
    from gradscope.record.hot.log import Ints, Log
    from gradscope.trace.writer import Writer

MANY = 1 << 16
"""So many records are worth a window in the file."""

COMPILED = ("graph", "engine")
"""At other levels values are looked at, which takes far longer than noting."""

SOON, CALM = 50_000_000, 750_000_000
"""After so many nanoseconds notes are flushed at the next occasion, however few there are: soon at
first, since a program may not live long; then after twice as many each time, up to CALM."""


class Session:
    """Everything one recording needs. `flush` may be called at any time, from any thread."""

    def __init__(self, writer: Writer, start: int, *, level: str = "engine") -> None:
        self.writer = writer
        self.start = start
        self.numbers = Numbers()
        self.base = self.numbers.base
        self.sites = Sites(writer, whole=level == "full")
        self.contexts = Contexts(writer, start, self.base)
        self.frees = Frees(start, SMALLEST[level])
        self.catalog = Catalog(
            writer, self.sites, self.contexts, self.base, self.numbers.take, self.frees
        )
        self.modules = Modules(writer, self.catalog.number_of)
        self.layouts = Layouts(writer, self.frees.smallest)
        self.operators = Operators(writer, saved=level != "graph")
        self.probe = RuntimeProbe(
            self.numbers, self.sites, self.layouts, self.contexts, self.catalog, self.frees
        )
        self.probe.answers = Answers(self.base, self.sites, self.catalog.recent, self.look_back)
        self.probe.on_rest = self.rest
        self.probe.module_id = self.modules.id
        self.catalog.on_task_end = self.flush_if_due
        self._graph_only = level == "graph"
        if self._graph_only:
            self.probe.without_events()
        self.rows = Rows(self, graph_only=self._graph_only)
        self.events = 0
        self.unfinished = 0  # graph tasks that have begun and not ended
        self._flushed = start
        self._calm = SOON
        self._alone = Alone()
        self._closed = False
        self._compiled = level not in COMPILED  # or needs no compiling
        self._records = 0  # written since that was last considered
        self._compile(unused=True)

    def flush_if_due(self, *, wait: bool = True) -> None:
        """Flush when the last time was long ago, so that little is lost if the program dies."""
        if time.perf_counter_ns() - self._flushed > self._calm:
            self._calm = min(2 * self._calm, CALM)
            self._flush_if_open(wait=wait)

    def rest(self) -> None:
        """Clear the probe's lists; flush when there is much to write, or it is time."""
        with self._alone(wait=False) as alone:
            if not alone:
                return
            waiting = self.probe.clear()
        if waiting >= MANY:
            self._flush_if_open()
        else:
            self.flush_if_due()
        self._compile()

    def _compile(self, *, unused: bool = False) -> None:
        """Leave noting to C functions, if there is reason to. `unused`: nothing was noted yet."""
        if not self._compiled:
            records, self._records = self._records, 0
            functions = Compiling.counted(records)
            if functions is not None:
                self._compiled = True
                self.probe.compile(functions, unused=unused)

    def waiting_events(self) -> int:
        """How many events the notes stand for that have not been handed on."""
        probe = self.probe
        return 4 * len(probe.runs) + 3 * len(probe.moves) + len(probe.events)

    def flush(self) -> bool:
        """Hand all notes so far to the writer; False if that was interrupted for this."""
        if self._closed:
            raise RecordingError("this recording has ended, and its notes are written")
        return self._flush_if_open()

    def _flush_if_open(self, *, wait: bool = True) -> bool:
        """The same; after the end threads may still run that the program left behind."""
        with self._alone(wait=wait) as alone:
            if not alone or self._closed:
                return False
            self._flush()
            self.writer.commit()
            self._flushed = time.perf_counter_ns()
            return True

    def look_back(self) -> None:
        """Let errors be told of what has not been flushed, too."""
        probe, recent = self.probe, self.catalog.recent
        with self._alone(wait=True) as alone:
            if alone:
                logs = (probe.calls_one, probe.calls_two)
                recent.calls.waiting = [called(log.so_far()) for log in logs]
                runs, singles = probe.runs.so_far(), probe.events.so_far()
                recent.released.waiting = [released(runs, singles)]

    def _flush(self) -> None:
        """What names others goes first: threads may be noting both, and a name needs its row."""
        if self.probe.look is not None:
            self.probe.look.flush()
        rows = self.rows
        rows.freed()
        self._engine()
        self.unfinished += rows.tasks()
        rows.full_rows()
        self._calls(self.probe.calls_one, self.probe.calls_two)
        if self.probe.look is not None:
            rows.paths(self.probe.look.paths)
        rows.exceptions()
        self.modules.flush(self.ids)
        rows.described()
        rows.where()
        self.contexts.flush()
        self.sites.flush()
        self.layouts.flush()

    def ids(self, numbers: Any) -> Ints:
        """Numbers as the trace has them: halved, from 0; NONE for `base`."""
        return np.asarray(numbers, np.int64) - (self.base + 2) >> 1

    def _calls(self, one: Log, two: Log) -> None:
        for log, inputs in ((one, 1), (two, 2)):
            table = log.take()
            if not table.shape[1]:
                continue
            self._records += table.shape[1]
            self.catalog.recent.calls.keep(called(table))
            names = ("begin", "end", "context", "op", "sequence", "topological")
            columns = dict(zip(names, table[1:7], strict=True))
            self.operators.write(columns["op"])
            columns["begin"], columns["end"] = (
                columns["begin"] - self.start,
                columns["end"] - self.start,
            )
            seen = table[7 : 7 + inputs] - (self.base + 2)
            columns["first"] = seen[0]
            columns["second"] = seen[1] if inputs == 2 else np.full(table.shape[1], schema.NONE)
            columns["site"], columns["layout"] = table[-2], table[-1]
            self._put(short.Call, {"number": self.ids(table[0]), **columns})

    def _put(self, row: Any, columns: dict[str, Any]) -> None:
        """A block of columns nobody else holds."""
        for column in columns.values():
            if isinstance(column, np.ndarray):
                column.flags.writeable = False
        self.writer.block(row, columns)

    def _engine(self) -> None:
        """Runs, gradients handed on, single events, counts."""
        start, ids = self.start, self.ids
        runs, moves, singles = (
            log.take() for log in (self.probe.runs, self.probe.moves, self.probe.events)
        )
        strange = runs[2] <= self.base  # of tasks that began before the recording did
        if strange.any():
            moves = moves[:, ~np.isin(moves[0], runs[0][strange])]
            runs = runs[:, ~strange]
        self.catalog.recent.released.keep(released(runs, singles))
        if runs.shape[1]:
            begin, ended, task, node, popped, told = runs
            self._put(short.Run, {
                "begin": begin - start, "ended": ended - start, "task": ids(task),
                "node": ids(node), "popped": popped, "told": told,
            })  # fmt: skip
        if moves.shape[1]:
            begin, target, index, nr, how, left, length = moves
            self._put(short.Move, {
                "begin": begin - start, "target": ids(target), "index": index, "nr": nr,
                "how": how, "left": left, "length": length,
            })  # fmt: skip
        if singles.shape[1]:
            t, code, thread, task, node, a, b, c, d = singles
            self._put(short.Single, {
                "t": t - start, "code": code, "thread": thread, "task": ids(task),
                "node": ids(node), "a": a, "b": b, "c": c, "d": d,
            })  # fmt: skip
        counted = taken(self.catalog.dependencies)
        if counted and not self._graph_only:
            times, tasks, nodes, counts = zip(*counted, strict=True)
            many = list(map(len, nodes))
            # What must be written cell by cell (Note [Bounded expansion]) is what comes first.
            self._put(short.Counted, {
                "count": np.concatenate(counts), "node": ids(np.concatenate(nodes)),
                "t": np.repeat(np.array(times) - start, many), "task": np.repeat(ids(tasks), many),
            })  # fmt: skip
        self._records += runs.shape[1] + moves.shape[1]
        self.events += 4 * runs.shape[1] + 3 * moves.shape[1] + singles.shape[1]

    def close(self) -> None:
        """Write what is left; nothing can be written after it."""
        self.contexts.finish()
        self.frees.stop()
        try:
            self.flush()
        finally:
            self._closed = True
            self.numbers.retire()
