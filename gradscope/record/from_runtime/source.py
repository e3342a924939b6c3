"""One recording of the runtime: passes the notes of the probe to the writer."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.errors import calls
from gradscope.record.acts.notes import EngineLook
from gradscope.record.from_runtime.cold.catalog import Catalog
from gradscope.record.from_runtime.cold.cold_rows import ColdRows
from gradscope.record.from_runtime.cold.operators import OperatorRows
from gradscope.record.from_runtime.error_lines.added import Answers
from gradscope.record.from_runtime.error_lines.recent import called, released
from gradscope.record.from_runtime.hot.compiling import Compiling
from gradscope.record.from_runtime.hot.frees import FOLLOWS_NODES, SMALLEST, Frees, RuntimeNodeEnds
from gradscope.record.from_runtime.hot.own_hooks import OwnHook
from gradscope.record.from_runtime.hot.runtime_probe import RuntimeProbe
from gradscope.record.from_runtime.paused import (
    PausedProbe,
    pause_watching,
    resume_watching,
    start_watching,
    stop_watching,
)
from gradscope.record.from_runtime.replays.replays import Replays
from gradscope.record.from_runtime.values.array_memory import address, memory
from gradscope.record.notes.layouts import Layouts
from gradscope.record.notes.log import take_all
from gradscope.record.notes.module_rows import ModuleRows
from gradscope.record.stops.stop_places import Stoppable, StopPlaces
from gradscope.runtime.core import probe
from gradscope.runtime.core.dispatch.operators.built_in import watch_paths
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.graph.node import LAST, Node
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.tensor.overriding import all_disabled
from gradscope.trace import schema
from gradscope.trace.shorthand import tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from gradscope.record.notes.log import Log
    from gradscope.record.session import Session

COMPILED = ("graph", "engine")
"""Levels that use C functions; at others values are measured, which takes far longer."""


def dtype_name(dtype: Any) -> str:
    """The name in PyTorch of a NumPy dtype."""
    return dtypes.from_numpy(dtype).name


class RuntimeSource:
    """Watches the runtime for one session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        writer, level = session.writer, session.level
        self.frees = Frees(session.start, SMALLEST[level])
        self.ends = RuntimeNodeEnds(session.base, session.start) if level in FOLLOWS_NODES else None
        self.catalog = Catalog(
            writer, session.sites, session.contexts, session.base, session.numbers.take, self.frees
        )
        self.modules = ModuleRows(writer, self.catalog.number_of, session.sites.is_machinery)
        self.layouts = Layouts(writer, self.frees.smallest, dtype_name)
        self.operators = OperatorRows(writer, saved=level != "graph")
        self.probe = RuntimeProbe(
            session, self.catalog, self.layouts, self.modules, self.frees, self.rest, dtype_name
        )
        self.probe.answers = Answers(
            session.base, session.sites, self.catalog.recent, self.look_back
        )
        self.catalog.leaves.acts = session.acts.acts
        session.closed = self.probe.finish
        self.catalog.on_task_end = self._task_ended
        self._graph_only = level == "graph"
        if self._graph_only:
            self.probe.without_events()
        self.rows = ColdRows(session, self.catalog, self.frees, graph_only=self._graph_only)
        self.replays = self.probe.replays = Replays(session, self.catalog, self.frees)
        self._paused: PausedProbe | None = None
        self._events = 0
        self._unfinished = 0
        self._compiled = level not in COMPILED  # or compiling is not needed
        self._records = 0  # records written since compiling was last considered
        self._compile(unused=True)
        if level in ("values", "full"):
            from gradscope.record.from_runtime.values.value_probe import ValueLook

            self.probe.look = look = ValueLook(session, self.catalog, whole=level == "full")
            self.catalog.on_tensor = look.unknown
            self.replays.reason = f"level {level} measures the values of each call"

    def _task_ended(self, *, creates: bool) -> None:
        self.session.backward_ended(creates=creates)

    # -- start and stop -------------------------------------------------------------------------

    def start(self) -> None:
        """Start watching."""
        session = self.session
        torch = sys.modules["gradscope.runtime"]
        number, module = self.catalog.number_of_early, self.modules.known
        of_nodes = tuple((Node, name) for name in ("register_hook", "register_prehook"))
        session.acts.start(
            torch,
            EngineLook(
                number, module, session.ids, all_disabled, _nothing_more, _made_at, _sequence_now,
                memory, address, self.catalog.leaves.alive, of_nodes,
            ),
        )  # fmt: skip
        self.modules.met, self.modules.names_buffers = [session.acts.met], True
        start_watching(self.probe)
        if self.ends is not None:
            self.ends.start()
        if session.places is not None:
            self.at(session.places)
        if self.session.level == "full":
            watch_paths(self, on=True)

    def stop(self) -> None:
        """Stop watching, and follow nothing any more."""
        stop_watching(self.probe)
        if self.session.level == "full":
            watch_paths(self, on=False)
        self.frees.stop()
        if self.ends is not None:
            self.ends.stop()

    def pause(self) -> PausedProbe:
        """Pause recording."""
        if self.probe.look is not None:
            self.probe.look.forget()
        self._paused = paused = pause_watching(self.probe)
        return paused

    def resume(self) -> None:
        """Resume recording."""
        resume_watching(self.probe, self._paused)
        self._paused = None

    def abandon(self) -> None:
        """Release everything in a forked child."""
        probe.leave(None)
        if self.ends is not None:
            self.ends.stop()

    # -- when to write --------------------------------------------------------------------------

    def rest(self) -> None:
        """Clear the probe's lists; flush if many notes wait, or if it is time."""
        with self.session.alone(wait=False) as alone:
            if not alone:
                return
            waiting = self.probe.clear()
        self.session.flush_if_worth_it(waiting)
        self._compile()

    def _compile(self, *, unused: bool = False) -> None:
        """Use C functions if they pay off. `unused`: nothing was recorded yet."""
        if not self._compiled:
            records, self._records = self._records, 0
            functions = Compiling.counted(records)
            if functions is not None:
                self._compiled = True
                self.probe.compile(functions, unused=unused)

    def events(self) -> int:
        """Number of events that were recorded, or that follow from recorded ones."""
        probe = self.probe
        waiting = 4 * len(probe.runs) + 3 * len(probe.moves) + len(probe.events)
        return self._events + waiting + self.replays.events

    def unseen(self) -> dict[str, int]:
        """Empty: the runtime reports everything."""
        return {}

    def leaves(self) -> list[int]:
        """Numbers of the leaves that got gradients and still exist."""
        return [leaf.record_nr & ~1 for leaf in self.catalog.leaves.alive() if leaf.record_nr]

    def unfinished(self) -> int:
        """Number of graph tasks that were running when notes were last flushed."""
        return self._unfinished

    def look_back(self) -> None:
        """Make records that are not flushed yet available to error messages."""
        probe, recent = self.probe, self.catalog.recent
        with self.session.alone(wait=True) as alone:
            if alone:
                logs = (probe.calls_one, probe.calls_two)
                recent.calls.waiting = [called(log.so_far()) for log in logs]
                runs, singles = probe.runs.so_far(), probe.events.so_far()
                recent.released.waiting = [released(runs, singles)]

    # -- stops ----------------------------------------------------------------------------------

    @property
    def stops(self) -> RuntimeSource:
        """The source itself implements stops: the runtime reports all events."""
        return self

    def at(self, places: StopPlaces) -> None:
        """Start stops in the runtime."""
        engine = Stoppable(OwnHook, _plainly, _numbers, self._aside)
        self.replays.reason = "the program can be stopped at any of its calls"
        self.probe.hooked, self.session.module_paths = places.hook, self.modules.paths
        places.start(sys.modules["gradscope.runtime"], engine)

    def reach(self, tensors: Any, frame: Any) -> None:
        """Does nothing: all nodes are known."""

    def so_far(self, *, running: bool) -> None:
        """Does nothing: everything recorded is written already."""

    @contextmanager
    def _aside(self) -> Iterator[None]:
        self.pause()
        try:
            yield
        finally:
            self.resume()

    # -- rows -----------------------------------------------------------------------------------

    def flush(self, *, last: bool) -> None:
        """Pass all notes so far to the writer."""
        if self.probe.look is not None:
            self.probe.look.flush()
        rows = self.rows
        rows.freed()
        if self.ends is not None:
            rows.gone(self.ends.take())
        self._engine()
        self._unfinished += rows.tasks()
        rows.full_rows()
        self._calls(self.probe.calls_one, self.probe.calls_two)
        if self.probe.look is not None:
            rows.paths(self.probe.look.paths)
        rows.exceptions()
        self.modules.flush(self.session.ids)
        self.probe.ranks.flush_ranks()
        rows.described()
        self.replays.flush()
        self.layouts.flush()

    def _calls(self, one: Log, two: Log) -> None:
        session = self.session
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
                columns["begin"] - session.start,
                columns["end"] - session.start,
            )
            seen = table[7 : 7 + inputs] - (session.base + 2)
            columns["first"] = seen[0]
            columns["second"] = seen[1] if inputs == 2 else np.full(table.shape[1], schema.NONE)
            columns["site"], columns["layout"] = table[-2], table[-1]
            session.put(tables.ShortCall, {"number": session.ids(table[0]), **columns})

    def _engine(self) -> None:
        """Write runs, passed gradients, single events and counts."""
        session = self.session
        start, ids, put = session.start, session.ids, session.put
        runs, moves, singles = (
            log.take() for log in (self.probe.runs, self.probe.moves, self.probe.events)
        )
        strange = runs[2] <= session.base  # of tasks that began before the recording
        if strange.any():
            moves = moves[:, ~np.isin(moves[0], runs[0][strange])]
            runs = runs[:, ~strange]
        self.catalog.recent.released.keep(released(runs, singles))
        if runs.shape[1]:
            begin, ended, task, node, popped, told = runs
            put(tables.ShortRun, {
                "begin": begin - start, "ended": ended - start, "task": ids(task),
                "node": ids(node), "popped": popped, "told": told,
            })  # fmt: skip
        if moves.shape[1]:
            begin, target, index, nr, how, left, length = moves
            put(tables.ShortMove, {
                "begin": begin - start, "target": ids(target), "index": index, "nr": nr,
                "how": how, "left": left, "length": length,
            })  # fmt: skip
        if singles.shape[1]:
            t, code, thread, task, node, a, b, c, d = singles
            put(tables.ShortSingle, {
                "t": t - start, "code": code, "thread": thread, "task": ids(task),
                "node": ids(node), "a": a, "b": b, "c": c, "d": d,
            })  # fmt: skip
        counted = take_all(self.catalog.dependencies)
        if counted and not self._graph_only:
            times, tasks, nodes, counts = zip(*counted, strict=True)
            many = list(map(len, nodes))
            # Records that must be written cell by cell (Note [Bounded expansion]) are written
            # first.
            put(tables.ShortCounted, {
                "count": np.concatenate(counts), "node": ids(np.concatenate(nodes)),
                "t": np.repeat(np.array(times) - start, many), "task": np.repeat(ids(tasks), many),
            })  # fmt: skip
        self._records += runs.shape[1] + moves.shape[1]
        self._events += 4 * runs.shape[1] + 3 * moves.shape[1] + singles.shape[1]


def _plainly(_: FrameType) -> Any:
    """Calls a function directly: warnings of the runtime find the program's line themselves."""
    return calls


def _numbers(tensor: Any) -> Any:
    """The values of a floating-point tensor as an array; None for other tensors."""
    array = getattr(tensor, "_array", None)
    return array if array is not None and array.dtype.kind in "fc" else None


def _made_at(node: Any) -> int | None:
    """The sequence number of a node; None for an accumulation node."""
    return None if node.sequence_nr == LAST else int(node.sequence_nr)


def _sequence_now() -> int:
    """The sequence number of the next node of this thread."""
    return int(repr(local.state.sequence)[len("count(") : -1])


def _nothing_more(own: Any, ours: Any | None) -> None:
    """Adds nothing to errors: there is no list of the runtime's functions."""
