"""Serves clients over a pipe, or over a port of this machine."""

from __future__ import annotations

import sys
from contextlib import suppress
from threading import Thread

from gradscope.debug.dap.door import Door
from gradscope.debug.dap.requests import CAN
from gradscope.debug.dap.server import serve
from gradscope.debug.dap.wire import Wire


def over_pipe() -> None:
    """Serve one client on standard input and output."""
    _served(Wire(sys.stdin.buffer, sys.stdout.buffer))


def over_port(where: str) -> None:
    """Serve any number of clients on this machine, each with a separate session."""
    with Door(where, CAN) as door:
        door.say("listening on")
        while True:
            Thread(target=_served, args=(door.next_editor(),), daemon=True).start()


def _served(wire: Wire) -> None:
    with suppress(BrokenPipeError, ConnectionError):
        serve(wire)
    wire.close()
