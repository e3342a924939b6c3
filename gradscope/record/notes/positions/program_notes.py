"""Records the program around an engine: modules, optimizer steps, spans of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradscope.program_listener import WORKS_FOR_ITSELF
from gradscope.trace.schema import Phase

if TYPE_CHECKING:
    from types import FrameType

    from gradscope.record.acts.watching import WatchedActs
    from gradscope.record.notes.module_rows import ModuleRows
    from gradscope.record.notes.positions.contexts import Contexts

PHASES = {
    "user": Phase.USER, "collective": Phase.COLLECTIVE, WORKS_FOR_ITSELF: Phase.OWN_WORK,
}  # fmt: skip
"""The phase of each kind of span."""


class ProgramNotes:
    """A `ProgramListener` that adds its events to one recording."""

    def __init__(self, contexts: Contexts, acts: WatchedActs, modules: ModuleRows) -> None:
        self.contexts, self.acts, self.modules = contexts, acts, modules
        self.takes_given = acts.takes_given  # whether `module_given` is called
        self._known_modules = modules.by_id
        self.module_ends = contexts.leave_module
        self.step_ends = contexts.leave_optimizer
        self.span_ends = contexts.spans.end

    def module_given(self, module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        """A module is called with these arguments; recorded of the outermost one."""
        if not self.contexts.threads.here().modules:
            self.acts.given(module, given, named)

    def module_begins(self, module: Any) -> None:
        """The forward of a module begins."""
        number = self._known_modules.get(id(module))
        if number is None:
            number = self.modules.id(module, self.contexts.threads.here().module)
        self.acts.called(module, number)
        self.contexts.enter_module(number)

    def step_begins(self, optimizer: Any, suffix: str = "") -> None:
        """Called before an optimizer writes its parameters."""
        self.acts.stepping(optimizer)
        self.contexts.enter_optimizer(f"{type(optimizer).__name__}{suffix}")

    def step_written(self, optimizer: Any, frame: FrameType) -> None:
        """An optimizer has written its parameters, in a call on this frame."""
        self.acts.stepped(optimizer, frame)

    def span_begins(self, name: str, kind: str = "user") -> int:
        """A span of time begins."""
        return self.contexts.spans.begin(name, PHASES[kind])
