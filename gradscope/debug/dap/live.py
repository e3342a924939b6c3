"""An editor's session with a running program.

# Note [Which thread answers]
A thread reads the requests of the editor. While the program runs, that thread answers: breakpoints
are set and deleted, the program is paused, ended or detached; requests that need a stopped program
are refused. While the program is stopped, its own thread answers, which has the tensors and frames.
"""

from __future__ import annotations

import _thread
from contextlib import suppress
from queue import SimpleQueue
from threading import RLock
from typing import TYPE_CHECKING, Any

from gradscope.debug.dap.door import Door
from gradscope.debug.dap.requests import CAN
from gradscope.debug.dap.running import RunningProgram
from gradscope.debug.dap.server import answer, answer_next, next_message
from gradscope.debug.dap.session import EditorSession, reason_for, stopped
from gradscope.debug.dap.sources import Sources
from gradscope.record.process.periodic_flush import signals_blocked

if TYPE_CHECKING:
    from gradscope.debug.live.stopping import Live
    from gradscope.debug.live.walk import LiveWalk

GONE = (BrokenPipeError, ConnectionError, ValueError, OSError)
"""Exceptions of writing to a client that is gone."""


class Editor:
    """One accepted client."""

    by_hand = False

    def __init__(self, where: str) -> None:
        """`where`: a port of this machine, or a path."""
        self._door = Door(where, CAN)
        self._session: EditorSession | None = None
        self._turn = RLock()
        self._stands = False
        self._asked: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._door.say("waiting for an editor on")

    def waits(self, live: Live) -> None:
        """Wait for an editor, and for its configuration before the program starts."""
        session = None
        with self._door as door:  # no other client is accepted
            while session is None:
                wire = door.next_editor()
                asking = EditorSession(wire)
                asking.live, asking.stops_first = True, False
                asking.opened = RunningProgram(live)
                with suppress(*GONE):
                    while not (asking.over or asking.configured) and answer_next(asking):
                        pass
                if asking.configured:
                    session = self._session = asking
                else:
                    wire.close()
        if session.stops_first:
            live.until(lambda place: place.kind in ("called", "begins"))
        with signals_blocked():
            _thread.start_new_thread(self._reads, (session, live))

    def _reads(self, session: EditorSession, live: Live) -> None:
        """See Note [Which thread answers]."""
        message: dict[str, Any] | None = {}
        while message is not None and not session.over:
            try:
                message = next_message(session)
            except GONE:
                message = None
            with self._turn:
                if self._stands:
                    self._asked.put(message)
                elif message is not None:
                    self._answered(session, message)
        with self._turn:
            if not self._stands and not live.detached:
                _left(session, live)

    def _answered(self, session: EditorSession, message: dict[str, Any]) -> None:
        """Answer a request while the program runs."""
        try:
            answer(session, message)
        except GONE:
            session.over = True

    def talk(self, walk: LiveWalk, said: str, hit: list[int]) -> bool:
        """Answer the editor until the program goes on (`GoesOn`), is to end, or is detached.

        Returns whether it is to end.
        """
        session = self._session
        if session is None or session.over:
            return False
        with self._turn:
            running, self._stands = session.opened, True
            session.opened, session.known_sources = walk, Sources(walk.trace)
        try:
            with suppress(*GONE):
                stopped(session, self._reason(session, walk, hit), said, hit)
                while not session.over:
                    message = self._asked.get() if session.wire.is_ours else None
                    if message is None:
                        break
                    answer(session, message)
            session.over = True
        finally:
            self._goes_on(session, running)
        return session.ends

    def _reason(self, session: EditorSession, walk: LiveWalk, hit: list[int]) -> str:
        """What the stop is called by the Debug Adapter Protocol."""
        first, pauses = session.stops_first, session.pauses
        session.stops_first = session.pauses = False
        if hit:
            return reason_for(walk.live.stops[hit[0]].text)
        if walk.over:  # the program has died
            return "exception"
        return "entry" if first else "pause" if pauses else "step"

    def _goes_on(self, session: EditorSession, running: Any) -> None:
        """The program runs; requests that arrived before are answered like later ones."""
        with self._turn:
            self._stands, session.opened = False, running
            while not self._asked.empty():
                message = self._asked.get()
                session.over |= message is None
                if message is not None:
                    self._answered(session, message)

    def words(self, text: str) -> None:
        """Show a message that is not about a place."""
        if self._session is not None:
            with suppress(*GONE):
                self._session.wire.event("output", category="console", output=f"{text}\n")

    def leave(self) -> None:
        """The program is over."""
        if self._session is not None:
            self._session.over = True
            with suppress(*GONE):
                self._session.wire.event("terminated")


def _left(session: EditorSession, live: Live) -> None:
    """The editor is gone, or wants the program to end."""
    if session.ends:
        live.end()
    else:
        live.detached = True
