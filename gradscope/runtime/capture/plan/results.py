"""What a step returns, made anew around the arrays of a replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from gradscope.runtime.capture.plan.history import has_run, replayed
from gradscope.runtime.capture.recording.recording import PLAIN, Recording
from gradscope.runtime.core.tensors.memory.storage import VersionCounter
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.wrapping import wrap

Maker = Callable[[Sequence[Any], Sequence[Any]], Any]
"""Makes one result of the plan's arrays and of the tensors that were given."""


class Results:
    """How to make what a step returned; `wanted` are the arrays that this takes."""

    def __init__(
        self, result: Any, recording: Recording, given: dict[int, int], outside: frozenset[int]
    ) -> None:
        self.recording = recording
        self.outside = outside  # the arrays that were there before
        self.given = given  # the places of tensors that are arguments, by id
        self.wanted: list[int] = []
        self.with_history = False
        self.make: Maker = self._maker(result)

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
        if isinstance(value, dict):
            pairs = [(key, self._maker(item)) for key, item in value.items()]
            return lambda arrays, given: {key: made(arrays, given) for key, made in pairs}
        makers, kind = [self._maker(item) for item in value], type(value)
        if hasattr(value, "_fields"):
            return lambda arrays, given: kind(*(made(arrays, given) for made in makers))
        return lambda arrays, given: kind([made(arrays, given) for made in makers])

    def _tensor(self, tensor: Any) -> Maker:
        if id(tensor) in self.given:
            place = self.given[id(tensor)]
            return partial(_given, place)
        nr = self.recording.number(tensor._array)
        reason = self._refusal(tensor, nr)
        if reason:
            self.recording.stop(reason, "")
            return partial(_the_same, None)
        assert nr is not None
        index = len(self.wanted)
        self.wanted.append(nr)
        version = 0 if tensor._versions is None else tensor._versions.value
        node = tensor.grad_fn
        self.with_history = self.with_history or node is not None
        edge = None if node is None else (replayed(node), tensor.output_nr)
        needs_grad = edge is None and tensor.requires_grad

        def make(arrays: Sequence[Any], given: Sequence[Any]) -> Any:
            made = wrap(arrays[index])
            made._edge = edge
            if version:
                made._versions = VersionCounter(version)
            if needs_grad:
                made.meta().requires_grad = True
            return made

        return make

    def _refusal(self, tensor: Any, nr: int | None) -> str:
        if type(tensor) is not Tensor or tensor.__dict__:
            return f"the step returns a {type(tensor).__name__} that it made"
        if nr is None:
            return "the step returns a tensor whose origin is not seen"
        if tensor._base is not None and self.recording.number(tensor._base._array) in self.outside:
            return "the step returns a view of a tensor that was there before"
        if tensor.grad_fn is not None and not has_run(tensor.grad_fn):
            return "the step returns a tensor through which no backward has run"
        if tensor._meta is not None and tensor._meta.grad is not None:
            return "the step returns a tensor with a gradient"
        return ""


def _the_same(value: Any, _arrays: Sequence[Any], _given: Sequence[Any]) -> Any:
    return value


def _given(place: int, _arrays: Sequence[Any], given: Sequence[Any]) -> Any:
    return given[place]
