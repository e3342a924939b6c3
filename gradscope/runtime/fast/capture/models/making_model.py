"""Creation of a model's plan. See Note [How a model is captured]."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, product
from typing import Any

import numpy as np

from gradscope.runtime.autograd import grad as gradients_of
from gradscope.runtime.core.autograd.engine.accumulate_grad import AccumulateGrad
from gradscope.runtime.core.tensors.default_generator import default_generator
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.core.tensors.wrapping import wrap
from gradscope.runtime.fast.capture.making import MORE_CODE, Making
from gradscope.runtime.fast.capture.models.model_plan import (
    ModelGuards,
    ModelPlan,
    RecordedBackward,
)
from gradscope.runtime.fast.capture.proving import FAILURES, StepState
from gradscope.runtime.fast.capture.reach.arguments import Arguments
from gradscope.runtime.fast.capture.reach.guards import TensorState, version_of
from gradscope.runtime.fast.capture.reach.objects import Unreadable
from gradscope.runtime.fast.capture.recording.exchange import exchanged
from gradscope.runtime.fast.capture.recording.recording import PLAIN
from gradscope.runtime.fast.capture.recording.watching import WatchedCode, Watching
from gradscope.runtime.fast.capture.told import tensors_in

MOST_OUTS = 3
"""Largest number of results for which a backward is recorded for each choice of them."""


class MakingModel(Making):
    """One call of a model that is recorded, followed by a backward."""

    model_plan: ModelPlan | None = None

    def __init__(self, model: Callable[..., Any], program: WatchedCode, *, records: bool) -> None:
        super().__init__(model, program, records=records)
        forward = getattr(model, "forward", model)
        self.recording.code = getattr(getattr(forward, "__func__", forward), "__code__", None)

    def record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the model, and make a plan of it, if possible."""
        recording, arguments = self.recording, Arguments(args, kwargs)
        try:
            reached = self._reached(arguments)
        except Unreadable as reason:
            recording.stop(str(reason), "")
            return self.function(*args, **kwargs)
        states = self._states(reached, arguments)
        for state in states:
            state.grad = None
        inputs = self._inputs(states)
        guards = ModelGuards(reached.holdings, [s for s in states if not s.place], arguments)
        size = self.program.size()
        tensors = [state.tensor for state in states]
        before = StepState(tensors, [default_generator, *guards.generators()])
        leaves = [s for s in states if s.tensor.requires_grad and s.array.dtype.kind == "f"]
        with exchanged(recording), Watching(self.program, recording).active():
            result = self.function(*args, **kwargs)
            forward_calls, outs = len(recording.calls), self._outs(result)
            leaves = self._used(outs, leaves)
            dummies = [_standing_for(each) for each in outs]
            for nr, each in enumerate(dummies):
                inputs[recording.new(each._array)] = f"args[1][{nr}]"
            if len(outs) > MOST_OUTS:
                recording.stop(
                    f"the model returns more than {MOST_OUTS} tensors with a history", ""
                )
            backwards: list[RecordedBackward] = []
            found: list[Any] = []
            numbers = recording.numbers_now()
            for of in product((True, False), repeat=len(outs)) if leaves else ():
                if any(of) and not recording.stops:
                    recording.go_back_to(numbers)
                    backwards.append(self._backward(of, outs, leaves, dummies, found))
            recording.go_back_to(numbers)
        if self.program.size() != size:
            recording.stop(MORE_CODE, "")
        self._look_over(result, states, guards, args, kwargs, inputs)
        if recording.stops:
            return result
        plan = ModelPlan(
            recording, guards, inputs, forward_calls, result, leaves if backwards else (),
            backwards, self._writes(states),
        )  # fmt: skip
        made = result, dummies, [each.of for each in backwards], found
        if self._is_proved(plan, before, tensors, made, args, kwargs):
            self.model_plan = plan
        return result

    def _backward(
        self, of: tuple[bool, ...], outs: Any, leaves: Any, dummies: Any, found: list[Any]
    ) -> RecordedBackward:
        """Run a backward from some of the results, as the program may do."""
        recording, first = self.recording, len(self.recording.calls)
        roots = [each for each, is_root in zip(outs, of, strict=True) if is_root]
        given = [each for each, is_root in zip(dummies, of, strict=True) if is_root]
        wanted = [leaf.tensor for leaf in leaves]
        grads = gradients_of(roots, wanted, given, retain_graph=True, allow_unused=True)
        numbers = [None if g is None else recording.number(g._array) for g in grads]
        if any(g is not None and nr is None for g, nr in zip(grads, numbers, strict=True)):
            recording.stop("the origin of a gradient is unknown", "")
        found.append(grads)
        return RecordedBackward(of, first, len(recording.calls), tuple(numbers))

    def _used(self, outs: Any, leaves: list[TensorState]) -> list[TensorState]:
        """The leaves that the call itself used, without those that only led to its arguments."""
        used: set[int] = set()
        seen, left = set(), [out.grad_fn for out in outs]
        while left:
            node = left.pop()
            if isinstance(node, AccumulateGrad):
                used.add(id(node.variable))
            elif node is not None and node not in seen:
                seen.add(node)
                if node.sequence_nr > self.recording.first_node:
                    left += [following for following, _ in node.next_functions]
        return [each for each in leaves if id(each.tensor) in used or not each.leaf]

    def _outs(self, result: Any) -> list[Any]:
        return [each for each in tensors_in(result) if each.requires_grad]

    def _look_over(
        self, result: Any, states: Any, guards: Any, args: Any, kwargs: Any, inputs: Any
    ) -> None:
        """Stop if a replay would not leave the same state as the call."""
        recording = self.recording
        arrays = []
        if any(id(each) in recording.containers for each in _containers_in(result)):
            recording.stop("the model returns a list or dict that existed before the call", "")
        for each in _leaves_of(result):
            if isinstance(each, Tensor):
                nr = recording.number(each._array)
                base = nr if each._base is None else recording.number(each._base._array)
                if type(each) is not Tensor or nr is None or base is None or base in inputs:
                    recording.stop(
                        "the model returns a tensor that it did not create, or a view of one", ""
                    )
                arrays.append(each._array)
            elif not isinstance(each, PLAIN):
                recording.stop(f"the model returns a {type(each).__name__}", "")
        if any(np.may_share_memory(one, other) for one, other in combinations(arrays, 2)):
            recording.stop("results of the model share memory", "")
        for state in states:
            if state.tensor._array is not state.array:
                recording.stop(f"the model replaces the memory of {state.name}", "")
        changed = self._changed(guards, args, kwargs)
        if changed:
            recording.stop(f"the model changes values that it reads: {changed}", "")

    def _writes(self, states: list[TensorState]) -> list[tuple[TensorState, int]]:
        counted, found = set(), []
        for state in states:
            count = version_of(state.tensor) - state.version
            if count and id(state.tensor._versions) not in counted:
                counted.add(id(state.tensor._versions))
                found.append((state, count))
        return found

    def _is_proved(
        self, plan: ModelPlan, before: StepState, tensors: list[Any], wanted: Any, args: Any,
        kwargs: Any,
    ) -> bool:  # fmt: skip
        """Run both plans on the earlier values, and compare."""
        result, dummies, patterns, grads = wanted
        after = StepState(tensors, [default_generator, *plan.guards.generators()])
        before.put_back()
        try:
            made = list(tensors_in(plan.replay(args, kwargs)))
            edge = next((each._edge for each in made if each._edge is not None), None)
            again = [
                edge[0].run_arrays([d._array if is_root else None for d, is_root in pairs])
                for pairs in ([*zip(dummies, of, strict=True)] for of in patterns)
                if edge is not None
            ]
        except FAILURES as error:
            reason = f"the replay fails: {error}"
        else:
            reason = after.differs([str(nr) for nr in range(len(tensors))], 0.0)
            for one, other in zip(made, tensors_in(result), strict=True):
                reason = reason or _differ(one._array, other._array, "a result")
            both = zip(again, grads, strict=True)
            for one, other in (pair for two in both for pair in zip(*two, strict=True)):
                if (one is None) is not (other is None):
                    reason = reason or "a gradient"
                elif one is not None:
                    reason = reason or _differ(one, other._array, "a gradient")
            reason = reason and f"the replay differs in {reason}"
        after.put_back()
        plan.replays = 0
        if reason:
            self.recording.stop(reason, "")
        return not reason


def _standing_for(out: Any) -> Any:
    """A stand-in gradient with varying values."""
    array = out._array
    count = max(array.size, 1)
    return wrap(np.linspace(0.5, 1.5, count).astype(array.dtype)[: array.size].reshape(array.shape))


def _differ(found: Any, wanted: Any, what: str) -> str:
    same = found.shape == wanted.shape and found.dtype == wanted.dtype
    return "" if same and found.tobytes() == wanted.tobytes() else what


def _containers_in(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple | dict):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from _containers_in(item)


def _leaves_of(value: Any) -> Any:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves_of(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves_of(item)
    else:
        yield value
