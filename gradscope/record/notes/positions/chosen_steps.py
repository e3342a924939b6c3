"""The steps that a recording selects, by their numbers."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from gradscope.errors import UsageError
from gradscope.trace.text import quoted


@dataclass(frozen=True, slots=True)
class ChosenSteps:
    """Ranges of steps with their first and last one; with `every`, also one step in that number."""

    ranges: tuple[tuple[int, int], ...] = ()
    every: int | None = None

    def __contains__(self, number: int) -> bool:
        return any(first <= number <= last for first, last in self.ranges) or (
            self.every is not None and number % self.every == 0
        )


def chosen_steps(
    steps: str | tuple[int, int] | None, every: int | None = None
) -> ChosenSteps | None:
    """The steps that `steps` names as text or as one range, or `every` selects; None: all."""
    if every is not None and every < 1:
        raise UsageError(f"every must be at least 1, not {every}")
    if steps is None:
        return None if every is None else ChosenSteps(every=every)
    ranges = _ranges(steps) if isinstance(steps, str) else (steps,)
    for first, last in ranges:
        if first > last:
            raise UsageError(f"steps {first}:{last} end before they begin")
    return ChosenSteps(tuple(ranges), every)


def _ranges(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(_range(part, text) for part in text.split(","))


def _range(part: str, text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d*)(:?)(\d*)", part, re.ASCII)
    if match is None or part in {"", ":"}:
        raise UsageError(f"--steps expects ranges such as 3:7 or 0:9,100:109, not {quoted(text)}")
    first = int(match[1] or 0)
    if not match[2]:
        return first, first
    return first, int(match[3]) if match[3] else sys.maxsize
