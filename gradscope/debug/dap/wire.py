"""Messages of the Debug Adapter Protocol: JSON after a header with its length."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from threading import Lock
from typing import Any, BinaryIO

from gradscope.render.text import visible_lines

LONGEST = 1 << 26
"""Largest length of a message of an editor."""


class UnreadableMessageError(Exception):
    """The data is not a message; `over`: what follows cannot be read either."""

    def __init__(self, what: str, *, over: bool = False) -> None:
        super().__init__(what)
        self.over = over


def framed(seq: int, message: dict[str, Any]) -> bytes:
    """A message with its number, as it is sent."""
    body = json.dumps({"seq": seq, **message}).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


AS_THEY_ARE = ("path", "arguments")
"""Keys of values that are not shown: file names, and arguments for the script's debugger."""


def shown(value: Any) -> Any:
    """The value with invisible characters escaped, for an editor."""
    if isinstance(value, str):
        return visible_lines(value)
    if isinstance(value, list):
        return [shown(each) for each in value]
    if not isinstance(value, dict) or value.get("category") in ("stdout", "stderr"):
        return value  # output of the program is unchanged
    return {key: each if key in AS_THEY_ARE else shown(each) for key, each in value.items()}


class Wire:
    """Reads messages from a client, and sends messages to it."""

    def __init__(self, reads: BinaryIO, writes: BinaryIO) -> None:
        self._reads = reads
        self._writes = writes
        self._lock = Lock()
        self._seq = 0
        self._process = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that created it: a forked child must not send."""
        return os.getpid() == self._process

    def receive(self) -> dict[str, Any] | None:
        """The next message; None if the client is gone."""
        length = self._length()
        if length is None:
            return None
        body = self._reads.read(length)
        if len(body) < length:
            return None
        try:
            found = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise UnreadableMessageError(f"a message is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise UnreadableMessageError("a message is not a JSON object")
        return found

    def _length(self) -> int | None:
        """The length of the next message, from its header."""
        length = -1
        while line := self._reads.readline(1 << 12):
            name, _, value = line.decode("latin-1").partition(":")
            if not line.strip():
                if length >= 0:
                    return length
                continue
            if name.strip().lower() == "content-length":
                text = value.strip()
                if not text.isdecimal() or int(text[:12]) > LONGEST:
                    raise UnreadableMessageError(
                        f"invalid Content-Length: {text[:40]!r}", over=True
                    )
                length = int(text)
        return None

    def send(self, message: dict[str, Any]) -> None:
        if not self.is_ours:
            return
        with self._lock:
            self._seq += 1
            self._writes.write(framed(self._seq, shown(message)))
            self._writes.flush()

    def close(self) -> None:
        """Close the connection."""
        for stream in (self._reads, self._writes):
            with suppress(OSError, ValueError):
                stream.close()

    def event(self, name: str, **body: Any) -> None:
        """Send an event."""
        self.send({"type": "event", "event": name, "body": body})
