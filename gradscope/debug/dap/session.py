"""One editor's session: the trace it opened, its place in it, and what it was told of."""

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
    """What requests of one client share."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.opened: Any = None  # a Walk; a program that runs
        self.known_sources: Sources | None = None
        self.variables = Variables()
        self.levels: list[StackLevel] = []  # of stacks that were told since the last stop
        self.set: dict[str, list[int]] = {}  # numbers of breakpoints, by where they were set
        self.launched: Launched | None = None  # a script, whose own debugger answers
        self.stops_first = True
        self.stops_at = ""  # where, if it was asked for
        self.over = self.ends = False  # the session; and with it the program
        self.live = self.configured = False  # of a program that runs; it may begin
        self.pauses = False  # it has asked for a pause
        self._after: list[Callable[[], None]] = []

    @property
    def walk(self) -> Walk:
        """The way through the trace that is open."""
        if self.opened is None:
            raise UsageError("no trace is open: launch with the path of one as `program`")
        return self.opened  # type: ignore[no-any-return]

    @property
    def sources(self) -> Sources:
        if self.known_sources is None:
            raise UsageError("no trace is open: launch with the path of one as `program`")
        return self.known_sources

    def after(self, what: Callable[[], None]) -> None:
        """Do this when the request is answered."""
        self._after.append(what)

    def settle(self) -> None:
        """The request is answered."""
        after, self._after = self._after, []
        for each in after:
            each()


Request = Callable[[EditorSession, Asked], dict[str, Any] | None]
REQUESTS: dict[str, Request] = {}


def request(*names: str) -> Callable[[Request], Request]:
    """Declare what answers requests of these names."""

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
