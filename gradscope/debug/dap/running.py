"""The operations that are possible while a program runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.debug.walk import SetBreakpoint
from gradscope.errors import UsageError

if TYPE_CHECKING:
    from gradscope.debug.live.stopping import Live


class RunningProgram:
    """A program while it runs, or before it starts: breakpoints can be set."""

    def __init__(self, live: Live) -> None:
        self._live = live

    @property
    def stops(self) -> dict[int, Any]:
        return self._live.stops

    def set(self, text: str) -> SetBreakpoint:
        return SetBreakpoint(self._live.add(text), text.strip(), np.zeros(0, np.int64))

    def remove(self, number: int) -> None:
        self._live.remove(number)

    def threads(self) -> list[dict[str, Any]]:
        """The threads that have used the engine."""
        recording = self._live.places.recording
        session = None if recording is None else recording.session
        names = {} if session is None else session.contexts.threads.names()
        return [{"id": id + 1, "name": name} for id, name in names.items()] or [
            {"id": 1, "name": threading.main_thread().name}
        ]

    def pause(self) -> None:
        """Stop at the next place that the program reaches."""
        self._live.pause()

    def __getattr__(self, name: str) -> Any:
        raise UsageError("the program is running: pause stops it at its next operation")
