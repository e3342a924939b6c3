"""The context: one number for a thread's module, step, phase and graph task."""

from __future__ import annotations

import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING

import numpy as np

from gradscope.record.notes.log import Ints, columns_of
from gradscope.record.notes.positions.spans import Spans
from gradscope.record.notes.positions.thread_places import ThreadPlace, ThreadPlaces
from gradscope.record.notes.positions.training_steps import Steps
from gradscope.trace.schema import NONE, Phase
from gradscope.trace.shorthand.tables import ShortContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gradscope.record.notes.positions.thread_places import WatchedThread, WatchedThreads
    from gradscope.trace.writer import Writer


class Contexts:
    """Numbers for positions of threads, and their changes."""

    def __init__(
        self, writer: Writer, start: int, base: int, engine: WatchedThreads, *, rank: int
    ) -> None:
        self._writer = writer
        self.start = start
        self._base = base
        self._local = engine.local
        for state in engine.threads():  # numbers of earlier recordings
            state.context = 0
        self._lock = threading.RLock()
        self._numbers: dict[tuple[int, int, int, int, int], int] = {}
        self.rows: list[tuple[int, int, int, int, int]] = [(NONE, NONE, NONE, NONE, 0)]
        """Thread, module, graph task, step and phase of each context, by its number."""
        self._rows_written = 0
        self.moved: Callable[[WatchedThread], None] | None = None
        """Called when the position of a thread has changed."""
        self.threads = ThreadPlaces(writer, engine.local, rank=rank)
        self._places = self.threads.known
        named = self._name_steps = engine.contexts_name_steps
        self.steps = Steps(writer, start, self.threads, contexts_name_them=named)
        self.spans = Spans(writer, start, self.threads, self.steps)
        self.steps.begin(0)

    def now(self) -> int:
        return perf_counter_ns() - self.start

    def of(self, state: WatchedThread) -> int:
        """The context of the calling thread; outside backwards it is stored in its state."""
        place = self.threads.here()
        task = state.task
        if place.optimizers:
            phase = Phase.OPTIMIZER
        else:
            phase = Phase.FORWARD if task is None else Phase.BACKWARD
        module, step = place.module, self.steps.in_contexts
        key = (place.id, module, self.task_of(state), step, int(phase))
        number = self._numbers.get(key)
        if number is None:
            number = self._add(key)
        if task is None and not self.steps.is_over:
            state.context = number
            if not place.optimizers:
                if place.step != step:
                    place.step, place.forwards = step, {}
                place.forwards[module] = number
        return number

    def at_call(self, state: WatchedThread, node: object) -> int:
        """The context at a call that creates this node, with which a step may begin."""
        if self.steps.is_over and node is not None:
            self.steps.begin_quietly()
        return state.context or self.of(state)

    def task_of(self, state: WatchedThread) -> int:
        """The graph task that a thread runs."""
        task = state.task
        if task is None or task.record_nr <= self._base:
            return NONE
        number: int = task.record_nr - self._base - 2 >> 1
        return number

    def _add(self, key: tuple[int, int, int, int, int]) -> int:
        with self._lock:  # the number is an index of the rows
            self.rows.append(key)
            number = self._numbers[key] = len(self.rows) - 1
            return number

    def number(self, key: tuple[int, int, int, int, int]) -> int:
        """The context for any thread, module, graph task, step and phase."""
        found = self._numbers.get(key)
        return self._add(key) if found is None else found

    # -- changes --------------------------------------------------------------------------------

    def changed(self, state: WatchedThread, place: ThreadPlace) -> None:
        """Called when a thread has moved to this position."""
        here = place.step == self.steps.in_contexts and not self.steps.is_over
        if state.task is None and not place.optimizers and here:
            state.context = place.forwards.get(place.module, 0)
        else:
            state.context = 0
        if self.moved is not None:
            self.moved(state)

    # These two are called for every module, so `changed` is inlined in them.

    def enter_module(self, module: int) -> None:
        """The calling thread has entered a module."""
        state, steps = self._local.state, self.steps
        place = self._places.get(state) or self.threads.of(state)
        place.modules.append(module)
        here = place.step == steps.in_contexts and not steps.is_over
        if here and state.task is None and not place.optimizers:
            state.context = place.forwards.get(module, 0)
        else:
            state.context = 0
        if self.moved is not None:
            self.moved(state)

    def leave_module(self) -> None:
        """The calling thread has left the module it entered last."""
        state, steps = self._local.state, self.steps
        place = self._places.get(state) or self.threads.of(state)
        modules = place.modules
        if modules:
            modules.pop()
        here = place.step == steps.in_contexts and not steps.is_over
        if here and state.task is None and not place.optimizers:
            state.context = place.forwards.get(modules[-1] if modules else NONE, 0)
        else:
            state.context = 0
        if self.moved is not None:
            self.moved(state)

    def enter_optimizer(self, name: str) -> None:
        """An optimizer's step begins in the calling thread."""
        state = self._local.state
        place = self.threads.of(state)
        place.optimizers.append(self.spans.begin(name, Phase.OPTIMIZER))
        self.changed(state, place)

    def leave_optimizer(self, *, nested: bool = False) -> None:
        """An optimizer's step, and with it a step of the training, ends in the calling thread.

        `nested`: it was a part of another optimizer's step, which goes on.
        """
        state = self._local.state
        place = self.threads.of(state)
        if place.optimizers:  # else it began during a pause
            self.spans.end(place.optimizers.pop())
            if not nested:
                place.optimizers.clear()  # of steps that raised
            self.changed(state, place)
        self.steps.is_told = True
        if not nested:
            self.steps.begin()

    def backward_ended(self) -> None:
        """Without reported steps, the end of a backward that is called repeatedly ends a step.

        What the program does with the gradients belongs to that step: the next one begins when
        autograd records again. If steps may be left out, it begins at once.
        """
        if self.steps.may_be_left_out:
            self.steps.begin()
        else:
            self.steps.is_over = True
            self._local.state.context = 0

    def columns(self, numbers: Iterable[int]) -> Ints:
        """Thread, module, graph task, step and phase of these contexts, a row each."""
        rows = self.rows
        return np.array([rows[number] for number in numbers], np.int64).reshape(-1, 5)

    # -- rows -----------------------------------------------------------------------------------

    def finish(self) -> None:
        """Close what is still open, at the end of the recording."""
        self.steps.finish()
        self.spans.finish()

    def flush(self) -> None:
        """Pass new positions, threads, steps and spans to the writer."""
        rows = self.rows[self._rows_written :]
        if rows and self._name_steps:
            first, self._rows_written = self._rows_written, self._rows_written + len(rows)
            columns = columns_of(("thread", "module", "task", "step", "phase"), rows)
            numbers = list(range(first, first + len(rows)))
            self._writer.block(ShortContext, {"id": numbers, **columns})
        self.threads.flush()
        self.steps.flush()
        self.spans.flush()
