"""Proves a plan before it is used: plan and program must do the same with the same values.

The step runs uncaptured. Its effects are saved, the earlier state is restored, and the plan is
replayed. If one bit differs, the program's effects are kept, and the plan is never used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

import numpy as np

from gradscope.runtime.core.state.generator import Generator
from gradscope.runtime.core.tensors.default_generator import default_generator
from gradscope.runtime.core.tensors.memory.storage import VersionCounter
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.fast.capture.plan.plan import ReplayPlan
from gradscope.runtime.fast.capture.reach.guards import version_of
from gradscope.runtime.fast.capture.recording.recording import PLAIN


@dataclass
class TensorCopy:
    """Values, version and gradient of one tensor at some moment."""

    tensor: Any
    numbers: Any
    version: int
    grad: Any
    grad_numbers: Any
    grad_version: int

    @classmethod
    def of(cls, tensor: Any) -> TensorCopy:
        grad = None if tensor._meta is None else tensor._meta.grad
        return cls(
            tensor,
            tensor._array.copy(order="K"),
            version_of(tensor),
            grad,
            None if grad is None else grad._array.copy(order="K"),
            0 if grad is None else version_of(grad),
        )

    def put_back(self) -> None:
        tensor = self.tensor
        if not _same(tensor._array, self.numbers):
            tensor._array[...] = self.numbers
        _set_version(tensor, self.version)
        if tensor._meta is not None:
            tensor._meta.grad = self.grad
        if self.grad is not None:
            if not _same(self.grad._array, self.grad_numbers):
                self.grad._array[...] = self.grad_numbers
            _set_version(self.grad, self.grad_version)

    def differs(self, tolerance: float) -> str:
        """How the tensor differs now from this copy."""
        now = TensorCopy.of(self.tensor)
        if not _close(now.numbers, self.numbers, tolerance):
            return "the values"
        if now.version != self.version:
            return f"the version ({self.version}, replayed {now.version})"
        if (now.grad is None) is not (self.grad is None):
            return "whether there is a gradient"
        if self.grad is None:
            return ""
        if not _close(now.grad_numbers, self.grad_numbers, tolerance):
            return "the gradient"
        return ""


def _set_version(tensor: Any, version: int) -> None:
    if tensor._versions is not None:
        tensor._versions.value = version
    elif version:
        tensor._versions = VersionCounter(version)


def _same(found: Any, wanted: Any) -> bool:
    """Whether two arrays hold the same bits in the same layout."""
    return (
        found.shape == wanted.shape
        and found.dtype == wanted.dtype
        and found.tobytes() == wanted.tobytes()
    )


def _close(found: Any, wanted: Any, tolerance: float) -> bool:
    """Whether they are equal, or within a share of the largest value."""
    if not tolerance or wanted.dtype.kind != "f" or not wanted.size:
        return _same(found, wanted)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    largest = np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)
    return np.allclose(found, wanted, 0.0, tolerance * largest, equal_nan=True)


class StepState:
    """Everything that a step can change, at some moment."""

    def __init__(self, states: Sequence[Any], generators: Sequence[Generator]) -> None:
        self.kept = [TensorCopy.of(tensor) for tensor in states]
        self.drawn = [(each, Generator.get_state(each)) for each in generators]

    def put_back(self) -> None:
        for each in self.kept:
            each.put_back()
        for generator, state in self.drawn:
            Generator.set_state(generator, state)

    def differs(self, names: Sequence[str], tolerance: float) -> str:
        for each, name in zip(self.kept, names, strict=True):
            reason = each.differs(tolerance)
            if reason:
                return f"{reason} of {name}"
        for generator, state in self.drawn:
            if not np.array_equal(Generator.get_state(generator), state):
                return "the random numbers"
        return ""


FAILURES = (Exception,)
"""Exceptions of a replay that the program did not raise: the plan is not used."""


def proved(
    plan: ReplayPlan,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    keep: bool = False,
) -> tuple[Any, str]:
    """What the step returns, and how the plan differs from it; empty if it does not.

    `keep`: keep the program's own effects, since they have been reported.
    """
    tensors = [state.tensor for state in plan.guards.states]
    tensors += [leaf.value for leaf in plan.guards.arguments.leaves_of(args, kwargs)]
    names = [state.name for state in plan.guards.states] + plan.given
    generators = [default_generator, *plan.guards.generators()]
    before = StepState(tensors, generators)
    begin = perf_counter_ns()
    result = function(*args, **kwargs)
    took = perf_counter_ns() - begin
    plan.eager = took if plan.eager < 0 else min(took, plan.eager)
    plan.eager_watched = keep
    after = StepState(tensors, generators)
    before.put_back()
    try:
        replayed = plan.replay(args, kwargs)
    except FAILURES as error:
        after.put_back()
        return result, f"the replay fails: {error}"
    reason = after.differs(names, plan.tolerance) or differs(replayed, result, plan.tolerance)
    if not reason and not keep:
        return replayed, ""
    after.put_back()
    return result, reason


def differs(found: Any, wanted: Any, tolerance: float = 0.0) -> str:
    """How a returned value differs from another."""
    if type(found) is not type(wanted):
        return "the returned value"
    if isinstance(found, Tensor):
        names = (found.grad_fn and found.grad_fn.name(), wanted.grad_fn and wanted.grad_fn.name())
        same = _close(found._array, wanted._array, tolerance)
        if not same or found._array.strides != wanted._array.strides:
            return "a returned tensor"
        if names[0] != names[1] or found.requires_grad is not wanted.requires_grad:
            return "the history of a returned tensor"
        return "" if found._version == wanted._version else "the version of the returned tensor"
    if isinstance(found, list | tuple | dict):
        pairs = list(found.items()) if isinstance(found, dict) else list(enumerate(found))
        others = list(wanted.items()) if isinstance(wanted, dict) else list(enumerate(wanted))
        if [key for key, _ in pairs] != [key for key, _ in others]:
            return "the returned value"
        reasons = (differs(a, b, tolerance) for (_, a), (_, b) in zip(pairs, others, strict=True))
        return next((reason for reason in reasons if reason), "")
    if isinstance(found, PLAIN):
        return "" if found == wanted or repr(found) == repr(wanted) else "the returned value"
    return "" if found is wanted else "the returned value"
