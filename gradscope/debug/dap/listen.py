"""Where clients come from: the pipe this was started with, or a port of this machine."""

from __future__ import annotations

import sys
from contextlib import suppress
from threading import Thread

from gradscope.debug.dap.door import Door
from gradscope.debug.dap.requests import CAN
from gradscope.debug.dap.server import serve
from gradscope.debug.dap.wire import Wire


def over_pipe() -> None:
    """One client, at the standard input and output."""
    _served(Wire(sys.stdin.buffer, sys.stdout.buffer))


def over_port(where: str) -> None:
    """Any number of clients of this machine, each with a way of its own through its trace."""
    with Door(where, CAN) as door:
        door.say("listening on")
        while True:
            Thread(target=_served, args=(door.next_editor(),), daemon=True).start()


def _served(wire: Wire) -> None:
    with suppress(BrokenPipeError, ConnectionError):
        serve(wire)
    wire.close()
