"""Where clients come from: the pipe this was started with, or a port of this machine."""

from __future__ import annotations

import secrets
import socketserver
import sys
from contextlib import suppress

from gradscope.debug.dap.server import serve
from gradscope.debug.dap.wire import Wire

HERE = "127.0.0.1"


def over_pipe() -> None:
    """One client, at the standard input and output."""
    with suppress(BrokenPipeError, ConnectionError):
        serve(Wire(sys.stdin.buffer, sys.stdout.buffer))


def over_port(port: int) -> None:
    """Any number of clients of this machine, each with a way of its own through its trace."""
    token = secrets.token_hex(16)

    class Client(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with suppress(BrokenPipeError, ConnectionError):
                serve(Wire(self.rfile, self.wfile), token)  # type: ignore[arg-type]

    class Listener(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    with Listener((HERE, port), Client) as listener:
        at = listener.server_address[1]
        sys.stderr.write(f"gradscope: listening on {HERE}:{at}, token {token}\n")
        sys.stderr.flush()
        listener.serve_forever()
