"""An editor that debugs a program while it runs, over a port."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gradscope import load
from gradscope.errors import ExitCode

ENGINES = [
    pytest.param("gradscope", id="gradscope"),
    pytest.param("torch", id="torch", marks=pytest.mark.torch),
]
SCRIPT = """\
import torch

w = torch.ones(3, requires_grad=True)
for step in range(3):
    loss = (w * (step - 1)).sqrt().sum()
    loss.backward()
print("ended", w.grad.tolist())
"""
ENDLESS = """\
import time
import torch

w = torch.ones(3, requires_grad=True)
while True:
    loss = (w * 2).sum()
    loss.backward()
    time.sleep(0.01)
"""


class Client:
    """Sends requests, and keeps the events that come between answers."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._file = self._socket.makefile("rb")
        self._seq = 0
        self.events: list[dict[str, Any]] = []

    def send(self, command: str, **arguments: Any) -> None:
        self._seq += 1
        body = json.dumps(
            {"seq": self._seq, "type": "request", "command": command, "arguments": arguments}
        ).encode()
        self._socket.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        self.send(command, **arguments)
        while True:
            message = self._next()
            if message["type"] == "response":
                assert message["request_seq"] == self._seq
                return message
            self.events.append(message)

    def event(self, name: str) -> dict[str, Any]:
        """The next of this name; others are passed over."""
        while True:
            found = self.events.pop(0) if self.events else self._next()
            if found.get("event") == name:
                body: dict[str, Any] = found["body"]
                return body

    def _next(self) -> dict[str, Any]:
        header = self._file.readline()
        assert header, "the program has gone"
        self._file.readline()
        message: dict[str, Any] = json.loads(self._file.read(int(header.split(b":")[1])))
        return message

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@contextmanager
def started(
    folder: Path, engine: str, script: str = SCRIPT
) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """A program that waits for an editor, its port and token."""
    if engine == "torch":
        pytest.importorskip("torch")
    (folder / "train.py").write_text(script)
    with subprocess.Popen(
        [sys.executable, "-m", "gradscope", "trace", "--on", engine, "--dap", "0", "train.py"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        found = re.search(r"127\.0\.0\.1:(\d+), token (\w+)", process.stderr.readline())
        assert found is not None
        try:
            yield process, int(found[1]), found[2]
        finally:
            process.kill()


def begun(port: int, token: str, file: Path, line: int) -> Client:
    client = Client(port)
    assert client.ask("initialize")["success"]
    assert client.ask("attach", token=token)["success"]
    set_ = client.ask("setBreakpoints", source={"path": str(file)}, breakpoints=[{"line": line}])
    assert set_["body"]["breakpoints"][0]["verified"]
    client.ask("setExceptionBreakpoints", filters=["nan"])
    client.ask("configurationDone")
    return client


@pytest.mark.parametrize("engine", ENGINES)
def test_an_editor_stops_the_program_looks_and_goes_on(engine: str, tmp_path: Path) -> None:
    with started(tmp_path, engine) as (process, port, token):
        client = begun(port, token, tmp_path / "train.py", 5)

        first = client.event("stopped")
        frames = client.ask("stackTrace", threadId=first["threadId"])["body"]["stackFrames"]
        value = client.ask("evaluate", expression="step", context="hover")["body"]["result"]
        client.ask("next")
        second = client.event("stopped")
        back = client.ask("stepBack", granularity="instruction")
        moved = client.event("stopped")
        client.ask("setBreakpoints", source={"path": str(tmp_path / "train.py")}, breakpoints=[])
        client.ask("continue")
        while client.event("stopped")["reason"] != "exception":
            client.ask("continue")
        grads = client.ask("evaluate", expression="py gs.made[0].tolist()", context="repl")
        client.ask("disconnect")
        client.close()
        out, _ = process.communicate(timeout=60)

    assert first["hitBreakpointIds"]
    assert "mul has returned" in first["text"]
    assert any(frame.get("line") == 5 for frame in frames)
    assert value == "0"
    assert "sqrt has returned" in second["text"]
    assert back["success"]
    assert moved["text"] != second["text"]
    assert "nan" in grads["body"]["result"]
    assert out.startswith("ended")
    assert process.returncode == 0


def test_a_client_that_goes_leaves_the_program_alone(tmp_path: Path) -> None:
    with started(tmp_path, "gradscope") as (process, port, token):
        client = begun(port, token, tmp_path / "train.py", 5)
        client.event("stopped")
        client.close()
        out, _ = process.communicate(timeout=60)

    assert out.startswith("ended")
    assert process.returncode == 0


def test_only_who_knows_the_token_is_answered_and_may_end_the_program(tmp_path: Path) -> None:
    with started(tmp_path, "gradscope") as (process, port, token):
        stranger = Client(port)
        stranger.ask("initialize")
        refused = stranger.ask("attach", token="guessed")
        stranger.close()
        client = begun(port, token, tmp_path / "train.py", 5)
        client.event("stopped")
        client.ask("terminate")
        client.close()
        out, _ = process.communicate(timeout=60)

    assert not refused["success"]
    assert "token" in refused["message"]
    assert out == ""
    assert process.returncode == ExitCode.STOPPED


@pytest.mark.parametrize("engine", ENGINES)
def test_a_program_that_runs_is_asked_stopped_and_ended_at_once(
    engine: str, tmp_path: Path
) -> None:
    with started(tmp_path, engine, ENDLESS) as (process, port, token):
        client = begun(port, token, tmp_path / "train.py", 1)
        threads = client.ask("threads")["body"]["threads"]
        refused = client.ask("evaluate", expression="w", context="hover")
        client.ask("pause", threadId=1)
        paused = client.event("stopped")
        value = client.ask("evaluate", expression="torch.ones(2).tolist()", context="hover")
        client.ask("continue")
        source, lines = {"path": str(tmp_path / "train.py")}, [{"line": 6, "condition": "norm > 3"}]
        (set_,) = client.ask("setBreakpoints", source=source, breakpoints=lines)["body"][
            "breakpoints"
        ]
        stopped = client.event("stopped")
        client.ask("setBreakpoints", source=source, breakpoints=[])
        client.ask("continue")
        client.ask("disconnect", terminateDebuggee=True)
        client.close()
        process.communicate(timeout=60)

    assert [each["name"] for each in threads] == ["MainThread"]
    assert not refused["success"]
    assert "the program is running" in refused["message"]
    assert paused["reason"] == "pause"
    assert value["body"]["result"] == "[1.0, 1.0]"
    assert stopped["hitBreakpointIds"] == [set_["id"]]
    assert "has returned at train.py:6" in stopped["text"]  # mul or sum: whichever came next
    assert process.returncode == ExitCode.STOPPED


def test_who_sends_nonsense_is_hung_up_on_and_a_second_editor_refused(tmp_path: Path) -> None:
    with started(tmp_path, "gradscope", ENDLESS) as (process, port, token):
        nonsense = socket.create_connection(("127.0.0.1", port), timeout=60)
        nonsense.sendall(b"Content-Length: -7\r\n\r\nGET / HTTP/1.1\r\n\r\n")
        nonsense.close()
        client = begun(port, token, tmp_path / "train.py", 1)
        client.ask("threads")
        with pytest.raises(ConnectionError):
            socket.create_connection(("127.0.0.1", port), timeout=60)
        client.ask("terminate")
        client.close()
        process.communicate(timeout=60)

    assert process.returncode == ExitCode.STOPPED


def test_a_script_is_launched_stopped_and_what_it_prints_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT + "import sys\nsys.exit(len(sys.argv))\n")
    with subprocess.Popen(
        [sys.executable, "-m", "gradscope", "dap", "--port", "0"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        assert server.stderr is not None
        found = re.search(r"127\.0\.0\.1:(\d+), token (\w+)", server.stderr.readline())
        assert found is not None
        client = Client(int(found[1]))
        client.ask("initialize")
        given = {"token": found[2], "on": "gradscope", "args": ["a", "b"]}
        lost = client.ask("launch", **given, program=str(tmp_path / "none.py"))
        client.ask("launch", **given, program=str(tmp_path / "train.py"))
        client.event("initialized")
        client.ask("setFunctionBreakpoints", breakpoints=[{"name": "SqrtBackward0"}])
        client.ask("configurationDone")
        stopped = client.event("stopped")
        value = client.ask("evaluate", expression="step", context="hover")["body"]["result"]
        client.ask("setFunctionBreakpoints", breakpoints=[])
        client.ask("continue")
        printed = ""
        while "ended" not in printed:
            printed = client.event("output")["output"]
        code = client.event("exited")["exitCode"]
        client.event("terminated")
        left = client.ask("disconnect")
        client.close()
        server.kill()

    assert not lost["success"]
    assert "none.py" in lost["message"]
    assert "SqrtBackward0 is about to run" in stopped["text"]
    assert (value, code) == ("0", 3)
    assert left["success"]
    assert load(tmp_path / "trace.json").meta["exit"] == "exit code 3"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_program_that_forks_or_exits_while_it_stands_is_followed(
    engine: str, tmp_path: Path
) -> None:
    with started(tmp_path, engine) as (process, port, token):
        client = begun(port, token, tmp_path / "train.py", 5)
        client.event("stopped")
        client.ask("evaluate", expression="py import os", context="repl")
        forked = client.ask("evaluate", expression="py os.fork() > 0", context="repl")
        raised = client.ask("evaluate", expression="py 1 / 0", context="repl")
        asked = client.ask("threads")
        client.send("evaluate", expression="py exit(3)", context="repl")
        client.event("terminated")
        client.close()
        out, _ = process.communicate(timeout=60)

    assert forked["body"]["result"] == "True"
    assert "ZeroDivisionError" in raised["body"]["result"]
    assert asked["success"]
    assert out.count("ended") == 1  # the child's
    assert process.returncode == 3


def test_a_program_whose_editor_is_killed_while_it_runs_goes_on_alone(tmp_path: Path) -> None:
    script = ENDLESS.replace("while True", "for _ in range(200)") + 'print("ended")\n'
    with started(tmp_path, "gradscope", script) as (process, port, token):
        client = begun(port, token, tmp_path / "train.py", 1)
        client.ask("threads")
        client.close()
        out, _ = process.communicate(timeout=60)

    assert (out, process.returncode) == ("ended\n", 0)


def test_who_does_not_give_the_token_changes_nothing(tmp_path: Path) -> None:
    """The program does not begin, and nothing is run in it, before the editor has come."""
    with started(tmp_path, "gradscope") as (process, port, token):
        stranger = Client(port)
        with pytest.raises((AssertionError, ConnectionError)):  # closed before, or after all
            stranger.send("setFunctionBreakpoints", breakpoints=[{"name": "backward"}])
            stranger.send("configurationDone")
            stranger.send("evaluate", expression="py open('owned', 'w')", context="repl")
            stranger._next()
        stranger.close()
        client = begun(port, token, tmp_path / "train.py", 5)
        client.event("stopped")
        client.ask("disconnect")
        client.close()
        out, _ = process.communicate(timeout=60)

    assert out.startswith("ended")
    assert process.returncode == 0
    assert not (tmp_path / "owned").exists()


def test_stopping_at_the_start_is_an_entry(tmp_path: Path) -> None:
    with started(tmp_path, "gradscope") as (process, port, token):
        client = Client(port)
        client.ask("initialize")
        client.ask("attach", token=token, stopOnEntry=True)
        client.ask("configurationDone")
        first = client.event("stopped")
        client.ask("next", threadId=1)
        second = client.event("stopped")
        client.ask("disconnect", terminateDebuggee=True)
        client.close()
        process.communicate(timeout=60)

    assert (first["reason"], second["reason"]) == ("entry", "step")
