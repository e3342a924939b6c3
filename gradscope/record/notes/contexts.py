"""Where each thread is: in which module, step, phase and graph task, as one number."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import count
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from gradscope.record.notes.log import Ints, Log, take_all
from gradscope.trace.schema import NONE, Phase, Span, Step, Thread
from gradscope.trace.shorthand.tables import Context

if TYPE_CHECKING:
    from gradscope.trace.writer import Writer

_NOWHERE = [NONE]  # in no module
SPAN = "id", "name", "phase", "parent", "thread", "step", "begin", "end"
STEP, ENDED = ("id", "number", "begin"), ("id", "end")
PHASES = {"forward": Phase.FORWARD, "backward": Phase.BACKWARD, "optimizer": Phase.OPTIMIZER}


class WatchedThread(Protocol):
    """One thread, as an engine knows it. It can be a key of a dict, and is never another's."""

    thread_id: int  # threading.get_ident()
    context: int  # the session's number for where the thread is; 0: it is to be asked for
    task: Any  # the graph task it is running (with its `record_nr`), or None


class Local(Protocol):
    """A `threading.local`."""

    @property
    def state(self) -> WatchedThread:
        """That of the calling thread, made when it first asks."""


class WatchedThreads(Protocol):
    """The threads of an engine."""

    @property
    def local(self) -> Local:
        """Where each thread finds its state."""

    @property
    def contexts_name_steps(self) -> bool:
        """Whether a context is one of a step; if not, its step follows from the time."""

    def threads(self) -> Iterable[WatchedThread]:
        """All that have asked for their state so far and are alive."""


class ThreadPlace:
    """One thread's position: a stack of modules, of phases, of spans."""

    __slots__ = ("forwards", "id", "modules", "phases", "spans", "step")

    def __init__(self, id: int) -> None:
        self.id = id
        self.step = NONE
        self.forwards: dict[int, int] = {}  # this step's numbers, by module
        self.modules: list[int] = []
        self.phases: list[tuple[Phase, int]] = []
        self.spans: list[int] = []


class Contexts:
    """Numbers for positions, and the rows of threads, steps and spans."""

    def __init__(
        self, writer: Writer, start: int, base: int, engine: WatchedThreads, *, rank: int
    ) -> None:
        self._writer = writer
        self._rank = rank
        self._start = start
        self._base = base
        self._local = engine.local
        self._names_steps = engine.contexts_name_steps
        self._begun: list[int] = []  # when each step began, where contexts do not name it
        self._begins = np.zeros(0, np.int64)  # of these, as far as they were asked for
        for state in engine.threads():  # former recordings' numbers
            state.context = 0
        self._lock = threading.RLock()
        self._numbers: dict[tuple[int, int, int, int, int], int] = {}
        self.rows: list[tuple[int, int, int, int, int]] = [(NONE, NONE, NONE, NONE, 0)]
        self._rows_written = 0
        self._places: dict[
            WatchedThread, ThreadPlace
        ] = {}  # a thread's id may come again; this not
        self._thread_ids = count()
        self._placing = threading.Lock()
        self._new_threads: list[tuple[int, int, int, int]] = []
        self._spans, self._ended_spans = Log(len(SPAN)), Log(2)
        self._texts: dict[str, int] = {}  # of what spans are called
        self.span_ids = count()
        self._steps = count()
        self.step = self._named_step = NONE
        self.step_number = self._step_began = 0
        self.on_step: Callable[[int], None] | None = None
        self.told_of_steps = False  # by an optimizer, or by the program
        self.limited = False  # some steps may be left out
        self.step_is_over = False  # once history is recorded again: see backward_ended
        self.moved: Callable[[WatchedThread], None] | None = None
        self.met: Callable[[], object] | None = None  # called in a thread that was not known before
        self._new_steps = Log(3)  # each ends when the next begins
        self._open_step, self._over = NONE, NONE  # the last that was written; when all was over
        self.begin_step(0)

    def now(self) -> int:
        return perf_counter_ns() - self._start

    def place(self, state: WatchedThread | None = None) -> ThreadPlace:
        """A thread's position; the calling thread's, if none is named."""
        state = state or self._local.state
        found = self._places.get(state)
        return self._new_place(state) if found is None else found

    def _new_place(self, state: WatchedThread) -> ThreadPlace:
        with self._placing:
            found = self._places.get(state)
            if found is None:
                made = ThreadPlace(next(self._thread_ids))
                thread = _thread(state.thread_id)
                name = self._writer.intern("" if thread is None else thread.name)
                native = 0 if thread is None else thread.native_id or 0
                self._new_threads.append((made.id, name, native, self._rank))
                found = self._places[state] = made
                if self.met is not None and state.thread_id == threading.get_ident():
                    self.met()
        return found

    def idents(self) -> dict[int, int]:
        """What `threading.get_ident()` is, or was, in each thread."""
        return {place.id: state.thread_id for state, place in list(self._places.items())}

    def names(self) -> dict[int, str]:
        """The names of threads that are alive."""
        idents = self.idents().items()
        threads = {id: _thread(ident) for id, ident in idents}
        return {id: each.name for id, each in threads.items() if each is not None}

    def thread(self) -> int:
        return self.place().id

    def module(self) -> int:
        modules = self.place().modules
        return modules[-1] if modules else NONE

    def of(self, state: WatchedThread) -> int:
        """The number of the calling thread's position; outside backwards its state keeps it."""
        place = self.place()
        task = state.task
        if place.phases:
            phase = place.phases[-1][0]
        else:
            phase = Phase.FORWARD if task is None else Phase.BACKWARD
        module, step = (place.modules or _NOWHERE)[-1], self._named_step
        key = (place.id, module, self.task_of(state), step, int(phase))
        number = self._numbers.get(key)
        if number is None:
            number = self._add(key)
        if task is None and not self.step_is_over:
            state.context = number
            if not place.phases:
                if place.step != step:
                    place.step, place.forwards = step, {}
                place.forwards[module] = number
        return number

    def at_call(self, state: WatchedThread, node: object) -> int:
        """The same, at a call that makes this node; where history is recorded, a step may begin."""
        if self.step_is_over and node is not None:
            self._begin_step(self.step_number + 1)
        return state.context or self.of(state)

    def here(self) -> tuple[WatchedThread, ThreadPlace]:
        """The calling thread, and where it is."""
        state = self._local.state
        return state, self._places.get(state) or self._new_place(state)

    def task_of(self, state: WatchedThread) -> int:
        """The graph task that a thread runs."""
        task = state.task
        if task is None or task.record_nr <= self._base:
            return NONE
        number: int = task.record_nr - self._base - 2 >> 1
        return number

    def steps_at(self, t: Any) -> Any:
        """The steps that were under way at these moments, where contexts do not name them."""
        new = self._begun[len(self._begins) :]
        if new:
            self._begins = np.append(self._begins, new)
        return np.searchsorted(self._begins, t, side="right") - 1

    def _add(self, key: tuple[int, int, int, int, int]) -> int:
        with self._lock:  # the number is a place among the rows
            self.rows.append(key)
            number = self._numbers[key] = len(self.rows) - 1
            return number

    def number(self, key: tuple[int, int, int, int, int]) -> int:
        """The number of a position that nobody is at: thread, module, graph task, step, phase."""
        found = self._numbers.get(key)
        return self._add(key) if found is None else found

    def changed(self, state: WatchedThread, place: ThreadPlace) -> None:
        """A thread has moved, and is at this place."""
        here = place.step == self._named_step and not self.step_is_over
        if state.task is None and not place.phases and here:
            state.context = place.forwards.get((place.modules or _NOWHERE)[-1], 0)
        else:
            state.context = 0
        if self.moved is not None:
            self.moved(state)

    # These two are called for every module, so what `changed` does stands in them.

    def enter(self, state: WatchedThread, module: int) -> None:
        """A thread has entered a module."""
        place = self._places.get(state) or self._new_place(state)
        place.modules.append(module)
        here = place.step == self._named_step and not self.step_is_over
        if state.task is None and not place.phases and here:
            state.context = place.forwards.get(module, 0)
        else:
            state.context = 0
        if self.moved is not None:
            self.moved(state)

    def leave_module(self) -> None:
        """The calling thread has left the module that it entered last."""
        state = self._local.state
        place = self._places.get(state) or self._new_place(state)
        modules = place.modules
        if modules:
            modules.pop()
        here = place.step == self._named_step and not self.step_is_over
        if state.task is None and not place.phases and here:
            state.context = place.forwards.get(modules[-1] if modules else NONE, 0)
        else:
            state.context = 0
        if self.moved is not None:
            self.moved(state)

    def enter_module(self, module: int) -> None:
        self.enter(self._local.state, module)

    def enter_phase(self, phase: str, name: str) -> None:
        kind, state = PHASES[phase], self._local.state
        place = self._places.get(state) or self._new_place(state)
        place.phases.append((kind, self.begin_span(name, kind, state)))
        self.changed(state, place)

    def leave_phase(self) -> bool:
        """The calling thread has left the phase that it entered last; False: it is in none."""
        state = self._local.state
        place = self._places.get(state) or self._new_place(state)
        if not place.phases:
            return False
        kind, span = place.phases.pop()
        self._end_span(place, span)
        self.changed(state, place)
        if kind is Phase.OPTIMIZER:
            self.told_of_steps = True
            self.begin_step(self.step_number + 1)
        return True

    # -- spans and steps ------------------------------------------------------------------------

    def begin_span(
        self, name: str, phase: Phase = Phase.USER, state: WatchedThread | None = None
    ) -> int:
        state = state or self._local.state
        place = self._places.get(state) or self._new_place(state)
        number = next(self.span_ids)
        parent = place.spans[-1] if place.spans else NONE
        text = self._texts.get(name)
        if text is None:
            text = self._texts[name] = self._writer.intern(name)
        now = perf_counter_ns() - self._start
        self._spans.note(number, text, phase, parent, place.id, self.step, now, NONE)
        place.spans.append(number)
        return number

    def begin_own_work(self, name: str) -> int:
        """A span of what gradscope does for itself in the middle of the program."""
        return self.begin_span(name, Phase.OWN_WORK)

    def end_span(self, number: int) -> None:
        self._end_span(self.place(), number)

    def _end_span(self, place: ThreadPlace, number: int) -> None:
        spans = place.spans
        if spans and spans[-1] == number:  # as nearly always
            spans.pop()
        elif number in spans:
            spans.remove(number)
        self._ended_spans.note(number, perf_counter_ns() - self._start)

    def backward_ended(self) -> None:
        """Nobody tells of steps, and a backward that comes again and again is over: so is its step.

        What the program does with the gradients belongs to it: the next begins where history is
        recorded again. Where steps may be left out it begins at once.
        """
        if self.limited:
            self.begin_step(self.step_number + 1)
        else:
            self.step_is_over = True
            self._local.state.context = 0

    def begin_step(self, number: int, at: int | None = None) -> None:
        """Close the running step and open the next, now or at a moment that is over."""
        self._begin_step(number, at)
        on_step = self.on_step
        if on_step is not None:
            on_step(number)

    def _begin_step(self, number: int, at: int | None = None) -> None:
        self.step_is_over = False
        with self._lock:  # of two threads, one comes first, and its step begins first
            now = perf_counter_ns() - self._start if at is None else at
            now = self._step_began = max(now, self._step_began)
            self.step = next(self._steps)
            self.step_number = number
            self._new_steps.note(self.step, number, now)
        if self._names_steps:
            self._named_step = self.step
            for state in list(self._places):
                state.context = 0
        else:
            self._begun.append(now)

    def finish(self) -> None:
        """Close what is still open, at the end of the recording."""
        now = self.now()
        if self.step != NONE:
            self._over, self.step = now, NONE
        for place in list(self._places.values()):
            for span in place.spans:
                self._ended_spans.note(span, now)
            place.spans.clear()

    def flush(self) -> None:
        """Hand new positions, threads, steps and spans to the writer."""
        block = self._writer.block
        rows = self.rows[self._rows_written :]
        if rows and self._names_steps:
            first, self._rows_written = self._rows_written, self._rows_written + len(rows)
            names = ("thread", "module", "task", "step", "phase")
            block(Context, {"id": list(range(first, first + len(rows))), **_columns(names, rows)})
        threads = take_all(self._new_threads)
        if threads:
            block(Thread, _columns(("id", "name", "native", "rank"), threads))
        steps = self._new_steps.take()
        self._put(steps, Step, STEP)
        self._put(self._spans.take(), Span, SPAN)
        self._put(self._ended_steps(steps), Step, ENDED, amend=True)
        self._put(self._ended_spans.take(), Span, ENDED, amend=True)

    def _ended_steps(self, new: Ints) -> Ints:
        """Steps that have ended, and when: as the next of these began, or all was over."""
        ids, ends = np.append(self._open_step, new[0]), new[2]
        if self._over == NONE:
            self._open_step, ids = int(ids[-1]), ids[:-1]
        else:
            self._open_step, ends = NONE, np.append(ends, self._over)
        ended = ids != NONE
        return np.stack([ids[ended], ends[ended]])

    def _put(self, table: Ints, row: Any, names: tuple[str, ...], *, amend: bool = False) -> None:
        if table.size:
            self._writer.block(row, dict(zip(names, table, strict=True)), amend=amend)


def _thread(ident: int) -> threading.Thread | None:
    if ident == threading.get_ident():
        return threading.current_thread()
    return next((each for each in threading.enumerate() if each.ident == ident), None)


def _columns(names: tuple[str, ...], rows: list[Any]) -> dict[str, Any]:
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
