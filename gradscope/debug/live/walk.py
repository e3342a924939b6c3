"""Moves through the trace of a stopped program, which continues at the end of the trace."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.analysis.state.breakpoints.hits import hits
from gradscope.analysis.state.breakpoints.language import read
from gradscope.debug.live.console import run, scope_of
from gradscope.debug.live.holds import short
from gradscope.debug.walk import MoveResult, SetBreakpoint, Walk
from gradscope.errors import UnknownNameError, UsageError
from gradscope.record.notes.local_names import names_of
from gradscope.record.stops.stop_places import StopPlace

if TYPE_CHECKING:
    from gradscope.debug.live.stopping import Live
    from gradscope.trace.trace import Trace

Until = Callable[["StopPlace"], bool]
WORK = ("begins", "called")
BY_HAND = "in the debugger"
"""The reason of the end of a script that was stopped in the debugger."""


class GoesOn(Exception):  # noqa: N818  it is no error
    """Raised to let the program go on until this holds at a place, or a breakpoint does."""

    def __init__(self, until: Until | None = None, text: str = "") -> None:
        super().__init__(text)
        self.until = until
        self.text = text  # a temporary breakpoint


class LiveWalk(Walk):
    """Moves through the trace so far; beyond its end, the program goes on."""

    def __init__(self, trace: Trace, live: Live, place: StopPlace, *, over: bool = False) -> None:
        super().__init__(trace)
        self.live, self.over = live, over
        self.place_now = place
        self.moment = self.last
        self.scope = scope_of(place, self)
        for number, stop in live.stops.items():
            self.stops[number] = SetBreakpoint(number, stop.text, self._so_far(stop.text))

    def let_go(self) -> None:
        """Release all objects of the program."""
        here = self.scope.pop("gs")
        here.__dict__.clear()
        self.scope.clear()
        self.place_now = StopPlace("asked", "", None)

    def shown(self, text: str) -> str:
        """The value of an expression where the program stopped."""
        out = StringIO()
        with self.live.places.aside():
            run(text, self.scope, out)
        return out.getvalue().rstrip()

    def named(self, tensor: Any) -> str:
        """The name of a tensor in modules, or else in variables."""
        names = names_of(tensor, self.place_now.frame)
        return max(names, key=lambda name: (name.count("."), -len(name), name), default="a leaf")

    def set(self, text: str) -> SetBreakpoint:
        """Set a breakpoint, even if nothing has matched it yet."""
        read(text)
        number = self.live.add(text)
        stop = self.stops[number] = SetBreakpoint(number, text.strip(), self._so_far(text))
        return stop

    def remove(self, number: int) -> SetBreakpoint:
        stop = super().remove(number)
        self.live.remove(number)
        return stop

    def _so_far(self, text: str) -> np.ndarray:
        try:
            return hits(self.trace, text)
        except (UnknownNameError, UsageError):  # nothing with that name was recorded yet
            return np.zeros(0, np.int64)

    # -- moves beyond the end of the trace ------------------------------------------------------

    def step(self, many: int) -> MoveResult:
        left = self.moment + many - self.last
        if left <= 0 or self.over:
            return super().step(many)
        places = count(1)
        raise GoesOn(lambda _: next(places) >= left)

    def node(self, many: int) -> MoveResult:
        return self._beyond(super().node(many), many > 0, lambda place: place.kind == "begins")

    def work(self, many: int) -> MoveResult:
        return self._beyond(super().work(many), many > 0, lambda place: place.kind in WORK)

    def out(self, *, forward: bool) -> MoveResult:
        name = short(self.place_now.name)

        def over(place: StopPlace) -> bool:
            return place.kind == "ran" and short(place.name) == name

        begun = self.place_now.kind == "begins"
        until = over if begun else lambda place: place.kind == "called"
        return self._beyond(super().out(forward=forward), forward, until)

    def run(self, *, forward: bool, until: str = "") -> MoveResult:
        if forward and until and not self.over:
            read(until)
            if not (self._so_far(until) > self.moment).any():
                raise GoesOn(text=until)
        return self._beyond(super().run(forward=forward, until=until), forward, None)

    def _beyond(self, arrival: MoveResult, forward: bool, until: Until | None) -> MoveResult:  # noqa: FBT001
        """At the end of the trace, let the program go on."""
        if forward and arrival.at_edge and not self.over:
            raise GoesOn(until)
        return arrival
