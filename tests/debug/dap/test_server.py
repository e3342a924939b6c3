"""What an editor asks of the debugger, and what it is told."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import gradscope.runtime as torch
from gradscope.debug.dap.server import serve
from gradscope.debug.dap.wire import Wire
from gradscope.record.recorder import record
from gradscope.trace.load_save import save
from tests.render.hostile import named

HERE = str(Path(__file__).absolute())


def doubled(grad: torch.Tensor) -> torch.Tensor:
    return grad * 2


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A trace in which an Inf is born."""
    path = tmp_path_factory.mktemp("dap") / "trace.json"
    with record(path, level="values"):
        weight = torch.zeros(2, requires_grad=True)
        square = weight * weight
        square.register_hook(doubled)
        square.sum().sqrt().backward()
    return str(path)


def framed(message: object) -> bytes:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def messages(sent: bytes) -> Iterator[dict[str, Any]]:
    while sent:
        head, _, rest = sent.partition(b"\r\n\r\n")
        length = int(head.partition(b":")[2])
        yield json.loads(rest[:length])
        sent = rest[length:]


Request = tuple[str, dict[str, Any]]
Talk = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def talk(file: str) -> Talk:
    """What is sent back to these requests, after those by which every session begins."""

    def said(*asked: Request, launched: bool = True) -> list[dict[str, Any]]:
        first: list[Request] = [("initialize", {}), ("launch", {"program": file})]
        requests = [*(first if launched else []), *asked]
        read = b"".join(
            framed({"seq": seq, "type": "request", "command": name, "arguments": given})
            for seq, (name, given) in enumerate(requests, 1)
        )
        written = BytesIO()
        serve(Wire(BytesIO(read), written))
        return list(messages(written.getvalue()))

    return said


def answers(told: list[dict[str, Any]], command: str) -> list[dict[str, Any]]:
    found = [each for each in told if each.get("command") == command]
    assert all(each["success"] for each in found), found
    return [each["body"] for each in found]


def stops(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each["body"] for each in told if each.get("event") == "stopped"]


def test_a_session_begins_at_the_first_moment(talk: Talk) -> None:
    told = talk(("configurationDone", {}), ("threads", {}), ("disconnect", {}))

    assert [each["event"] for each in told if each["type"] == "event"] == ["initialized", "stopped"]
    assert [each["seq"] for each in told] == list(range(1, len(told) + 1))
    assert stops(told)[0]["reason"] == "entry"
    assert answers(told, "threads")[0]["threads"][0]["name"] == "MainThread"


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        ("inf", "exception"), ("node SumBackward0", "breakpoint"),
        ("test_server.py:37", "breakpoint"),
        ("e3", "goto"), ("5", "goto"), ("end", "goto"),
    ],
)  # fmt: skip
def test_the_first_stop_says_why_it_is_there(talk: Talk, file: str, at: str, reason: str) -> None:
    begin = ("initialize", {}), ("launch", {"program": file, "at": at})

    told = talk(*begin, ("configurationDone", {}), ("disconnect", {}), launched=False)

    assert [each["reason"] for each in stops(told)] == [reason]


def test_at_the_end_of_the_trace_it_pauses(talk: Talk) -> None:
    told = talk(("configurationDone", {}), ("continue", {"threadId": 1}), ("disconnect", {}))

    last = stops(told)[-1]
    assert (last["reason"], last["description"]) == ("pause", "the end of the trace")


def test_breakpoints_of_all_kinds_stop_on_and_back(talk: Talk) -> None:
    line = 37  # of the multiplication
    told = talk(
        ("setBreakpoints", {"source": {"path": HERE}, "breakpoints": [{"line": line}]}),
        ("setFunctionBreakpoints", {"breakpoints": [{"name": "hook doubled"}, {"name": "boo"}]}),
        ("setExceptionBreakpoints", {"filters": ["inf", "made-up"]}),
        ("configurationDone", {}),
        *[("continue", {"threadId": 1})] * 5,
        ("reverseContinue", {"threadId": 1}),
    )

    (lines,) = answers(told, "setBreakpoints")
    assert [(each["verified"], each["line"]) for each in lines["breakpoints"]] == [(True, line)]
    named, unknown = answers(told, "setFunctionBreakpoints")[0]["breakpoints"]
    assert named["verified"]
    assert "no kind of breakpoint called 'boo'" in unknown["message"]
    assert [(each["reason"], each["description"]) for each in stops(told)[1:]] == [
        ("breakpoint", f"line tests/debug/dap/test_server.py:{line}"),
        ("exception", "inf"),
        ("breakpoint", "hook doubled"),
        ("breakpoint", f"line tests/debug/dap/test_server.py:{line}"),
        ("pause", "the end of the trace"),
        ("breakpoint", f"line tests/debug/dap/test_server.py:{line}"),
    ]


def test_conditions_and_counts_and_lines_without_a_call(talk: Talk) -> None:
    asked = [{"line": 37, "hitCondition": "9"}, {"line": 39, "condition": "took > 100s"}]
    told = talk(
        ("setBreakpoints", {"source": {"path": HERE}, "breakpoints": asked}),
        ("setBreakpoints", {"source": {"path": "/else/where.py"}, "breakpoints": [{"line": 1}]}),
    )

    first, second = answers(told, "setBreakpoints")
    assert [each["verified"] for each in first["breakpoints"]] == [False, False]
    assert "nothing from this file" in second["breakpoints"][0]["message"]


def test_the_stack_is_node_forward_line_and_backward(talk: Talk) -> None:
    told = talk(
        ("setFunctionBreakpoints", {"breakpoints": [{"name": "node SqrtBackward0"}]}),
        ("configurationDone", {}),
        ("continue", {}),
        ("stackTrace", {"threadId": 1}),
        ("scopes", {"frameId": 1}),
        *(("variables", {"variablesReference": at}) for at in range(1, 8)),
        ("stackTrace", {"threadId": 9}),
    )

    frames, other = (each["stackFrames"] for each in answers(told, "stackTrace"))
    assert [frame["name"] for frame in frames] == ["SqrtBackward0", "backward 0"]
    assert all(frame["source"]["path"] == HERE for frame in frames)
    assert other == []
    names = [each["name"] for each in answers(told, "scopes")[0]["scopes"]]
    assert names[:4] == ["node", "gradients in", "gradients out", "saved"]
    lists = [
        {row["name"]: row["value"] for row in body["variables"]}
        for body in answers(told, "variables")
    ]
    assert lists[0]["name"] == "SqrtBackward0"
    assert lists[1]["0 (seed)"].startswith("norm 1")
    assert "result" in lists[3]
    assert "SqrtBackward0 begins" in lists[4]["here"]


def test_steps_go_both_ways_and_out(talk: Talk) -> None:
    told = talk(
        ("configurationDone", {}), ("stackTrace", {"threadId": 1}),
        ("next", {}), ("next", {}), ("stepBack", {}), ("stepIn", {}),
        ("next", {"granularity": "instruction"}), ("stepOut", {}), ("goto", {"targetId": 0}),
    )  # fmt: skip

    said = [each["description"] for each in stops(told)]
    assert said[1] == said[3]
    assert said[1] != said[2]
    assert said[-1].startswith("step 0 begins")
    assert answers(told, "stackTrace")[0]["stackFrames"][0]["line"] > 0


def test_data_breakpoints_watch_what_is_kept(talk: Talk) -> None:
    told = talk(
        ("setFunctionBreakpoints", {"breakpoints": [{"name": "node SqrtBackward0"}]}),
        ("configurationDone", {}),
        ("continue", {}),
        ("stackTrace", {"threadId": 1}),
        ("scopes", {"frameId": 1}),
        ("dataBreakpointInfo", {"variablesReference": 4, "name": "result"}),
        ("dataBreakpointInfo", {"variablesReference": 1, "name": "name"}),
        ("setDataBreakpoints", {"breakpoints": [{"dataId": "grad weight"}]}),
        ("continue", {}),
    )

    kept, plain = answers(told, "dataBreakpointInfo")
    assert kept["dataId"].startswith("write ")
    assert plain["dataId"] is None
    assert stops(told)[-1]["description"] == "grad weight"


def test_what_is_typed_in_the_console_is_answered(talk: Talk) -> None:
    told = talk(
        ("configurationDone", {}),
        ("evaluate", {"expression": "why SqrtBackward0", "context": "repl"}),
        ("evaluate", {"expression": "goto inf", "context": "repl"}),
        ("evaluate", {"expression": "weight", "context": "hover"}),
        ("loadedSources", {}),
    )

    why, went, hover = (each["result"] for each in answers(told, "evaluate"))
    assert why.startswith("SqrtBackward0 at")
    assert "SqrtBackward0 ends" in went
    assert hover.startswith("weight [2] float32")
    assert stops(told)[-1]["reason"] == "goto"
    assert HERE in [each["path"] for each in answers(told, "loadedSources")[0]["sources"]]


def test_a_file_that_is_gone_is_shown_as_far_as_it_was_recorded(tmp_path: Path, talk: Talk) -> None:
    script = tmp_path / "gone.py"
    script.write_text("\nx = torch.ones(2, requires_grad=True)\n(x * x).sum().backward()\n")
    with record(tmp_path / "trace.json"):
        exec(compile(script.read_text(), str(script), "exec"), {"torch": torch})
    script.unlink()

    told = talk(
        ("launch", {"program": str(tmp_path / "trace.json"), "at": "node SumBackward0"}),
        ("configurationDone", {}),
        ("stackTrace", {"threadId": 1}),
        *(("source", {"sourceReference": number}) for number in (1, 2, 3, 4, 77)),
        launched=False,
    )

    frames = answers(told[:-1], "stackTrace")[0]["stackFrames"]
    number = frames[0]["source"]["sourceReference"]
    texts = [
        each["body"]["content"]
        for each in told
        if each.get("command") == "source" and each["success"]
    ]
    assert texts[number - 1].startswith("⋯\n")
    assert "there is no source 77" in told[-1]["message"]


@pytest.mark.parametrize(
    ("name", "given", "complaint"),
    [
        ("made_up", {}, "does not support the request 'made_up'"),
        ("threads", {}, "no trace is open"),
        ("launch", {}, "launch has no `program`"),
        ("launch", {"program": "no.json"}, "no.json"),
        ("launch", {"program": 7}, "launch has no `program`"),
        ("setBreakpoints", {"breakpoints": [{"line": "x"}]}, "no trace is open"),
    ],
)
def test_a_wrong_request_is_refused_and_the_next_is_answered(
    talk: Talk, name: str, given: dict[str, Any], complaint: str
) -> None:
    told = talk((name, given), ("initialize", {}), launched=False)

    assert not told[0]["success"]
    assert complaint in told[0]["message"]
    assert told[1]["success"]


def test_nonsense_ends_nothing_that_can_go_on(file: str) -> None:
    hello = framed({"seq": 1, "type": "request", "command": "initialize"})
    read = b"".join(
        (framed(b"{not json"), framed([1]), b"Some-Header: 1\r\n\r\n", framed({}), hello,
         b"Content-Length: many\r\n\r\n", hello)
    )  # fmt: skip
    written = BytesIO()
    serve(Wire(BytesIO(read), written))
    told = list(messages(written.getvalue()))

    assert [each.get("event", each.get("command")) for each in told] == [
        "output", "output", "initialize", "output",
    ]  # fmt: skip


def test_a_client_that_is_gone_in_the_middle_ends_it(file: str) -> None:
    written = BytesIO()
    serve(Wire(BytesIO(b"Content-Length: 100\r\n\r\n{"), written))
    assert written.getvalue() == b""


def test_the_port_is_of_this_machine_and_asks_for_its_token(file: str) -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "gradscope", "dap", "--port", "0"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert server.stderr is not None
        said = server.stderr.readline()
        address, _, token = said.removeprefix("gradscope: listening on ").partition(", token ")
        host, _, port = address.partition(":")
        assert host == "127.0.0.1"
        told = [
            talk_to(int(port), {"program": file, "token": given})
            for given in ("wrong", token.strip(), token.strip())
        ]
    finally:
        server.kill()
        server.communicate()

    assert [[each["success"] for each in answers if "success" in each] for answers in told] == [
        [False], [True, True], [True, True],
    ]  # fmt: skip


def talk_to(port: int, launch: dict[str, Any]) -> list[dict[str, Any]]:
    with socket.create_connection(("127.0.0.1", port)) as client:
        for name, given in (("launch", launch), ("disconnect", {})):
            message = {"seq": 1, "type": "request", "command": name, "arguments": given}
            client.sendall(framed(message))
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as reads:
            return list(messages(reads.read()))


def test_that_a_trace_was_cut_off_is_said(tmp_path: Path, file: str, talk: Talk) -> None:
    whole = Path(file).read_bytes()
    cut = tmp_path / "cut.json"
    cut.write_bytes(whole[: whole.index(b'{"end"')])

    told = talk(
        ("initialize", {}), ("launch", {"program": str(cut)}), ("configurationDone", {}),
        ("continue", {}), launched=False,
    )  # fmt: skip

    said = [each["body"]["output"] for each in told if each.get("event") == "output"]
    assert ["truncated" in each for each in said] == [True]
    assert stops(told)[-1]["text"] == "the end of the trace"


UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


def texts(value: object) -> Iterator[str]:
    """All texts in a message, but the names of files."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from () if key == "path" else texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)


def test_no_text_of_a_trace_hides_in_an_editor(talk: Talk, tmp_path: Path) -> None:
    name, seen = "\x1b]0;title\x07\u202eevil", r"\x1b]0;title\x07\u202eevil"
    path = tmp_path / "trace.json"
    save(named(name), path)

    told = talk(
        ("launch", {"program": str(path), "at": "5"}),
        ("threads", {}),
        ("stackTrace", {"threadId": 1}),
        ("scopes", {"frameId": 1}),
        ("variables", {"variablesReference": 1}),
        ("evaluate", {"expression": "node 0"}),
        ("evaluate", {"expression": name, "context": "hover"}),
        ("loadedSources", {}),
        ("source", {"sourceReference": 1}),
        ("next", {}),
        launched=False,
    )

    assert answers(told, "threads") == [{"threads": [{"id": 1, "name": seen}]}]
    (stack,) = answers(told, "stackTrace")
    source = stack["stackFrames"][0]["source"]
    assert (source["name"], source["path"]) == (seen, name)
    assert [text for text in texts(told) if UNSEEN.search(text)] == []


def test_a_client_that_says_nothing_and_goes_ends_it_well() -> None:
    command = [sys.executable, "-m", "gradscope", "dap"]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)  # noqa: PLW1510

    assert (ended.returncode, ended.stderr) == (0, b"")
