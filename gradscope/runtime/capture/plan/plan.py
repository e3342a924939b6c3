"""A step as a plan: its guards, its calls as one function, and what else it leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from gradscope.runtime.capture.plan.fusing import Chain
from gradscope.runtime.capture.plan.results import Results
from gradscope.runtime.capture.plan.text import Text
from gradscope.runtime.capture.reach.guards import Guards, TensorState
from gradscope.runtime.capture.recording.recording import Recording, Stop
from gradscope.runtime.core.generated.texts import code_of
from gradscope.runtime.core.tensors.memory.storage import VersionCounter


@dataclass(frozen=True, slots=True)
class Effects:
    """What a step does to tensors that were there before, beyond their numbers."""

    writes: tuple[tuple[TensorState, int], ...]  # by how much a version rises
    forgotten: tuple[TensorState, ...]  # whose gradient is None in the end
    renewed: tuple[TensorState, ...]  # whose gradient is replaced: the old one goes at once
    written_grads: tuple[tuple[TensorState, int], ...]  # writes to gradients that the step made


class Plan:
    """What is replayed."""

    def __init__(
        self,
        recording: Recording,
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
        self.inputs = inputs
        self.chains: list[Chain] = []
        self.fusing_tried = False
        self._write(Text(self.calls, dict(inputs), self._places(), results.wanted, guards.scope))
        places = "".join(f"{place}, " for place in self.given)
        self._tensors = eval(f"lambda args, kwargs: ({places})")  # noqa: S307  (our own text)
        self._before = tuple([state for state in effects.renewed if not state.place])

    def _places(self) -> dict[int, str]:
        return {id(leaf.value): leaf.place for leaf in self.guards.arguments.tensors}

    def _write(self, writer: Text) -> None:
        """Let this text be what is replayed."""
        self.text = writer.written()
        self.call_of_line = writer.call_of_line
        self.chains = list(writer.chains.values())
        code = code_of("replay", self.text, "a captured step")
        self._run = FunctionType(code, self.guards.scope, "replay")

    def fuse(self) -> bool:
        """Let chains of arithmetic be one call each; says whether there are any."""
        self.fusing_tried = True
        inputs, wanted, scope = dict(self.inputs), self.results.wanted, self.guards.scope
        writer = Text(self.calls, inputs, self._places(), wanted, scope, self.facts, mark="_")
        if writer.chains:
            self._write(writer)
        return bool(writer.chains)

    def unfuse(self) -> None:
        """Make the calls one by one."""
        inputs, wanted, scope = dict(self.inputs), self.results.wanted, self.guards.scope
        self._write(Text(self.calls, inputs, self._places(), wanted, scope))

    def replay(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do what the step does."""
        given = self._tensors(args, kwargs)
        for state in self._before:
            state.meta.grad = None
        try:
            arrays = self._run(args, kwargs)
        except Exception as error:
            self._name_line(error)
            raise
        self._leave(given)
        self.replays += 1
        return self.results.make(arrays, given)

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
        """Say which line of the program the call came from that failed."""
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code is self._run.__code__:
                call = self.calls[self.call_of_line.get(trace.tb_lineno, 0)]
                error.add_note(f"in the replay of {call.label}, which was called at {call.line}")
            trace = trace.tb_next


def _count(tensor: Any, count: int) -> None:
    versions = tensor._versions
    if versions is None:
        tensor._versions = VersionCounter(count)
    else:
        versions.value += count


__all__ = ["Effects", "Plan", "Stop"]
