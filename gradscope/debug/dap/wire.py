"""Messages of the Debug Adapter Protocol: JSON behind a header that says how long it is."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from threading import Lock
from typing import Any, BinaryIO

from gradscope.render.text import visible_lines

LONGEST = 1 << 26
"""No message of an editor is longer."""


class UnreadableMessageError(Exception):
    """What came is no message; `over`: nothing that follows can be read either."""

    def __init__(self, what: str, *, over: bool = False) -> None:
        super().__init__(what)
        self.over = over


def framed(seq: int, message: dict[str, Any]) -> bytes:
    """A message with its number, as it is sent."""
    body = json.dumps({"seq": seq, **message}).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


AS_THEY_ARE = ("path", "arguments")
"""What is no text to read: a file's name, and what is asked of a script's own debugger."""


def shown(value: Any) -> Any:
    """The same for an editor, which may show a program's names as they are: all visible."""
    if isinstance(value, str):
        return visible_lines(value)
    if isinstance(value, list):
        return [shown(each) for each in value]
    if not isinstance(value, dict) or value.get("category") in ("stdout", "stderr"):
        return value  # what a program prints is its own
    return {key: each if key in AS_THEY_ARE else shown(each) for key, each in value.items()}


class Wire:
    """Reads what a client sends, and sends to it; one of each at a time."""

    def __init__(self, reads: BinaryIO, writes: BinaryIO) -> None:
        self._reads = reads
        self._writes = writes
        self._lock = Lock()
        self._seq = 0
        self._process = os.getpid()

    @property
    def is_ours(self) -> bool:
        """Whether this is the process that it was made in: a child says nothing to the client."""
        return os.getpid() == self._process

    def receive(self) -> dict[str, Any] | None:
        """The next message; None when the client is gone."""
        length = self._length()
        if length is None:
            return None
        body = self._reads.read(length)
        if len(body) < length:
            return None
        try:
            found = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise UnreadableMessageError(f"a message is no JSON: {error}") from None
        if not isinstance(found, dict):
            raise UnreadableMessageError("a message is no object")
        return found

    def _length(self) -> int | None:
        """Of the message that follows, as its header says."""
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
                        f"a message cannot be {text[:40]!r} bytes long", over=True
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
        """The client is gone, or is to go."""
        for stream in (self._reads, self._writes):
            with suppress(OSError, ValueError):
                stream.close()

    def event(self, name: str, **body: Any) -> None:
        """Tell of something that nobody has asked for."""
        self.send({"type": "event", "event": name, "body": body})
