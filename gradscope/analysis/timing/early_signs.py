"""A jump of the loss, and what changed in the steps before it.

# Note [Usual values]
A number of a step is compared with the same number of the WINDOW measured steps before it: with
their median, and with their median distance from it. Both ignore single outliers, and they follow
a training that goes on slowly. Positive numbers are compared by their logarithm: losses of small
batches are often several times their median, and rarely a small part of it. Of 1,500 series of 120
random losses (gamma, exponential, lognormal), 5 have a jump.

# Note [Slow changes]
A norm that grows slowly is never far from the numbers just before it. So the steps before a jump
are also compared with those before them, by a cumulative sum (CUSUM): how far each number is above
the usual one, less SLACK, is added up, and the sum starts again at 0 when it would be negative. One
number counts at most MOST, so that a single one is not growth. Of 6,000 random series of norms of
36 steps, 10 are said to have grown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from math import exp, inf, log

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from gradscope.analysis.lookups import grouped
from gradscope.analysis.timing.long_run import LongRun, SummedUp
from gradscope.trace.schema import ParameterSummary, Tensor
from gradscope.trace.trace import Trace

Floats = NDArray[np.float64]
WINDOW, FEWEST = 15, 8
"""Number of steps that a step is compared with, and the fewest for norms."""
BACK = 20
"""Number of measured steps before a jump in which signs are looked for."""
FAR = 8.0
"""A number is unusual if it is further from the median than this many median distances."""
SHARE = 0.05
"""Least distance that counts as one, as a share of the number."""
ROSE, TIMES = 1.5, 3.0
"""A loss jumps to this many times the highest one before; a norm changes by this factor."""
AFTER = 10
"""Number of steps after a jump that show whether the loss stays up."""
SEVERAL, OFTEN = 5, 0.01
"""Number of jumps, and share of the steps, from which on they are usual."""
AT_ONCE, TINY = 1 << 16, 1e-300
SLACK, MOST, ENOUGH = 1.0, 4.0, 12.0
"""Of the cumulative sum, in median distances."""
NORMAL = 1.4826
"""The standard deviation of a normal distribution, in median distances."""


class Then(Enum):
    """How the loss went on after a jump."""

    UNKNOWN = ""
    BACK = "came back"
    STAYED = "stayed there"
    NOT_FINITE = "was not finite later"


@dataclass(frozen=True, slots=True)
class Sign:
    """A number that left its usual range."""

    step: int
    what: str  # "gradient", "update" or "weight"
    name: str  # of the parameter; "": of all together
    usual: float
    value: float
    grew: bool = False  # it grew from this step on, and had this value last

    @property
    def factor(self) -> float:
        return self.value / self.usual


@dataclass(frozen=True, slots=True)
class LossJump:
    """A step whose loss left its usual range upwards."""

    step: SummedUp
    usual: float
    then: Then
    many: int  # number of jumps of the run
    signs: tuple[Sign, ...]  # in the BACK steps before it and in itself, the earliest first
    since: int  # the first of these steps
    compared: int  # number of these whose gradients and parameters were measured


class EarlySigns:
    """The highest jump of the loss of a run; one that stays goes first."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._run: tuple[SummedUp, ...] = trace.once(LongRun).measured

    @cached_property
    def jump(self) -> LossJump | None:
        with_loss = [each for each in self._run if each.has_loss]
        losses = np.array([each.row.loss for each in with_loss])
        found = [
            (_then(losses, at, usual), height, at, usual) for at, height, usual in _jumps(losses)
        ]
        if not found or len(found) > max(SEVERAL, OFTEN * len(losses)):
            return None  # where losses jump often, a jump says nothing
        lasting = Then.STAYED, Then.NOT_FINITE
        then, _, at, usual = max(found, key=lambda each: (each[0] in lasting, *each[1:]))
        step, back = with_loss[at], with_loss[max(at - BACK, 0) : at + 1]
        near = [each for each in back if each.row.parameters]
        signs = [*self._signs({each.number for each in near}, step.number)] if near else []
        signs.sort(key=lambda each: (each.step, -abs(log(each.factor))))
        since = back[0].number
        return LossJump(step, usual, then, len(found), tuple(signs), since, len(near))

    def _signs(self, near: set[int], last: int) -> Iterator[Sign]:
        """Unusual numbers of these steps, up to the last one."""
        rows = [each for each in self._run if each.row.parameters and each.number <= last]
        rows = rows[-BACK - WINDOW - 1 :]
        steps = [each.number for each in rows]
        yield from _signs(near, steps, "gradient", "", [each.row.gradient for each in rows])
        yield from _signs(near, steps, "update", "", [each.row.update for each in rows])
        numbers = {each.step.id: each.number for each in rows}
        table, tensors = self._trace.table(ParameterSummary), self._trace.table(Tensor)
        own = table.take(np.flatnonzero(np.isin(table["step"], [*numbers])))
        for tensor, of_one in grouped(own, lambda row: row.tensor).items():
            name = (tensors.row(tensor).name if tensors.has(tensor) else "") or f"tensor {tensor}"
            of_one.sort(key=lambda row: numbers[row.step])
            steps = [numbers[row.step] for row in of_one]
            for what in ("gradient", "update", "weight"):
                values = [getattr(row, what) for row in of_one]
                yield from _signs(near, steps, what, name, values)


def _jumps(losses: Floats) -> Iterator[tuple[int, float, float]]:
    """The place of each jump, how high it is in usual distances, and the median before."""
    for first in range(0, len(losses) - WINDOW, AT_ONCE):
        windows = sliding_window_view(losses[first : first + AT_ONCE + WINDOW], WINDOW + 1)
        finite = np.flatnonzero(np.isfinite(windows).all(axis=1))
        positive = (windows[finite] > 0).all(axis=1)
        for rows, is_log in ((finite[positive], True), (finite[~positive], False)):
            height = _heights(np.log(windows[rows]) if is_log else windows[rows], is_log=is_log)
            for at in np.flatnonzero(height > FAR).tolist():
                usual = float(np.median(windows[rows[at], :-1]))
                yield first + int(rows[at]) + WINDOW, float(height[at]), usual


def _heights(windows: Floats, *, is_log: bool) -> Floats:
    """How far the last number of each window is above the others, in usual distances; 0: not."""
    before, own = windows[:, :-1], windows[:, -1]
    usual, most, least = np.median(before, axis=1), before.max(axis=1), before.min(axis=1)
    distance = NORMAL * np.median(np.abs(before - usual[:, None]), axis=1)
    distance = np.maximum(distance, SHARE if is_log else SHARE * np.abs(usual) + TINY)
    over = own - most > (log(ROSE) if is_log else 4 * (most - least))
    return np.where(over, (own - usual) / distance, 0.0)


def _then(losses: Floats, at: int, usual: float) -> Then:
    later = losses[at + 1 : at + 1 + AFTER]
    if not np.isfinite(later).all():
        return Then.NOT_FINITE
    if len(later) <= AFTER // 2:
        return Then.UNKNOWN
    return Then.STAYED if np.median(later) > (usual + losses[at]) / 2 else Then.BACK


def _signs(
    near: set[int], steps: Sequence[int], what: str, name: str, values: Sequence[float]
) -> Iterator[Sign]:
    """The steps near a jump in which a norm left its range, or from which on it grew."""
    logs = [(step, log(each)) for step, each in zip(steps, values, strict=True) if 0 < each < inf]
    sudden = [*_unusual(near, logs)]
    for step, usual, own in sudden:
        yield Sign(step, what, name, exp(usual), exp(own))
    grown = _growth(near, logs)
    if grown is not None and (not sudden or grown[0] < sudden[0][0]):
        began, usual, own = grown
        yield Sign(began, what, name, exp(usual), exp(own), grew=True)


def _unusual(
    near: set[int], logs: Sequence[tuple[int, float]]
) -> Iterator[tuple[int, float, float]]:
    """Steps with the usual number before each and their own."""
    for at, (step, own) in enumerate(logs):
        before = logs[max(at - WINDOW, 0) : at]
        if step in near and len(before) >= FEWEST:
            usual, distance = _usual(before)
            if abs(own - usual) > max(FAR * distance, log(TIMES)):
                yield step, usual, own


def _growth(near: set[int], logs: Sequence[tuple[int, float]]) -> tuple[int, float, float] | None:
    """The step from which on numbers grew until the last one before the jump."""
    before = [each for each in logs if each[0] < min(near)][-WINDOW:]
    if len(before) < FEWEST:
        return None
    usual, distance = _usual(before)
    total, began, last = 0.0, 0, usual
    for step, own in logs:
        if step in near and step < max(near):
            more = total + min((own - usual) / distance, MOST) - SLACK
            began = began if total > 0 else step
            total, last = max(more, 0.0), own
    return (began, usual, last) if total > ENOUGH and last - usual > log(ROSE) else None


def _usual(before: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """The median of these numbers, and their median distance from it."""
    numbers = np.array([own for _, own in before])
    usual = float(np.median(numbers))
    return usual, max(NORMAL * float(np.median(np.abs(numbers - usual))), SHARE)
