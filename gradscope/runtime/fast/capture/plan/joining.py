"""Joining: calls of a plan that one prepared kernel does, such as a layer and its relu.

These kernels are written by hand, with warm-up and plain twins (`fast/layers/joined.py`); chains of
arithmetic are compiled for a plan instead (see fusing.py). All except the loss return the same
bits. The loss rounds exponentials differently from NumPy and may differ by 1e-6 of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.fast.capture.recording.evaluating import fit
from gradscope.runtime.fast.capture.recording.recording import Facts
from gradscope.runtime.fast.capture.recording.trees import (
    ArrayRef,
    Items,
    SameValue,
    StepCall,
    read_by,
)
from gradscope.runtime.fast.layers import joined

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
LARGE = 1 << 12
"""Elements of an array from which loading these kernels, which takes a while, pays off."""
FEW = 1 << 11
"""Elements below which NumPy is faster."""
MOST = 1 << 16
"""Scores of a loss from which multi-threaded kernels are faster."""
MEAN = 1
"""The number of reduction "mean" in calls of losses."""


@dataclass(frozen=True, slots=True)
class Join:
    """Adjacent calls as one, at the position of the first."""

    first: int
    count: int
    call: StepCall
    exact: bool = True  # whether the bits are the same


class _Known(NamedTuple):
    """Names of kernels and derivatives in plans."""

    relu_slope: Any
    loss_slope: Any
    log_softmax_slope: Any


@cache
def _known() -> _Known:
    names = ("relu", "nll_loss_forward", "_log_softmax")
    return _Known(*(REGISTRY[name].formulas[0].function for name in names))


class Joining:
    """Finds calls that one kernel can do."""

    def __init__(
        self, calls: Sequence[StepCall], facts: dict[int, Facts], wanted: Sequence[int]
    ) -> None:
        self.calls = calls
        self.facts = facts
        self.used: dict[int, list[int]] = {nr: [len(calls)] for nr in wanted}
        for place, call in enumerate(calls):
            for nr in read_by(call):
                self.used.setdefault(nr, []).append(place)

    def joins(self) -> dict[int, Join]:
        """All joins, by the position of their first call."""
        found: dict[int, Join] = {}
        place = 0
        if all(prod(facts.shape) < LARGE for facts in self.facts.values()):
            return found
        while place < len(self.calls):
            join = self._at(place)
            if join is not None:
                found[place] = join
            place += 1 if join is None else join.count
        return found

    def _at(self, place: int) -> Join | None:
        call = self.calls[place]
        ways: dict[str, Callable[[int, StepCall], Join | None]] = {
            "addmm": self._linear,
            "_log_softmax": self._loss,
        }
        if call.kind == "call" and call.label in ways:
            return ways[call.label](place, call)
        if call.function is fit:
            return self._sum(place, call)
        if call.function is _known().relu_slope:
            return self._slope(place, call)
        return None

    # -- in sequence -----------------------------------------------------------------------------

    def _linear(self, place: int, call: StepCall) -> Join | None:
        """A product with a bias, whose result is only used by a relu."""
        plain = all(value == SameValue(1) for value in call.named.values())
        relu = self._following(place, call, "relu")
        if relu is None or not plain or len(call.given) != 3:
            return None
        bias, made = call.given[0], self._facts(call.made)
        if not (isinstance(bias, ArrayRef) and made is not None and len(made.shape) == 2):
            return None
        if not self._alike(bias, made.shape[1:], made.dtype) or call.whole or relu.whole:
            return None
        one = replace(call, function=joined.linear_relu, named={}, made=relu.made)
        return Join(place, 2, one)

    def _sum(self, place: int, call: StepCall) -> Join | None:
        """A gradient that is summed to a vector."""
        grad, shape, kind = call.given
        facts = self._facts(grad.nr) if isinstance(grad, ArrayRef) else None
        if facts is None or len(facts.shape) != 2 or not facts.shape[0] or call.whole:
            return None
        if not facts.contiguous or facts.shape[1:] != shape.value or facts.dtype != kind.value:
            return None
        return Join(place, 1, replace(call, function=joined.sum_of_rows, given=(grad,)))

    def _slope(self, place: int, call: StepCall) -> Join | None:
        """The backward of a relu."""
        grad, result = call.given
        facts = self._facts(result.nr) if isinstance(result, ArrayRef) else None
        if facts is None or not facts.contiguous or not isinstance(grad, ArrayRef):
            return None
        if prod(facts.shape) < FEW or not self._alike(grad, facts.shape, facts.dtype) or call.whole:
            return None
        return Join(place, 1, replace(call, function=joined.threshold_backward))

    def _loss(self, place: int, call: StepCall) -> Join | None:
        """Log softmax, the mean negative log likelihood, and the gradients of both."""
        parts = self.calls[place : place + 5]
        if (
            len(parts) < 5
            or call.given[1:] != (SameValue(1),)
            or not isinstance(call.given[0], ArrayRef)
        ):
            return None
        _, loss, one, slope, last = parts
        facts, classes = self._facts(call.given[0].nr), loss.given[1:2]
        if facts is None or len(facts.shape) != 2 or facts.dtype != FLOATS[0]:
            return None
        small = facts.contiguous and 0 < prod(facts.shape) < MOST
        if not small or not self._is_mean_of(call, loss):
            return None
        if not self._alike(classes[0], facts.shape[:1], np.dtype(np.int64)):
            return None
        begun = (Items(list, (ArrayRef(_only(one)),)), *loss.given, ArrayRef(loss.made[1]))
        if not _is_one(one) or slope.function is not _known().loss_slope or slope.given != begun:
            return None
        ended = (ArrayRef(_only(slope)), ArrayRef(_only(call)), SameValue(1))
        if last.function is not _known().log_softmax_slope or last.given != ended:
            return None
        inside = (_only(call), _only(one), _only(slope), loss.made[1])
        if any(max(self.used.get(nr, [place])) > place + 4 for nr in inside):
            return None
        made = (loss.made[0], None, _only(last))
        ignored, otherwise = loss.given[4].value, (call, loss)
        function = _whole_loss(ignored, *[each.function for each in otherwise])
        whole = replace(call, function=function, given=(call.given[0], classes[0]), made=made)
        return Join(place, 5, whole, exact=False)

    def _is_mean_of(self, call: StepCall, loss: StepCall) -> bool:
        """Whether this is the mean loss of these log probabilities, with equal class weights."""
        if loss.label != "nll_loss_forward" or loss.kind != "call" or len(loss.given) != 5:
            return False
        wanted = (ArrayRef(_only(call)), SameValue(None), SameValue(MEAN))
        found = (loss.given[0], *loss.given[2:4])
        return found == wanted and isinstance(loss.given[1], ArrayRef) and len(loss.made) == 2

    def _following(self, place: int, call: StepCall, label: str) -> StepCall | None:
        """The next call, if it is the only user of this call's result."""
        if place + 1 == len(self.calls) or self.used.get(_only(call)) != [place + 1]:
            return None
        found = self.calls[place + 1]
        return found if found.kind == "call" and found.label == label else None

    def _facts(self, nr: Any) -> Facts | None:
        facts = self.facts.get(nr) if isinstance(nr, int) else None
        return facts if facts is not None and facts.dtype in FLOATS else None

    def _alike(self, ref: ArrayRef, shape: tuple[int, ...], kind: Any) -> bool:
        facts = self.facts.get(ref.nr)
        return facts is not None and facts == Facts(tuple(shape), kind, True)


def nothing() -> None:
    """Stands for a call that another one includes."""


def with_joins(calls: Sequence[StepCall], joins: dict[int, Join]) -> list[StepCall]:
    """The calls, with each join at the position of its first call and nothing at the others."""
    made = list(calls)
    for place, join in joins.items():
        gone = [replace(c, function=nothing, given=(), named={}, made=None)
                for c in calls[place + 1 : place + join.count]]  # fmt: skip
        made[place : place + join.count] = [join.call, *gone]
    return made


def _whole_loss(ignored: int, log_softmax: Any, loss: Any) -> Callable[..., Any]:
    """A loss in one pass. For invalid classes it runs the operations, which raise the error."""

    def cross_entropy(x: Any, target: Any) -> Any:
        found = joined.cross_entropy(x, target, ignored)
        if found is None:
            loss(log_softmax(x, 1), target, None, MEAN, ignored)
        return found

    return cross_entropy


def _only(call: StepCall) -> int:
    """The number of the only array that a call creates; -1 if there are several."""
    return call.made if isinstance(call.made, int) else -1


def _is_one(call: StepCall) -> bool:
    """Whether a call returns the number one, as a backward begins."""
    array = getattr(call.function, "__self__", None)
    return call.label == "constant" and isinstance(array, np.ndarray) and bool((array == 1).all())
