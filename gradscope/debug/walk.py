"""A position in a trace, and moves: by moments, by nodes, to breakpoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from os import PathLike

import numpy as np

from gradscope.analysis.lookups import Ids
from gradscope.analysis.state.breakpoints.hits import hits
from gradscope.analysis.state.state import State, TraceStretches, at
from gradscope.errors import EmptyTraceError, UnknownNameError, UsageError
from gradscope.trace.load_save import load
from gradscope.trace.schema import NodeBegin, Op
from gradscope.trace.trace import Trace


@dataclass(slots=True)
class SetBreakpoint:
    """One breakpoint that was set."""

    number: int
    text: str
    moments: Ids = field(repr=False)


@dataclass(frozen=True, slots=True)
class MoveResult:
    """Where a move ended, and why."""

    moment: int
    stops: tuple[SetBreakpoint, ...] = ()  # the breakpoints where it stopped
    at_edge: str = ""  # "the end of the trace", if it got there


class Walk:
    """A position that moves through a trace, or through a trace file."""

    def __init__(self, trace: Trace | str | PathLike[str]) -> None:
        self.trace = trace if isinstance(trace, Trace) else load(trace)
        self._held = self.trace.once(TraceStretches)
        if not len(self._held.moments):
            raise EmptyTraceError("this trace contains no events to step through")
        self.moment = 0
        self.stops: dict[int, SetBreakpoint] = {}
        self._numbers = count(1)
        self._before: list[int] = []

    @property
    def state(self) -> State:
        """The state right after the current moment."""
        return at(self.trace, self.moment)

    @property
    def last(self) -> int:
        return len(self._held.moments) - 1

    def at(self, where: str | int) -> State:
        """The state right after a moment: its number, "e57" for event 57, "train.py:41", "nan"."""
        moment = self.place(str(where))
        if not 0 <= moment <= self.last:
            raise UnknownNameError(
                f"there is no moment {moment:,}: this trace has moments 0 to {self.last:,}"
            )
        return at(self.trace, moment)

    # -- breakpoints ----------------------------------------------------------------------------

    def set(self, text: str) -> SetBreakpoint:
        moments = hits(self.trace, text)
        stop = SetBreakpoint(next(self._numbers), text.strip(), moments)
        self.stops[stop.number] = stop
        return stop

    def remove(self, number: int) -> SetBreakpoint:
        if number not in self.stops:
            known = ", ".join(map(str, self.stops)) or "none is set"
            raise UnknownNameError(f"there is no breakpoint {number}: {known}")
        return self.stops.pop(number)

    # -- moves ----------------------------------------------------------------------------------

    def go(self, moment: int) -> MoveResult:
        if not 0 <= moment <= self.last:
            raise UnknownNameError(
                f"there is no moment {moment:,}: this trace has moments 0 to {self.last:,}"
            )
        self._before.append(self.moment)
        self.moment = moment
        return MoveResult(moment, self._holding(moment))

    def back(self) -> MoveResult:
        """Go back to where the last move started."""
        if not self._before:
            raise UnknownNameError("there was no move before this")
        self.moment = self._before.pop()
        return MoveResult(self.moment, self._holding(self.moment))

    def next(self, what: str = "") -> State | None:
        """The state at the next moment, or at the next match of `what`; None if there is none.

        As in `walk.next("nan")`; the language is that of `break`.
        """
        arrival = self.run(forward=True, until=what) if what else self.step(1)
        return None if arrival.at_edge else self.state

    def previous(self, what: str = "") -> State | None:
        arrival = self.run(forward=False, until=what) if what else self.step(-1)
        return None if arrival.at_edge else self.state

    def step(self, many: int) -> MoveResult:
        """Go `many` moments forward, or back if negative."""
        wanted = self.moment + many
        return self._to(min(max(wanted, 0), self.last), beyond=not 0 <= wanted <= self.last)

    def node(self, many: int) -> MoveResult:
        """Go to the start of the next node, or a later one; back if `many` is negative."""
        return self._among(self._held.moments.of(NodeBegin), many)

    def work(self, many: int) -> MoveResult:
        """Go to the next start of a node or call of an operation; back if `many` is negative."""
        moments = self._held.moments
        return self._among(np.concatenate([moments.of(NodeBegin), moments.of(Op)]), many)

    def out(self, *, forward: bool) -> MoveResult:
        """Go to the end, or the start, of the running node, or else backward."""
        engine = self._held.engine
        for stretches in (engine.running, engine.tasks):
            places = np.flatnonzero(
                (stretches.since <= self.moment) & (self.moment < stretches.until)
            )
            ends = (stretches.until if forward else stretches.since)[places]
            ends = ends[(ends != self.moment) & (ends <= self.last)]
            if len(ends):
                return self.go(int(ends.min() if forward else ends.max()))
        return self._to(self.last if forward else 0, beyond=True)

    def run(self, *, forward: bool, until: str = "") -> MoveResult:
        """Go to the nearest breakpoint, or once to `until`."""
        stops = (
            [SetBreakpoint(0, until, hits(self.trace, until))] if until else [*self.stops.values()]
        )
        moments = np.unique(np.concatenate([np.zeros(0, np.int64), *(s.moments for s in stops)]))
        arrival = self._among(moments, 1 if forward else -1)
        if until and not arrival.at_edge:
            return MoveResult(arrival.moment, (stops[0],))
        return arrival

    def _among(self, moments: Ids, many: int) -> MoveResult:
        """Go to the next of these sorted moments, or a later one, or back."""
        moments = np.sort(moments)
        if many > 0:
            place = int(np.searchsorted(moments, self.moment, side="right")) + many - 1
        else:
            place = int(np.searchsorted(moments, self.moment, side="left")) + many
        if 0 <= place < len(moments):
            return self.go(int(moments[place]))
        return self._to(self.last if many > 0 else 0, beyond=True)

    def _to(self, moment: int, *, beyond: bool) -> MoveResult:
        edge = "the end of the trace" if moment == self.last else "the beginning of the trace"
        arrival = self.go(moment)
        return MoveResult(moment, arrival.stops, edge if beyond else "")

    def _holding(self, moment: int) -> tuple[SetBreakpoint, ...]:
        return tuple(
            stop for stop in self.stops.values()
            if (place := int(np.searchsorted(stop.moments, moment))) < len(stop.moments)
            and stop.moments[place] == moment
        )  # fmt: skip

    def place(self, wanted: str) -> int:
        """The moment of a text: a number, e57, start, end, or a breakpoint."""
        text = wanted.strip().replace(",", "")
        if text.isdecimal() and len(text) < 19:
            return int(text)
        if text[:1] == "e" and text[1:].isdecimal() and len(text) < 19:
            return self._held.moments.of_seq(int(text[1:]))
        if text in ("start", "end"):
            return 0 if text == "start" else self.last
        if text[:1] == "-" and text[1:].isdecimal():
            raise UnknownNameError(
                f"there is no moment {text}: this trace has 0 to {self.last:,}; back N goes back"
            )
        if text == "#":
            raise UsageError(
                "goto needs # and the start of the id of a finding; findings lists them"
            )
        if text.startswith("#"):
            text = f"finding {text}"
        moments = hits(self.trace, text)
        if not len(moments) and text.startswith("finding "):
            raise UnknownNameError(
                f"{wanted.strip()} belongs to no moment; findings shows its line"
            )
        if not len(moments):
            raise UnknownNameError(f"no moment of this trace matches {wanted.strip()!r}")
        return int(moments[0])
