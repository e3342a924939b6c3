"""Answers one client of the debugger until it disconnects."""

from __future__ import annotations

from typing import Any

from gradscope.debug.dap import breakpoints, requests
from gradscope.debug.dap.session import REQUESTS, EditorSession
from gradscope.debug.dap.wire import UnreadableMessageError, Wire
from gradscope.debug.live.walk import GoesOn
from gradscope.errors import GradscopeError

ANSWERING = breakpoints, requests
"""The modules that declare requests."""


def serve(wire: Wire) -> None:
    """Serve until the client disconnects."""
    session = EditorSession(wire)
    while not session.over and answer_next(session):
        if session.launched is not None:
            session.launched.relay(wire)
            return


def answer_next(session: EditorSession) -> bool:
    """Answer the next message. False if there is none, or the stream is unreadable."""
    message = next_message(session)
    if message is not None:
        answer(session, message)
    return message is not None


def next_message(session: EditorSession) -> dict[str, Any] | None:
    """The next readable message, or None at the end; unreadable ones are reported."""
    while True:
        try:
            return session.wire.receive()
        except UnreadableMessageError as error:
            text = f"gradscope: {error}\n"
            session.wire.event("output", category="stderr", output=text)
            if error.over:
                return None


def answer(session: EditorSession, request: dict[str, Any]) -> None:
    """Answer a message, if it is a request."""
    if request.get("type") != "request":
        return
    name, asked = str(request.get("command")), request.get("arguments")
    reply = {"type": "response", "request_seq": request.get("seq", 0), "command": name}
    answers = REQUESTS.get(name)
    try:
        if answers is None:
            reply |= {
                "success": False,
                "message": f"gradscope does not support the request {name!r}",
            }
        else:
            body = answers(session, asked if isinstance(asked, dict) else {})
            reply |= {"success": True, "body": body or {}}
    except GoesOn:
        session.wire.send(reply | {"success": True, "body": {}})
        raise
    except GradscopeError as error:
        reply |= {"success": False, "message": str(error)}
    except Exception as error:  # noqa: BLE001 -- a fault of ours, or nonsense, ends no session
        text = f"internal error of gradscope: {type(error).__name__}: {error}"
        reply |= {"success": False, "message": text}
    session.wire.send(reply)
    session.settle()
