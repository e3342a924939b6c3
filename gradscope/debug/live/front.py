"""The front ends of the debugger: a terminal, or an editor (dap/live.py)."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from gradscope.debug.lines import converse, show
from gradscope.debug.live.walk import GoesOn
from gradscope.debug.screen import opening
from gradscope.record.script.signals import Stopped
from gradscope.render.terminal.cells import line
from gradscope.render.terminal.styles import BOLD

if TYPE_CHECKING:
    from gradscope.debug.live.walk import LiveWalk
    from gradscope.render.terminal.terminal import Terminal


class Front(Protocol):
    """The interface of a front end."""

    by_hand: bool
    """Whether a person types at a terminal."""

    def talk(self, walk: LiveWalk, said: str, hit: list[int]) -> bool:
        """The program has stopped; `said`: where and why; `hit`: the numbers of breakpoints.

        Raises GoesOn to continue the program. Otherwise the debugger detaches from it, or ends it
        if the result is True.
        """

    def words(self, text: str) -> None:
        """Show a message."""

    def leave(self) -> None:
        """The program is over."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Let the debugger handle Ctrl-C, not the program."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class LineConsole:
    """Commands and answers as lines of text, mixed with the output of the program."""

    def __init__(self, out: Terminal, lines: int, typed: Iterable[str], *, by_hand: bool) -> None:
        self._out = out
        self._lines = lines
        self._typed = _of_this_process(typed)
        self.by_hand = by_hand

    def talk(self, walk: LiveWalk, said: str, hit: list[int]) -> bool:  # noqa: ARG002 -- it is said
        self.words(said)
        show(walk, "state", self._out, self._lines)
        while True:
            try:
                if converse(walk, self._typed, self._out, self._lines, echo=not self.by_hand).quits:
                    return True
                break
            except KeyboardInterrupt:
                self.words("interrupted")
        self.words("going on without stopping")
        return False

    def words(self, text: str) -> None:
        sys.stdout.flush()
        self._out.show([line((self._out.charset.text(f"gradscope: {text}"), BOLD))])

    def leave(self) -> None:
        """Nothing to do."""


def _of_this_process(typed: Iterable[str]) -> Iterator[str]:
    """The typed lines; ends in a forked child, which is not debugged."""
    process = os.getpid()
    for text in typed:
        yield text
        if os.getpid() != process:
            return


class ScreenConsole(LineConsole):
    """The full-screen debugger at each stop; after quitting it, lines of text."""

    def talk(self, walk: LiveWalk, said: str, hit: list[int]) -> bool:
        self.words(said)
        if threading.current_thread() is threading.main_thread():
            opening.show(walk, leaving=(GoesOn, Stopped))
            said = "the program is still stopped: continue, detach, stop, or any other command"
        return super().talk(walk, said, hit)
