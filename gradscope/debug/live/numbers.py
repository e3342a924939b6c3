"""Checks of the values of tensors at a place in a program."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gradscope.record.stops.stop_places import StopPlace, StopPlaces

STATISTICS: dict[str, Callable[[Any], float]] = {
    "norm": lambda a: float(np.sqrt(np.square(np.abs(a)).sum(dtype=np.float64))),
    "rms": lambda a: float(np.sqrt(np.square(np.abs(a)).mean(dtype=np.float64))),
    "mean": lambda a: float(np.mean(a, dtype=np.float64)),
    "min": lambda a: float(np.min(a)),
    "max": lambda a: float(np.max(a)),
    "nan": lambda a: int(np.isnan(a).sum()),
    "inf": lambda a: int(np.isinf(a).sum()),
    "posinf": lambda a: int(np.isposinf(a).sum()),
    "neginf": lambda a: int(np.isneginf(a).sum()),
    "zero": lambda a: int((a == 0).sum()),
}  # fmt: skip
"""Statistics by their names in conditions."""


UNWRITTEN = ("empty", "new_empty")
"""Prefixes of the names of calls that return uninitialized memory."""


class LiveNumbers:
    """Reads tensors of one engine."""

    def __init__(self, places: StopPlaces) -> None:
        self._places = places
        self._handed = {"nan": False, "inf": False}  # since the start of the backward

    def of(self, tensors: Iterable[Any]) -> list[Any]:
        """The non-empty floating-point tensors, as arrays."""
        found = (self._places.numbers(each) for each in tensors if each is not None)
        return [each for each in found if each is not None and each.size]

    def is_born(self, kind: str, place: StopPlace) -> bool:
        """Whether a NaN or Inf is in the results and not in the inputs."""
        if place.kind == "backward":
            self._handed[kind] = False
        if place.kind not in ("called", "ran", "begins"):
            return False
        has = np.isnan if kind == "nan" else np.isinf
        if place.name.startswith(UNWRITTEN):
            return False
        told = any(math.isnan(each) if kind == "nan" else math.isinf(each)
                   for each in place.scalars)  # fmt: skip
        if place.kind == "begins":
            return self._in_a_sum(kind, any(has(each).any() for each in self.of(place.given)))
        if told or not any(has(each).any() for each in self.of(place.made)):
            return False
        self._handed[kind] |= place.kind == "ran"
        given = [each for each in place.given if not any(each is one for one in place.wrote)]
        return not any(has(each).any() for each in self.of(given))

    def _in_a_sum(self, kind: str, there: bool) -> bool:  # noqa: FBT001
        """Whether it was produced by adding gradients: no node of this backward returned one."""
        before, self._handed[kind] = self._handed[kind], self._handed[kind] or there
        return there and not before

    def statistic(self, name: str, place: StopPlace) -> list[float]:
        """This statistic of each tensor that was checked there."""
        looked = place.given if place.kind == "begins" else place.made
        with np.errstate(all="ignore"):
            return [STATISTICS[name](each) for each in self.of(looked)]
