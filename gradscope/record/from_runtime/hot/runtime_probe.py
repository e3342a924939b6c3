"""The probe of gradscope's own runtime: records what is reported to it, at minimal cost.

See Note [Numbers] in record/notes/record_numbers.py.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from gradscope.record.from_runtime.hot.backward_notes import BackwardNotes
from gradscope.record.from_runtime.hot.call_notes import CallNotes
from gradscope.record.from_runtime.hot.rank_notes import RankNotes
from gradscope.record.notes.positions.program_notes import ProgramNotes
from gradscope.runtime.core import probe
from gradscope.runtime.core.autograd.engine.graph_task import GraphTask
from gradscope.runtime.core.graph.node import Node
from gradscope.runtime.core.state.thread import ThreadState
from gradscope.runtime.core.tensors.memory.storage import VersionCounter
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from gradscope.record.from_runtime.c_functions.tellers import Follower
    from gradscope.record.from_runtime.c_functions.telling import Functions
    from gradscope.record.from_runtime.cold.catalog import Catalog
    from gradscope.record.from_runtime.hot.frees import Frees
    from gradscope.record.notes.layouts import Layouts
    from gradscope.record.notes.module_rows import ModuleRows
    from gradscope.record.session import Session

PACE = 8_000_000
"""Nanoseconds of a backward after which notes are also cleared."""

SLOTS = (
    (Node, "record_nr"), (Node, "sequence_nr"), (Node, "topological_nr"), (Tensor, "record_nr"),
    (Tensor, "_edge"), (Tensor, "_versions"), (VersionCounter, "value"), (ThreadState, "context"),
    (ThreadState, "grad_enabled"),
)  # fmt: skip
"""Slots that C functions read; see from_runtime/c_functions/telling.py for the order."""

FOLLOWED = ((Node, "record_nr"), (GraphTask, "record_nr"), (GraphTask, "last_told"))


class RuntimeProbe(CallNotes, BackwardNotes, RankNotes, ProgramNotes):
    """The notes of one recording, and whether C functions write them. `on_rest` clears them."""

    def __init__(
        self, session: Session, catalog: Catalog, layouts: Layouts, modules: ModuleRows,
        frees: Frees, on_rest: Callable[[], None], dtype_name: Callable[[Any], str],
    ) -> None:  # fmt: skip
        CallNotes.__init__(self, session, catalog, layouts, frees)
        BackwardNotes.__init__(self, session, catalog)
        RankNotes.__init__(self, session, catalog, dtype_name)
        ProgramNotes.__init__(self, session.contexts, session.acts, modules)
        self.summary, self.faults = session.acts.summaries, session.faults
        self.clock = perf_counter_ns
        self.logs = (self.calls_one, self.calls_two, self.runs, self.moves, self.events)
        self.replays: Any = None  # receives replays of captured steps
        self.on_rest = on_rest
        self._due = 0  # when notes are cleared next, if a backward runs
        self._follower: Follower | None = None

    def without_events(self) -> None:
        """Record the graph only, without the events of backwards."""
        self.ran = self.sent = _nothing  # type: ignore[method-assign]
        self.note = _nothing  # type: ignore[method-assign]

    def compile(self, functions: Functions, *, unused: bool) -> None:
        """From now on, record with C functions. See Note [Numbers without objects]."""
        from gradscope.record.from_runtime.c_functions.tellers import CallTeller, Follower

        one, two, runs, moves, _ = (log.compile(functions) for log in self.logs)
        self.event = self.events.note
        table = self.code_sites.compile(functions)
        self._site = table.site
        teller = CallTeller(
            functions, (one, two), table,
            self.numbers.compile(functions, unused=unused), self.base, self.layouts.known, SLOTS,
            self.arguments, self.call,
        )  # fmt: skip
        self.noted = teller.noted
        if self.ran is not _nothing:
            follower = self._follower = Follower(
                functions, (runs, moves), FOLLOWED, (self.ran, self.sent), self.rest
            )
            self.ran, self.sent = follower.ran, follower.sent  # type: ignore[method-assign]
            self.counted = follower.counted  # type: ignore[method-assign]
        if probe.here is self:  # and not its replacement during a pause
            probe.take_callables(self)

    def finish(self) -> None:
        """Release references at the end of the recording, because notes are no longer read.

        A call that is running in another thread holds the callable that it found, and so all its
        data; a call that starts now finds the Python version.
        """
        self.on_rest = self.catalog.on_task_end = _nothing
        self.answers = self.catalog.on_tensor = self.replays = None
        for log in self.logs:
            log.finish()
        self.event = self.events.note
        self.code_sites.finish()
        self._site = self.code_sites.of
        twins = ("noted",) if self._follower is None else ("noted", "ran", "sent", "counted")
        for name in twins:
            self.__dict__.pop(name, None)
        self._follower = None

    def differentiates(self, roots: Sequence[Any]) -> None:
        """An outermost backward is requested from these tensors."""
        if self.summary.reads_loss:
            self.faults.guarded("a loss was read", self.summary.roots, roots)

    def step_begins(self, optimizer: Any, suffix: str = "") -> None:
        """Called before an optimizer writes its parameters, also during a pause."""
        if self.summary.measures:
            self.faults.guarded("a step was measured", self.summary.stepping, optimizer)
        super().step_begins(optimizer, suffix)

    def step_written(self, optimizer: Any, frame: FrameType) -> None:
        """Called after an optimizer has written its parameters."""
        super().step_written(optimizer, frame)
        self.measured(optimizer)

    def measured(self, optimizer: Any) -> None:
        """Measure a step of this optimizer if it is one of those to measure."""
        if self.summary.measures:
            self.faults.guarded("a step was measured", self.summary.stepped, optimizer)

    def rest(self) -> None:
        """Clear the lists, and write their contents if necessary."""
        self.on_rest()
        self._due = perf_counter_ns() + PACE
        follower = self._follower
        if follower is not None:
            follower.rest_after(self._due)

    def clear(self) -> int:
        """Clear the lists. Returns how many records wait to be written."""
        for log in self.logs:
            log.rest()
        return sum(map(len, self.logs))


def _nothing(*told: Any, **more: Any) -> Any:
    """Does nothing: for events that are not recorded."""
    return 0
