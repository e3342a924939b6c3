"""Results of a step, created anew around the arrays of a replay.

First all tensors that the step created, each once, with the relations between them; then the lists
and tuples around them. Objects that existed before the step are returned unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gradscope.runtime.core.tensors.memory.storage import VersionCounter
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.wrapping import wrap
from gradscope.runtime.fast.capture.plan.history import has_run, replayed
from gradscope.runtime.fast.capture.recording.recording import PLAIN, StepRecording

Maker = Callable[[Sequence[Any], Sequence[Any]], Any]
"""Creates one result from the created tensors and the arguments."""


@dataclass(frozen=True, slots=True)
class ResultArray:
    """A tensor that a step created and returned."""

    edge: Any
    needs_grad: bool
    version: int  # -1: no counter yet
    counts_with: int  # index of the result with the same version counter; its own index: none

    def around(self, array: Any, before: Sequence[Any]) -> Any:
        made = wrap(array)
        made._edge = self.edge
        if self.counts_with < len(before):
            made._versions = before[self.counts_with]._versions
        elif self.version >= 0:
            made._versions = VersionCounter(self.version)
        if self.needs_grad:
            made.meta().requires_grad = True
        return made


class Results:
    """How to create the results of a step. `wanted` are the arrays needed."""

    def __init__(
        self,
        result: Any,
        recording: StepRecording,
        given: Mapping[int, int],
        there: Mapping[int, Any],
        outside: frozenset[int],
    ) -> None:
        self.recording = recording
        self.outside = outside  # the arrays that existed before
        self.given = given  # positions of tensors that are arguments, by id
        self.there = there  # other tensors that existed before, by id
        self.wanted: list[int] = []
        self.with_history = False
        self._made: list[ResultArray] = []
        self._tensors: list[Any] = []  # of the recorded step
        self._containers: set[int] = set()
        self._maker_of_all = self._maker(result)
        self._tensors.clear()

    def make(self, arrays: Sequence[Any], given: Sequence[Any]) -> Any:
        """The results of a replay that created these arrays."""
        made: list[Any] = []
        for how, array in zip(self._made, arrays, strict=True):
            made.append(how.around(array, made))
        return self._maker_of_all(made, given)

    def _maker(self, value: Any) -> Maker:
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, PLAIN):
            return partial(_the_same, value)
        if isinstance(value, list | tuple | dict) and (
            type(value) in (list, tuple, dict) or hasattr(value, "_fields")
        ):
            return self._several(value)
        self.recording.stop(f"the step returns a {type(value).__name__}", "")
        return partial(_the_same, None)

    def _several(self, value: Any) -> Maker:
        if not isinstance(value, tuple) and (
            id(value) in self._containers or id(value) in self.recording.containers
        ):
            self.recording.stop(
                "the step returns a list or dict that it did not create as its result", ""
            )
        self._containers.add(id(value))
        if isinstance(value, dict):
            pairs = [(key, self._maker(item)) for key, item in value.items()]
            return lambda made, given: {key: maker(made, given) for key, maker in pairs}
        makers, kind = [self._maker(item) for item in value], type(value)
        if hasattr(value, "_fields"):
            return lambda made, given: kind(*(maker(made, given) for maker in makers))
        return lambda made, given: kind([maker(made, given) for maker in makers])

    def _tensor(self, tensor: Any) -> Maker:
        if id(tensor) in self.given:
            place = self.given[id(tensor)]
            return partial(_given, place)
        if id(tensor) in self.there:
            return partial(_the_same, tensor)
        at = next((nr for nr, each in enumerate(self._tensors) if each is tensor), -1)
        if at >= 0:
            return partial(_made, at)
        nr = self.recording.number(tensor._array)
        reason = self._refusal(tensor, nr)
        if reason:
            self.recording.stop(reason, "")
            return partial(_the_same, None)
        assert nr is not None
        at = len(self.wanted)
        self.wanted.append(nr)
        self._made.append(self._how(tensor))
        self._tensors.append(tensor)
        return partial(_made, at)

    def _how(self, tensor: Any) -> ResultArray:
        counter, node = tensor._versions, tensor.grad_fn
        shared = [nr for nr, one in enumerate(self._tensors) if one._versions is counter]
        if counter is None:
            shared = []
        counts_with = shared[0] if shared else len(self._tensors)
        self.with_history = self.with_history or node is not None
        edge = None if node is None else (replayed(node), tensor.output_nr)
        version = -1 if counter is None else counter.value
        return ResultArray(edge, edge is None and tensor.requires_grad, version, counts_with)

    def _refusal(self, tensor: Any, nr: int | None) -> str:
        if type(tensor) is not Tensor or tensor.__dict__:
            return f"the step returns a {type(tensor).__name__} that it created"
        if nr is None:
            return "the step returns a tensor of unknown origin"
        if tensor._base is not None and self.recording.number(tensor._base._array) in self.outside:
            return "the step returns a view of a tensor that existed before the step"
        if any(one._base is not None for one in (tensor, *self._tensors)) and any(
            one._base is tensor or one is tensor._base for one in self._tensors
        ):
            return "the step returns a tensor and a view of it"
        if tensor.grad_fn is not None and not has_run(tensor.grad_fn):
            return "the step returns a tensor whose backward did not run"
        if tensor._meta is not None and tensor._meta.grad is not None:
            return "the step returns a tensor with a gradient"
        return ""


def _the_same(value: Any, _made: Sequence[Any], _given: Sequence[Any]) -> Any:
    return value


def _given(place: int, _made: Sequence[Any], given: Sequence[Any]) -> Any:
    return given[place]


def _made(place: int, made: Sequence[Any], _given: Sequence[Any]) -> Any:
    return made[place]
