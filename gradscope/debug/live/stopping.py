"""Stops a recorded program, and runs the debugger until it goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import gradscope.debug.live.commands  # noqa: F401  it adds some
from gradscope.analysis.state.breakpoints.hits import hits
from gradscope.analysis.state.breakpoints.language import Breakpoint, read
from gradscope.analysis.state.moments import Moments
from gradscope.debug.live.ends import Looks, StopOnFinding
from gradscope.debug.live.front import Front, interruptible
from gradscope.debug.live.holds import FORWARD, StopConditions, short
from gradscope.debug.live.numbers import LiveNumbers
from gradscope.debug.live.walk import BY_HAND, GoesOn, LiveWalk, Until
from gradscope.errors import EmptyTraceError, GradscopeError
from gradscope.record.notes.sites import is_ours
from gradscope.record.script.signals import Stopped
from gradscope.record.stops.stop_places import StopPlace, StopPlaces
from gradscope.trace.load_save import load

if TYPE_CHECKING:
    from pathlib import Path
    from types import FrameType

    from gradscope.record.recording import Recording
    from gradscope.trace.trace import Trace

PAUSE = 0.25
"""Least seconds between two checks of the trace so far."""

SAID = {
    "called": "{name} has returned", "raised": "{name} has raised {error}",
    "begins": "{name} is about to run", "ran": "{name} has run",
    "backward": "a backward is about to begin", "asked": "the program requests a stop",
    "hook": "{name} is about to be called", "hook after": "{name} is about to be called",
}  # fmt: skip
"""Texts about places, by kind."""
NO_CALL = ": no operation that returns or writes a tensor was called there"


@dataclass(slots=True)
class LiveBreakpoint:
    """A breakpoint that was set."""

    text: str
    what: Breakpoint
    here: bool  # whether a place decides it; else the trace so far
    times: int = 0  # number of times it was reached


class Live:
    """The debugger of one running program.

    `ends`: ends the program without interaction. `at_places`: whether places are checked.
    """

    def __init__(
        self,
        front: Front,
        ends: StopOnFinding | None = None,
        *,
        at_places: bool = True,
        mourns: bool = False,
    ) -> None:
        self.front = front
        self._ends = ends
        self.at_places = at_places
        self._mourns = mourns  # also stops where the program crashes
        self.places = StopPlaces(self.passes)
        self.stops: dict[int, LiveBreakpoint] = {}
        self.replaced: dict[int, Any] = {}  # replaced gradients, by place
        self._numbers = count(1)
        self._holds = StopConditions(LiveNumbers(self.places))
        self._until: Until | None = None
        self._once: int | None = None  # a temporary breakpoint
        self._there: dict[tuple[int, bool], bool] = {}  # breakpoints whose line was the latest
        self._looks = Looks()
        self._end: Callable[[str], None] | None = None
        self._ending, self._ended = threading.Lock(), False
        self._seen = 0  # events in the trace when it was last checked

    @property
    def detached(self) -> bool:
        """Whether the debugger is detached."""
        return self.places.asleep

    @detached.setter
    def detached(self, alone: bool) -> None:
        self.places.asleep = alone

    @property
    def recording(self) -> Recording:
        assert self.places.recording is not None
        return self.places.recording

    # -- the program ----------------------------------------------------------------------------

    def begins(self, recording: Recording, end: Callable[[str], None]) -> None:
        """The program is about to start; `end` ends it."""
        with self._ending:
            self._end = end
            if self._ended:  # before it started
                raise Stopped(BY_HAND)
        if self._ends is not None:
            self._ends.watch(recording, partial(end, "by --stop-on"))

    @property
    def ends(self) -> bool:
        """Whether it was, or should have been, ended without interaction."""
        return self._ends is not None and self._ends.found

    def ended(self) -> bool:
        """The program is over. Returns whether only now a reason to end it was found."""
        return self._ends is not None and self._ends.off_duty()

    # -- stops ----------------------------------------------------------------------------------

    def add(self, text: str) -> int:
        what = read(text)
        number = next(self._numbers)
        wanted = LiveBreakpoint(text.strip(), what, self._holds.is_known_here(what))
        self.stops = {**self.stops, number: wanted}  # the program may be looking through them
        return number

    def remove(self, number: int) -> None:
        self.stops = {key: stop for key, stop in self.stops.items() if key != number}

    def until(self, until: Until) -> None:
        """Stop where this first holds."""
        self._until = until

    def passes(self, place: StopPlace) -> Sequence[Any] | None:
        """The program reached a place. Returns replaced gradients, if any."""
        if self.detached:
            return None
        reasons, moment = self._reasons(place), None
        if not reasons:
            reasons, moment = self._looked_back(place)
        if reasons:
            return self._stop(place, reasons, moment)
        return None

    def _reasons(self, place: StopPlace) -> list[tuple[int, str]]:
        """The reasons to stop there."""
        reasons = [(0, "gradscope.breakpoint()")] if place.kind == "asked" else []
        if self._until is not None and self._until(place):
            reasons.append((0, ""))
        for number, stop in self.stops.items():
            holds = stop.here and self._holds.at(place, stop.what)
            if stop.what.kind == "line":
                holds &= not self._still_there(place, number, holds)
            if not holds:
                continue
            stop.times += 1
            if stop.what.nth in (0, stop.times):
                reasons.append((number, self._said(number)))
        return reasons

    def _still_there(self, place: StopPlace, number: int, holds: bool) -> bool:  # noqa: FBT001
        """Whether the previous place was on the line of this breakpoint too."""
        if place.kind not in (*FORWARD, "begins"):
            return True
        where = number, place.kind == "begins"
        before, self._there[where] = self._there.get(where, False), holds
        return before

    def over(self) -> None:
        """The program has ended: report breakpoints that were never reached."""
        if not self.places.are_ours:
            return
        for number, stop in self.stops.items():
            if not stop.times and not self.detached and stop.what.kind != "error":
                why = NO_CALL if stop.what.kind == "line" else ""
                self.front.words(f"breakpoint {number} ({stop.text}) was never reached{why}")
        self.front.leave()

    def _said(self, number: int) -> str:
        text = self.stops[number].text
        return text if number == self._once else f"breakpoint {number}: {text}"

    def _looked_back(self, place: StopPlace) -> tuple[list[tuple[int, str]], int | None]:
        """Matches in the trace so far of breakpoints that no place decides; the first moment."""
        asked = {number: stop for number, stop in self.stops.items() if not stop.here}
        if not asked or not (
            self._is_news(asked) or self._looks.may(self.recording.events(), PAUSE)
        ):
            return [], None
        with self._looks.one(self.recording.events()):
            return self._seen_since(self._trace(place), asked)

    def _is_news(self, asked: dict[int, LiveBreakpoint]) -> bool:
        """Whether a requested event of the program was recorded since the last check."""
        if not self.places.news:
            return False
        news, self.places.news = self.places.news, set()
        acts = [stop.what for stop in asked.values() if stop.what.kind == "act"]
        return any(fnmatchcase(kind, what.wanted or "*") for what in acts for kind in news)

    def _seen_since(
        self, trace: Trace | None, asked: dict[int, LiveBreakpoint]
    ) -> tuple[list[tuple[int, str]], int | None]:
        reasons: list[tuple[int, str]] = []
        first = None
        if trace is not None:
            for number, stop in asked.items():
                try:
                    moments = hits(trace, stop.what)
                except GradscopeError:  # nothing of it is there yet
                    continue
                new = moments[moments >= self._seen]
                if len(new):
                    stop.times += 1
                    reasons.append(
                        (number, f"{self._said(number)} (it was recorded before this place)")
                    )
                    first = int(new[0]) if first is None else min(first, int(new[0]))
            self._seen = len(trace.once(Moments))
        return reasons, first

    def _trace(self, place: StopPlace) -> Trace | None:
        return self.recording.so_far(place.frame, running=place.kind in ("ran", "hook after"))

    # -- dialogue -------------------------------------------------------------------------------

    def _stop(
        self, place: StopPlace, reasons: list[tuple[int, str]], moment: int | None
    ) -> Sequence[Any] | None:
        trace = self._trace(place)
        if trace is None:
            return None
        try:
            walk = LiveWalk(trace, self, place)
        except EmptyTraceError:
            if place.kind == "asked":
                self.front.words(f"nothing has been recorded yet{_at(place)}; going on")
            return None
        self._until = None
        if self._once is not None:
            self.remove(self._once)
            self._once = None
        if moment is not None:
            walk.moment = moment
        self._seen = walk.last + 1
        self.replaced = {}
        try:
            with interruptible():
                ends = self.front.talk(walk, _said(place, reasons), [n for n, _ in reasons if n])
            self.detached = True
        except Stopped:
            ends = True
        except GoesOn as going:
            ends = False
            self._until = going.until
            if going.text:
                self._once = self.add(going.text)
        finally:
            walk.let_go()  # a gradient is moved into .grad only if nothing else holds it
        if ends:
            self.end()
        return self._results(place)

    def end(self) -> None:
        """End the program, also from other threads than the main one."""
        self.detached = True
        if threading.get_ident() == threading.main_thread().ident:
            raise Stopped(BY_HAND)
        with self._ending:
            self._ended = True
            if self._end is not None:
                self._end(BY_HAND)

    def pause(self) -> None:
        """Stop at the next place the program reaches; called while it runs."""
        self._until = _anywhere

    def dies(self, path: Path, error: BaseException) -> None:
        """The program crashed with this exception: open the debugger on its trace."""
        if self.detached or not self._mourns:
            return
        machinery = self.recording.engine.machinery
        place = StopPlace("raised", "the program", _frame_of(error, machinery), error=error)
        said = f"the program crashed{_at(place)}: {type(error).__name__}; use py to examine it"
        with suppress(EmptyTraceError, GoesOn):
            walk = LiveWalk(load(path), self, place, over=True)
            raised = hits(walk.trace, "error")
            walk.moment = int(raised[-1]) if len(raised) else walk.last
            with interruptible():
                self.front.talk(walk, said, [])

    def _results(self, place: StopPlace) -> Sequence[Any] | None:
        """The gradients, with replacements."""
        if not self.replaced:
            return None
        grads = list(place.given if place.kind == "begins" else place.made)
        for nr, grad in self.replaced.items():
            grads[nr] = grad
        what = "passed to" if place.kind == "begins" else "returned by"
        said = ", ".join(map(str, sorted(self.replaced)))
        self.recording.mark("what if", f"gradients {said} {what} {short(place.name)} were replaced")
        return tuple(grads)


def _said(place: StopPlace, reasons: list[tuple[int, str]]) -> str:
    what = SAID[place.kind].format(name=short(place.name), error=_described(place.error))
    why = "; ".join(text for _, text in reasons if text)
    return f"{what}{_at(place)}{f' ({why})' if why else ''}"


def _anywhere(_: StopPlace) -> bool:
    return True


def _described(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def _frame_of(error: BaseException, machinery: tuple[str, ...]) -> FrameType | None:
    """The innermost frame of the program in the traceback."""
    found, traceback = None, error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not is_ours(code) and not code.co_filename.startswith(machinery):
            found = traceback.tb_frame
        traceback = traceback.tb_next
    return found


def _at(place: StopPlace) -> str:
    frame = place.frame
    if frame is None:
        return ""
    return f" at {frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_lineno}"
