"""A plan: guards, calls as one function, and other effects of a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from gradscope.runtime.core.generated.texts import code_of
from gradscope.runtime.core.tensors.memory.storage import VersionCounter
from gradscope.runtime.fast.capture.plan.fusing import Chain
from gradscope.runtime.fast.capture.plan.joining import Join
from gradscope.runtime.fast.capture.plan.playing import Played
from gradscope.runtime.fast.capture.plan.results import Results
from gradscope.runtime.fast.capture.plan.text import Text
from gradscope.runtime.fast.capture.plan.timed import Timed
from gradscope.runtime.fast.capture.reach.guards import Guards, TensorState
from gradscope.runtime.fast.capture.recording.recording import StepRecording
from gradscope.runtime.fast.capture.told import ReplayRun, Told, tensors_in

CLOSE = 1e-6
"""Relative difference allowed for kernels that do several calls in one pass."""


@dataclass(frozen=True, slots=True)
class Effects:
    """Changes of existing tensors other than values."""

    writes: tuple[tuple[TensorState, int], ...]  # increments of versions
    forgotten: tuple[TensorState, ...]  # gradients that are None at the end
    renewed: tuple[TensorState, ...]  # replaced gradients: the old one is released at once
    written_grads: tuple[tuple[TensorState, int], ...]  # writes to gradients created by the step


class ReplayPlan:
    """A plan that can be replayed."""

    def __init__(
        self,
        recording: StepRecording,
        guards: Guards,
        inputs: dict[int, str],
        results: Results,
        effects: Effects,
    ) -> None:
        self.calls = recording.calls
        self.guards = guards
        self.effects = effects
        self.results = results
        self.given = [leaf.place for leaf in guards.arguments.tensors]
        self.proved = False
        self.replays = 0
        self.facts = recording.facts
        self.named = recording.named
        self.eager = -1  # nanoseconds of the step in the comparison
        self.eager_watched = False  # with a watcher
        self.inputs = inputs
        self.chains: list[Chain] = []
        self.joins: list[Join] = []
        self.played: list[Played] = []
        self.fusing_tried = False
        self._templates: WeakKeyDictionary[Told, Any] = WeakKeyDictionary()
        self._shown: WeakKeyDictionary[Told, int] = WeakKeyDictionary()
        self._write(Text(self.calls, dict(inputs), self._places(), results.wanted, guards.scope))
        self.plain = self.text  # without fused calls
        places = "".join(f"{place}, " for place in self.given)
        self._tensors = eval(f"lambda args, kwargs: ({places})")  # noqa: S307  (generated text)
        self._before = tuple([state for state in effects.renewed if not state.place])

    def _places(self) -> dict[int, str]:
        return {id(leaf.value): leaf.place for leaf in self.guards.arguments.tensors}

    def _write(self, writer: Text) -> None:
        """Use this text for replays."""
        self.text = writer.written()
        self.call_of_line = writer.call_of_line
        self.chains = list(writer.chains.values())
        self.joins = list(writer.joins.values())
        self.played = list(writer.played.values())
        code = code_of("replay", self.text, "a captured step")
        self._run = FunctionType(code, self.guards.scope, "replay")
        self._timed: Timed | None = None

    def fuse(self) -> bool:
        """Fuse adjacent calls that a kernel can do. Returns whether there are any."""
        self.fusing_tried = True
        inputs, wanted, scope = dict(self.inputs), self.results.wanted, self.guards.scope
        writer = Text(self.calls, inputs, self._places(), wanted, scope, self.facts, mark="_")
        found = bool(writer.chains or writer.joins or writer.played)
        if found:
            self._write(writer)
        return found

    @property
    def tolerance(self) -> float:
        """The allowed difference of a tensor, relative to its largest value."""
        return 0.0 if all(join.exact for join in self.joins) else CLOSE

    def unfuse(self) -> None:
        """Use separate calls again."""
        inputs, wanted, scope = dict(self.inputs), self.results.wanted, self.guards.scope
        self._write(Text(self.calls, inputs, self._places(), wanted, scope))

    def replay(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do what the step does."""
        return self._replay(args, kwargs, self._run)

    def _replay(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[..., Any]
    ) -> Any:
        given = self._tensors(args, kwargs)
        for state in self._before:
            state.meta.grad = None
        try:
            arrays = run(args, kwargs)
        except Exception as error:
            self._name_line(error)
            raise
        self._leave(given)
        self.replays += 1
        return self.results.make(arrays, given)

    # -- with a watcher -------------------------------------------------------------------------

    def take_template(self, told: Told, window: Any, result: Any) -> None:
        """Store what was reported to a watcher while this plan was recorded."""
        self._shown[told] = 1
        template = told.template(window, list(tensors_in(result)), self.calls)
        if template is not None:
            self._templates[told] = template

    def shown(self, told: Told) -> int:
        """How often a watcher has seen the step."""
        return self._shown.get(told, 0)

    def takes_template_of(self, other: ReplayPlan) -> bool:
        """Take over the template of a plan, if this one is the same, recorded again."""
        alike = self.proved and self.plain == other.plain
        if alike:
            self._templates.update(other._templates)
            for told in other._shown:
                self._shown[told] = self.shown(told) + 1
        return alike

    def template(self, told: Told) -> Any:
        """The watcher's template of a replay; None if it has not seen the step yet."""
        return self._templates.get(told)

    def replay_told(
        self, told: Told, captured: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Do what the step does, and report it with the time of each piece."""
        if self._timed is None:
            count = {chain.first: chain.count for chain in self.chains}
            count.update((join.first, join.count) for join in self.joins)
            count.update((played.first, played.count) for played in self.played)
            self._timed = Timed(self.text, self.call_of_line, self.guards.scope, count)
        timed = self._timed
        tensors = [state.tensor for state in self.guards.states]
        tensors += self._tensors(args, kwargs)
        with timed.alone:
            timed.times.clear()
            replay = told.begin(self.template(told), tensors)
            result = self._replay(args, kwargs, timed.run)
            told.end(replay, list(tensors_in(result)), ReplayRun(captured, self, timed))
        return result

    def _leave(self, given: Sequence[Any]) -> None:
        effects = self.effects
        for state, count in effects.writes:
            tensor = given[int(state.place)] if state.place else state.tensor
            _count(tensor, count)
        for state, count in effects.written_grads:
            tensor = given[int(state.place)] if state.place else state.tensor
            _count(tensor._meta.grad, count)
        for state in effects.forgotten:
            tensor = given[int(state.place)] if state.place else state.tensor
            tensor._meta.grad = None

    def _name_line(self, error: Exception) -> None:
        """Add to an error the program's line of the call that failed."""
        trace = error.__traceback__
        while trace is not None:
            of_line = self._lines_of(trace.tb_frame.f_code)
            if of_line is not None:
                call = self.calls[of_line.get(trace.tb_lineno, 0)]
                error.add_note(f"in the replay of {call.label}, which was called at {call.line}")
            trace = trace.tb_next

    def _lines_of(self, code: CodeType) -> dict[int, int] | None:
        """The call on each line of this code, if it is the plan's."""
        if self._timed is not None and code is self._timed.run.__code__:
            return self._timed.call_of_line
        return self.call_of_line if code is self._run.__code__ else None


def _count(tensor: Any, count: int) -> None:
    versions = tensor._versions
    if versions is None:
        tensor._versions = VersionCounter(count)
    else:
        versions.value += count


__all__ = ["Effects", "ReplayPlan"]
