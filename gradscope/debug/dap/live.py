"""An editor's session with a program that is running: served where the program stands."""

from __future__ import annotations

import secrets
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from gradscope.debug.dap.listen import HERE
from gradscope.debug.dap.server import answer_next
from gradscope.debug.dap.session import REASONS, Session, stopped
from gradscope.debug.dap.sources import Sources
from gradscope.debug.dap.wire import Wire
from gradscope.debug.walk import Stop

if TYPE_CHECKING:
    from gradscope.debug.live.stopping import Live
    from gradscope.debug.live.walk import LiveWalk

GONE = (BrokenPipeError, ConnectionError, ValueError, OSError)
"""What becomes of writing to a client that is not there any more."""


class NotBegun:
    """The program before it has come anywhere: breakpoints can be set."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self.stops: dict[int, Stop] = {}

    def set(self, text: str) -> Stop:
        """Stop there, when the program comes there."""
        number = self._live.add(text)
        stop = self.stops[number] = Stop(number, text.strip(), np.zeros(0, np.int64))
        return stop

    def remove(self, number: int) -> None:
        """Do so no longer."""
        del self.stops[number]
        self._live.remove(number)


class Editor:
    """One client, over a port of this machine, that knows the token."""

    by_hand = False

    def __init__(self, port: int) -> None:
        self.token = secrets.token_hex(16)
        self._listener = socket.create_server((HERE, port))
        self._session: Session | None = None
        at = self._listener.getsockname()[1]
        sys.stderr.write(f"gradscope: waiting for an editor on {HERE}:{at}, token {self.token}\n")
        sys.stderr.flush()

    def waits(self, live: Live) -> None:
        """Until one has come, and has said all that it wants before the program begins."""
        stops_first = False
        while self._session is None:
            client, _ = self._listener.accept()
            wire = Wire(client.makefile("rb"), client.makefile("wb"))
            session = Session(wire, self.token)
            session.live = True
            session.opened = NotBegun(live)  # type: ignore[assignment]
            session.stops_first = False
            with suppress(*GONE):
                _until(session, "over", "configured")
            if session.configured:
                self._session = session
            stops_first = session.stops_first
        if stops_first:
            live.until(lambda place: place.kind in ("called", "begins"))

    def talk(self, walk: LiveWalk, said: str, hit: list[int]) -> bool:
        """Answer the editor until the program goes on (`GoesOn`), is to end, or it is left alone.

        Whether it is to end.
        """
        session = self._session
        if session is None or session.over:
            return False
        session.opened, session.known_sources = walk, Sources(walk.trace)
        with suppress(*GONE):
            kinds = [walk.live.stops[number].text.partition(" ")[0] for number in hit]
            reason = REASONS.get(kinds[0], "breakpoint") if kinds else "step"
            stopped(session, reason, said, hit)
            _until(session, "over")
        session.over = True
        return session.ends

    def words(self, text: str) -> None:
        """What is not about a place."""
        if self._session is not None:
            with suppress(*GONE):
                self._session.wire.event("output", category="console", output=f"{text}\n")

    def leave(self) -> None:
        """The program is over."""
        if self._session is not None:
            with suppress(*GONE):
                self._session.wire.event("terminated")
        self._listener.close()


def _until(session: Session, *holds: str) -> None:
    """Answer all that is asked until one of these holds, or nobody asks any more."""
    while answer_next(session):
        if any(getattr(session, each) for each in holds):
            return
