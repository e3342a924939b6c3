"""Line search: a step size that meets the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ENOUGH = 1e-4  # a step must achieve this share of the decrease that the slope predicts
FLAT = 0.9  # and leave at most this share of the slope

Evaluate = Callable[[Any], tuple[float, Any]]
"""Returns loss and gradient at a distance along the direction."""


@dataclass(frozen=True)
class Point:
    """A distance along the direction, with loss and gradient there."""

    at: Any
    loss: Any
    grad: Any
    slope: Any


def minimum_of_cubic(one: Point, other: Point, bounds: tuple[Any, Any] | None = None) -> Any:
    """The minimum, within bounds, of the cubic through two points with their slopes."""
    first, last = (one, other) if one.at <= other.at else (other, one)
    low, high = bounds if bounds is not None else (first.at, last.at)
    bend = one.slope + other.slope - 3 * (one.loss - other.loss) / (one.at - other.at)
    square = bend**2 - one.slope * other.slope
    if not square >= 0:
        return (low + high) / 2.0
    root = square.sqrt()
    if one.at <= other.at:
        share = (other.slope + root - bend) / (other.slope - one.slope + 2 * root)
        place = other.at - (other.at - one.at) * share
    else:
        share = (one.slope + root - bend) / (one.slope - other.slope + 2 * root)
        place = one.at - (one.at - other.at) * share
    return min(max(place, low), high)


class Search:
    """One search along a direction."""

    def __init__(
        self, evaluate: Evaluate, direction: Any, start: Point, tolerance: float, most: int
    ) -> None:
        self.evaluate = evaluate
        self.direction = direction
        self.reach = direction.abs().max()
        self.start = start
        self.tolerance = tolerance
        self.most = most
        self.evaluations = 0

    def look(self, at: Any) -> Point:
        loss, grad = self.evaluate(at)
        self.evaluations += 1
        return Point(at, loss, grad, grad.dot(self.direction))

    def too_high(self, point: Point) -> bool:
        bound = self.start.loss + ENOUGH * point.at * self.start.slope
        return bool(point.loss > bound)

    def flat(self, point: Point) -> bool:
        return bool(abs(point.slope) <= -FLAT * self.start.slope)

    def found(self, first: Any) -> Point:
        """A point that meets the conditions, or the best one evaluated."""
        bracket, rounds, done = self._bracketed(first)
        return self._narrowed(bracket, rounds, done=done)

    def _bracketed(self, first: Any) -> tuple[list[Point], int, bool]:
        """Two points with a good one between them, or one good point."""
        before, point, rounds = self.start, self.look(first), 0
        while rounds < self.most:
            if self.too_high(point) or (rounds > 1 and point.loss >= before.loss):
                return [before, point], rounds, False
            if self.flat(point):
                return [point], rounds, True
            if point.slope >= 0:
                return [before, point], rounds, False
            bounds = (point.at + 0.01 * (point.at - before.at), point.at * 10)
            further = minimum_of_cubic(before, point, bounds)
            before, point = point, self.look(further)
            rounds += 1
        return [self.start, point], rounds, False

    def _narrowed(self, bracket: list[Point], rounds: int, *, done: bool) -> Point:
        """Shrink the bracket until a point in it is good."""
        slow = False
        low, high = (0, 1) if bracket[0].loss <= bracket[-1].loss else (1, 0)
        while not done and rounds < self.most:
            if abs(bracket[1].at - bracket[0].at) * self.reach < self.tolerance:
                break
            at, slow = _inside(bracket, slow=slow)
            point = self.look(at)
            rounds += 1
            if self.too_high(point) or point.loss >= bracket[low].loss:
                bracket[high] = point
                low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
                continue
            if self.flat(point):
                done = True
            elif point.slope * (bracket[high].at - bracket[low].at) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = point
        return bracket[low if len(bracket) > 1 else 0]


def _inside(bracket: list[Point], *, slow: bool) -> tuple[Any, bool]:
    """Where to evaluate next (away from the ends if progress is slow), and whether it is slow."""
    at = minimum_of_cubic(bracket[0], bracket[1])
    ends = [point.at for point in bracket]
    least, most = min(ends), max(ends)
    margin = 0.1 * (most - least)
    if not min(most - at, at - least) < margin:
        return at, False
    if slow or at >= most or at <= least:
        return (most - margin if abs(at - most) < abs(at - least) else least + margin), False
    return at, True
