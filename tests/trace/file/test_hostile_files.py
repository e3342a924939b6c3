"""Files that somebody made to hurt, or that a disk damaged: one clear line, little memory."""

from __future__ import annotations

import gzip
import math
import os
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard

from gradscope.errors import FutureTraceError, UnreadableTraceError
from gradscope.trace.file.file_lines import header, seal, window_line
from gradscope.trace.load_save import decode, encode, load
from gradscope.trace.schema import (
    MINOR,
    TABLES,
    VERSION,
    Edge,
    Node,
    Pop,
    Push,
    Stack,
    Tensor,
    Value,
)
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of


def small() -> Trace:
    """A trace with a column of every sort."""
    return trace_of(
        *(Node(id, name, inputs=(id,) * id) for id, name in enumerate(["MulBackward0", "", "<b>"])),
        *(Edge(node, 0, node - 1) for node in (2, 1)),
        *(Tensor(id, shape=(2, 2), leaf=id == 1) for id in range(3)),
        *(Value(id, min=low, max=9.5) for id, low in enumerate([0.5, math.inf, math.nan])),
        *(Stack(id, parent=id - 1) for id in range(3)),
        *(Push(node=node, t=t, length=1) for node, t in ((2, 40), (1, 95), (0, 96))),
        Pop(node=2, t=99),
        meta={"level": "engine"},
    )


def trace_text(*lines: bytes) -> bytes:
    """A whole, closed trace of these block lines."""
    end = [window_line(1, len(lines)), seal({"end": True}) + b"\n", b"],\n"]
    return b"".join([header((1, 0)), *(line + b",\n" for line in lines), *end])


def error_of(read: Callable[[], object]) -> UnreadableTraceError:
    with pytest.raises(UnreadableTraceError) as caught:
        read()
    message = str(caught.value)
    assert "\n" not in message
    assert message.isprintable()
    assert len(message) < 400
    assert caught.value.exit_code == 3
    return caught.value


def use(trace: Trace) -> None:
    """Look at everything in a trace: nothing in it may make that fail."""
    assert all(note.isprintable() for note in trace.notes)
    assert isinstance(trace.meta, dict)
    for kind in TABLES.values():
        assert len(list(trace.rows(kind))) == len(trace.table(kind))
    assert len(list(trace.events())) == trace.event_count
    for stack in trace.table(Stack)["id"].tolist():
        assert isinstance(trace.site(stack) + trace.source(stack), str)
        assert len(trace.frames(stack)) <= len(trace.table(Stack))
    assert isinstance(check(trace), list)
    assert decode(encode(trace)) == trace


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "it is empty; name a file that `gradscope trace` wrote"),
        (b"\n", "line 1: it is not a gradscope trace"),
        (b"hello", "cut off within its first line; name a file that `gradscope trace` wrote"),
        (b'{"traceEvents":[]}', "line 1: it is not a gradscope trace"),
        (b"[" * 100_000, "line 1: it is not a gradscope trace"),
        (bytes(range(256)) * 100, "line 1: it is not a gradscope trace"),
        (b"\x80\x04\x95", "line 1: it is not a gradscope trace"),
        (b'{"format":"gradscope-trace","version":[-1,0],"blocks":[\n', "its version is 'a list'"),
        (b'{"format":"gradscope-trace","version":"1","blocks":[\n', "its version is '1'"),
        (header((1, 0)) + b"rubbish\n", "line 2: it is damaged"),
        (header((1, 0)) + b"\n", "line 2: it is damaged"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_line(text: bytes, reason: str) -> None:
    assert reason in str(error_of(lambda: decode(text)))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_what_is_no_trace_is_refused_when_packed(pack: Callable[[bytes], bytes]) -> None:
    assert "not a gradscope trace" in str(error_of(lambda: decode(pack(b"hello\n"))))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    paths: list[Path | str] = [
        tmp_path,
        tmp_path / "absent.json",
        tmp_path / "pipe",
        Path("/dev/zero"),
        "a\0b",
    ]

    reasons = [str(error_of(partial(load, path))).partition("': ")[2] for path in paths]

    assert reasons == [
        "it is not a file",
        "No such file or directory",
        "it is not a file",
        "it is not a file",
        "invalid name",
    ]


def test_the_error_names_the_file_however_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / 'a"\n\u202e<script>.json'
    path.write_bytes(b"{}")

    assert repr('a"\n\u202e<script>.json')[1:-1] in str(error_of(lambda: load(path)))


def test_a_trace_of_a_newer_major_version_is_refused() -> None:
    now = b'"version":[%d,%d]' % (VERSION, MINOR)
    text = encode(small()).replace(now, b'"version":[2,3]', 1)

    error = error_of(lambda: decode(text))

    assert isinstance(error, FutureTraceError)
    assert str(error) == (
        "line 1: it has version 2.3, and this gradscope reads versions up to 1: "
        "install a newer gradscope"
    )


def test_a_changed_bit_is_noticed_wherever_it_matters() -> None:
    whole = small()
    text = encode(whole)
    closed = text.index(b'{"end"')
    rng = random.Random(0)

    for place in range(len(text)):
        flipped = bytearray(text)
        flipped[place] ^= 1 << rng.randrange(8)
        try:
            trace = decode(bytes(flipped))
        except UnreadableTraceError:
            assert place < text.index(b"],", closed)
        else:
            same = trace == whole or trace.version != whole.version
            assert same or (trace.truncated and flipped.count(b"\n") < text.count(b"\n"))


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_a_changed_bit_in_a_packed_file_is_noticed(pack: Callable[[bytes], bytes]) -> None:
    whole = small()
    packed = pack(encode(whole))
    rng = random.Random(0)
    outcomes = set()

    for place in range(len(packed)):
        flipped = bytearray(packed)
        flipped[place] ^= 1 << rng.randrange(8)
        try:
            trace = decode(bytes(flipped))
        except UnreadableTraceError:
            outcomes.add("refused")
        else:
            same = trace == whole or trace.version != whole.version
            assert same or trace.truncated
            outcomes.add("opened")

    assert "refused" in outcomes


def test_a_lost_line_is_noticed() -> None:
    lines = encode(small()).splitlines(keepends=True)
    del lines[5]

    assert "blocks are missing from" in str(error_of(lambda: decode(b"".join(lines))))


HOSTILE: list[Any] = [
    None,
    True,
    -1,
    0,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    1e308,
    0.5,
    "",
    "NaN",
    "\u202e" * 200,
    [],
    [1],
    [None],
    [True],
    [0.5, 1],
    [2**64 - 1],
    ["a", 1],
    [[1]],
    [1] * 1000,
    {},
    {"first": 0},
    {"first": 0, "by": 1},
    {"first": 2**63 - 1, "by": 2**63 - 1},
    {"first": 0, "by": {"first": 0, "by": {"first": 0, "by": 1}}},
    {"first": 0.5, "by": [1]},
    {"runs": [10**12], "values": [1]},
    {"runs": [2**63 - 1, 2**63 - 1, 4], "values": [1, 2, 3]},
    {"runs": [-1, 2], "values": [0, 0]},
    {"runs": 1, "values": 1},
    {"values": [0.0], "nan": [5]},
    {"values": [0.0], "nan": [-1]},
    {"values": [0.0], "inf": [2**63 - 1]},
    {"values": 0.0, "nan": [0]},
    {"float": "nan"},
    {"float": []},
    {"lengths": 1, "values": 1},
    {"lengths": 10**12, "values": 1},
    {"lengths": 2**62, "values": []},
    {"lengths": [1], "values": ["a"]},
    {"lengths": {"first": 0, "by": -1}, "values": []},
    {"lengths": {"lengths": 1}, "values": []},
    {"table": "node"},
]


def mutations() -> Iterator[tuple[str, bytes]]:
    """A small trace with one hostile value in one place, all checksums right."""
    lines = encode(small()).splitlines()
    blocks = [
        orjson.loads(line.removesuffix(b",")) for line in lines if line.startswith(b'{"table"')
    ]
    for block in blocks:
        del block["crc32"]
    sealed = [seal(block) for block in blocks]
    for number, block in enumerate(blocks):
        for name in [*block, "amend", "stranger"]:
            for value in HOSTILE:
                line = seal(block | {name: value})
                yield (
                    f"{block['table']}.{name}",
                    trace_text(*sealed[:number], line, *sealed[number + 1 :]),
                )


def test_hostile_values_with_right_checksums_open_or_are_refused() -> None:
    outcomes = set()

    for number, (place, text) in enumerate(mutations()):
        try:
            trace = decode(text)
        except UnreadableTraceError as error:
            outcomes.add("refused" if str(error).isprintable() else f"{place}: {error}")
        else:
            if number % 7 == 0:
                use(trace)
            outcomes.add("opened")

    assert outcomes == {"refused", "opened"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"table": "node"}, "it is not a block of a table"),
        ({"table": ["node"], "rows": 1}, "it is not a block of a table"),
        ({"table": "node", "rows": 10**12, "id": 0}, "cannot hold 1000000000000 rows"),
        ({"table": "node", "rows": 1}, "cannot hold 1 rows"),
        ({"table": "edge", "rows": 2, "node": [1, 2], "next": [1]}, "1 cells in a block of 2 rows"),
        ({"table": "edge", "rows": 1, "node": "one"}, "it should hold whole numbers"),
        ({"table": "edge", "rows": 1, "node": [2**63]}, "a number of more than 64 bits"),
        ({"table": "node", "rows": 1, "id": 1, "name": 7}, "node.name refers to string 7, which"),
        ({"table": "node", "rows": 1, "id": 1, "inputs": 1}, "it should hold lists"),
        ({"table": "node", "rows": 1, "id": {"lengths": 1, "values": [1]}}, "not hold lists"),
        (
            {"table": "a\nb", "rows": 1, "x": None},
            r"table 'a\nb': it holds an unexpected value: 'None'",
        ),
        ({"window": 2, "blocks": 5}, "blocks are missing from the window it closes"),
        ({"stranger": 1}, "it is neither a block nor the end of a window"),
        ({"table": "step", "rows": 1, "amend": True, "end": 3}, "'step' cannot be amended"),
    ],
)
def test_the_reason_is_named(line: dict[str, Any], reason: str) -> None:
    assert reason in str(error_of(lambda: decode(trace_text(seal(line)))))


def test_circles_and_doubles_are_the_specs_business() -> None:
    lines = [
        {"table": "stack", "rows": 3, "id": [1, 2, 2], "frame": -1, "parent": [2, 1, 1]},
        {"table": "frame", "rows": 1, "id": -7, "file": 0, "line": -5, "function": 0, "text": 0},
    ]

    trace = decode(trace_text(*map(seal, lines)))

    use(trace)
    assert {violation.rule for violation in check(trace)} == {
        "ids-differ",
        "parents-make-no-circle",
    }


def test_an_index_that_lies_is_not_believed(tmp_path: Path) -> None:
    whole = small()
    path = tmp_path / "trace.json"
    lines = encode(whole).splitlines(keepends=True)
    index = orjson.loads(lines[-2].removeprefix(b'"index":').removesuffix(b",\n"))
    del index["crc32"]
    many = len(index["table"])
    lies: list[dict[str, Any]] = [
        {"offset": [0] * many},
        {"offset": [10**9] * many},
        {"length": [10**15] * many},
        {"length": [-1] * many},
        {"offset": [index["offset"][0]] * many, "length": [index["length"][0]] * many},
        {"offset": [place + 1 for place in index["offset"]]},
        {"table": [7] * many},
        {"table": ["node"] * (many + 1)},
        {"rows": 10**12},
        {"table": 7},
        {"window": None},
    ]

    for lie in lies:
        lines[-2] = b'"index":%s,\n' % seal(index | lie)
        path.write_bytes(b"".join(lines))
        try:
            part = load(path, [Node])
        except UnreadableTraceError:
            assert lie == {"offset": [place + 1 for place in index["offset"]]}
        else:
            assert list(part.rows(Node)) == list(whole.rows(Node)), lie
