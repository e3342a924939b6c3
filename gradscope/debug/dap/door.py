"""Accepts editors: only a client that knows the token gets a session.

# Note [Before the token]
A debugger runs any code that its client asks for, and everybody on the machine can connect to a
port; a web page in a browser can do so too. So a new client may send two things, `initialize` and
then `launch` or `attach` with the token. Anything else closes its connection unanswered: another
request, a line of HTTP, more than MOST_BYTES, more than SECONDS in all. If more than MOST_CLIENTS
wait here, the oldest of them is closed, so that none of them can keep an editor out. A client with
a wrong token receives a reply. Its connection stays open until it closes it, because closing a
socket with unread data discards the reply. A socket in the file system asks for no token: it has
mode 0600, so only its owner can connect.
"""

from __future__ import annotations

import hmac
import io
import json
import os
import re
import secrets
import selectors
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gradscope.debug.dap.wire import Wire, framed
from gradscope.errors import UsageError

if TYPE_CHECKING:
    from typing import BinaryIO, Self

HERE = "127.0.0.1"
MOST_BYTES, MOST_CLIENTS, SECONDS = 1 << 16, 4, 5.0
MOST_PORTS = (1 << 16) - 1
START = b"content-"
LENGTH = re.compile(rb"content-length:[ \t]*(\d{1,5})[ \t]*(?:\r\n|$)", re.IGNORECASE)
REFUSED = "this port needs the token that gradscope printed when it started to listen"


class RefusedError(Exception):
    """This client is not an accepted editor; `said`: the reply."""

    def __init__(self, said: bytes = b"") -> None:
        super().__init__()
        self.said = said


class Door:
    """Listens at a port of this machine, or at a socket in the file system."""

    def __init__(self, where: str, initialized: dict[str, Any]) -> None:
        """`where`: a port, 0 for any free one, or a path. `initialized`: the capabilities."""
        self._initialized = initialized
        if not (where.isdecimal() or "/" in where):
            raise UsageError(
                f"{where!r} is neither a port nor the path of a socket, which contains a slash"
            )
        self._path = None if where.isdecimal() else Path(where).absolute()
        self.token = secrets.token_hex(16) if self._path is None else ""
        try:
            self._listener = _at_port(int(where)) if self._path is None else _at_path(self._path)
        except OSError as error:
            raise UsageError(f"cannot listen at {where}: {error}") from None
        self._listener.settimeout(0)
        self._guests: dict[socket.socket, _Guest] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)

    def say(self, what: str) -> None:
        """Print where it listens, and the token."""
        port = "" if self._path else self._listener.getsockname()[1]
        at = f"{self._path}" if self._path else f"{HERE}:{port}, token {self.token}"
        sys.stderr.write(f"gradscope: {what} {at}\n")
        sys.stderr.flush()

    def next_editor(self) -> Wire:
        """Wait for a client that knows the token. Its first unread message is `launch`/`attach`."""
        while True:
            for key, _ in self._selector.select(self._patience()):
                client = cast("socket.socket", key.fileobj)
                if client is self._listener:
                    self._accept()
                elif client in self._guests and (wire := self._heard(client)) is not None:
                    return wire
            now = time.monotonic()
            for client in [each for each, guest in self._guests.items() if guest.until <= now]:
                self._dismiss(client)

    def close(self) -> None:
        for client in [*self._guests]:
            self._dismiss(client)
        self._selector.close()
        self._listener.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _patience(self) -> float | None:
        """Seconds until the first guest times out."""
        until = min((guest.until for guest in self._guests.values()), default=None)
        return None if until is None else max(0.0, until - time.monotonic())

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:  # it is gone again
            return
        while len(self._guests) >= MOST_CLIENTS:
            self._dismiss(next(iter(self._guests)))
        client.settimeout(0)
        self._guests[client] = _Guest(self.token, self._initialized)
        self._selector.register(client, selectors.EVENT_READ)

    def _heard(self, client: socket.socket) -> Wire | None:
        """Read what a guest sent. Returns its connection if it is accepted."""
        guest = self._guests[client]
        try:
            client.sendall(guest.takes(client.recv(MOST_BYTES)))
        except RefusedError as refused:
            if not (refused.said and _answered(client, refused.said)):
                self._dismiss(client)
            guest.is_refused = True
        except OSError:  # it is gone, or does not read replies
            self._dismiss(client)
        if not guest.is_known:
            return None
        self._selector.unregister(client)
        del self._guests[client]
        client.settimeout(None)
        reads = cast("BinaryIO", io.BufferedReader(_Rest(guest.held, client)))
        return Wire(reads, client.makefile("wb"))

    def _dismiss(self, client: socket.socket) -> None:
        self._selector.unregister(client)
        del self._guests[client]
        client.close()


class _Guest:
    """A client that has not given the token yet. See Note [Before the token]."""

    def __init__(self, token: str, initialized: dict[str, Any]) -> None:
        self._token = token
        self._initialized = initialized
        self.until = time.monotonic() + SECONDS
        self.held = b""  # data without a reply so far
        self._bytes = 0
        self.answered = self.is_known = self.is_refused = False

    def takes(self, received: bytes) -> bytes:
        """Check received data. Returns the reply."""
        self._bytes += len(received)
        if not received or self._bytes > MOST_BYTES:
            raise RefusedError
        if self.is_refused:
            return b""
        self.held += received
        answer = b""
        while not self.is_known and (found := _first_message(self.held)) is not None:
            message, length = found
            name, asked = message.get("command"), message.get("arguments")
            if name == "initialize" and not self.answered:
                self.answered = True
                self.held = self.held[length:]
                answer = framed(1, _reply(message, success=True, body=self._initialized))
            elif name in ("launch", "attach"):
                given = asked.get("token") if isinstance(asked, dict) else None
                if self._token and not _is_same(str(given), self._token):
                    refused = _reply(message, success=False, message=REFUSED)
                    raise RefusedError(answer + framed(2, refused))
                self.is_known = True
            else:
                raise RefusedError
        return answer


def _answered(client: socket.socket, said: bytes) -> bool:
    """Send the last reply. False if the client is gone."""
    try:
        client.sendall(said)
        client.shutdown(socket.SHUT_WR)
    except OSError:
        return False
    return True


def _is_same(given: str, token: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode(errors="replace"), token.encode())


def _reply(asked: dict[str, Any], **more: Any) -> dict[str, Any]:
    seq = asked.get("seq")
    return {
        "type": "response", "request_seq": seq if isinstance(seq, int) else 0,
        "command": asked["command"], **more,
    }  # fmt: skip


def _first_message(held: bytes) -> tuple[dict[str, Any], int] | None:
    """The first message, and its length; None if it is incomplete."""
    if held[: len(START)].lower() != START[: len(held)]:
        raise RefusedError
    head, end, rest = held.partition(b"\r\n\r\n")
    if not end:
        return None
    length = LENGTH.search(head)
    if length is None or int(length[1]) > MOST_BYTES:
        raise RefusedError
    body = rest[: int(length[1])]
    if len(body) < int(length[1]):
        return None
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError from None
    if not isinstance(message, dict) or message.get("type") != "request":
        raise RefusedError
    return message, len(head) + len(end) + len(body)


class _Rest(io.RawIOBase):
    """The data of a client, starting with what was already read."""

    def __init__(self, held: bytes, client: socket.socket) -> None:
        self._held = held
        self._client = client

    def close(self) -> None:
        super().close()
        self._client.close()

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        if not self._held:
            return self._client.recv_into(into)
        many = min(len(into), len(self._held))
        into[:many], self._held = self._held[:many], self._held[many:]
        return many


def _at_port(port: int) -> socket.socket:
    if port > MOST_PORTS:
        raise OSError(f"ports go up to {MOST_PORTS}")
    return socket.create_server((HERE, port))


def _at_path(path: Path) -> socket.socket:
    """Bind it; its mode is 0600 before any client can connect, which is after `listen`."""
    if not hasattr(socket, "AF_UNIX"):
        raise OSError("this system has no Unix sockets; use a port")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        path.chmod(0o600)
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener
