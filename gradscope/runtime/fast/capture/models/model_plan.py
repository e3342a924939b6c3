"""A model's forward and backward as two functions over arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from gradscope.runtime.core.generated.texts import code_of
from gradscope.runtime.core.tensors.memory.storage import VersionCounter
from gradscope.runtime.core.tensors.wrapping import wrap
from gradscope.runtime.fast.capture.models.compiled_node import node_of
from gradscope.runtime.fast.capture.plan.text import Text
from gradscope.runtime.fast.capture.reach.guards import Guards, TensorState
from gradscope.runtime.fast.capture.recording.recording import StepRecording
from gradscope.runtime.fast.capture.recording.trees import made_by, read_by
from gradscope.runtime.fast.capture.told import tensors_in


@dataclass(frozen=True, slots=True)
class RecordedBackward:
    """A recorded backward: its results, its calls, and its gradients."""

    of: tuple[bool, ...]
    first: int
    end: int
    grads: tuple[int | None, ...]


class ModelGuards(Guards):
    """Guards that ignore gradients of leaves: those belong to the program."""

    def _grad(self, nr: int, state: TensorState) -> list[str]:
        return []

    def _differs_in(self, nr: int, state: TensorState, changed: dict[str, Any]) -> str:
        reason = super()._differs_in(nr, state, changed)
        return "" if "gradient" in reason else reason


class ModelPlan:
    """The plan of a model, for arguments that pass its guards."""

    def __init__(
        self,
        recording: StepRecording,
        guards: Guards,
        inputs: dict[int, str],
        forward_calls: int,
        results: Any,
        leaves: Sequence[TensorState],
        backwards: Sequence[RecordedBackward],
        writes: Sequence[tuple[TensorState, int]],
    ) -> None:
        self.guards = guards
        self.leaves = leaves
        self.writes = writes
        self.calls = recording.calls
        self.forward_calls = forward_calls
        self.backward_calls = backwards[0].end - forward_calls if backwards else 0
        self.replays = 0
        self._results = results
        self._tensors = list(tensors_in(results))
        outs = [recording.known(each._array) for each in self._tensors]
        self._needs = [each.requires_grad for each in self._tensors]
        self._given_nrs = {n for n, way in inputs.items() if way.startswith("args[1][")}
        self._fixed = {n for n, way in inputs.items() if way.isidentifier()}
        read = {nr for each in backwards for nr in self._read_by(each)}
        saved = sorted(read - self._given_nrs - self._fixed)
        places = {id(leaf.value): leaf.place for leaf in guards.arguments.tensors}
        before = {nr: way for nr, way in inputs.items() if nr not in self._given_nrs}
        self._forward = self._function(
            Text(
                self.calls[:forward_calls], before, places, [*outs, *saved], guards.scope, mark="f"
            )
        )
        known = {nr: way for nr, way in inputs.items() if nr in self._fixed | self._given_nrs}
        known |= {nr: f"args[0][{place}]" for place, nr in enumerate(saved)}
        self._backs = {
            each.of: self._backward(each, dict(known), f"b{nr}_")
            for nr, each in enumerate(backwards)
        }
        kept = set(saved) | (read & self._fixed)
        self._sharing: list[TensorState] | None = None
        self._kept_outs = [nr in kept for nr in outs]
        self._views = [each._base is not None for each in self._tensors]
        self._watched = [s for s in guards.states if recording.number(s.array) in kept]
        arguments = guards.arguments.tensors
        self._watched_given = [
            place
            for place, leaf in enumerate(arguments)
            if recording.number(leaf.value._array) in kept
        ]
        self._given = eval(  # noqa: S307  (generated text)
            f"lambda args, kwargs: ({''.join(f'{leaf.place}, ' for leaf in arguments)})"
        )

    def _read_by(self, backward: RecordedBackward) -> set[int]:
        """The arrays that existed before a backward and that it reads."""
        calls = self.calls[backward.first : backward.end]
        read = {nr for call in calls for nr in read_by(call)}
        read |= {nr for nr in backward.grads if nr is not None}
        return read - {nr for call in calls for nr in made_by(call)}

    def _backward(self, backward: RecordedBackward, known: dict[int, str], mark: str) -> Any:
        """A backward as a function, and the position of each leaf's gradient in its results."""
        wanted = [nr for nr in backward.grads if nr is not None]
        calls = self.calls[backward.first : backward.end]
        run = self._function(Text(calls, known, {}, wanted, self.guards.scope, mark=mark))
        return run, tuple([None if nr is None else wanted.index(nr) for nr in backward.grads])

    def _function(self, writer: Text) -> Callable[..., Any]:
        code = code_of("replay", writer.written(), "a captured model")
        return FunctionType(code, self.guards.scope, "replay")

    def replay(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The model's results, with one node."""
        given = self._given(args, kwargs)
        found = self._forward(args, kwargs)
        for state, count in self.writes:
            tensor = given[int(state.place)] if state.place else state.tensor
            _counter(tensor).value += count
        self.replays += 1
        many = len(self._tensors)
        made = [wrap(array) for array in found[:many]]
        results = iter(made)
        if any(self._needs):
            self._give_history(made, found[many:], given)
        return _like(self._results, results)

    def _give_history(self, made: Sequence[Any], saved: tuple[Any, ...], given: Any) -> None:
        leaves = [given[int(s.place)] if s.place else s.tensor for s in self.leaves]
        edges = [leaf.gradient_edge() or (None, 0) for leaf in leaves]
        if self._sharing is None:
            self._sharing = [s for s in self.guards.states if _shares(s.tensor, saved)]
            self._watched_given += [n for n, t in enumerate(given) if _shares(t, saved)]
        read = [state.tensor for state in (*self._watched, *self._sharing)]
        read += [given[place] for place in self._watched_given]
        read += [
            each
            for each, kept, view in zip(made, self._kept_outs, self._views, strict=True)
            if kept or (view and _shares(each, saved))
        ]
        watched = tuple([(c := _counter(each), c.value, each.type()) for each in read])
        needing = [each for each, needs in zip(made, self._needs, strict=True) if needs]
        metadata = tuple([(each._array.shape, each._array.dtype) for each in needing])
        node = node_of(self._back, edges, tuple(saved), watched, metadata)
        for nr, each in enumerate(needing):
            each._edge = (node, nr)

    def _back(self, saved: Sequence[Any], grads: Sequence[Any]) -> Sequence[Any]:
        run, where = self._backs[tuple([grad is not None for grad in grads])]
        found = run((saved, grads), {})
        return tuple([None if place is None else found[place] for place in where])


def _shares(tensor: Any, arrays: Sequence[Any]) -> bool:
    """Whether one of these arrays uses a tensor's memory."""
    return any(np.may_share_memory(tensor._array, array) for array in arrays)


def _counter(tensor: Any) -> Any:
    if tensor._versions is None:
        tensor._versions = VersionCounter(0)
    return tensor._versions


def _like(value: Any, made: Iterator[Any]) -> Any:
    """The same nested lists, tuples and dicts with other tensors."""
    if isinstance(value, dict):
        return type(value)({key: _like(item, made) for key, item in value.items()})
    if hasattr(value, "_fields"):
        return type(value)(*(_like(item, made) for item in value))
    if isinstance(value, list | tuple):
        return type(value)([_like(item, made) for item in value])
    return next(made) if hasattr(value, "_array") else value
