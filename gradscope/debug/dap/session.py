"""One editor's session: the trace it opened, its position, and what was sent to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradscope.debug.dap.launched import Launched
from gradscope.debug.dap.sources import Sources
from gradscope.debug.dap.stack import StackLevel, thread_of
from gradscope.debug.dap.variables import Variables
from gradscope.debug.dap.wire import Wire
from gradscope.debug.walk import MoveResult, Walk
from gradscope.errors import UsageError
from gradscope.scene.moments import MomentWords

EXCEPTIONS = frozenset({"error", "nan", "inf", "finding"})


def reason_for(breakpoint: str) -> str:
    """What a stop at this breakpoint is called by the Debug Adapter Protocol."""
    is_wrong = breakpoint.partition(" ")[0] in EXCEPTIONS or breakpoint.startswith("#")
    return "exception" if is_wrong else "breakpoint"


Asked = dict[str, Any]


class EditorSession:
    """The state shared by the requests of one client."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.opened: Any = None  # a Walk; a program that runs
        self.known_sources: Sources | None = None
        self.variables = Variables()
        self.levels: list[StackLevel] = []  # of stacks that were sent since the last stop
        self.set: dict[str, list[int]] = {}  # numbers of breakpoints, by where they were set
        self.launched: Launched | None = None  # a script, whose own debugger answers
        self.stops_first = True
        self.stops_at = ""  # where, if requested
        self.over = self.ends = False  # whether the session is over, and ends the program
        self.live = self.configured = False  # of a running program; it may start
        self.pauses = False  # a pause was requested
        self._after: list[Callable[[], None]] = []

    @property
    def walk(self) -> Walk:
        """The walk through the open trace."""
        if self.opened is None:
            raise UsageError("no trace is open: launch with the path of a trace as `program`")
        return self.opened  # type: ignore[no-any-return]

    @property
    def sources(self) -> Sources:
        if self.known_sources is None:
            raise UsageError("no trace is open: launch with the path of a trace as `program`")
        return self.known_sources

    def after(self, what: Callable[[], None]) -> None:
        """Do this after the reply to the request."""
        self._after.append(what)

    def settle(self) -> None:
        """The reply was sent."""
        after, self._after = self._after, []
        for each in after:
            each()


Request = Callable[[EditorSession, Asked], dict[str, Any] | None]
REQUESTS: dict[str, Request] = {}


def request(*names: str) -> Callable[[Request], Request]:
    """Declare the function that answers these requests."""

    def declared(answers: Request) -> Request:
        REQUESTS.update(dict.fromkeys(names, answers))
        return answers

    return declared


def stopped(
    session: EditorSession, reason: str, text: str = "", hit: list[int] | None = None
) -> None:
    session.variables.clear()
    session.levels.clear()
    state = session.walk.state
    say = state.trace.once(MomentWords)
    more = {"hitBreakpointIds": hit} if hit else {}
    session.wire.event(
        "stopped", reason=reason, threadId=thread_of(state), allThreadsStopped=True,
        description=text or say.said(state.happened), text=text or say.said(state.happened),
        **more,
    )  # fmt: skip


def arrived(session: EditorSession, arrival: MoveResult, reason: str) -> None:
    hit = [stop.number for stop in arrival.stops]
    if hit:
        stopped(session, reason_for(arrival.stops[0].text), arrival.stops[0].text, hit)
    else:
        stopped(session, "pause" if arrival.at_edge else reason, arrival.at_edge)
