"""Who gets in at the debugger's port: an editor with the token, whatever else is tried there."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gradscope.debug.dap import door as door_module
from gradscope.debug.dap.door import MOST_BYTES, MOST_CLIENTS, Door
from gradscope.debug.dap.wire import Wire
from gradscope.errors import UsageError

LEARNT = {"supportsStepBack": True}


def framed(command: str, **arguments: Any) -> bytes:
    asked = {"seq": 1, "type": "request", "command": command, "arguments": arguments}
    body = json.dumps(asked).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class Visit:
    """A door that somebody waits at, and what comes in by it."""

    def __init__(self, where: str = "0") -> None:
        self.door = Door(where, LEARNT)
        self._pool = ThreadPoolExecutor(1)
        self.editor: Future[Wire] = self._pool.submit(self.door.next_editor)

    def client(self) -> socket.socket:
        listener = self.door._listener
        found = socket.socket(listener.family)
        found.settimeout(60)
        found.connect(listener.getsockname())
        return found

    def heard(self, *sent: bytes) -> bytes:
        """All that a client receives which sends this and waits until it is closed."""
        with self.client() as client:
            with suppress(ConnectionError):
                for each in sent:
                    client.sendall(each)
            return read_to_end(client)

    def comes_in(self) -> dict[str, Any] | None:
        """What an editor asks that knows the token, and is let in."""
        with self.client() as client:
            client.sendall(framed("initialize"))
            client.recv(1 << 16)
            client.sendall(framed("attach", token=self.door.token) + framed("threads"))
            wire = self.editor.result(60)
            first, second = wire.receive(), wire.receive()
            assert second is not None
            assert second["command"] == "threads"
            wire.close()
            return first

    def close(self) -> None:
        if not self.editor.done():
            self.comes_in()
        self._pool.shutdown()
        self.door.close()


def read_to_end(client: socket.socket) -> bytes:
    told = b""
    with suppress(ConnectionError):  # what it had not read yet was thrown away
        while more := client.recv(1 << 16):
            told += more
    return told


@pytest.fixture
def visit() -> Iterator[Visit]:
    made = Visit()
    yield made
    made.close()


POST = (
    b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: https://example.org\r\n"
    b"Content-Type: text/plain\r\n"
)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(framed("configurationDone"), id="configurationDone"),
        pytest.param(framed("evaluate", expression="py 1"), id="evaluate"),
        pytest.param(framed("disconnect", terminateDebuggee=True), id="disconnect"),
        pytest.param(framed("terminate"), id="terminate"),
        pytest.param(POST, id="a web page"),
        pytest.param(POST + b"\r\n" + framed("attach", token=""), id="a web page's body"),
        pytest.param(b"Content-Length: 70000\r\n\r\n", id="a long message"),
        pytest.param(b"Content-Length: -7\r\n\r\n", id="a negative length"),
        pytest.param(b"Content-Length: 2\r\n\r\n[]", id="no object"),
        pytest.param(b"Content-Length: 5000\r\n\r\n" + b"[" * 5000, id="deeply nested"),
        pytest.param(b"Content-Type: " + b"x" * MOST_BYTES, id="an endless header"),
        pytest.param(b"\x16\x03\x01\x02\x00", id="TLS"),
    ],
)
def test_whatever_else_comes_before_the_token_is_closed_unanswered(
    visit: Visit, sent: bytes
) -> None:
    assert visit.heard(sent) == b""
    assert not visit.editor.done()


def test_initialize_is_answered_once_and_nothing_after_it(visit: Visit) -> None:
    told = visit.heard(framed("initialize"), framed("initialize"), framed("configurationDone"))

    assert told.count(b"Content-Length") <= 1
    assert not visit.editor.done()


@pytest.mark.parametrize("token", ["", "guessed", "ü\ud800", None, 7, [], {"a": 1}])
def test_a_wrong_token_is_refused_in_words_and_hung_up_on(visit: Visit, token: Any) -> None:
    told = visit.heard(framed("attach", token=token))

    assert b'"success": false' in told
    assert b"needs the token" in told
    assert not visit.editor.done()


def test_a_refused_client_gets_its_reply_though_it_goes_on_sending(visit: Visit) -> None:
    with visit.client() as client:
        client.sendall(framed("attach", token="guessed"))
        answer = client.recv(MOST_BYTES)
        for _ in range(3):
            client.sendall(framed("disconnect"))
        client.shutdown(socket.SHUT_WR)
        while more := client.recv(MOST_BYTES):
            answer += more

    assert b"needs the token" in answer
    assert not visit.editor.done()


def test_an_editor_comes_in_with_all_that_it_sent(visit: Visit) -> None:
    first = visit.comes_in()

    assert first is not None
    assert first["command"] == "attach"


def test_a_client_that_says_nothing_for_too_long_is_hung_up_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(door_module, "SECONDS", 0.05)
    visit = Visit()
    told = visit.heard(b"Content-Le")  # and it is not waited for longer if a byte comes
    monkeypatch.undo()
    visit.close()

    assert told == b""


def test_silent_clients_keep_no_editor_out(visit: Visit) -> None:
    silent = [visit.client() for _ in range(3 * MOST_CLIENTS)]
    first = visit.comes_in()
    ends = [read_to_end(each) for each in silent[: 2 * MOST_CLIENTS]]
    for each in silent:
        each.close()

    assert first is not None
    assert ends == [b""] * (2 * MOST_CLIENTS)


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no such sockets")
def test_a_socket_in_the_file_system_is_its_owners_and_asks_for_no_token(tmp_path: Path) -> None:
    path = tmp_path / "editor"
    before = os.umask(0)
    try:
        visit = Visit(str(path))
    finally:
        os.umask(before)
    mode = stat.S_IMODE(path.stat().st_mode)
    with visit.client() as client:
        client.sendall(framed("attach"))
        first = visit.editor.result(60).receive()
    visit.close()

    assert mode == 0o600
    assert first is not None
    assert not path.exists()


@pytest.mark.parametrize("where", ["train.py", "-1", "99999", "/no/such/folder/editor"])
def test_a_place_where_nobody_can_listen_is_refused(where: str) -> None:
    with pytest.raises(UsageError, match=re.escape(where)):
        Door(where, LEARNT)
