"""One checkpointed call: only its inputs are saved; backward runs it again.

# Note [Where a tensor comes back to]
In the first run every tensor that an operation saves is replaced by an empty `Placeholder`. The
region references its placeholders weakly, in the order in which they were saved. When a backward
unpacks the first of them, the function runs once more with the same random numbers, and the tensors
that it saves go, in order, into the placeholders that are still alive. Each backward has separate
values there: a placeholder releases them as they are read, and unread ones when that backward is
gone.

Saved-tensor hooks nest: the placeholders of an inner region hide what it saves from the outer
region, whose own placeholders stand for the inner one's inputs. So to read a value, every region
around it runs again, from the outside in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, Final
from weakref import ReferenceType, WeakKeyDictionary, ref

from gradscope.runtime.autograd.graph import saved_tensors_hooks
from gradscope.runtime.core.autograd.modes.grad_mode import enable_grad, no_grad
from gradscope.runtime.core.errors.engine import checkpoints as errors
from gradscope.runtime.core.state.thread import local
from gradscope.runtime.core.tensors.saved.saved_variable import save_input, unpack_tensor
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.utils.checkpoint.autocast_state import AutocastState
from gradscope.runtime.utils.checkpoint.random_state import RandomState
from gradscope.runtime.utils.checkpoint.switches import GraphExecGroup


class CheckpointError(RuntimeError):
    """The recomputed tensors differ from the saved ones."""

    __module__ = "gradscope.runtime.utils.checkpoint"


class _StopRecomputationError(Exception):  # PyTorch's name
    """Stops the function: all saved tensors are recomputed."""


_READ: Final = object()
"""Marks a placeholder whose value was read."""


class Placeholder:
    """Stands for one saved tensor. Holds its value between recomputation and use."""

    __slots__ = ("__weakref__", "values")

    def __init__(self) -> None:
        self.values: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # per backward


class Outside:
    """Stands for a backward when a saved value is read outside of one."""

    __slots__ = ("__weakref__",)


def described(tensor: Any) -> dict[str, Any]:
    """What must be the same in both runs."""
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


CHECKS: Final[dict[str, Callable[[Any], Any]]] = {"default": described, "none": lambda _: None}


@dataclass(frozen=True, slots=True)
class How:
    """The options of one checkpointed call."""

    preserve_rng_state: bool
    early_stop: bool
    check: Callable[[Any], Any]
    contexts: tuple[AbstractContextManager[Any], AbstractContextManager[Any]]  # of each run
    report: Callable[[CheckpointError], CheckpointError] | None  # debug=True: adds the operations


class Region:
    """A function, its arguments, and the placeholders of the tensors it saved."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        how: How,
    ) -> None:
        state = local.state
        self.function = function
        self.kwargs = kwargs
        self.how = how
        self.random_state = RandomState(preserve=how.preserve_rng_state)
        self.autocast_state = AutocastState()
        self.args = [
            (True, save_input(value, state)) if isinstance(value, Tensor) else (False, value)
            for value in args
        ]
        self.places: list[ReferenceType[Placeholder]] = []
        self.facts: list[Any] = []  # `how.check` of each saved tensor
        self.counts: WeakKeyDictionary[Any, int] = WeakKeyDictionary()  # saved again, per backward
        self.recomputed: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
        self.forward_completed = False
        self.ran_on = False  # a backward inside the function ran it again before it had returned

    def run(self, args: Sequence[Any]) -> Any:
        """Call the function for the first time. What it saves is replaced by placeholders."""
        result = None
        with saved_tensors_hooks(self.pack, self.unpack), self.how.contexts[0]:
            result = self.function(*args, **self.kwargs)
            self.forward_completed = True
        if not self.forward_completed:
            raise RuntimeError(
                "torch.utils.checkpoint: the forward context provided by context_fn suppressed an "
                "exception raised during the checkpointed forward. This is not supported because "
                "checkpoint cannot return a value for a failed forward."
            )
        return result

    def pack(self, tensor: Any) -> Placeholder:
        place = Placeholder()
        self.places.append(ref(place))
        with no_grad():
            self.facts.append(self.how.check(tensor))
        return place

    def unpack(self, place: Placeholder) -> Any:
        try:
            return self._unpacked(place)
        except CheckpointError as error:
            if self.how.report is None:
                raise
            raise self.how.report(error) from error

    def _unpacked(self, place: Placeholder) -> Any:
        run = GraphExecGroup._get_current_group() or local.state.task or Outside()
        if not self.recomputed.get(run, False):
            self._recompute(run)
            self.recomputed[run] = True
            self._compare(run)
        value = place.values[run]
        if value is _READ:
            raise errors.read_twice(CheckpointError, _of_a_group())
        place.values[run] = _READ
        return value

    def _recompute(self, run: Any) -> None:
        args = [
            unpack_tensor(None, value, 0) if is_tensor else value for is_tensor, value in self.args
        ]
        with (
            suppress(_StopRecomputationError),
            saved_tensors_hooks(_Refill(self, run), _as_it_is),
            enable_grad(),
            self.random_state.again(),
            self.autocast_state.again(),
            self.how.contexts[1],
        ):
            self.function(*args, **self.kwargs)

    def _compare(self, run: Any) -> None:
        """Raise unless the second run saved the same as the first."""
        if self.ran_on:
            return
        expected, found = len(self.places), self.counts.get(run, 0)
        if expected != found:
            raise errors.other_count(CheckpointError, expected, found, self.function)
        check = self.how.check
        differing = "".join(
            f"tensor at position {i}:\nsaved metadata: {first}\nrecomputed metadata: {second}\n"
            for i, (place, first) in enumerate(zip(self._values(run), self.facts, strict=True))
            if place is not None and first != (second := check(place))
        )
        if differing:
            raise errors.other_metadata(CheckpointError, differing, self.function)

    def _values(self, run: Any) -> list[Any]:
        """The recomputed values by placeholder; None where a placeholder is gone."""
        places = [place() for place in self.places]
        return [None if place is None else place.values[run] for place in places]


class _Refill:
    """The pack hook of a second run: fills the placeholders of the first."""

    __slots__ = ("region", "run")

    def __init__(self, region: Region, run: Any) -> None:
        self.region = region
        self.run = run

    def __call__(self, tensor: Any) -> Any:
        region, run = self.region, self.run
        tensor = tensor.detach() if tensor.requires_grad else tensor
        index = region.counts.get(run, 0)
        region.counts[run] = index + 1
        if index >= len(region.places):
            return self._surplus(tensor)
        place = region.places[index]()
        if place is not None:  # else a backward inside the function no longer needs it
            place.values[run] = tensor
        if region.how.early_stop and index + 1 == len(region.places):
            raise _StopRecomputationError
        return tensor  # so that a backward inside the function can run again

    def _surplus(self, tensor: Any) -> Any:
        region = self.region
        if region.how.early_stop:
            raise AssertionError(  # as PyTorch
                "Unexpected state: target_frame.early_stop is set"
            )
        if region.forward_completed:
            raise errors.surplus(CheckpointError, region.function)
        region.ran_on = True
        return tensor


def _as_it_is(tensor: Any) -> Any:
    return tensor


def _of_a_group() -> str:
    if GraphExecGroup._get_current_group() is None:
        return ""
    return (
        "Performing two backward calls that overlap (i.e. require the same saved activation in "
        "order to compute gradients) is not allowed while under the "
        "torch.utils.checkpoint.GraphExecGroup context. "
    )
