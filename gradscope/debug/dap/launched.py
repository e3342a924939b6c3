"""A script launched by an editor: messages are forwarded to and from its debugger.

The script runs in a separate process, as by `gradscope trace --dap`: its output is sent to the
editor, and requests of the editor are sent to its port.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO, Any

from gradscope.debug.dap.door import HERE
from gradscope.debug.dap.wire import UnreadableMessageError, Wire
from gradscope.errors import UsageError

WAITS = re.compile(rf"gradscope: waiting for an editor on {re.escape(HERE)}:(\d+), token (\w+)")
PATIENCE = 5.0
"""Seconds within which a script has to end once its editor is gone."""

GONE = {
    "type": "request", "command": "disconnect", "arguments": {"terminateDebuggee": True},
}  # fmt: skip
"""Sent to the script's debugger when the editor disconnects unexpectedly."""

OPTIONS = {"on": "--on", "level": "--level", "steps": "--steps", "output": "-o"}
"""Arguments of `launch`, and the options of `gradscope trace` for them."""


def is_script(asked: dict[str, Any]) -> bool:
    """Whether this is a script to run, not a trace."""
    return bool(asked.get("module")) or str(asked.get("program", "")).endswith(".py")


class Launched:
    """A script, and the connection to its debugger."""

    def __init__(self, asked: dict[str, Any], tell: Callable[[str, str], None]) -> None:
        """`tell` is called with the category and text of output."""
        self._stops_first = bool(asked.get("stopOnEntry", False))
        self._process = _started(asked)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        port, token = self._waiting(self._process.stderr)
        self._socket = socket.create_connection((HERE, port))
        self._wire = Wire(self._socket.makefile("rb"), self._socket.makefile("wb"))
        self._attach(token)
        self._printed = [
            Thread(target=_hand_on, args=(each, category, tell), daemon=True)
            for each, category in (
                (self._process.stdout, "stdout"), (self._process.stderr, "stderr"),
            )
        ]  # fmt: skip
        for each in self._printed:
            each.start()

    def _waiting(self, stream: IO[str]) -> tuple[int, str]:
        """The port where its debugger waits; raises an error if it does not."""
        said = []
        for line in stream:
            found = WAITS.match(line)
            if found:
                return int(found[1]), found[2]
            said.append(line)
        raise UsageError("".join(said).strip() or "the script did not start")

    def _attach(self, token: str) -> None:
        asked = {"token": token, "stopOnEntry": self._stops_first}
        for command, arguments in (("initialize", {}), ("attach", asked)):
            self._wire.send({"type": "request", "command": command, "arguments": arguments})
            self._wire.receive()

    def relay(self, editor: Wire) -> None:
        """Forward messages in both directions until the editor is gone; then end the script."""
        answers = Thread(target=self._answers, args=(editor,), daemon=True)
        answers.start()
        with suppress(OSError, ValueError):
            while (message := _next(editor)) is not None:
                leaves = message.get("command") == "disconnect"
                if leaves:
                    message["arguments"] = {"terminateDebuggee": True} | (
                        message.get("arguments") or {}
                    )
                if not self._handed_on(message):
                    editor.send(_of_nobody(message))
                if leaves:
                    break
            else:
                self._handed_on(GONE)
        self._end()
        answers.join(PATIENCE)

    def _handed_on(self, message: dict[str, Any]) -> bool:
        """Forward a message. Returns whether the script is still running."""
        try:
            self._wire.send(message)
        except (OSError, ValueError):
            return False
        return self._process.poll() is None

    def _answers(self, editor: Wire) -> None:
        with suppress(OSError, ValueError):
            while (message := _next(self._wire)) is not None:
                if message.get("event") != "terminated":  # more output may follow
                    editor.send({key: each for key, each in message.items() if key != "seq"})
        code = self._process.wait()
        for each in self._printed:
            each.join(PATIENCE)
        with suppress(OSError, ValueError):
            editor.event("exited", exitCode=code)
            editor.event("terminated")

    def _end(self) -> None:
        for end in (_nothing, self._process.terminate, self._process.kill):
            end()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(PATIENCE)
                break
        self._socket.close()


def _started(asked: dict[str, Any]) -> subprocess.Popen[str]:
    options = [word for name, option in OPTIONS.items() if name in asked
               for word in (option, str(asked[name]))]  # fmt: skip
    file = Path(str(asked.get("cwd") or ""), str(asked.get("program", ""))).absolute()
    if not (asked.get("module") or file.is_file()):
        raise UsageError(f"there is no script {file}")
    folder = str(asked.get("cwd") or ("" if asked.get("module") else file.parent) or Path.cwd())
    script = ["-m", str(asked["module"])] if asked.get("module") else [str(file)]
    given = [str(each) for each in asked.get("args") or []]
    python = str(asked.get("python") or sys.executable)
    command = [python, "-u", "-m", "gradscope", "trace", "--dap", "0", *options, *script, *given]
    env = {**os.environ, **{str(k): str(v) for k, v in (asked.get("env") or {}).items()}}
    try:
        return subprocess.Popen(  # noqa: S603  running it is what this is for
            command, cwd=folder, env=env, text=True, errors="replace", stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        raise UsageError(f"cannot start {python} in {folder}: {error.strerror}") from None


def _hand_on(stream: IO[str], category: str, tell: Callable[[str, str], None]) -> None:
    with suppress(OSError, ValueError):
        for line in stream:
            tell("console" if line.startswith("gradscope: ") else category, line)


def _next(wire: Wire) -> dict[str, Any] | None:
    """The next message that can be read."""
    while True:
        try:
            return wire.receive()
        except UnreadableMessageError as error:
            if error.over:
                return None


def _of_nobody(message: dict[str, Any]) -> dict[str, Any]:
    """The reply when the script has ended."""
    name = message.get("command")
    answer = {"type": "response", "request_seq": message.get("seq", 0), "command": name}
    if name in ("disconnect", "terminate"):
        return answer | {"success": True, "body": {}}
    return answer | {"success": False, "message": "the script has ended"}


def _nothing() -> None:
    """Do nothing: it may end by itself."""
